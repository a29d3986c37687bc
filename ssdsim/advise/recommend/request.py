"""The question of a search: GPUs, workload, strategies, the rank, and the values that may be chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ssdsim import strategies
from ssdsim.answers.decision import RULES, Rule
from ssdsim.base.checks import few_enough, listed, whole
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.option import Group, spelled
from ssdsim.base.plain import picked
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_hardware, find_transformer, full_hardware_name
from ssdsim.hardware.profile import provenance_summary
from ssdsim.question.checked_options import checked
from ssdsim.question.drafting import draft_by_options
from ssdsim.question.engines import Engine
from ssdsim.question.options import ALL, DEFAULTS, members, unknown, varied_by, with_ranges
from ssdsim.question.place import with_calibrated
from ssdsim.question.question import effective
from ssdsim.strategies.protocols.axes import EXPERTS, PLACED, TARGET, Scope, SearchAxis, Values
from ssdsim.tokens.acceptance_models import load_acceptance
from ssdsim.tokens.accepted import is_forced
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import DATA_PARALLEL
from ssdsim.transformer.shard import check_tensor_parallel, legal_expert_parallel

Rank = Literal["user", "gpu", "cost"]
RANKS = ("user", "gpu", "cost")
Use = Literal["needed", "all"]
USES = ("needed", "all")
_NUMBER = re.compile(r"\d{1,9}")
_COUNTED = re.compile(r"(\d{1,6})\s*[x×]\s*(\S+)")
MOST_GPUS = 10_000
MOST_VALUES = 1_000  # of a list: each is searched


class SearchRequest(Record):
    """A checked question about ``subject`` among ``strategies``.

    ``use`` says which GPUs count for a token's cost: those needed, or all ``gpus``. Only strategies that ``engine``,
    the named runtime's, runs are ranked. ``options`` go to :func:`ssdsim.configure` at every point. ``axes`` are the
    searched options of each strategy with the values that may be chosen. ``warnings`` are about values left out.
    """

    gpus: int
    batches: tuple[int, ...]
    rank: Rank
    gpu_hour: float | None
    use: Use
    at_least: float
    seed: int
    rule: Rule
    strategies: tuple[str, ...]
    subject: str
    engine: Engine
    options: Mapping[str, Any]
    axes: Mapping[str, Mapping[SearchAxis, Values]]
    warnings: tuple[str, ...] = ()

    @property
    def ranked(self) -> tuple[str, ...]:
        """Strategies that the engine runs."""
        return self.engine.runnable(self.strategies)

    @property
    def searched(self) -> dict[str, Values]:
        """Values that may be chosen, by option."""
        return {axis.option: values for axes in self.axes.values() for axis, values in axes.items()}


def request_json(request: SearchRequest) -> dict[str, Any]:
    """The question of a search, for JSON."""
    return picked(request, "gpus", "seed", "strategies", "options", "searched")


def engine_json(request: SearchRequest) -> dict[str, Any]:
    """The engine whose strategies are ranked, for JSON; without one all strategies are."""
    return {"called": request.engine.called, "ranked": request.ranked}


def provenance(request: SearchRequest) -> list[dict[str, str]]:
    """Origin of the timings, a record a profile."""
    options = {**DEFAULTS, **request.options}
    cards = [find_transformer(options["target"]), draft_by_options(request.options)]
    asked = (options["dtype"], options["draft_dtype"] or options["dtype"])
    precisions = [card.precision(dtype, options["kv_dtype"]) for card, dtype in zip(cards, asked, strict=True)]
    dtypes = {kept for precision in precisions for kept in precision.formats}
    profiles = {
        p.name: p for p in (find_hardware(options[r] or options["hardware"]) for r in ("hardware", "draft_hardware"))
    }
    most = max(request.searched[TARGET.option] or ())
    exchanges = options["attention"] == DATA_PARALLEL
    rules = {card.recurrent.rule for card in cards if card.recurrent}
    kinds = any(card.experts for card in cards), any(card.window for card in cards)
    read = (*kinds, exchanges, rules, any(card.sparse for card in cards))
    return [{"profile": name, "summary": provenance_summary(p, dtypes, most, *read)} for name, p in profiles.items()]


def axes_of(strategy: str) -> tuple[SearchAxis, ...]:
    """All options of a strategy that a search may vary."""
    return (*PLACED, *strategies.ALL.named(strategy).searched)


def every_axis() -> tuple[SearchAxis, ...]:
    """Axes of all strategies, one an option."""
    by_option = {axis.option: axis for name in reversed(strategies.ALL.names) for axis in axes_of(name)}
    return tuple(sorted(by_option.values(), key=lambda axis: tuple(ALL).index(axis.option)))


def workload() -> tuple[str, ...]:
    """Options of the workload, which a recommendation does not search."""
    turned = {*varied_by("recommend"), *(axis.option for axis in every_axis()), *members(Group.GIVEN_DURATIONS)}
    return tuple(name for name in DEFAULTS if name not in turned)


def make_request(
    *,
    gpus: int | str,
    b: int | Sequence[int],
    rank: str,
    gpu_hour: float | None,
    use: str = "needed",
    at_least: float | None,
    seed: int,
    rule: str = "mean-log",
    **given: Any,
) -> SearchRequest:
    """Check the question and settle the searched values; ``given`` are options of the workload and of the search."""
    options = with_ranges({name: value for name, value in given.items() if value is not None})
    count, options = _counted(gpus, options)
    options = with_calibrated(options, workload())
    names = ALL["strategies"].checked(options.pop("strategies", strategies.DEFAULT))
    engine = Engine.of(options)
    subject = engine.subject(names, options.pop("subject", None))
    axes = {name: axes_of(name) for name in names}
    turned = {axis.option for each in axes.values() for axis in each}
    narrowed = {name: options.pop(name) for name in tuple(options) if name in turned}
    _check_names(options, names)
    _check_counted(rank, gpu_hour, at_least, use)
    one_of("--rule", rule, RULES)
    whole("--seed", seed, 0)
    narrowed = {name: _several(name, value) for name, value in narrowed.items()}
    checked({**options, **{name: values[0] for name, values in narrowed.items() if len(values) == 1}})
    if "acceptance" in options and not is_forced(options["acceptance"]):
        load_acceptance(Path(options["acceptance"]), 1)
    effective({**options, **{name: values[0] for name, values in narrowed.items()}})  # which reads a pair
    total = whole("--gpus", count, 1, MOST_GPUS)
    scope = Scope(total, find_transformer(options.get("target", DEFAULTS["target"])), options)
    warnings: dict[str, None] = {}
    searched = {name: _searched(each, narrowed, scope, warnings) for name, each in axes.items()}
    _check_degrees(scope.target, searched)
    for axis in (axis for each in searched.values() for axis in each if not axis.is_idle(options)):
        options = {**dict(axis.implied), **options}
    return SearchRequest(
        gpus=scope.gpus,
        batches=whole_numbers("b", b),
        rank=rank,  # type: ignore[arg-type]  # checked above
        gpu_hour=gpu_hour,
        use=use,  # type: ignore[arg-type]  # likewise
        at_least=at_least or 0.0,
        seed=seed,
        rule=rule,  # type: ignore[arg-type]  # likewise
        strategies=names,
        subject=subject,
        engine=engine,
        options=options,
        axes=searched,
        warnings=tuple(warnings),
    )


def whole_numbers(name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    """One or more whole numbers of at least 1, in increasing order, each once."""
    numbers = listed(spelled(name), value)
    for number in numbers:
        ALL[name].checked(number)
    few_enough(f"values of {spelled(name)}", [numbers], MOST_VALUES)
    return tuple(sorted(set(numbers)))


def _check_names(options: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise :class:`InputError` for an option that is not of the workload."""
    allowed = workload()
    elsewhere = {axis.option for axis in every_axis()}
    for name in options:
        if name in elsewhere:
            raise InputError(f"{spelled(name)} has no effect with --strategies {','.join(names)}")
        if name not in allowed:
            why = "is searched" if name in varied_by("recommend") else "is unknown here"
            raise unknown(f"{spelled(name)} {why}", name, (*allowed, "b", *elsewhere))


def _counted(gpus: int | str, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The number of GPUs, and the options with their profile, if ``gpus`` names it: ``8xh200``."""
    matched = _COUNTED.fullmatch(gpus.strip()) if isinstance(gpus, str) else None
    if matched is None:
        return int(gpus) if isinstance(gpus, str) and _NUMBER.fullmatch(gpus) else gpus, dict(options)
    hardware = full_hardware_name(matched[2])
    if options.get("hardware", hardware) != hardware:
        raise InputError(f"--gpus {gpus} names other hardware than --hardware {options['hardware']}")
    return int(matched[1]), {**options, "hardware": hardware}


def _check_counted(rank: str, gpu_hour: float | None, at_least: float | None, use: str) -> None:
    one_of("--use", use, USES)
    one_of("--rank", rank, RANKS)
    if rank == "cost" and gpu_hour is None:
        raise InputError("--rank cost needs --gpu-hour, the price of a GPU for an hour")
    for name, number in (("--gpu-hour", gpu_hour), ("--at-least", at_least)):
        if number is not None and not (isinstance(number, int | float) and 0.0 < number < float("inf")):
            raise InputError(f"{name} must be above 0 and finite, got {number!r}")


def one_of(flag: str, word: Any, words: Sequence[str]) -> None:
    """Raise :class:`InputError` for another word."""
    if not isinstance(word, str) or word not in words:
        raise InputError(f"{flag} must be one of {', '.join(words)}, got '{word}'{nearest(str(word), words)}")


def _check_degrees(target: Transformer, searched: Mapping[str, Mapping[SearchAxis, Values]]) -> None:
    """Raise :class:`InputError` if no pair of the target's degrees is possible."""
    for axes in searched.values():
        degrees, groups = axes[TARGET] or (), axes.get(EXPERTS)
        pairs = [(tp, ep) for tp in degrees for ep in groups or (1, tp)]
        if pairs and not any(ep in legal_expert_parallel(target, tp) for tp, ep in pairs):
            check_tensor_parallel(target, *pairs[-1])


def _several(name: str, value: Any) -> tuple[Any, ...]:
    """The values that may be chosen, each once and checked, numbers in increasing order."""
    values = [ALL[name].checked(each) for each in listed(spelled(name), value)]
    numbers = all(isinstance(each, int | float) for each in values)
    return tuple(sorted(set(values)) if numbers else dict.fromkeys(values))


def _searched(
    axes: Sequence[SearchAxis], narrowed: Mapping[str, tuple[Any, ...]], scope: Scope, warnings: dict[str, None]
) -> dict[SearchAxis, Values]:
    """The axes with a choice and their values; ``warnings`` get what is left out."""
    values_by_axis: dict[SearchAxis, Values] = {}
    for axis in axes:
        if axis.option in narrowed:
            values_by_axis[axis] = _within(axis, _known(axis, narrowed[axis.option], scope, warnings), scope, warnings)
        elif axis.concerns(scope) and not axis.is_idle(scope.options):
            values_by_axis[axis] = axis.unless_narrowed(scope)
            if (stops := axis.stops(scope.options)) is not None:
                warnings[stops] = None
    return values_by_axis


def _known(axis: SearchAxis, values: tuple[Any, ...], scope: Scope, warnings: dict[str, None]) -> tuple[Any, ...]:
    """Keep the values that the models allow."""
    refused = {value: why for value in values if (why := axis.refuses(scope.options, value)) is not None}
    if not refused:
        return values
    what = f"{spelled(axis.option)} {', '.join(map(str, refused))}: {next(iter(refused.values()))}"
    if len(refused) == len(values):
        raise InputError(what)
    warnings[f"{what}; left out"] = None
    return tuple(value for value in values if value not in refused)


def _within(axis: SearchAxis, values: tuple[Any, ...], scope: Scope, warnings: dict[str, None]) -> tuple[Any, ...]:
    """Keep the values that are possible on the GPUs."""
    possible = axis.possible(scope)
    if not axis.bounded or possible is None:
        return values
    unfit = [value for value in values if value not in possible]
    if not unfit:
        return values
    refused = f"{spelled(axis.option)} {', '.join(map(str, unfit))} cannot be used with --gpus {scope.gpus}"
    allowed = f"allowed: {', '.join(map(str, possible)) or 'none'}"
    if len(unfit) == len(values):
        raise InputError(f"{refused}; {allowed}")
    warnings[f"{refused} and is left out; {allowed}"] = None
    return tuple(value for value in values if value in possible)
