"""The question of a search: GPUs, workload, strategies, the rank, and the values that may be chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ssdsim import strategies
from ssdsim.answers.decision import RULES, Rule
from ssdsim.base.checks import few_enough, listed, whole
from ssdsim.base.errors import InputError, Shortage, nearest
from ssdsim.base.option import Group, spelled
from ssdsim.base.plain import picked
from ssdsim.base.record import Record, replace
from ssdsim.hardware.catalog import find_hardware, find_transformer, full_hardware_name, short_hardware_name
from ssdsim.hardware.profile import HardwareProfile, provenance_summary
from ssdsim.pricing.occupancy import Devices, is_host_of
from ssdsim.question.checked_options import checked, without_unsaid
from ssdsim.question.drafting import draft_by_options
from ssdsim.question.engines import Engine
from ssdsim.question.options import ALL, DEFAULTS, members, unknown, varied_by, with_ranges
from ssdsim.question.place import with_calibrated
from ssdsim.question.question import effective
from ssdsim.strategies.protocols.axes import EXPERTS, PLACED, TARGET, Scope, SearchAxis, Values
from ssdsim.tokens.acceptance_models import load_acceptance
from ssdsim.tokens.accepted import is_forced
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.context_parallel import check_context_parallel, legal_context_parallel
from ssdsim.transformer.forward import DATA_PARALLEL
from ssdsim.transformer.parallel_degrees import check_tensor_parallel, legal_expert_parallel

Rank = Literal["user", "gpu", "cost", "joules"]
RANKS = ("user", "gpu", "cost", "joules")
Use = Literal["needed", "all"]
USES = ("needed", "all")
_NUMBER = re.compile(r"\d{1,9}")
_COUNTED = re.compile(r"(\d{1,6})\s*[x×]\s*(\S+)")
_AND_COUNTED = re.compile(r"\s*\+\s*(?=\d{1,6}\s*[x×])")
_ROLES = ("hardware", "draft_hardware")
MOST_GPUS = 10_000
MOST_VALUES = 1_000  # of a list: each is searched


class SearchRequest(Record):
    """A checked question about ``subject`` among ``strategies``.

    ``use`` says which GPUs count for a token's cost: those needed, or all ``gpus``. ``kinds`` are the devices that
    targets and drafts may use, where they are of two kinds. Only strategies that ``engine``, the named runtime's, runs
    are ranked. ``options`` go to :func:`ssdsim.configure` at every point. ``axes`` are the
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
    kinds: Devices | None = None

    def occupied(self, devices: Devices) -> Devices:
        """The devices as they are counted here."""
        return replace(devices, on_host=True) if devices.draft and self.kinds and self.kinds.on_host else devices

    def copies(self, devices: Devices) -> int:
        """The most copies of what occupies ``devices``."""
        if self.kinds is None:
            return self.gpus // devices.total
        of_targets = self.kinds.target // (devices.targets * devices.target)
        return min(of_targets, self.kinds.draft // devices.draft) if devices.draft else of_targets

    def within(self, reason: str, devices: Devices) -> str:
        """Why there is no room for what occupies ``devices``, with advice of no more GPUs than there are."""
        have = self.gpus - devices.draft_gpus if self.kinds is None else self.kinds.target
        return reason.within(have // devices.targets) if isinstance(reason, Shortage) else reason

    def named(self, devices: Devices) -> str:
        """Devices by the names of their profiles: ``8 h100-sxm``, ``1 rtx-4090 + 1 rtx-3090``."""
        target, draft = (self.options.get(role) for role in ("hardware", "draft_hardware"))
        own, other = short_hardware_name(target or DEFAULTS["hardware"]), short_hardware_name(draft or "")
        if not devices.draft or draft in (None, target):
            return f"{devices.total} {own}"
        return f"{devices.targets * devices.target} {own} + {devices.draft} {other}"

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
    profiles = _profiles(options)
    most = max(request.searched[TARGET.option] or ())
    exchanges = options["attention"] == DATA_PARALLEL or options["dcp"] > 1
    rules = {card.recurrent.rule for card in cards if card.recurrent}
    kinds = any(card.experts for card in cards), any(card.window for card in cards)
    read = (*kinds, exchanges, rules, frozenset().union(*(card.rare_steps for card in cards)))
    return [{"profile": name, "summary": provenance_summary(p, dtypes, most, *read)} for name, p in profiles.items()]


def _profiles(options: Mapping[str, Any]) -> dict[str, HardwareProfile]:
    """The profiles of target and draft by their names."""
    options = {**DEFAULTS, **options}
    found = (find_hardware(options[role] or options["hardware"]) for role in _ROLES)
    return {profile.name: profile for profile in found}


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
    options = with_ranges(without_unsaid(given))
    count, options, drafts = _counted(gpus, options)
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
    kinds = _kinds(total, drafts, options)
    target = find_transformer(options.get("target", DEFAULTS["target"]))
    scope = Scope(total, target, options, None if kinds is None else kinds.draft)
    if rank == "joules":
        from ssdsim.answers.energy import check_watts  # here, as who asks for no joules needs no watts

        check_watts("--rank joules", _profiles(options).values())
    warnings: dict[str, None] = {}
    searched = {name: _searched(each, narrowed, scope, warnings) for name, each in axes.items()}
    _check_degrees(scope.target, searched, options.get("dcp", DEFAULTS["dcp"]))
    for axis in (axis for each in searched.values() for axis in each if not axis.is_idle(options)):
        options = {**dict(axis.implied), **options}
    return SearchRequest(
        gpus=total if kinds is None else kinds.total,
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
        kinds=kinds,
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


def _counted(gpus: int | str, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any], int | None]:
    """The number of GPUs, the options with their profile, if ``gpus`` names it (``8xh200``), and how many drafts have.

    ``1xrtx-4090+1xrtx-3090`` are the target's and the draft's; else drafts have what is left (None).
    """
    if not isinstance(gpus, str) or _NUMBER.fullmatch(gpus):
        return int(gpus) if isinstance(gpus, str) else gpus, dict(options), None
    parts = [_COUNTED.fullmatch(part) for part in _AND_COUNTED.split(gpus.strip())]
    if len(parts) > len(_ROLES):
        raise InputError(f"--gpus {gpus} names {len(parts)} kinds: give the target's and the draft's, NxGPU+NxGPU")
    named, counts = dict(options), list[int]()
    for role, part in zip(_ROLES, parts, strict=False):
        if part is None:
            return gpus, named, None
        if (node := _COUNTED.fullmatch(part[2])) is not None:
            nodes, own = int(part[1]), int(node[1])
            ways = f"--gpus {nodes * own}x{node[2]} --tp {own} --pp {nodes} --pp-link rdma"
            raise InputError(f"--gpus {gpus} names {nodes} nodes, one has {own}: give {ways}, or a node's GPUs alone")
        hardware = full_hardware_name(part[2])
        if named.setdefault(role, hardware) != hardware:
            raise InputError(f"--gpus {gpus} names other hardware than {spelled(role)} {named[role]}")
        counts.append(int(part[1]))
    return counts[0], named, counts[1] if len(counts) > 1 else None


def _kinds(targets: int, drafts: int | None, options: Mapping[str, Any]) -> Devices | None:
    """The devices that targets and drafts may use, where they are of two kinds: a host's CPU always is."""
    target, draft = options.get("hardware", DEFAULTS["hardware"]), options.get("draft_hardware")
    if draft is None:
        return None
    on_host = is_host_of(find_hardware(draft), find_hardware(target))
    if not on_host and drafts is None:
        return None
    most = find_hardware(draft).device.count if drafts is None else whole("--gpus", drafts, 1, MOST_GPUS)
    return Devices(targets, most, on_host=on_host)


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


def _check_degrees(target: Transformer, searched: Mapping[str, Mapping[SearchAxis, Values]], dcp: int) -> None:
    """Raise :class:`InputError` if no pair of the target's degrees is possible, or none where ``dcp`` share a cache."""
    for axes in searched.values():
        degrees, groups = axes[TARGET] or (), axes.get(EXPERTS)
        pairs = [(tp, ep) for tp in degrees for ep in groups or (1, tp)]
        if pairs and not any(ep in legal_expert_parallel(target, tp) for tp, ep in pairs):
            check_tensor_parallel(target, *pairs[-1])
        if degrees and not any(dcp in legal_context_parallel(target, tp) for tp in degrees):
            check_context_parallel(target, max(degrees), dcp)


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
