"""Replay rounds: as events in SimPy, or as vectorised Monte Carlo without a clock. Both read the same scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Literal

import numpy as np

from ssdsim.engine.recorder import Recorder
from ssdsim.engine.run import Run
from ssdsim.engine.statistics import Histogram
from ssdsim.engine.steps import Steps
from ssdsim.engine.stopping import Stopping
from ssdsim.engine.trace import Trace
from ssdsim.errors import InputError
from ssdsim.intervals import Measured
from ssdsim.rounds.estimate import PARTS
from ssdsim.rounds.outcomes import (
    MOST_TOKENS_A_ROUND,
    ReplayedOutcomes,
    outcome_source,
    outcomes_until,
    rounds_to_run_in,
)
from ssdsim.rounds.scenario import Scenario
from ssdsim.strategies import autoregressive, speculative, ssd

Engine = Literal["des", "mc"]
STRATEGIES: Mapping[str, ModuleType] = {"ar": autoregressive, "sd": speculative, "ssd": ssd}
QUANTILES = (0.5, 0.9, 0.99)
_MC_BLOCK = 16_384  # rounds: a block of 16 sequences then fits in the cache
_MC_LANES = 32  # independent runs side by side where rounds must be drawn one after the other


@dataclass(frozen=True)
class SimulatedRounds:
    """What a strategy did over its rounds; every mean has its interval (seconds; rates in tokens a second).

    ``clean_round_s`` and ``missed_round_s`` are means over the rounds without and with a miss (nan where none is).
    """

    strategy: str
    batch: int
    gpus: int
    rounds: int
    tokens_per_second: Measured
    tokens_per_round: Measured
    round_s: Measured
    p_hit: Measured
    p_all_hit: Measured
    clean_round_s: float
    missed_round_s: float
    breakdown_s: Mapping[str, float]
    utilisation: Mapping[str, float]
    round_histogram: Histogram

    @property
    def burst_share(self) -> float:
        """Share of a user's gaps between tokens that are zero, because a round's tokens arrive together."""
        return 1.0 - 1.0 / self.tokens_per_round.value

    def gap_quantile_s(self, q: float) -> float:
        """Quantile of a user's gaps between tokens: zero inside a burst, a round's time between bursts."""
        if q <= self.burst_share:
            return 0.0
        return self.round_histogram.quantile((q - self.burst_share) / (1.0 - self.burst_share))


def simulate(
    scenario: Scenario,
    strategy: str,
    *,
    engine: Engine = "des",
    rounds: int | None = None,
    precision: float | None = None,
    seed: int = 0,
    trace: Trace | None = None,
    confidence: float = 0.95,
) -> SimulatedRounds:
    """Simulate one strategy in its stationary state.

    The run ends after ``rounds``, or when the half width of the 95 % interval of tokens/s is within ``precision``
    of it. The same seed gives the same run, and both engines see the same stream of outcomes.
    """
    _check_countable(scenario)
    outcome_seed, step_seed = np.random.SeedSequence(seed).spawn(2)
    lanes = _MC_LANES if engine == "mc" else 1
    outcomes = outcome_source(scenario, strategy, outcome_seed, lanes)
    run_in = rounds_to_run_in(scenario, strategy)
    if run_in:
        outcomes.block(run_in * lanes)
    recorder = Recorder(scenario.batch)
    if engine == "des":
        run = Run(scenario, outcomes, step_seed, Stopping(rounds, precision), recorder, trace)
        busy_s = _run_events(run, strategy)
    else:
        busy_s = {}
        steps = Steps(scenario, step_seed)
        for size in Stopping(rounds, precision, _MC_BLOCK).blocks(recorder):
            recorder.add(STRATEGIES[strategy].monte_carlo(scenario, outcomes, steps, size))
    return _summary(scenario, strategy, recorder, busy_s, confidence)


def simulate_requests(
    scenario: Scenario,
    strategy: str,
    tokens: int,
    *,
    runs: int = 100,
    seed: int = 0,
    confidence: float = 0.95,
) -> SimulatedRounds:
    """Start ``batch`` sequences together and run, as events, until each has ``tokens``; ``runs`` independent times.

    A finished sequence leaves nothing behind but its place: durations stay those of the whole batch.
    """
    _check_countable(scenario)
    if scenario.requests is not None:
        scenario = replace(scenario, requests=replace(scenario.requests, output_tokens=tokens))
    recorder = Recorder(scenario.batch)
    busy_s: dict[str, float] = {}
    for child in np.random.SeedSequence(seed).spawn(runs):
        outcome_seed, step_seed = child.spawn(2)
        count = tokens if strategy == "ar" else None
        block = outcomes_until(outcome_source(scenario, strategy, outcome_seed), tokens)
        length = count or block.draws.shape[1]
        stopping = Stopping(length, largest_block=length, batches=1)
        run = Run(scenario, ReplayedOutcomes(block), step_seed, stopping, recorder)
        for role, seconds in _run_events(run, strategy).items():
            busy_s[role] = busy_s.get(role, 0.0) + seconds
    return _summary(scenario, strategy, recorder, busy_s, confidence)


def _check_countable(scenario: Scenario) -> None:
    """Raise :class:`InputError` where a round may have more tokens than outcomes are packed for."""
    most = scenario.batch * (max(scenario.lookahead, scenario.sd.lookahead) + 1)
    if most > MOST_TOKENS_A_ROUND:
        raise InputError(
            f"a simulated round has at most {MOST_TOKENS_A_ROUND:,} tokens, batch {scenario.batch} may have {most:,}: "
            "take fewer sequences, or --engine closed"
        )


def _run_events(run: Run, strategy: str) -> dict[str, float]:
    """Run the strategy's processes to their end; returns each device's busy seconds."""
    run.env.run(until=STRATEGIES[strategy].start(run))
    if run.trace is not None:
        run.trace.cut(run.env.now)
    return {role: device.busy_s for role, device in run.devices.items()}


def _summary(
    scenario: Scenario, strategy: str, recorder: Recorder, busy_s: Mapping[str, float], confidence: float
) -> SimulatedRounds:
    means = recorder.means
    rounds = means.total("rounds")
    p_all_hit = means.share("clean", "rounds", confidence)
    round_s = means.ratio("seconds", "rounds", confidence)
    if strategy == "ssd":
        round_s = _with_rare_rounds(round_s, p_all_hit, float(scenario.times.fallback_s))
    return SimulatedRounds(
        strategy=strategy,
        batch=scenario.batch,
        gpus=getattr(scenario.gpus, strategy),
        rounds=int(rounds),
        tokens_per_second=means.ratio("tokens", "seconds", confidence),
        tokens_per_round=means.ratio("tokens", "sequence_rounds", confidence),
        round_s=round_s,
        p_hit=means.share("hits", "sequence_rounds", confidence),
        p_all_hit=p_all_hit,
        clean_round_s=_per(means.total("seconds") - means.total("missed_seconds"), means.total("clean")),
        missed_round_s=_per(means.total("missed_seconds"), means.total("missed")),
        breakdown_s={part: means.total(part) / rounds for part in PARTS},
        utilisation={role: seconds / means.total("seconds") for role, seconds in busy_s.items()},
        round_histogram=recorder.round_s,
    )


def _per(seconds: float, rounds: float) -> float:
    return seconds / rounds if rounds else float("nan")


def _with_rare_rounds(round_s: Measured, p_all_hit: Measured, fallback_s: float) -> Measured:
    """Widen a mean round by what is unknown of rare clean (or rare missed) rounds, which batches may hardly show."""
    return Measured(
        round_s.value,
        min(round_s.low, round_s.value - (p_all_hit.high - p_all_hit.value) * fallback_s),
        max(round_s.high, round_s.value + (p_all_hit.value - p_all_hit.low) * fallback_s),
    )


def run_as_json(run: SimulatedRounds, unit: str) -> dict[str, Any]:
    """One strategy of ``ssdsim simulate --json``; durations in ms, or in T_v where they are unit-free."""
    scale = 1e3 if unit == "s" else 1.0
    histogram = run.round_histogram
    return {
        "rounds": run.rounds,
        "gpus": run.gpus,
        "tokens_per_second": _measured_json(run.tokens_per_second),
        "tokens_per_round": _measured_json(run.tokens_per_round),
        "tpot_ms": scale * run.round_s.value / run.tokens_per_round.value,
        "round_ms": _measured_json(run.round_s, scale)
        | {f"p{100 * q:.0f}": scale * histogram.quantile(q) for q in QUANTILES},
        "gap_ms": {f"p{100 * q:.0f}": scale * run.gap_quantile_s(q) for q in QUANTILES},
        "burst_share": run.burst_share,
        "clean_round_ms": _finite(scale * run.clean_round_s),
        "missed_round_ms": _finite(scale * run.missed_round_s),
        "p_hit": _measured_json(run.p_hit) if run.strategy == "ssd" else None,
        "p_all_hit": _measured_json(run.p_all_hit) if run.strategy == "ssd" else None,
        "breakdown_ms": {part: scale * seconds for part, seconds in run.breakdown_s.items()},
        "utilisation": dict(run.utilisation),
    }


def _measured_json(measured: Measured, scale: float = 1.0) -> dict[str, float | None]:
    low, high = (_finite(scale * x) for x in (measured.low, measured.high))
    return {"mean": scale * measured.value, "low": low, "high": high}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
