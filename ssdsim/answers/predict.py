"""Predict AR, SD and SSD from one scenario, with intervals, and say which is worth its devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ssdsim.answers.verdict import Verdict, verdict
from ssdsim.answers.verdict import as_json as verdict_json
from ssdsim.checks import whole
from ssdsim.engine.simulate import Engine, simulate
from ssdsim.errors import InputError, nearest
from ssdsim.hardware.provenance import summary
from ssdsim.intervals import Interval, centred_on
from ssdsim.rounds.estimate import PARTS, Estimate
from ssdsim.rounds.scenario import Scenario, Stationary
from ssdsim.scenario.configuration import Configuration, configure
from ssdsim.strategies import autoregressive, speculative, ssd

STRATEGIES = ("ar", "sd", "ssd")
PredictEngine = Literal["auto", "closed", "mc", "des"]
_PRECISION = {"mc": 0.001, "des": 0.005}  # of tokens/s: a second or so each
DRAWS = 1000  # of the timings' errors; the 95 % bounds then wander by a few percent of their width


@dataclass(frozen=True)
class Prediction:
    """The stationary round of each strategy, with 95 % intervals of tokens/s from the profile's held-out errors."""

    configuration: Configuration
    engine: str
    estimates: Mapping[str, Estimate]
    intervals: Mapping[str, Interval | None]
    verdict: Verdict

    @property
    def unit(self) -> str:
        """``s``, or ``T_v`` where durations are unit-free."""
        return "s" if self.configuration.costs else "T_v"


def predict(*, seed: int = 0, engine: PredictEngine = "auto", **options: Any) -> Prediction:
    """Predict AR, SD and SSD for one scenario.

    Parameters
    ----------
    seed : of the timings' errors behind the intervals, and of a simulation.
    engine : ``closed`` form, ``mc`` (Monte Carlo) or ``des`` (events); ``auto`` takes the cheapest that answers
        exactly: the closed form, or the Monte Carlo where durations have a spread.
    options : those of :func:`ssdsim.configure` (``b``, ``k``, ``alpha``, ``p_hit``, ``hardware``, ...).

    Returns
    -------
    Prediction : ``estimates[name]`` of each strategy (``tokens_per_second`` over the whole batch, ``round_s``, ...),
        ``intervals[name]`` of its tokens/s at 95 % (None where times are unit-free and exact), the ``verdict`` on SSD,
        and the ``configuration`` with every effective value and its source.

    Raises
    ------
    InputError : an unknown engine, a seed below 0, what :func:`ssdsim.configure` raises, or the closed form for
        durations with a spread.

    >>> round(predict(t_sd=0.2, alpha=0.9, k=5, p_hit=0.85).verdict.ssd_over_sd, 3)
    1.165
    """
    whole("--seed", seed, 0)
    engines = ("auto", "closed", *_PRECISION)
    if not isinstance(engine, str) or engine not in engines:
        raise InputError(f"unknown engine '{engine}'{nearest(engine, engines)} Allowed: {', '.join(engines)}")
    return predict_configured(configure(**options), seed, engine)


def predict_configured(
    configuration: Configuration, seed: int = 0, engine: PredictEngine = "auto", precision: float | None = None
) -> Prediction:
    """Predict a configuration that is already checked; ``precision`` is that of a simulation's tokens/s at 95 %.

    Raises
    ------
    InputError : the closed form is asked for durations with a spread.
    """
    if engine == "auto":
        engine = "mc" if configuration.scenario.spread > 0.0 else "closed"
    if engine == "closed":
        check_constant(configuration.scenario.spread)
        estimates, errors = estimate_all(configuration.scenario), dict.fromkeys(STRATEGIES, 0.0)
    else:
        estimates, errors = _simulate_all(configuration.scenario, engine, seed, precision or _PRECISION[engine])
    sampled = configuration.sampled(DRAWS, seed)
    draws = _rate_draws(estimates, errors, sampled, seed)
    intervals = {name: Interval.of(draws[name]) if draws else None for name in STRATEGIES}
    return Prediction(configuration, engine, estimates, intervals, verdict(estimates, draws))


def check_constant(spread: float) -> None:
    """Raise :class:`InputError` where durations have a spread: the closed forms do not answer then."""
    if spread > 0.0:
        raise InputError("--engine closed needs constant durations (--spread 0); mc or des replay varying ones")


def _simulate_all(
    scenario: Scenario, engine: Engine, seed: int, precision: float
) -> tuple[dict[str, Estimate], dict[str, float]]:
    """Estimates by simulation, and the relative standard errors of their tokens/s."""
    estimates, errors = {}, {}
    for name in STRATEGIES:
        run = simulate(scenario, name, engine=engine, precision=precision, seed=seed)
        rate = run.tokens_per_second
        errors[name] = (rate.high - rate.low) / 2.0 / 1.96 / rate.value
        estimates[name] = Estimate(
            strategy=name,
            batch=run.batch,
            gpus=run.gpus,
            tokens_per_round=run.tokens_per_round.value,
            breakdown_s=run.breakdown_s,
            p_hit=run.p_hit.value if name == "ssd" else None,
            p_all_hit=run.p_all_hit.value if name == "ssd" else None,
        )
    return estimates, errors


def _rate_draws(
    estimates: Mapping[str, Estimate], errors: Mapping[str, float], sampled: Scenario | None, seed: int
) -> dict[str, NDArray[np.float64]] | None:
    """Draws of tokens/s under the timings' errors and the simulation's own; None where there are neither.

    The timings' errors move the closed form; a simulated mean is moved by the same factor.
    """
    if sampled is None and not any(errors.values()):
        return None
    rng = np.random.default_rng(seed)
    draws = {}
    for name, estimate in estimates.items():
        draws[name] = float(estimate.tokens_per_second) * np.exp(errors[name] * rng.standard_normal(DRAWS))
        if sampled is not None:
            closed = np.asarray(estimate_all(sampled)[name].tokens_per_second) * np.ones(DRAWS)
            draws[name] = centred_on(draws[name], closed)
    return draws


def estimate_all(scenario: Stationary) -> dict[str, Estimate]:
    """The closed forms of the three strategies, of one scenario or of columns of them."""
    return {
        "ar": autoregressive.closed_form(scenario),
        "sd": speculative.closed_form(scenario),
        "ssd": ssd.closed_form(scenario),
    }


def as_json(prediction: Prediction) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim predict --json`` (schema 1); durations are in ms, or in T_v unit-free."""
    configuration = prediction.configuration
    return {
        "schema": 1,
        "unit": prediction.unit,
        "engine": prediction.engine,
        "scenario": {
            name: {"value": _plain(value), "source": configuration.sources.get(name, "derived")}
            for name, value in configuration.values.items()
        },
        "strategies": {name: _strategy_json(prediction, name) for name in STRATEGIES},
        "verdict": verdict_json(prediction.verdict),
        "provenance": provenance(configuration),
        "warnings": list(configuration.warnings),
    }


def _strategy_json(prediction: Prediction, name: str) -> dict[str, Any]:
    estimate, interval = prediction.estimates[name], prediction.intervals[name]
    scale = 1e3 if prediction.unit == "s" else 1.0
    rate = float(estimate.tokens_per_second)
    round_time = scale * float(estimate.round_s)
    paper = estimate.paper_tokens_per_second
    return {
        "tokens_per_second": rate,
        "tokens_per_second_per_sequence": rate / estimate.batch,
        "tokens_per_second_per_gpu": rate / estimate.gpus,
        "gpus": estimate.gpus,
        "tpot_ms": round_time / estimate.tokens_per_round,
        "tokens_per_round": estimate.tokens_per_round,
        "round_ms": round_time,
        "breakdown_ms": {part: scale * float(estimate.breakdown_s[part]) for part in PARTS},
        "speedup_over_ar": rate / float(prediction.estimates["ar"].tokens_per_second),
        "speedup_over_sd": rate / float(prediction.estimates["sd"].tokens_per_second),
        "p_hit": estimate.p_hit,
        "p_all_hit": estimate.p_all_hit,
        "paper_tokens_per_second": None if paper is None else float(paper),
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }


def provenance(configuration: Configuration) -> list[dict[str, str]]:
    """Where the timings came from, a record a profile; empty when unit-free."""
    placement = configuration.placement
    if placement is None:
        return []
    dtypes = {placement.dtype or placement.target.dtype, placement.dtype or placement.draft.dtype}
    profiles = {p.name: p for p in (placement.profile, placement.draft_profile)}
    return [{"profile": name, "summary": summary(p, dtypes, placement.tp)} for name, p in profiles.items()]


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
