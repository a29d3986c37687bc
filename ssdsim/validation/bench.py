"""Run AR, SD and SSD for real, predict the same rounds from microbenchmarks alone, and compare."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ssdsim.engine.simulate import simulate
from ssdsim.engine.trace import Trace
from ssdsim.errors import InputError
from ssdsim.executor.cache import uniform_fan_out
from ssdsim.executor.drift import mean_drift, time_drift
from ssdsim.executor.loops import Setting, Timeline
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.machine.machine import device_names
from ssdsim.machine.ranks import Ranks
from ssdsim.pricing.placement import Drift, Placement, round_costs
from ssdsim.rounds.scenario import Scenario
from ssdsim.scenario.configuration import Configuration, configure
from ssdsim.validation.comparison import Comparison, interval
from ssdsim.validation.grid import GridPoint
from ssdsim.validation.log import append, read_or_start
from ssdsim.validation.timelines import draw, mean_round_s, parts_of

STRATEGIES = ("ar", "sd", "ssd")
_HANDLER = "ssdsim.executor.loops:make_executor"
_ANSWER_S = 300.0


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

    @property
    def settings(self) -> dict[str, Any]:
        """What a log depends on beside the profiles, whose names may change while their content does not."""
        return {name: value for name, value in asdict(self).items() if name not in ("hardware", "draft_hardware")}

    @property
    def profiles_digest(self) -> str:
        """Of the profiles' content."""
        profiles = [find_hardware(name) for name in (self.hardware, self.draft_hardware) if name]
        return hashlib.sha256("".join(profile.model_dump_json() for profile in profiles).encode()).hexdigest()

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
    done = read_or_start(log, bench.settings, bench.profiles_digest)
    with Ranks(bench.devices, _HANDLER, _capacity(bench, grid)) as ranks:
        for index, point in enumerate(grid):
            progress(index, len(grid))
            if point.key in done:
                yield done[point.key]
                continue
            found = _compare(bench, point, ranks, trace if index == 0 else None)
            append(log, point, found)
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
            draw(trace, name, runs[name].timelines[0], bench.devices)
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
        parts = parts_of(name, of_strategy.timelines, simulated)
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
