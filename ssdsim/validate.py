"""Run AR, SD and SSD for real, predict the same rounds from microbenchmarks alone, and compare."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ssdsim.catalog import find_hardware
from ssdsim.configuration import Configuration, configure
from ssdsim.drift import mean_drift, time_drift
from ssdsim.engine.statistics import Measured, student_quantile
from ssdsim.engine.trace import Trace
from ssdsim.errors import InputError
from ssdsim.estimate import PARTS
from ssdsim.executor.loops import Setting, Timeline
from ssdsim.executor.machine import device_names
from ssdsim.executor.ranks import Ranks
from ssdsim.executor.speculation import uniform_fan_out
from ssdsim.hardware import HardwareProfile
from ssdsim.placement import Drift, Placement, round_costs
from ssdsim.scenario import Scenario
from ssdsim.simulate import SimulatedRounds, simulate

STRATEGIES = ("ar", "sd", "ssd")
_HANDLER = "ssdsim.executor.loops:make_executor"
_SCHEMA = 2  # of the log: 2 says where SD's draft is
_ANSWER_S = 300.0
_SPEEDUPS = (("sd", "ar"), ("ssd", "sd"))


@dataclass(frozen=True)
class GridPoint:
    """One setting of the grid; ``f`` is the fan-out a position, whose branches the draft really runs.

    ``sd_draft`` is where SD's draft sits: beside the target (SD on n devices against SSD on n+1), or where SSD's does.
    ``fl`` are the K+1 fan-outs themselves, in place of ``f`` and of ``p_hit``, which then follows from them.
    """

    k: int
    f: int | None
    alpha: float
    p_hit: float | None
    b: int
    backup: str
    sd_draft: str
    fl: tuple[int, ...] | None = None

    @property
    def branches(self) -> int:
        """Cached outcomes a sequence."""
        return sum(self.fl) if self.fl is not None else (self.f or 0) * (self.k + 1)

    @property
    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


GRIDS: Mapping[str, tuple[GridPoint, ...]] = {
    "short": (
        GridPoint(3, 1, 0.8, 0.8, 1, "jit", "colocated"),
        GridPoint(3, 1, 0.8, 0.0, 2, "jit", "separate"),  # where SSD is SD but for messages and contention
        GridPoint(2, 1, 0.8, 0.8, 2, "fast", "colocated"),
    ),
    "full": tuple(  # either placement at half of the points, spread evenly over each axis
        GridPoint(k, f, alpha, p_hit, b, backup, sd_draft)
        for (k, f, b, (alpha, p_hit, backup)), sd_draft in zip(
            itertools.product((2, 4), (1, 2), (1, 2), ((0.6, 0.5, "jit"), (0.9, 0.85, "fast"), (0.8, 1.0, "jit"))),
            itertools.cycle(("colocated", "separate")),
            strict=False,
        )
    ),
}


def grid_of(name: str, sd_draft: str | None, fl: tuple[int, ...] | None) -> tuple[GridPoint, ...]:
    """The grid called ``name``, with SD's draft in one place at all points, and fan-outs that set K, where given."""
    points: Sequence[GridPoint] = GRIDS[name]
    if sd_draft is not None:
        points = [replace(point, sd_draft=sd_draft) for point in points]
    if fl is not None:
        points = [replace(point, k=len(fl) - 1, f=None, p_hit=None, fl=fl) for point in points]
    return tuple(dict.fromkeys(points))


@dataclass(frozen=True)
class Comparison:
    """A strategy at a grid point: mean round measured (with its interval over repeats) and predicted, in seconds.

    ``parts`` holds measured and predicted means of what a round is made of. ``tokens_per_round`` is what a sequence's
    predicted rounds yield, ``tokens_repeats`` what the measured ones of each repeat yielded.
    """

    point: GridPoint
    strategy: str
    measured: Measured
    predicted_s: float
    tokens_per_round: float
    tokens_repeats: tuple[float, ...]
    parts: Mapping[str, tuple[float, float]]
    repeats_s: tuple[float, ...]

    @property
    def error(self) -> float:
        return self.predicted_s / self.measured.value - 1.0

    @property
    def worst_part(self) -> str:
        """The part that is off by most seconds."""
        return max(self.parts, key=lambda name: abs(self.parts[name][1] - self.parts[name][0]), default="-")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Bench:
    """Where the grid is run: ranks' devices, the models, and the profile to predict with."""

    devices: tuple[str, ...]
    target: str
    draft: str
    hardware: str
    draft_hardware: str | None
    context: int
    dtype: str | None
    rounds: int
    repeats: int
    seed: int

    @property
    def tp(self) -> int:
        return len(self.devices) - 1

    @property
    def shared(self) -> bool:
        """Whether ranks take turns on a device: a prediction, for which each has its own, does not hold then."""
        return len(set(self.devices)) < len(self.devices)

    def configuration(self, point: GridPoint) -> Configuration:
        """The scenario of a grid point."""
        return configure(**self.options(point))

    def options(self, point: GridPoint) -> dict[str, Any]:
        """A grid point as options of a scenario."""
        given = {
            "target": self.target,
            "draft": self.draft,
            "hardware": self.hardware,
            "draft_hardware": self.draft_hardware,
            "tp": self.tp,
            "sd_draft": point.sd_draft,
            "context": self.context,
            "dtype": self.dtype,
            "k": point.k,
            "alpha": point.alpha,
            "p_hit": point.p_hit,
            "budget": point.branches if point.fl is None else None,
            "fl": point.fl,
            "b": point.b,
            "backup": point.backup,
        }
        return {name: value for name, value in given.items() if value is not None}


def run_grid(
    bench: Bench, grid: Sequence[GridPoint], log: Path, progress: Callable[[int, int], None], trace: Trace | None
) -> Iterator[list[Comparison]]:
    """Measure and predict every grid point, a list of comparisons each; done ones are read from ``log``.

    Strategies take turns within a repeat, so that a drift of the machine hits all alike; between any two runs the GEMMs
    of a layer are timed again and the profile's passes are scaled by how slow the machine is. No round enters any fit.
    """
    done = _done(log, bench)
    with Ranks(bench.devices, _HANDLER, _capacity(bench, grid)) as ranks:
        for index, point in enumerate(grid):
            progress(index, len(grid))
            if point.key in done:
                yield done[point.key]
                continue
            found = _compare(bench, point, ranks, trace if index == 0 else None)
            with log.open("a") as file:
                file.write(json.dumps({"key": point.key, "comparisons": [c.to_json() for c in found]}) + "\n")
                file.flush()
                os.fsync(file.fileno())
            yield found
        progress(len(grid), len(grid))


@dataclass
class _Runs:
    """The repeats of a strategy at a grid point, and the drifts that were timed before and after each."""

    rounds_s: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    drifts: list[Drift] = field(default_factory=list)
    timelines: list[list[Timeline | None]] = field(default_factory=list)


def _compare(bench: Bench, point: GridPoint, ranks: Ranks, trace: Trace | None) -> list[Comparison]:
    configuration = bench.configuration(point)
    runs = _run(bench, configuration, ranks)
    if trace is not None:
        for name in ("sd", "ssd"):
            _draw(trace, name, runs[name].timelines[0], bench)
        scenario = _scenario_now(configuration, mean_drift(runs["ssd"].drifts))
        simulate(scenario, "ssd", engine="des", rounds=bench.rounds, seed=bench.seed, trace=trace)
    found = []
    for name, of_strategy in runs.items():
        scenario = _scenario_now(configuration, mean_drift(of_strategy.drifts))
        simulated = [
            simulate(scenario, name, engine="des", rounds=bench.rounds, seed=bench.seed + repeat)
            for repeat in range(bench.repeats)
        ]
        predicted = float(np.mean([run.round_s.value for run in simulated]))
        parts = _parts(name, of_strategy.timelines, simulated)
        found.append(
            Comparison(
                point=point,
                strategy=name,
                measured=interval(of_strategy.rounds_s),
                predicted_s=predicted,
                tokens_per_round=float(np.mean([run.tokens_per_round.value for run in simulated])),
                tokens_repeats=tuple(of_strategy.tokens),
                parts=parts,
                repeats_s=tuple(of_strategy.rounds_s),
            )
        )
    return found


def _run(bench: Bench, configuration: Configuration, ranks: Ranks) -> dict[str, _Runs]:
    """Run the strategies in turns, and time the drift between any two runs."""
    setting, placement = _setting(configuration), _placement(configuration)
    runs = {name: _Runs() for name in STRATEGIES}
    ranks.ask({"prepare": setting}, _ANSWER_S)
    drift = time_drift(placement, ranks)
    for repeat in range(bench.repeats):
        for name, of_strategy in runs.items():
            request = {"strategy": name, "setting": setting, "scenario": configuration.scenario}
            answers = ranks.ask(request | {"seed": bench.seed + repeat, "rounds": bench.rounds}, _ANSWER_S)
            of_strategy.rounds_s.append(mean_round_s(answers[0]))
            of_strategy.tokens.append(sum(answers[0].tokens) / (bench.rounds * setting.batch))
            of_strategy.timelines.append(answers)
            before, drift = drift, time_drift(placement, ranks)
            of_strategy.drifts += [before, drift]
    return runs


def _scenario_now(configuration: Configuration, drift: Drift) -> Scenario:
    """The scenario with its passes as slow as the machine was meanwhile."""
    costs = round_costs(replace(_placement(configuration), drift=drift), configuration.scenario.fallback)
    return configuration.scenario.with_times(costs.times())


def mean_round_s(timeline: Timeline) -> float:
    """The mean round of a run: from its first event to its last round's end."""
    return (timeline.ends_s[-1] - timeline.events[0][1]) / len(timeline.ends_s)


def interval(repeats: Sequence[float]) -> Measured:
    """The mean over repeats with its 95 % Student interval."""
    mean = float(np.mean(repeats))
    if len(repeats) < 2:
        return Measured(mean, float("-inf"), float("inf"))
    half = student_quantile(0.95, len(repeats) - 1) * float(np.std(repeats, ddof=1)) / len(repeats) ** 0.5
    return Measured(mean, mean - half, mean + half)


def _placement(configuration: Configuration) -> Placement:
    if configuration.placement is None:
        raise InputError("validate needs hardware: a unit-free scenario cannot be run")
    return configuration.placement


def _setting(configuration: Configuration) -> Setting:
    placement, values = _placement(configuration), configuration.values
    return Setting(
        target=placement.target,
        draft=placement.draft,
        tp=placement.tp,
        dtype=values["dtype"],
        context=placement.context,
        batch=placement.batch,
        lookahead=placement.lookahead,
        branches=placement.branches,
        fallback=configuration.scenario.fallback,
        backup_s=placement.backup_s,
        outcome_bytes=placement.outcome_bytes,
        response_bytes=placement.response_bytes(placement.lookahead),
        token_bytes=placement.token_bytes(placement.lookahead),
        sd_draft_tp=None if placement.sd_separate else placement.colocated_draft_step()[1],
        fan_out=tuple(values.get("fan_outs") or uniform_fan_out(placement.branches, placement.lookahead)),
    )


def _capacity(bench: Bench, grid: Sequence[GridPoint]) -> dict[str, Any]:
    """What the ranks allocate once for the whole grid."""
    largest = max(grid, key=lambda point: point.b)
    setting = _setting(bench.configuration(largest))
    # a branch step attends to the verified tokens too
    context = setting.context + max(point.k for point in grid) + 1
    cards = {"target": setting.target, "draft": setting.draft}
    return {"tp": setting.tp, "dtype": setting.dtype, "batch": largest.b, "context": context, **cards}


# The events that make up each part of an estimate. Draft steps are the first target rank's where SD is colocated.
_EVENTS = {
    "verify": ("verify", "decode"),
    "draft": ("draft step",),
    "fallback": ("fallback", "fallback step"),
}
_PARTS = {"ar": ("verify",), "sd": ("verify", "draft"), "ssd": ("verify", "fallback")}


def _parts(
    strategy: str, repeats: Sequence[Sequence[Timeline | None]], simulated: Sequence[SimulatedRounds]
) -> dict[str, tuple[float, float]]:
    """Mean seconds a round of each part, measured and predicted; what is left of a round is ``communicate``."""
    parts: dict[str, tuple[float, float]] = {}
    rounds = simulated[0].rounds
    predicted = {part: float(np.mean([run.breakdown_s[part] for run in simulated])) for part in PARTS}
    for part in _PARTS[strategy]:
        spent = [_spent_s((ranks[0], ranks[-1]), _EVENTS[part]) / rounds for ranks in repeats]
        parts[part] = (float(np.mean(spent)), predicted[part])
    rounds_s = float(np.mean([mean_round_s(ranks[0]) for ranks in repeats if ranks[0] is not None]))
    left = (rounds_s, sum(predicted.values()))
    for measured, expected in parts.values():
        left = (left[0] - measured, left[1] - expected)
    return parts | {"communicate": left}


def _spent_s(timelines: Sequence[Timeline | None], names: Sequence[str]) -> float:
    """Seconds of the events called ``names`` on the first target rank and on the draft's."""
    events = [event for timeline in timelines if timeline for event in timeline.events]
    return sum(end - start for what, start, end in events if what in names)


def _draw(trace: Trace, strategy: str, timelines: Sequence[Timeline | None], bench: Bench) -> None:
    """A strategy's measured rounds on tracks of their own, from time zero."""
    present = [timeline for timeline in timelines if timeline is not None]
    start = min(timeline.events[0][1] for timeline in present)
    for rank, timeline in enumerate(timelines):
        role = "draft" if rank == len(timelines) - 1 else f"target {rank}"
        track = f"measured {strategy.upper()} {role} ({bench.devices[rank]})"
        for what, begun, ended in timeline.events if timeline else ():
            if not what.startswith("wait"):
                trace.slice(track, what, begun - start, ended - start)


def _done(log: Path, bench: Bench) -> dict[str, list[Comparison]]:
    """Grid points that an earlier run left in ``log``, which must be of the same bench."""
    profiles = [find_hardware(name) for name in (bench.hardware, bench.draft_hardware) if name]
    digest = hashlib.sha256("".join(profile.model_dump_json() for profile in profiles).encode()).hexdigest()
    settings = {name: value for name, value in asdict(bench).items() if name not in ("hardware", "draft_hardware")}
    header = {"schema": _SCHEMA, "bench": json.loads(json.dumps(settings)), "profiles": digest}
    if not log.exists() or not log.stat().st_size:  # a kill can leave an empty one
        log.write_text(json.dumps(header) + "\n")
        return {}
    records = []
    for line in log.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue  # torn by a kill
    if not records or records[0] != header:
        raise InputError(f"{log}: measured with another setting or profile; remove it or use another -o")
    whole = log.with_suffix(".partial")  # what a kill tore goes for good
    whole.write_text("".join(json.dumps(record) + "\n" for record in records))
    whole.replace(log)
    return {record["key"]: [_comparison(c) for c in record["comparisons"]] for record in records[1:]}


def _comparison(record: Mapping[str, Any]) -> Comparison:
    point = GridPoint(**record["point"])
    return Comparison(
        point=replace(point, fl=None if point.fl is None else tuple(point.fl)),
        strategy=record["strategy"],
        measured=Measured(**record["measured"]),
        predicted_s=record["predicted_s"],
        tokens_per_round=record["tokens_per_round"],
        tokens_repeats=tuple(record["tokens_repeats"]),
        parts={name: (pair[0], pair[1]) for name, pair in record["parts"].items()},
        repeats_s=tuple(record["repeats_s"]),
    )


def speedups(comparisons: Sequence[Comparison]) -> list[tuple[str, Measured, float]]:
    """SD over AR and SSD over SD at one grid point: measured (by repeats, paired) and predicted."""
    by_name = {c.strategy: c for c in comparisons}
    found = []
    for above, below in _SPEEDUPS:
        a, b = by_name[above], by_name[below]
        rates = [[t / s for t, s in zip(c.tokens_repeats, c.repeats_s, strict=True)] for c in (a, b)]
        pairs = [faster / slower for faster, slower in zip(*rates, strict=True)]
        predicted = (a.tokens_per_round / a.predicted_s) / (b.tokens_per_round / b.predicted_s)
        found.append((f"{above}/{below}", interval(pairs), predicted))
    return found


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
