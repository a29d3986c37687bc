"""Simulation of rounds: events in SimPy, or vectorised Monte Carlo without a clock. Both read the same scenario."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from ssdsim.answers.simulation.actor import EventRun
from ssdsim.answers.simulation.durations import StepStreams
from ssdsim.answers.simulation.shared_draft import shared_rounds
from ssdsim.answers.simulation.statistics import FEW, MOST_ROUNDS, Histogram, Recorder, Stopping
from ssdsim.answers.simulation.trace import Trace
from ssdsim.base.checks import whole, within
from ssdsim.base.display import Display, Displayable
from ssdsim.base.errors import InputError, nearest, short_repr
from ssdsim.base.intervals import Measured, student_quantile
from ssdsim.base.plain import document, picked
from ssdsim.base.progress import Progress
from ssdsim.base.record import Record, replace
from ssdsim.question.comparison_options import MOST_OUTPUT_TOKENS
from ssdsim.question.scenario import Scenario
from ssdsim.question.spellings import any_spelling
from ssdsim.rounds.drawn import STRETCH
from ssdsim.rounds.kernel import Mix, Tokens
from ssdsim.rounds.outcome_sources import long_run_source, outcome_source
from ssdsim.rounds.outcomes import (
    MOST_TOKENS_A_ROUND,
    OutcomeSource,
    ReplayedOutcomes,
    outcomes_until,
    steps_one_by_one,
)
from ssdsim.rounds.round import PARTS, Always

Solver = Literal["des", "mc"]
QUANTILES = (0.5, 0.9, 0.99)
_MEANS = ("tokens_per_second", "tokens_per_round", "round_s", "p_hit", "p_all_hit")
_MC_BLOCK = 16_384  # rounds: a block of 16 sequences then fits in the cache
_MC_FEW = 1024  # rounds of a lane in the first blocks of a run that may end early
_MC_FEW_SHARED = 4096  # the same where several targets share a draft, whose queue takes rounds to forget its start
_MC_SHARED_BATCHES = 16  # blocks of such a run
_MOST_COUNTED = 10**9  # rounds, or runs: days of work
_MC_LANES = 32  # independent runs side by side where rounds must be drawn one after the other


class SimulatedRounds(Displayable, Record):
    """Means of a strategy over its rounds, with intervals (seconds; rates in tokens a second).

    ``p_hit`` and ``p_all_hit`` are None if nothing is cached; ``clean_round_s`` and ``missed_round_s`` are means over
    the rounds without and with a miss (nan without such rounds).
    """

    strategy: str
    batch: int
    gpus: float
    rounds: int
    tokens_per_second: Measured
    tokens_per_round: Measured
    round_s: Measured
    p_hit: Measured | None
    p_all_hit: Measured | None
    clean_round_s: float
    missed_round_s: float
    breakdown_s: Mapping[str, float]
    utilisation: Mapping[str, float]
    round_histogram: Histogram

    @property
    def display(self) -> Display:
        """A row a mean."""
        means = {name: getattr(self, name) for name in _MEANS}
        rows = [
            (name, f"{mean.value:.4g}", f"{mean.low:.4g}-{mean.high:.4g}")
            for name, mean in means.items()
            if mean is not None
        ]
        title = f"{self.strategy}: {self.rounds} rounds, batch {self.batch}, {self.gpus:g} GPUs"
        return Display(title, ("", "mean", "95 %"), rows)

    @property
    def tpot_s(self) -> float:
        """Time per output token of a sequence."""
        return self.round_s.value / self.tokens_per_round.value

    @property
    def burst_share(self) -> float:
        """The share of zero gaps between a user's tokens: a round's tokens arrive together."""
        return 1.0 - 1.0 / self.tokens_per_round.value

    def gap_quantile_s(self, q: float) -> float:
        """Quantile of a user's gaps between tokens: zero inside a burst, a round's time between bursts."""
        if q <= self.burst_share:
            return 0.0
        return self.round_histogram.quantile((q - self.burst_share) / (1.0 - self.burst_share))


@any_spelling
def simulate(
    scenario: Scenario,
    *,
    solver: Solver = "des",
    rounds: int | None = None,
    precision: float | None = None,
    seed: int = 0,
    trace: Trace | None = None,
    confidence: float = 0.95,
    most: int = MOST_ROUNDS,
    progress: Progress | None = None,
) -> SimulatedRounds:
    """Simulate a strategy's rounds in their stationary state.

    Parameters
    ----------
    scenario : of :func:`ssdsim.configure`, one a strategy.
    solver : ``des`` replays events on SimPy's clock, ``mc`` draws rounds without one.
    rounds, precision : the run ends after ``rounds``, or when the half width of the 95 % interval of tokens/s is within
        ``precision`` of it.
    seed : the same seed gives the same run, and both solvers see the same stream of outcomes.
    trace : filled with what each device does (``des`` only).
    confidence : of the intervals.
    most : rounds that end a run which is not as precise by then.
    progress : hears how far it is.

    Returns
    -------
    Means with their intervals, and the histogram of rounds.

    Raises
    ------
    InputError : a solver that is not there, a trace of one that has no clock, or a number out of its range.
    """
    if solver not in ("des", "mc"):
        raise InputError(f"unknown solver '{solver}'{nearest(str(solver), ('des', 'mc'))} Allowed: des, mc")
    _check_run(scenario, seed, confidence)
    whole("most", most, 1, _MOST_COUNTED)
    if rounds is not None:
        whole("rounds", rounds, 1, _MOST_COUNTED)
    if precision is not None:
        within("precision", precision, np.finfo(float).tiny, 1.0)
    if trace is not None and solver == "mc":
        raise InputError("a trace needs solver des (Monte Carlo has no clock)")
    recorder = Recorder(scenario.in_a_pass, scenario.strategy.miss_state)
    busy_s: Mapping[str, float] = {}
    if solver == "des":
        stretch = _stretch(scenario.drawn_from, 1)
        stopping = Stopping(rounds, precision, stretch=stretch, most=most, progress=progress)
        busy_s = _replayed(scenario, seed, stopping, recorder, trace)
    else:
        _check_countable(scenario)
        outcome_seed, step_seed, *_ = _seeds(scenario, seed)
        tokens = scenario.drawn_from
        several = scenario.devices.served > 1
        batches = _MC_SHARED_BATCHES if several else 64
        lanes = min(_MC_LANES, max(1, ((rounds or most) // batches) // STRETCH)) if steps_one_by_one(tokens) else 1
        outcomes = long_run_source(tokens, scenario.in_a_pass, outcome_seed, lanes)
        steps = StepStreams(scenario.steps, scenario.spread, step_seed)
        make = partial(shared_rounds, scenario) if several else scenario.strategy.monte_carlo
        # free-running rounds, and those of several targets, start anew with a block: short ones would be of the start
        early = precision is not None and not scenario.strategy.free_running
        of_lane = _MC_FEW_SHARED if several else STRETCH if isinstance(tokens, Mix) else _MC_FEW
        first = min(_MC_BLOCK, lanes * of_lane) if early else _MC_BLOCK
        stopping = Stopping(rounds, precision, _MC_BLOCK, batches, first, _stretch(tokens, lanes), most, progress)
        for size in stopping.blocks(recorder):
            block = outcomes.block(size)
            recorder.add(make(block, steps.block(block)))
    return _summary(scenario, recorder, busy_s, confidence)


def _stretch(tokens: Tokens, lanes: int) -> int:
    """Rounds in a row that belong to one block: a block is a batch, which must depend on no other one."""
    return lanes * STRETCH if isinstance(tokens, Mix) else lanes


def trace_rounds(trace: Trace, scenario: Scenario, rounds: int, seed: int = 0) -> None:
    """Fill a trace as :func:`simulate` does, without means, whose intervals would load scipy."""
    _replayed(scenario, seed, Stopping(rounds), Recorder(scenario.in_a_pass, scenario.strategy.miss_state), trace)


def _replayed(
    scenario: Scenario, seed: int, stopping: Stopping, recorder: Recorder, trace: Trace | None
) -> Mapping[str, float]:
    """Replay rounds as events; return the busy seconds of each role."""
    _check_countable(scenario)
    outcome_seed, step_seed, *other_seeds = _seeds(scenario, seed)
    outcomes = long_run_source(scenario.drawn_from, scenario.in_a_pass, outcome_seed)
    others = _others(scenario, other_seeds)
    return EventRun(scenario, outcomes, step_seed, stopping, recorder, trace, others).play()


def _seeds(scenario: Scenario, seed: int) -> list[np.random.SeedSequence]:
    """Seeds of outcomes, of steps, and of the outcomes of targets beside the first one."""
    return np.random.SeedSequence(seed).spawn(1 + scenario.devices.served)


def simulate_requests(
    scenario: Scenario,
    tokens: int,
    *,
    runs: int = 100,
    seed: int = 0,
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> SimulatedRounds:
    """Start ``batch`` sequences together and run, as events, until each has ``tokens``; ``runs`` independent times.

    A finished sequence keeps its place: durations stay those of the whole batch.

    Parameters
    ----------
    scenario : of :func:`ssdsim.configure`, one a strategy.
    tokens : that every sequence must have.
    runs : independent ones, over which the means are taken.
    seed, confidence : as of :func:`simulate`.
    progress : hears how many runs are done.

    Returns
    -------
    Means over the rounds of all runs, as :func:`simulate` gives them.

    Raises
    ------
    InputError : ``tokens`` or ``runs`` is not a whole number of at least 1, or another number is out of its range.
    """
    _check_run(scenario, seed, confidence)
    whole("tokens", tokens, 1, MOST_OUTPUT_TOKENS)
    whole("runs", runs, 1, _MOST_COUNTED)
    _check_countable(scenario)
    kinds = scenario.drawn_from
    if isinstance(kinds, Mix):
        kinds = replace(kinds, output_tokens=tokens)
    recorder = Recorder(scenario.in_a_pass, scenario.strategy.miss_state)
    busy_s: dict[str, float] = {}
    for number, child in enumerate(np.random.SeedSequence(seed).spawn(runs), 1):
        outcome_seed, step_seed, *other_seeds = child.spawn(1 + scenario.devices.served)
        block = outcomes_until(outcome_source(kinds, scenario.in_a_pass, outcome_seed), tokens)
        stopping = Stopping(block.rounds, largest_block=block.rounds, batches=1)
        others = _others(scenario, other_seeds)
        run = EventRun(scenario, ReplayedOutcomes(block), step_seed, stopping, recorder, others=others)
        for role, seconds in run.play().items():
            busy_s[role] = busy_s.get(role, 0.0) + seconds
        if progress is not None:
            progress(number, runs)
    return _summary(scenario, recorder, busy_s, confidence)


def _others(scenario: Scenario, seeds: Sequence[np.random.SeedSequence]) -> list[OutcomeSource]:
    """Outcomes of the targets that share the first one's draft."""
    return [long_run_source(scenario.drawn_from, scenario.in_a_pass, seed) for seed in seeds]


def _check_run(scenario: Scenario, seed: int, confidence: float) -> None:
    """Raise :class:`InputError` for what no run can be of."""
    if not isinstance(scenario, Scenario):
        raise InputError(f"a scenario must be one of configure(...).scenarios, got {short_repr(scenario)}")
    whole("seed", seed, 0)
    within("confidence", confidence, 0.01, 0.999999)


def _check_countable(scenario: Scenario) -> None:
    """Raise :class:`InputError` if a round may have more tokens than outcomes have bits for."""
    most = scenario.in_a_pass * (scenario.tokens.p.shape[-2] - 1)
    if most > MOST_TOKENS_A_ROUND:
        raise InputError(
            f"a simulated round has at most {MOST_TOKENS_A_ROUND:,} tokens, batch {scenario.batch} may have {most:,}: "
            "take fewer sequences, or --solver closed"
        )


def _summary(scenario: Scenario, recorder: Recorder, busy_s: Mapping[str, float], confidence: float) -> SimulatedRounds:
    means, caches = recorder.means, scenario.strategy.miss_state is not None
    rounds = means.total("rounds")
    rare = _rare_tokens(scenario.tokens, means.total("sequence_rounds"), confidence)
    p_all_hit = means.share("clean", "rounds", confidence) if caches else None
    round_s = means.ratio("seconds", "rounds", confidence)
    if p_all_hit is not None:
        state = scenario.strategy.miss_state
        assert state is not None
        with_miss, clean = (scenario.strategy.parts(scenario.seconds, Always(state, share)) for share in (1.0, 0.0))
        round_s = _with_rare_rounds(round_s, p_all_hit, float(sum(with_miss.values()) - sum(clean.values())))
    return SimulatedRounds(
        strategy=scenario.strategy.name,
        batch=scenario.batch,
        gpus=scenario.gpus,
        rounds=int(rounds),
        tokens_per_second=_at_least(rare, _of_all(scenario, means.ratio("tokens", "seconds", confidence))),
        tokens_per_round=_at_least(rare, means.ratio("tokens", "sequence_rounds", confidence)),
        round_s=round_s,
        p_hit=means.share("hits", "sequence_rounds", confidence) if caches else None,
        p_all_hit=p_all_hit,
        clean_round_s=_per(means.total("seconds") - means.total("missed_seconds"), means.total("clean")),
        missed_round_s=_per(means.total("missed_seconds"), means.total("missed")),
        breakdown_s={part: means.total(part) / rounds for part in PARTS},
        utilisation={role: seconds / means.total("seconds") for role, seconds in busy_s.items()},
        round_histogram=recorder.round_s,
    )


def _rare_tokens(tokens: Tokens, rounds: float, confidence: float) -> float:
    """The half width, of a mean of 1, that independent rounds have, where nearly all yield as many tokens; else 0.

    Batches may not show an event that is rarer than the rounds.
    """
    yields = tokens.yields
    if rounds * (1.0 - yields.max()) >= FEW:
        return 0.0
    count = np.arange(yields.size)
    mean = float(yields @ count)
    variance = float(yields @ (count - mean) ** 2)
    return student_quantile(confidence, max(1, int(rounds) - 1)) * math.sqrt(variance / rounds) / mean


def _of_all(scenario: Scenario, rate: Measured) -> Measured:
    """The rate of all microbatches of a batch, of which one is drawn."""
    times = scenario.batch / scenario.in_a_pass
    return rate if times == 1.0 else Measured(times * rate.value, times * rate.low, times * rate.high)


def _at_least(half: float, mean: Measured) -> Measured:
    """A mean whose interval is no narrower than this share of it on both sides."""
    return Measured(mean.value, min(mean.low, mean.value * (1.0 - half)), max(mean.high, mean.value * (1.0 + half)))


def _per(seconds: float, rounds: float) -> float:
    return seconds / rounds if rounds else float("nan")


def _with_rare_rounds(round_s: Measured, p_all_hit: Measured, fallback_s: float) -> Measured:
    """Widen a mean round's interval by that of rare clean (or rare missed) rounds, which batches may hardly show."""
    return Measured(
        round_s.value,
        min(round_s.low, round_s.value - (p_all_hit.high - p_all_hit.value) * fallback_s),
        max(round_s.high, round_s.value + (p_all_hit.value - p_all_hit.low) * fallback_s),
    )


def run_as_json(run: SimulatedRounds, unit: str) -> dict[str, Any]:
    """One strategy of ``ssdsim simulate --json``; durations in ms, or in T_v where they are unit-free."""
    scale = 1e3 if unit == "s" else 1.0
    quantiles = {f"p{100 * q:.0f}": q for q in QUANTILES}
    rounds = {p: scale * run.round_histogram.quantile(q) for p, q in quantiles.items()}
    return document(
        {
            **picked(
                run, "rounds", "gpus", "tokens_per_second", "tokens_per_round", "burst_share", "p_hit", "p_all_hit"
            ),
            "utilisation": run.utilisation,
            "tpot_ms": scale * run.tpot_s,
            "round_ms": {**run.round_s.as_mean(scale), **rounds},
            "gap_ms": {p: scale * run.gap_quantile_s(q) for p, q in quantiles.items()},
            "clean_round_ms": scale * run.clean_round_s,
            "missed_round_ms": scale * run.missed_round_s,
            "breakdown_ms": {part: scale * seconds for part, seconds in run.breakdown_s.items()},
        },
        {Measured: Measured.as_mean},
    )
