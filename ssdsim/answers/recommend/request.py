"""The question: GPUs, workload, what counts, and what may be chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ssdsim.checks import few_enough, listed, whole
from ssdsim.errors import InputError, nearest, told
from ssdsim.hardware.catalog import find_transformer
from ssdsim.scenario.limits import MOST
from ssdsim.scenario.options import DEFAULTS, UNIT_FREE, checked, option
from ssdsim.speculation.acceptance_models import load_acceptance
from ssdsim.transformer.card import legal_tensor_parallel

Rank = Literal["user", "gpu", "cost"]
RANKS = ("user", "gpu", "cost")
LARGEST_K = 16
MOST_GPUS = 10_000
MOST_VALUES = 1_000  # of a list: each is searched
_SEARCHED = ("strategy", "b", "k", "sd_k", "tp", "draft_gpus", "budget", "backup", "sd_draft", "f", "fl", "flm")
WORKLOAD = tuple(name for name in DEFAULTS if name not in (*_SEARCHED, *UNIT_FREE, "spread"))


@dataclass(frozen=True)
class Request:
    """A checked question. ``options`` go to :func:`ssdsim.configure` at every point; the tuples are searched."""

    gpus: int
    batches: tuple[int, ...]
    rank: Rank
    gpu_hour: float | None
    at_least: float
    seed: int
    options: Mapping[str, Any]
    lookaheads: tuple[int, ...]
    degrees: tuple[int, ...]
    draft_gpus: tuple[int, ...]
    budgets: tuple[int, ...] | None  # None: searched (or, with a given hit rate, the default)
    backups: tuple[str, ...]
    warnings: tuple[str, ...] = ()  # what was asked for and cannot be

    @property
    def searches_budgets(self) -> bool:
        """With a given hit rate more cached outcomes only cost time, so there is nothing to search."""
        return self.budgets is None and "p_hit" not in self.options


def make_request(
    gpus: int,
    b: int | Sequence[int],
    rank: str,
    gpu_hour: float | None,
    at_least: float | None,
    seed: int,
    k: int | Sequence[int] | None,
    tp: int | Sequence[int] | None,
    draft_gpus: int | Sequence[int] | None,
    budget: int | Sequence[int] | None,
    backup: str | None,
    given: Mapping[str, Any],
) -> Request:
    """Check the question and settle what is searched.

    Raises
    ------
    InputError : a value out of its range, an option that is not of the workload, or one without effect.
    """
    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in WORKLOAD:
            why = "is searched" if name in _SEARCHED else "is unknown here"
            raise InputError(f"{option(name)} {why}{nearest(name, WORKLOAD)} Allowed: {', '.join(WORKLOAD)}")
    if not isinstance(rank, str) or rank not in RANKS:
        raise InputError(f"--rank must be one of {', '.join(RANKS)}, got '{rank}'{nearest(rank, RANKS)}")
    whole("--seed", seed, 0)
    if rank == "cost" and gpu_hour is None:
        raise InputError("--rank cost needs --gpu-hour, the price of a GPU for an hour")
    for name, number in (("--gpu-hour", gpu_hour), ("--at-least", at_least)):
        if number is not None and not (isinstance(number, int | float) and 0.0 < number < float("inf")):
            raise InputError(f"{name} must be above 0 and finite, got {number!r}")
    checked({**options, "backup": "auto" if backup is None else backup})
    if "acceptance" in options:
        load_acceptance(Path(options["acceptance"]), 1)
    if "p_hit" not in options:
        options.setdefault("fan_out_policy", "optimal")  # of the highest hit rate for a budget, and so never behind
    total = whole("--gpus", gpus, 1, MOST_GPUS)
    target = find_transformer(options.get("target", DEFAULTS["target"]))
    degrees, unfit_degrees = _within(total, "tp", tp, legal_tensor_parallel(target))
    drafts, unfit_drafts = _within(total, "draft_gpus", draft_gpus, range(1, total))
    return Request(
        gpus=total,
        batches=whole_numbers("b", b),
        rank=rank,  # type: ignore[arg-type]  # checked above
        gpu_hour=gpu_hour,
        at_least=at_least or 0.0,
        seed=seed,
        options=options,
        lookaheads=whole_numbers("k", k) if k is not None else _lookaheads(options.get("alpha")),
        degrees=degrees,
        draft_gpus=drafts,
        budgets=None if budget is None else whole_numbers("budget", budget),
        backups=("jit", "fast") if backup in (None, "auto") else (str(backup),),
        warnings=(*unfit_degrees, *unfit_drafts),
    )


def whole_numbers(name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    """One or more whole numbers of at least 1, in increasing order, each once."""
    numbers = listed(option(name), value)
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MOST[name]:
            most = f"{MOST[name]:,.12g}"
            raise InputError(f"{option(name)} must be whole numbers from 1 to {most}, got {told(number)}")
    few_enough(f"values of {option(name)}", [numbers], MOST_VALUES)
    return tuple(sorted(numbers))


def _lookaheads(alpha: Any) -> tuple[int, ...]:
    """1 to 16, as far as there are rates by position."""
    longest = min(LARGEST_K, len(alpha)) if isinstance(alpha, list | tuple) else LARGEST_K
    return tuple(range(1, longest + 1))


def _within(
    gpus: int, name: str, given: int | Sequence[int] | None, legal: Sequence[int]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The given numbers that are legal and within the GPU budget, and a line on the others; every such one by default.

    Raises
    ------
    InputError : none of those given can be.
    """
    possible = tuple(number for number in legal if number <= gpus)
    if given is None:
        return possible, ()
    numbers = whole_numbers(name, given)
    unfit = [number for number in numbers if number not in possible]
    if not unfit:
        return numbers, ()
    refused = f"{option(name)} {', '.join(map(str, unfit))} cannot be used with --gpus {gpus}"
    allowed = f"allowed: {', '.join(map(str, possible)) or 'none'}"
    if len(unfit) == len(numbers):
        raise InputError(f"{refused}; {allowed}")
    return tuple(number for number in numbers if number in possible), (f"{refused} and is left out; {allowed}",)
