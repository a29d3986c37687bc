"""Predict strategies from one configuration, with intervals, and say which is worth its devices."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from ssdsim.answers.columns import COLUMNS, prediction_table
from ssdsim.answers.decision import RULES, Candidate, Decision, Rule, decide, knowable, knowable_timings, share_fastest
from ssdsim.answers.draft_elsewhere import Elsewhere, elsewhere
from ssdsim.answers.over_c import AtC, over_c
from ssdsim.answers.own_best import Looked, Variant, at_their_best
from ssdsim.answers.turning import measurable, turning
from ssdsim.answers.verdict import Rates, Verdict, verdict
from ssdsim.base.checks import Array, whole
from ssdsim.base.display import Display, Displayable
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.intervals import Draws, Interval, low_and_high
from ssdsim.base.plain import document, picked
from ssdsim.base.record import Record, field, replace
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.configuration import Configuration
from ssdsim.question.many import DrawnRates, RateDraws
from ssdsim.question.option_usage import check_owners, check_read
from ssdsim.question.options import DEFAULTS
from ssdsim.question.prompts import prompts_told
from ssdsim.question.scenario import Scenario
from ssdsim.question.spellings import any_spelling
from ssdsim.rounds.round import Estimate
from ssdsim.strategies.ar import Autoregressive as AR

if TYPE_CHECKING:
    from ssdsim.answers.energy import Energy
    from ssdsim.answers.simulation.simulate import Solver
    from ssdsim.base.progress import Progress
    from ssdsim.question.typed_options import Options

PredictSolver = Literal["auto", "closed", "mc", "des"]
_PRECISION = {"mc": 0.001, "des": 0.005}  # of tokens/s: a second or so each
_MOST_ROUNDS = {"mc": 2_000_000, "des": 100_000}
"""The longest run: where requests or durations differ much it ends here, with a wider interval, not after minutes."""
_MOST_OF_A_SEQUENCE, _LEAST_ROUNDS = {"mc": 32_000_000, "des": 1_600_000}, 1000
"""The same of all sequences together: a round of thousands takes as much longer."""
DRAWS = 1000  # of the errors; the 95 % bounds then wander by a few percent of their width


class Prediction(Displayable, Record):
    """The stationary round of each strategy at its own best, with 95 % intervals of tokens/s from all errors.

    ``over_c`` is what Saguaro's C makes of each strategy for which it was searched.
    ``energy`` is what each strategy draws, where that was asked for.
    ``draft_elsewhere`` are other places as good as the one that was given for a draft.
    ``seen`` are the ranges of the acceptance and of the hit rate over which the draws go, where these are not certain.
    """

    configuration: Configuration
    solver: str
    estimates: Mapping[str, Estimate]
    intervals: Mapping[str, Interval | None]
    verdict: Verdict
    draws: Mapping[str, RateDraws] | None = None
    seen: Mapping[str, tuple[float, float]] = MappingProxyType({})
    over_c: Mapping[str, tuple[AtC, ...]] = MappingProxyType({})
    energy: Mapping[str, Energy] = field(default_factory=dict)
    draft_elsewhere: tuple[Elsewhere, ...] = ()

    @property
    def decision(self) -> Decision[Variant]:
        """What is chosen, by which rule, and what that loses."""
        return self.verdict.decision

    @cached_property
    def rates(self) -> Rates:
        return Rates.of(self.estimates, self.draws, self.configuration.devices)

    def c(self, name: str) -> float:
        """Saguaro's C of a strategy."""
        return float(self.configuration.scenarios[name].settings["saguaro_c"])

    def probability(self, name: str, rival: str) -> float | None:
        """P(a strategy is faster than another) under all errors; None without errors, or without room."""
        if self.draws is None or not {name, rival} <= self.draws.keys():
            return None
        return float(share_fastest(self.draws[name].joint, [self.draws[rival].joint]))

    @cached_property
    def prompts(self) -> str:
        """What prompts would change of the best one's ratio to AR, where requests keep coming; else empty."""
        answer = self.configuration.settings.get("output_tokens", DEFAULTS["output_tokens"])
        return prompts_told(self.configuration.site, answer, self._shown, self.verdict.best, AR.name)

    @property
    def _shown(self) -> dict[str, Estimate]:
        """The estimates with the rates that are shown, the medians of the draws."""
        by = {name: self.rates.rates[name] / self.rates.shown(name) for name in self.estimates}
        return {
            name: replace(each, breakdown_s={part: by[name] * s for part, s in each.breakdown_s.items()})
            for name, each in self.estimates.items()
        }

    @property
    def display(self) -> Display:
        v = self.verdict
        return prediction_table(self.configuration, self.estimates, self.intervals, v.subject, v.sentence)

    @property
    def unit(self) -> str:
        """``s``, or ``T_v`` where durations are unit-free."""
        return self.configuration.unit


@any_spelling
def predict(
    *,
    seed: int = 0,
    solver: PredictSolver = "auto",
    rule: Rule = "mean-log",
    energy: bool = False,
    progress: Progress | None = None,
    **options: Unpack[Options],
) -> Prediction:
    """Predict how fast strategies decode, each at its own best K, and say which is the fastest.

    Parameters
    ----------
    options : those of :func:`ssdsim.configure`, such as ``b``, ``k``, ``alpha``, ``p_hit``; ``strategies`` and
        ``subject`` say which are predicted and which one the verdict is about.
    solver : ``auto`` takes the cheapest that answers exactly: the closed form, or the Monte Carlo where durations
        have a spread.
    seed : of the draws of what is not known, and of a simulation.
    rule : by which the fastest is chosen, and each strategy's K; :mod:`ssdsim.answers.decision` says how.
    energy : joules a token and watts a GPU of each strategy, too (``.energy``), on hardware whose watts are known.
    progress : hears how far a simulation is.

    Returns
    -------
    ``estimates[name].tokens_per_second`` over the whole batch, ``intervals[name]`` at 95 %, and the ``verdict``.

    Raises
    ------
    InputError : one line that says what, where, and what is allowed; or no strategy has room.

    >>> round(predict(t_sd=0.2, alpha=0.9, k=5, p_hit=0.85).verdict.over["sd"].ratio, 3)
    1.165
    """
    whole("--seed", seed, 0)
    solvers = ("auto", "closed", *_PRECISION)
    if not isinstance(solver, str) or solver not in solvers:
        raise InputError(f"unknown solver '{solver}'{nearest(solver, solvers)} Allowed: {', '.join(solvers)}")
    if not isinstance(rule, str) or rule not in RULES:
        raise InputError(f"unknown rule '{rule}'{nearest(rule, RULES)} Allowed: {', '.join(RULES)}")
    check_owners(options)
    rates = DrawnRates(TimingErrors(DRAWS, seed))
    configuration, looked = at_their_best(options, rates, rule)
    check_read(options, [options], configuration)
    predicted = predict_configured(configuration, looked, rates, solver, progress=progress, rule=rule)

    def there(options: Mapping[str, Any]) -> Prediction:
        return predict_configured(*at_their_best(options, rates, rule), rates, rule=rule)

    if predicted.solver == "closed":  # simulated, two more predictions would take twice as long again
        predicted = replace(predicted, draft_elsewhere=elsewhere(predicted, there))
    return with_energy(predicted, rates.errors) if energy else predicted


def with_energy(prediction: Prediction, errors: TimingErrors) -> Prediction:
    """The prediction with what each strategy draws, by the errors that it was drawn with."""
    from ssdsim.answers.energy import energy  # here: who asks for no joules starts faster

    rates = prediction.draws or {}
    return replace(
        prediction,
        energy={
            name: energy(each, rates[name].joint if rates else float(each.estimate.tokens_per_second), errors)
            for name, each in prediction.configuration.scenarios.items()
        },
    )


def predicted(
    options: Mapping[str, Any], seed: int = 0, solver: PredictSolver = "auto", precision: float | None = None
) -> Prediction:
    """Predict options of a point of many: they may be without effect there."""
    rates = DrawnRates(TimingErrors(DRAWS, seed))
    return predict_configured(*at_their_best(options, rates), rates, solver, precision)


def predict_configured(
    configuration: Configuration,
    looked: Mapping[str, Sequence[Looked]],
    rates: DrawnRates,
    solver: PredictSolver = "auto",
    precision: float | None = None,
    progress: Progress | None = None,
    rule: Rule = "mean-log",
) -> Prediction:
    """Predict a configuration whose settings were chosen among those ``looked`` at, with draws by ``rates``.

    ``precision`` is that of a simulation's tokens/s at 95 %. Where none is asked for, a simulation takes seconds, and
    its interval is as wide as that leaves it.
    """
    seed = rates.errors.seed
    scenarios = configuration.scenarios
    spread = configuration.settings["spread"]
    if solver == "auto":
        solver = "mc" if spread > 0.0 else "closed"
    if solver == "closed":
        check_constant(spread)
        estimates, errors = {n: s.estimate for n, s in scenarios.items()}, dict.fromkeys(scenarios, 0.0)
    else:
        estimates, errors = _simulate_all(scenarios, solver, seed, precision, progress)
    drawn = None if configuration.is_sure else rates
    draws = _rate_draws(scenarios, estimates, errors, drawn, seed, looked)
    intervals = {name: Interval.of(draws[name].joint) if draws else None for name in scenarios}
    shown, known, inputs = Rates.of(estimates, draws, configuration.devices), dict[str, Array](), dict[str, Array]()
    if drawn is not None:
        known = knowable([each.known for each in scenarios.values()], drawn.errors)
        known |= knowable_timings((draws or {}).values())
        inputs = measurable(scenarios.values(), drawn.errors)
    candidates, speeds, points = _candidates(scenarios, shown, looked)
    decision = decide(candidates, speeds, known, rule, points)
    turns = turning(decision, candidates, speeds, inputs)
    decided = verdict(configuration.subject, shown, decision, configuration.refused, turns)
    seen = {name: (float(of.min()), float(of.max())) for name, of in inputs.items()}
    by_c = {name: found for name in scenarios if (found := over_c(looked.get(name, ())))}
    return Prediction(configuration, solver, estimates, intervals, decided, draws, seen, by_c)


def _candidates(
    scenarios: Mapping[str, Scenario], rates: Rates, looked: Mapping[str, Sequence[Looked]]
) -> tuple[list[Candidate[Variant]], dict[Variant, Draws], dict[Variant, float]]:
    """All that was looked at, with draws of its speed, and that at the values that are shown.

    What is predicted by a simulation moves all of a strategy's settings.
    """
    every = {name: looked.get(name) or [Looked((name, ()), each, np.ones(1))] for name, each in scenarios.items()}
    speeds: dict[Variant, Draws] = {}
    points: dict[Variant, float] = {}
    for name, some in every.items():
        chosen = next(each for each in some if each.scenario is scenarios[name])
        joint = np.full(1, rates.rates[name]) if rates.draws is None else rates.draws[name].joint
        for each in some:
            rate = float(each.scenario.estimate.tokens_per_second) / float(chosen.scenario.estimate.tokens_per_second)
            points[each.key] = rates.rates[name] * rate
            moved = rate if rates.draws is None else each.draws / chosen.draws
            speeds[each.key] = joint * moved
    return [each.candidate for some in every.values() for each in some], speeds, points


def check_constant(spread: float) -> None:
    """Raise :class:`InputError` if durations have a spread, for which there is no closed form."""
    if spread > 0.0:
        raise InputError("--solver closed needs constant durations (--spread 0); mc or des replay varying ones")


def _simulate_all(
    scenarios: Mapping[str, Scenario], solver: Solver, seed: int, precision: float | None, progress: Progress | None
) -> tuple[dict[str, Estimate], dict[str, float]]:
    """Estimates by simulation, and the relative standard errors of their tokens/s."""
    from ssdsim.answers.simulation.simulate import (
        simulate,  # here, because the closed form needs no clock, and starts faster
    )
    from ssdsim.answers.simulation.statistics import MOST_ROUNDS, InTurn

    estimates, errors, heard = {}, {}, InTurn(progress, len(scenarios))
    for at, (name, scenario) in enumerate(scenarios.items()):
        how, most = precision or _PRECISION[solver], MOST_ROUNDS
        if precision is None:
            most = min(_MOST_ROUNDS[solver], max(_LEAST_ROUNDS, _MOST_OF_A_SEQUENCE[solver] // scenario.batch))
        run = simulate(scenario, solver=solver, precision=how, seed=seed, most=most, progress=heard.of(at))
        rate = run.tokens_per_second
        errors[name] = (rate.high - rate.low) / 2.0 / 1.96 / rate.value
        estimates[name] = Estimate(
            strategy=name,
            batch=run.batch,
            gpus=run.gpus,
            tokens_per_round=run.tokens_per_round.value,
            breakdown_s=run.breakdown_s,
            p_hit=run.p_hit.value if run.p_hit else None,
            p_all_hit=run.p_all_hit.value if run.p_all_hit else None,
        )
    return estimates, errors


def _rate_draws(
    scenarios: Mapping[str, Scenario],
    estimates: Mapping[str, Estimate],
    simulation_errors: Mapping[str, float],
    rates: DrawnRates | None,
    seed: int,
    looked: Mapping[str, Sequence[Looked]],
) -> dict[str, RateDraws] | None:
    """Draws of tokens/s under all errors, the simulation's own among them; None without errors.

    Errors move the closed form; a simulated mean moves by the same factor.
    """
    if rates is None and not any(simulation_errors.values()):
        return None
    rng = np.random.default_rng(seed)
    draws = {}
    for name, scenario in scenarios.items():
        noise = np.exp(simulation_errors[name] * rng.standard_normal(DRAWS))
        rate = float(estimates[name].tokens_per_second)
        if rates is None:
            draws[name] = RateDraws(rate * noise, rate * noise)
            continue
        found = next((each.draws for each in looked.get(name, ()) if each.scenario is scenario), None)
        made = (
            RateDraws.of(scenario, rates.errors, rates)
            if found is None
            else RateDraws(found, rates.of_timings(scenario))
        )
        draws[name] = made.scaled(rate * noise / float(scenario.estimate.tokens_per_second))
    return draws


def as_json(prediction: Prediction) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim predict --json`` (schema 5); durations are in ms, or in T_v unit-free."""
    return document(
        {
            "schema": 5,
            **picked(prediction, "unit", "solver"),
            "verdict": _verdict(prediction),
            **configured(prediction.configuration),
            "strategies": {name: _strategy(prediction, name) for name in prediction.estimates},
            **picked(prediction, "prompts", "draft_elsewhere"),
            "warnings": prediction.configuration.warnings,
        }
    )


def _verdict(prediction: Prediction) -> dict[str, Any]:
    verdict, decision = prediction.verdict, prediction.decision
    losses = {name: decision.losses[key] for name, key in decision.best_of.items()}
    return {
        **picked(verdict, "subject", "best", "over", "sentence", "sure", "turns"),
        **picked(decision, "word", "rule", "loss", "ahead_in", "best_in", "gain_of_knowing"),
        "losses": losses,
        "by_rule": {by: {"strategy": name, **dict(settings)} for by, (name, settings) in decision.by_rule.items()},
    }


def configured(configuration: Configuration, left_out: Collection[str] = ()) -> dict[str, Any]:
    """Each option with the source of its value, without those left out, and what the numbers rest on."""
    settings = configuration.settings
    shown = {name: value for name, value in settings.items() if name not in left_out}
    return {
        "scenario": {name: {"value": value, "source": settings.source(name)} for name, value in shown.items()},
        **picked(configuration, "no_room", "cannot_run", "provenance", "runtime", "pair", "inputs"),
    }


def _strategy(prediction: Prediction, name: str) -> dict[str, Any]:
    estimate, seconds = prediction.estimates[name], prediction.unit == "s"
    rates = {other: each.tokens_per_second for other, each in prediction.estimates.items()}
    scenario, likely = prediction.configuration.scenarios[name], prediction.rates.likely(name)
    return {
        "k": scenario.strategy.lookahead(scenario.settings) if scenario.strategy.drafts else None,
        "settings": dict(prediction.decision.best_of[name][1]),
        "over_c": prediction.over_c.get(name, ()),
        "median": prediction.rates.shown(name),
        "likely": likely,
        **{column.key: column.value(estimate, seconds) for column in COLUMNS},
        "breakdown_ms": {part: (1e3 if seconds else 1.0) * part_s for part, part_s in estimate.breakdown_s.items()},
        "speedup_over": {other: rates[name] / rate for other, rate in rates.items() if other != name},
        **low_and_high(prediction.intervals[name]),
        **({"energy": _energy(prediction.energy[name])} if prediction.energy else {}),
    }


def _energy(energy: Energy) -> dict[str, Any]:
    return {
        **picked(energy, "joules_per_token", "watts_per_gpu"),
        "watts": {each.role: each.watts for each in energy.by_role},
        "watts_at_rest": {each.role: each.law.idle_w for each in energy.by_role},
    }
