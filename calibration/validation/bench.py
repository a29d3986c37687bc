"""Strategies run for real, and the same rounds predicted from microbenchmarks alone: times, parts, traces."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import asdict

from calibration.machine.executor.drift import Drift, mean_drift, time_drift
from calibration.machine.executor.executor import BufferShape
from calibration.machine.executor.plan import Event, RankPlan, Timeline
from calibration.machine.inventory import device_names
from calibration.machine.other_programs import OtherPrograms
from calibration.machine.ranks import Ranks
from calibration.validation.comparison import GridPoint, RoundComparison, append_point, interval, read_or_start
from ssdsim import strategies
from ssdsim.answers.simulation.simulate import SimulatedRounds, simulate, trace_rounds
from ssdsim.answers.simulation.trace import Trace
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.plain import picked
from ssdsim.base.progress import Progress
from ssdsim.base.record import MutableRecord, Record, field, replace
from ssdsim.hardware.catalog import find_hardware, short_hardware_name
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.pricing.passes import Model
from ssdsim.pricing.step import Pass, Step
from ssdsim.question.configuration import Configuration, configure, rescaled
from ssdsim.question.engines import subject_among
from ssdsim.question.question import effective
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.round import PARTS
from ssdsim.strategies import drafters
from ssdsim.transformer.operations import DTYPES

_LEFT = "communicate"


def parts_of(
    steps: Mapping[str, Step], repeats: Sequence[Sequence[Timeline]], simulated: Sequence[SimulatedRounds]
) -> dict[str, tuple[float, float]]:
    """Mean seconds a round of each part that there is, measured and predicted; what is left is ``communicate``.

    Each of ``repeats`` holds the timeline of the leading role's first rank, then those of other roles.
    """
    part_of = {name: step.part for name, step in steps.items()}
    spent = [spent_s(part_of, leader, others) for leader, *others in repeats]
    measured = {part: float(np.mean([one[part] for one in spent])) for part in PARTS}
    predicted = {part: float(np.mean([run.breakdown_s[part] for run in simulated])) for part in PARTS}
    parts = {
        part: (measured[part], predicted[part])
        for part in PARTS
        if part != _LEFT and (measured[part] or predicted[part])
    }
    round_s = float(np.mean([leader.mean_round_s for leader, *_ in repeats]))
    left = (round_s - sum(m for m, _ in parts.values()), predicted[_LEFT])
    return parts | {_LEFT: left}


def spent_s(part_of: Mapping[str, str], leader: Timeline, others: Sequence[Timeline]) -> dict[str, float]:
    """Seconds a round of each part: what the leader does itself, and what others do while it waits for them."""
    waits = _Waits(leader.events)
    spent = dict.fromkeys(PARTS, 0.0)
    for event in leader.events:
        if not event.waits and event.step in part_of:
            spent[part_of[event.step]] += event.end_s - event.start_s
    for event in (event for other in others for event in other.events):
        if not event.waits and event.step in part_of:
            spent[part_of[event.step]] += waits.within_s(event)
    return {part: seconds / len(leader.ends_s) for part, seconds in spent.items()}


class _Waits:
    """Waits of a rank; they follow one another."""

    def __init__(self, events: Sequence[Event]) -> None:
        waits = np.array([(event.start_s, event.end_s) for event in events if event.waits] or [(0.0, 0.0)])
        self._edges: Array = waits.ravel()
        self._waited_s = np.concatenate([[0.0], np.repeat(np.cumsum(waits[:, 1] - waits[:, 0]), 2)[:-1]])

    def within_s(self, event: Event) -> float:
        """Seconds of ``event`` in which the rank waited."""
        before, after = np.interp([event.start_s, event.end_s], self._edges, self._waited_s)
        return float(after - before)


def draw(
    trace: Trace, title: str, timelines: Sequence[Timeline | None], target_ranks: int, devices: Sequence[str]
) -> None:
    """A strategy's measured rounds on tracks of their own, from time zero."""
    start = min(timeline.start_s for timeline in timelines if timeline is not None)
    for rank, timeline in enumerate(timelines):
        role = f"target {rank}" if rank < target_ranks else "draft"
        track = f"measured {title} {role} ({devices[rank]})"
        for event in timeline.events if timeline else ():
            if not event.waits:
                trace.slice(track, event.what, event.start_s - start, event.end_s - start)


HANDLER = "calibration.machine.executor.executor:make_executor"
_ANSWER_S = 300.0
_SPREAD = "confidence_spread"


class RoundsBench(Record):
    """Plan of what runs where: strategies, ranks' devices, the models, and the profile to predict with."""

    strategies: tuple[str, ...]
    target_devices: tuple[str, ...]
    draft_devices: tuple[str, ...]
    target: str
    draft: str
    hardware: str
    draft_hardware: str | None
    context: int
    dtype: str
    rounds: int
    repeats: int
    seed: int
    ep: int = 1
    targets: int = 1

    @property
    def tp(self) -> int:
        """Ranks of a target, several of which may share the draft."""
        return len(self.target_devices) // self.targets

    @property
    def devices(self) -> tuple[str, ...]:
        """The ranks' devices: the target's, then the draft's."""
        return (*self.target_devices, *self.draft_devices)

    @property
    def title(self) -> str:
        """What runs where, and the profile that predicts it."""
        where = f"{', '.join(self.target_devices)}{' + ' if self.draft_devices else ''}{', '.join(self.draft_devices)}"
        predicted = f"predicted with {short_hardware_name(self.hardware)}"
        return f"{self.target} + {self.draft}, {self.dtype}, context {self.context} on {where}, {predicted}"

    @property
    def first_ranks(self) -> dict[str, int]:
        return {"target": 0, "draft": len(self.target_devices)}

    @property
    def shared(self) -> bool:
        """Say whether ranks take turns on a device: a prediction, for which each has its own, does not hold then."""
        return len(set(self.devices)) < len(self.devices)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that a log depends on beside the profiles, whose names may change while their content does not."""
        left_out = {"hardware", "draft_hardware"} | (
            {n for n in ("ep", "targets") if asdict(self)[n] == 1}
        )  # older logs have none
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    @property
    def profiles_digest(self) -> str:
        """The digest of the profiles' content."""
        profiles = [find_hardware(name) for name in (self.hardware, self.draft_hardware) if name]
        return hashlib.sha256("".join(profile.as_json() for profile in profiles).encode()).hexdigest()

    def configuration(self, point: GridPoint) -> Configuration:
        """The scenarios of a grid point."""
        configuration = configure(**self.options(point))
        for why in configuration.refused.values():
            raise InputError(why)
        for scenario in configuration.scenarios.values():
            needs, have = scenario.devices, (len(self.target_devices), len(self.draft_devices))
            if needs.of_kind("target") != have[0] or needs.draft > have[1]:
                raise InputError(
                    f"{scenario.strategy.title} needs {needs.of_kind('target')} target and {needs.draft} draft ranks, "
                    f"there are {have[0]} and {have[1]}"
                )
        return configuration

    def options(self, point: GridPoint) -> dict[str, Any]:
        """A grid point as options of a scenario."""
        given: dict[str, Any] = {
            **picked(self, "strategies", "target", "draft", "hardware", "draft_hardware", "tp", "context", "dtype"),
            "ep": self.ep if self.ep > 1 else None,
            **({"targets": self.targets, "draft_serves": "in-turn"} if self.targets > 1 else {}),
            "draft_gpus": len(self.draft_devices) or None,
        }
        named = map(strategies.ALL.named, self.strategies)
        if any(option.name == _SPREAD for strategy in named for option in strategy.options):
            given[_SPREAD] = 0.0  # confidences of two values: rows vary from round to round the most
        return {name: value for name, value in given.items() if value is not None} | point.options


def check_runs(names: Sequence[str], grid: Iterable[GridPoint], target_ranks: int, targets: int = 1) -> None:
    """Raise :class:`InputError` for strategies that do not exist, and for those that real ranks cannot run."""
    for point in grid:
        settings = effective({"strategies": names, "tp": target_ranks // targets, "targets": targets, **point.options})
        drafter = drafters.ALL.named(settings["drafter"])
        for strategy in map(strategies.ALL.named, settings["strategies"]):
            why = strategy.cannot_run(settings) or (drafter.cannot_run(settings) if strategy.drafts else None)
            if why is not None:
                raise InputError(f"--strategies: {strategy.title} cannot run here: {why}")


def check_grid(bench: RoundsBench, grid: Sequence[GridPoint]) -> None:
    """Raise :class:`InputError` for a point or a number format that cannot run here, before a file is written."""
    executor_options([bench.configuration(point) for point in grid], bench.first_ranks["draft"], bench.dtype)


def run_grid(
    bench: RoundsBench, grid: Sequence[GridPoint], log: Path, progress: Progress, trace: Path | None
) -> Iterator[list[RoundComparison]]:
    """Measure and predict every grid point, a list of comparisons each; done ones are read from ``log``.

    The first one's ``trace`` is written before it is done: who is stopped in between measures it again.

    Strategies take turns within a repeat, so that a drift of the machine hits all alike; between any two runs the GEMMs
    of a layer are timed again and the profile's passes are scaled by how slow the machine is. No round enters any fit.
    """
    configurations = [bench.configuration(point) for point in grid]
    done = read_or_start(log, bench.settings, bench.profiles_digest)
    if all(point.key in done for point in grid):  # no ranks are needed
        progress(len(grid), len(grid))
        yield from (done[point.key] for point in grid)
        return
    with Ranks(
        bench.devices, HANDLER, executor_options(configurations, bench.first_ranks["draft"], bench.dtype)
    ) as ranks:
        others = OtherPrograms(bench.devices, ranks.pids)
        for index, (point, configuration) in enumerate(zip(grid, configurations, strict=True)):
            progress(index, len(grid))
            if point.key in done:
                yield done[point.key]
                continue
            runs = _run(bench, configuration.scenarios, ranks)
            drawn = Trace("ssdsim validate") if trace and index == 0 else None
            compared = _compare(bench, point, configuration, runs, drawn)
            if drawn is not None and trace is not None and drawn.tracks:
                drawn.save(trace)
            share = others.share()
            comparison = [replace(each, others=share) for each in compared]
            append_point(log, point, comparison)
            yield comparison
        progress(len(grid), len(grid))


class _Runs(MutableRecord):
    """The repeats of a strategy at a grid point, and the drifts that were timed before and after each."""

    rounds_s: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    drifts: list[Drift] = field(default_factory=list)
    timelines: list[list[Timeline | None]] = field(default_factory=list)


def _compare(
    bench: RoundsBench,
    point: GridPoint,
    configuration: Configuration,
    runs: Mapping[str, _Runs],
    trace: Trace | None,
) -> list[RoundComparison]:
    now = {name: rescaled(configuration, name, mean_drift(one.drifts)) for name, one in runs.items()}
    if trace is not None:
        _draw(bench, runs, now, trace)
    comparisons = []
    for name, of_strategy in runs.items():
        scenario = now[name]
        simulated = [
            simulate(scenario, solver="des", rounds=bench.rounds, seed=bench.seed + repeat)
            for repeat in range(bench.repeats)
        ]
        firsts = [
            [one for one in (answers[0], *answers[bench.first_ranks["draft"] :][:1]) if one]
            for answers in of_strategy.timelines
        ]
        comparisons.append(
            RoundComparison(
                point=point,
                strategy=name,
                devices=(scenario.devices.of_kind("target"), scenario.devices.draft),
                measured=interval(of_strategy.rounds_s),
                predicted_s=float(np.mean([run.round_s.value for run in simulated])),
                tokens_per_round=float(np.mean([run.tokens_per_round.value for run in simulated])),
                tokens_repeats=tuple(of_strategy.tokens),
                parts=parts_of(scenario.steps, firsts, simulated),
                repeats_s=tuple(of_strategy.rounds_s),
            )
        )
    return comparisons


def _run(bench: RoundsBench, scenarios: Mapping[str, Scenario], ranks: Ranks) -> dict[str, _Runs]:
    """Run the strategies in turns, and time the drift between any two runs."""
    plans = {name: RankPlan.of(scenario) for name, scenario in scenarios.items()}
    runs = {name: _Runs() for name in plans}
    ranks.ask({"prepare": list(plans.values())}, _ANSWER_S)
    drifts = time_drift(scenarios, bench.first_ranks, ranks)
    for repeat in range(bench.repeats):
        for name, of_strategy in runs.items():
            request = {"plan": plans[name], "seed": bench.seed + repeat, "rounds": bench.rounds}
            answers = ranks.ask(request, _ANSWER_S)
            of_strategy.rounds_s.append(answers[0].mean_round_s)
            of_strategy.tokens.append(sum(answers[0].tokens) / (bench.rounds * plans[name].batch))
            of_strategy.timelines.append(answers)
            before, drifts = drifts, time_drift(scenarios, bench.first_ranks, ranks)
            of_strategy.drifts += [before[name], drifts[name]]
    return runs


def _draw(bench: RoundsBench, runs: Mapping[str, _Runs], now: Mapping[str, Scenario], trace: Trace) -> None:
    """The first run of each strategy that drafts, and simulated rounds of the one that is asked about."""
    for name, of_strategy in runs.items():
        strategy = now[name].strategy
        if strategy.drafts:
            draw(trace, strategy.title, of_strategy.timelines[0], bench.first_ranks["draft"], bench.devices)
    subject = subject_among(bench.strategies, None)
    trace_rounds(trace, now[subject], bench.rounds, bench.seed)


def executor_options(configurations: Iterable[Configuration], target_ranks: int, dtype: str) -> dict[str, Any]:
    """Sizes that the ranks allocate once for all configurations' passes."""
    if dtype not in DTYPES:
        raise InputError(f"dtype {dtype} is priced only; real ranks run {', '.join(DTYPES)}")
    buffers: dict[Model, BufferShape] = {}
    for configuration in configurations:
        assert configuration.site is not None
        cards = {"target": configuration.site.target, "draft": configuration.site.draft}
        for work in _passes(configuration):
            batch, context = work.forward.attention.batch, work.forward.attention.context
            if work.model in buffers:
                batch, context = max(batch, buffers[work.model].batch), max(context, buffers[work.model].context)
            ep = configuration.site.ep if work.model == "target" else 1
            buffers[work.model] = BufferShape(cards[work.model], dtype, batch, context, ep)
    return {"target_ranks": target_ranks, "dtype": dtype, "buffers": buffers}


def _passes(configuration: Configuration) -> Iterator[Pass]:
    for scenario in configuration.scenarios.values():
        for step in scenario.steps.values():
            yield from step.passes


def check_profile(profile: HardwareProfile, devices: Sequence[str]) -> None:
    """Raise :class:`InputError` unless the profile was measured on such devices: a machine is compared with itself."""
    if {source.kind for source in profile.sources.values()} != {"measured"}:
        raise InputError(f"profile {profile.name} was not measured on this machine: run ssdsim calibrate first")
    for device, name in device_names(devices).items():
        if name != profile.device.name:
            raise InputError(
                f"profile {profile.name} was measured on {profile.device.name}, {device} is {name}: "
                "run ssdsim calibrate on it"
            )
