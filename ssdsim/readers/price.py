"""Price of a measured row by a runtime: the rounds that ``predict`` prices, and the prompts in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

from ssdsim.base.errors import InputError
from ssdsim.base.plain import picked
from ssdsim.base.record import Record, field, replace
from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.runtime_card import KERNELS, Runtime
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.passes import of_prompts
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass, Piece, Step
from ssdsim.question.configuration import configure
from ssdsim.question.price import round_error
from ssdsim.readers.row import Row
from ssdsim.transformer.prefill import prefill_pass

T = TypeVar("T")

PREFILL_CHUNK = 8192
"""Tokens of prompts that engines process in one pass."""


class PricedRow(Record):
    """Work that was done at ``site`` behind a row's value.

    ``steps``, of a round where it speculates, run ``rounds`` times in the time that the value speaks of, or in the
    share of them that ``often`` says; passes over ``prompts`` each as often as it says. ``round_error`` is that of the
    strategy's rounds, a direction and its log-sd.
    """

    site: Site
    steps: Mapping[str, Step]
    rounds: float
    prompts: tuple[tuple[Pass, float], ...]
    round_error: tuple[str, float] | None
    often: Mapping[str, float] = field(default_factory=dict)

    @property
    def pieces(self) -> Iterator[tuple[Piece, float]]:
        """Everything that was done, with how often."""
        for name, step in self.steps.items():
            rounds = self.rounds * self.often.get(name, 1.0)
            yield from ((piece, rounds * piece.times) for piece in step.pieces)
        yield from ((self.site.piece(prompt), times) for prompt, times in self.prompts)

    @cached_property
    def cost(self) -> Cost:
        """The seconds of :func:`seconds_of`, as predicted."""
        whole = Cost.total((piece.cost, times) for piece, times in self.pieces)
        return whole if self.round_error is None else whole.off_by(*self.round_error)


def options_of(row: Row) -> dict[str, Any]:
    """A row's setting as the options of a scenario, but for the runtime: what ``predict`` would be asked for it.

    What drafts is a head of the target where the row names neither a draft nor a drafter: the MTP layer of a target
    that has one, else EAGLE-3's.
    """
    given: dict[str, Any] = {
        "strategies": ("ar",),
        "target": row.model,
        "b": row.batch,
        "ep": row.ep if row.ep > 1 else None,
        **picked(row, "hardware", "tp", "context", "dtype", "kv_dtype", "state_dtype"),
    }
    if row.k is not None:
        head = "mtp" if find_transformer(row.model).mtp_layers else "eagle3"
        drafter = row.drafter or ("model" if row.draft else head)
        given |= {"strategies": ("sd",), "k": row.k, "drafter": drafter, "draft": row.draft, "sd_draft": "colocated"}
        given["draft_dtype"] = row.draft_dtype
        given["alpha"] = 0.5  # what is accepted, the row says itself
        given["found"] = row.found
    if row.tree_nodes is not None:
        tree = {"tree_nodes": row.tree_nodes, "tree_depth": row.k, "tree_beam": row.tree_beam}
        given |= {"strategies": ("tree",), **tree, "k": None}
    return {name: value for name, value in given.items() if value is not None}


def work_of(row: Row, runtime: Runtime = KERNELS) -> PricedRow:
    """Work out what is done behind a row, with the draft where the runtime has it and the cache that it keeps."""
    # whoever ran the row had room for its batch and context: that is not asked again
    (scenario,) = configure(**options_of(row) | {"b": 1, "context": 1, "engine": KERNELS.name}).scenarios.values()
    assert scenario.site is not None  # it has hardware
    runtime = runtime.on(scenario.site.profile.device).keeping(row.states)
    kept = row.kv_dtype or runtime.cache_beside(scenario.site.precision_of("target"))
    site = replace(
        scenario.site,
        batch=row.batch,
        context=row.context,
        runtime=runtime,
        kv_dtype=kept,
        engine_version=row.stated_version,
    )
    site = site.with_options({**site.options, "b": row.batch})
    steps = scenario.strategy.steps(site, scenario.drafter)
    often: dict[str, float] = {}
    may_miss = any(option.name == "found" for option in scenario.drafter.options)
    if row.k is not None and may_miss:
        if row.found is None:
            said = "rows must say rounds and undrafted_rounds"
            raise InputError(f"{scenario.drafter.title} does not draft in every round: {said}")
        verified = 1.0 - (1.0 - row.found) ** row.batch  # steps of a batch in which any sequence has a draft
        often = {"verify": verified, "decode": 1.0 - verified}
    rounds, prompts = _counts(row, runtime.kernels.prompts)
    error = round_error(scenario.strategy, site)
    return PricedRow(site, steps, rounds, tuple(_prompts(site, row, prompts)), error, often)


def _counts(row: Row, waited_for: float) -> tuple[float, float]:
    """Count the batch's steps and the prompts that are in the time that a row speaks of.

    While a request decodes, each of the others in flight is replaced once in as many tokens as it puts out; of their
    prompts it waits for the share ``waited_for``.
    """
    tokens_a_step = row.acceptance_length or 1.0
    match row.metric:
        case "step_ms":
            return 1.0, 0.0
        case "latency_s":
            return (row.output_tokens - 1.0) / tokens_a_step, float(row.batch)
        case "tpot_ms":
            return 1.0 / tokens_a_step, waited_for * (row.batch - 1) / row.output_tokens
        case _:
            return 1.0 / tokens_a_step, row.batch / row.output_tokens


def _prompts(site: Site, row: Row, prompts: float) -> Iterator[tuple[Pass, float]]:
    """Passes over ``prompts`` prompts; a static batch is processed in passes of several."""
    tokens = round(row.input_tokens)
    if not tokens or not prompts:
        return
    together = max(1, min(row.batch, PREFILL_CHUNK // tokens)) if row.metric == "latency_s" else 1
    shape = {"dtype": site.dtype, "kv_dtype": site.kv_dtype, "tp": site.tp, "ep": site.ep}
    forward = prefill_pass(site.target, batch=together, tokens=tokens, **shape)
    yield Pass("prompts", "target", forward, site.tp, site.profile, of_prompts(site.local_runtime)), prompts / together


def each_row(rows: Iterable[Row], made: Callable[[Row], T]) -> list[T]:
    """Make something of each row; a mistake in one is told by its number."""
    of_rows = []
    for number, row in enumerate(rows, 1):
        try:
            of_rows.append(made(row))
        except InputError as error:
            raise InputError(f"{name_of(number, row)}: {error}") from None
    return of_rows


def name_of(number: int, row: Row) -> str:
    """Name of a row in messages."""
    return f"row {number} ({row.model}, {row.hardware}, batch {row.batch})"


def seconds_of(row: Row) -> float:
    """A row's value as the seconds of :attr:`PricedRow.cost`: of a token and sequence, a step or a whole batch."""
    match row.metric:
        case "latency_s":
            return row.value
        case "tokens_per_s":
            return row.batch / row.value
        case _:
            return 1e-3 * row.value


def value_of(row: Row, seconds: float) -> float:
    """The inverse of :func:`seconds_of`: predicted seconds in the row's own metric."""
    match row.metric:
        case "latency_s":
            return seconds
        case "tokens_per_s":
            return row.batch / seconds
        case _:
            return 1e3 * seconds
