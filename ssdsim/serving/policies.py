"""Policies from options: each strategy by itself, and the schedule that switches between them."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ssdsim import strategies
from ssdsim.base.checks import Array
from ssdsim.base.errors import CannotRun, InputError, short_repr
from ssdsim.base.kinds_of_lists import EVERY
from ssdsim.base.option import Group, spelled
from ssdsim.base.record import Record, field, replace
from ssdsim.question.configuration import Configuration, configure
from ssdsim.question.engines import Engine
from ssdsim.question.options import ALL, DEFAULTS, effective_options, members, refuse_others
from ssdsim.question.question import Question
from ssdsim.question.scenario import Scenario
from ssdsim.serving.batching import Batching
from ssdsim.serving.by_k import by_k, paused
from ssdsim.serving.closed_form import requests_per_s
from ssdsim.serving.lookahead import open_lookahead
from ssdsim.serving.passes import PromptTables
from ssdsim.serving.policy import Policy, Variant, numbers_at, of_alternatives
from ssdsim.serving.schedule_file import Cell, Schedule
from ssdsim.serving.workload import Workload
from ssdsim.strategies.protocols.strategy import Strategy

AUTO = "auto"
"""The policy that switches to whatever decodes fastest at the batch that there is."""

T = TypeVar("T")

_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_FOLLOWED = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 32, 64, 128, 256)
"""Batches at which settings that follow the batch are worked out. SPECTRE's rule begins beyond 4 sequences: with
that of 4 its rounds of 5 to 7 are up to 10 % wrong. PEARL's adaptive gamma changes beyond powers of two.
"""
_TYPICAL_BATCH = 8
_PLACEMENT = ("target", "draft", "hardware", "draft_hardware", "tp", "dtype", "draft_dtype", "kv_dtype")


def without_auto(by_name: Mapping[str, T]) -> dict[str, T]:
    """Leave out what switches between strategies, unless nothing else is there."""
    return {name: each for name, each in by_name.items() if name != AUTO} or dict(by_name)


def accepted_options() -> tuple[str, ...]:
    """Options of a scenario that serving takes: batch and context are outcomes, durations are constant."""
    not_taken = ("b", "context", "spread", "output_tokens", *members(Group.UNIT_FREE))
    return tuple(name for name in DEFAULTS if name not in not_taken)


class Policies(Record):
    """Policies by name, fixed strategies first, and what all of them rest on.

    The engine does not run the strategies that are ``unsupported``, and nobody switches to them. ``fixed_k`` are the Ks
    between which a table switches, each for good. ``by_k`` has each K of the strategies whose K nobody gave.
    """

    by_name: Mapping[str, Policy]
    configuration: Configuration
    engine: Engine
    unsupported: Mapping[str, Policy]
    fixed_k: Mapping[int, Policy] = field(default_factory=dict)
    by_k: Mapping[str, Mapping[int, Policy]] = field(default_factory=dict)

    @property
    def fixed(self) -> dict[str, Policy]:
        return {name: policy for name, policy in self.by_name.items() if not policy.is_schedule}


def policies(
    given: Mapping[str, Any],
    workload: Workload,
    batching: Batching,
    plan: Path | None = None,
    ks: Collection[int] = (),
    may_switch: bool = True,
) -> Policies:
    """One a strategy of ``given["strategies"]``, among which ``auto`` may be, unless nothing ``may_switch``; and one by
    the schedule in a file, or by a table of K; and one of each of the ``ks`` that a strategy may have, where nobody
    gives its K.
    """
    options = {name: value for name, value in given.items() if value is not None}
    refuse_others("plan", options, accepted_options())
    names, switches = _named(options.pop("strategies", None))
    if plan is not None and batching.says_k is not None:
        raise InputError("--k-table has no effect with --schedule (which says K, too)")
    context = workload.context
    options["context"] = max(1, round(context))
    if {"alpha_concentration", "acceptance", "pair"} & options.keys():
        options["output_tokens"] = max(1, round(float(workload.output_tokens.mean())))
    if "pair" in options:  # how misses go together is known of batches only, and much the same of all of them
        options["b"] = _TYPICAL_BATCH
    least = max(strategies.ALL.named(name).least_sequences(ChainMap(options, DEFAULTS)) for name in names)
    if least > 1:  # so many are asked for where room is looked for; fewer may run
        options["b"] = max(least, options.get("b", 1))
    engine, tables = Engine.of(options), PromptTables()
    ranked = engine.runnable(names)
    configuration = _described(options, ranked)

    def of_one(name: str, beside: Sequence[str], **turned: Any) -> Policy:
        pairs = _alternatives(strategies.ALL.named(name), {**options, **turned, "strategies": tuple(beside)})
        variants = [Variant(scenario, batching, tables, context, label) for scenario, label in pairs]
        return of_alternatives(variants, batching, context)

    def of_each_k(name: str, beside: Sequence[str]) -> dict[int, Policy]:
        option, made = open_lookahead(strategies.ALL.named(name), options), {}
        for k in ks if option is not None else ():
            with suppress(InputError):  # more than acceptance is known at, or than there is room for
                made[k] = of_one(name, beside, **{str(option): k})
        return made

    named = tuple(configuration.scenarios)
    by_name = {name: of_one(name, named) for name in named}
    lacking = _with_room([name for name in names if name not in ranked], options)
    unsupported = {name: of_one(name, lacking) for name in lacking}
    each_k = {name: of_each_k(name, beside) for beside in (named, lacking) for name in beside}
    open_k = {name: each for name, each in each_k.items() if each}
    fixed_k: Mapping[int, Policy] = {}
    if plan is not None:
        by_name[AUTO] = _scheduled(plan, options, batching, configuration, tables, engine)
    elif batching.says_k is not None:
        if (why := engine.lacks("sd")) is not None:
            raise InputError(f"--k-table varies K of SD, {why}")
        chosen = by_k(batching.says_k, AUTO, options, batching, tables)
        by_name[AUTO], fixed_k = chosen.policy, chosen.fixed
    elif switches and may_switch:
        by_name[AUTO] = _fastest(by_name, open_k, options, workload, batching, tables)
    return Policies(by_name, configuration, engine, unsupported, fixed_k, open_k)


def _described(options: Mapping[str, Any], names: Sequence[str]) -> Configuration:
    """The configuration; over pipeline stages, of the strategies that are described where requests arrive.

    Raises
    ------
    CannotRun : no strategy can run.
    """
    made = configure(**options, strategies=tuple(names))
    if made.site is None or made.site.pp == 1:
        return made
    why = "no cache of drafts and no draft on GPUs of its own is described for requests over stages (--pp)"
    apart = {
        name: f"{each.title}: {why}"
        for name, each in made.scenarios.items()
        if each.devices.draft or each.strategy.miss_state is not None
    }
    if len(apart) == len(made.scenarios):
        raise CannotRun(next(iter(apart.values())))
    kept = {name: each for name, each in made.scenarios.items() if name not in apart}
    return replace(made, scenarios=kept, refused={**made.refused, **apart})


def _with_room(names: Sequence[str], options: Mapping[str, Any]) -> tuple[str, ...]:
    """Keep those of ``names`` that fit."""
    try:
        return tuple(_described(options, names).scenarios) if names else ()
    except CannotRun:
        return ()


def _named(asked: Any) -> tuple[tuple[str, ...], bool]:
    """Strategies and whether ``auto`` is among them; all of them take a batch, and ``all`` are those that do."""
    if asked is None:
        return strategies.DEFAULT, True
    if not isinstance(asked, str | list | tuple):
        raise InputError(f"--strategies must {ALL['strategies'].kind.requirement}, got {short_repr(asked)}")
    each = [name.strip() for name in asked.split(",")] if isinstance(asked, str) else list(asked)
    named = [name for name in each if name != AUTO]
    if named == [EVERY]:
        named = [strategy.name for strategy in strategies.ALL if strategy.most_sequences is None]
    names = ALL["strategies"].checked(named or list(strategies.DEFAULT))
    for name in names:
        strategy = strategies.ALL.named(name)
        if strategy.most_sequences is not None:
            raise InputError(
                f"--strategies {name}: {strategy.title} decodes {strategy.most_sequences} sequence at a time, "
                "serving needs strategies that take a batch"
            )
    return tuple(names), AUTO in each


def _alternatives(strategy: Strategy, options: Mapping[str, Any]) -> Iterator[tuple[Scenario, str]]:
    """The strategy with each of its alternatives, where a word such as ``auto`` leaves a choice, and what tells it.

    One whose settings follow the batch has them for each of some batches, as far as these fit, where they are others
    than at the batch before.
    """
    if not strategy.follows_batch(options):
        yield from _alternatives_at(strategy, options)
        return
    before: list[Array] = []
    for batch in _FOLLOWED:
        try:
            labelled = list(_alternatives_at(strategy, {**options, "b": batch}))
        except CannotRun:
            return
        rounds = [scenario.tokens.p for scenario, _ in labelled]
        if len(rounds) == len(before) and all(map(np.array_equal, rounds, before)):
            continue
        before = rounds
        for scenario, label in labelled:
            told = [f"{ALL[name].short} {scenario.settings[name]:.2g}" for name in strategy.shown_settings]
            yield scenario, " ".join([label, *(told or [f"b {batch}"])])


def _alternatives_at(strategy: Strategy, options: Mapping[str, Any]) -> Iterator[tuple[Scenario, str]]:
    asked = Question.of(options)
    choices = strategy.alternatives(asked.settings)
    for choice, scenario in zip(choices, asked.scenarios(strategy.name), strict=True):
        words = [f"{value}" for name, value in choice.items() if value != asked.settings[name]]
        lookahead = [f"K {strategy.lookahead(scenario.settings)}"] if strategy.drafts else []
        yield scenario, " ".join([scenario.title, *lookahead, *words])


def _scheduled(
    plan: Path,
    options: Mapping[str, Any],
    batching: Batching,
    configuration: Configuration,
    tables: PromptTables,
    engine: Engine,
) -> Policy:
    """A variant for each distinct choice of a schedule's cells."""
    schedule = Schedule.load(plan)
    _check_placement(schedule, configuration, plan)
    cells = [cell for cell in schedule.cells if cell.strategy is not None]
    if not cells:
        raise InputError(f"{plan}: nothing fits in any of the schedule's cells")
    for name in dict.fromkeys(cell.strategy for cell in cells if cell.strategy is not None):
        if (lacking := engine.lacks(name)) is not None:
            raise InputError(f"{plan}: the schedule has {strategies.ALL.named(name).title}, {lacking}")
    numbers: dict[Any, int] = {}
    variants: list[Variant] = []
    chosen: dict[tuple[int, int], int] = {}
    for cell in cells:
        key = (cell.strategy, tuple(sorted((n, v) for n, v in cell.settings.items() if n in ALL)))
        if key not in numbers:
            numbers[key] = len(variants)
            variants.append(_variant(cell, options, batching, tables))
        chosen[cell.b, cell.context] = numbers[key]
    _keep_drafts(variants)
    batches, contexts = (sorted({getattr(cell, name) for cell in cells}) for name in ("b", "context"))
    filled = {(b, c): chosen.get((b, c), chosen[_nearest((b, c), chosen)]) for b in batches for c in contexts}
    return Policy(AUTO, "by schedule", variants, batches, contexts, filled, is_schedule=True)


def _nearest(cell: tuple[int, int], known: Mapping[tuple[int, int], int]) -> tuple[int, int]:
    return min(known, key=lambda other: (abs(other[1] - cell[1]), abs(other[0] - cell[0])))


def _fastest(
    fixed: Mapping[str, Policy],
    open_k: Mapping[str, Mapping[int, Policy]],
    options: Mapping[str, Any],
    workload: Workload,
    batching: Batching,
    tables: PromptTables,
) -> Policy:
    """Policy of what serves most at each batch: of all strategies, with every K where it is open, else with K and what
    halving leaves of it.

    What the prompts of those requests cost beside so many that decode is part of it.
    """
    k = options.get("k", DEFAULTS["k"])
    each_policy = [one for name, policy in fixed.items() for one in open_k.get(name, {0: policy}).values()]
    variants = [variant for policy in each_policy for variant in policy.variants]
    for name in [each for each in fixed if each not in open_k]:
        strategy = strategies.ALL.named(name)
        for each in sorted({k >> halved for halved in range(1, k.bit_length())} - {0}, reverse=True):
            if strategy.drafts:
                given = {n: v for n, v in options.items() if n != "sd_k"} | {"k": each, "strategies": (name,)}
                variants += [
                    Variant(scenario, batching, tables, options["context"], label)
                    for scenario, label in _alternatives(strategy, effective_options(given, {"k": each}))
                ]
    variants = [copy(variant) for variant in variants]
    _keep_drafts(variants)
    batches, context = [b for b in _BATCHES if b <= batching.max_batch], options["context"]

    def best_at(b: int) -> int:
        return max(numbers_at(b, variants), key=lambda n: requests_per_s(variants[n], b, workload, batching))

    best = {b: best_at(b) for b in batches}
    used = sorted(set(best.values()))
    cells = {(b, context): used.index(number) for b, number in best.items()}
    return Policy(AUTO, "by schedule", [variants[u] for u in used], batches, (context,), cells, is_schedule=True)


def _variant(cell: Cell, options: Mapping[str, Any], batching: Batching, tables: PromptTables) -> Variant:
    assert cell.strategy is not None
    turned = {name: value for name, value in cell.settings.items() if name in ALL}
    pauses = (
        cell.strategy == "sd" and turned.get("k") == 0
    )  # of a schedule by a policy of K: a draft that only keeps its cache ready
    if pauses:
        turned["k"] = 1
    given = {name: value for name, value in options.items() if name not in ("strategies", "subject", "sd_k", "budget")}
    if "budget" in turned:
        given.pop("f", None)
    point = {
        **effective_options(given, turned),
        **turned,
        "strategies": (cell.strategy,),
        "b": options.get("b", cell.b),
    }
    scenario = configure(**point).scenarios[cell.strategy]
    words = [f"K {cell.settings.get('k', scenario.settings['k'])}"] if scenario.strategy.drafts else []
    words += [str(turned["backup"])] if "backup" in turned else []
    runs = paused(scenario) if pauses else scenario
    return Variant(runs, batching, tables, options["context"], " ".join([scenario.title, *words]))


def _keep_drafts(variants: Sequence[Variant]) -> None:
    """While a variant without a draft runs, another one's draft goes on processing prompts, to be ready."""
    drafting = [variant for variant in variants if variant.scenario.strategy.drafts]
    for variant in variants:
        if not variant.scenario.strategy.drafts and drafting:
            variant.table = variant.table.beside_a_draft_of(drafting[0].table)


def _check_placement(schedule: Schedule, configuration: Configuration, plan: Path) -> None:
    """Raise :class:`InputError` where a schedule was made for other models or devices."""
    for name in _PLACEMENT:
        theirs, ours = schedule.assumptions.get(name), configuration.settings.get(name)
        if theirs is not None and ours is not None and theirs != ours:
            raise InputError(f"{plan}: the schedule is for {spelled(name)} {theirs}, here it is {ours}")
