"""The verdict on what is compared: who is the fastest, each at its own best, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ssdsim import strategies
from ssdsim.answers.decision import Decision
from ssdsim.answers.own_best import Variant
from ssdsim.answers.turning import Bound, conditions
from ssdsim.base.display import Display, Displayable
from ssdsim.base.errors import Shortage
from ssdsim.base.intervals import Interval, bounds_95, median, quantiles
from ssdsim.base.record import Record
from ssdsim.pricing.occupancy import format_count
from ssdsim.question.many import RateDraws
from ssdsim.rounds.round import Estimate

_NAMED = 2  # strategies in a sentence, besides the first
_FASTER = 1.005  # a ratio that does not round to 1.00
_AS_MUCH = 0.03  # of the cost of a token
_TOLD_GAIN = 0.02  # what measuring must gain to be told
_TOLD_LOSS = 0.005  # what rounds to 0 %


class Over(Record):
    """One strategy's tokens/s over another's under the same draws: the median ratio and its likely (80 %) range.

    ``low`` and ``high`` are its 95 % interval; ``probability_faster`` and ``probability_cheaper`` are the shares of
    draws in which it is faster, and in which it needs fewer GPU seconds a token. All but the ratio are None where
    nothing is uncertain.
    """

    ratio: float
    likely_low: float | None = None
    likely_high: float | None = None
    low: float | None = None
    high: float | None = None
    probability_faster: float | None = None
    probability_cheaper: float | None = None

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval."""
        return None if self.low is None or self.high is None else Interval(self.low, self.high)


class Verdict(Displayable, Record):
    """Who is the ``best``, and the ``subject`` over each rival, the most important rival first.

    ``sentence`` is the answer, ``sure`` how sure it is, and ``turns`` where another one would be the best. All follow
    from the ``decision``.
    """

    subject: str
    best: str
    over: Mapping[str, Over]
    sentence: str
    sure: str
    decision: Decision[Variant]
    turns: str = ""

    @property
    def display(self) -> Display:
        """A row a rival."""
        rows = [
            (
                title_of(rival),
                f"{over.ratio:.2f}x",
                "-" if over.likely_low is None else f"{over.likely_low:.2f}-{over.likely_high:.2f}",
                "-" if over.probability_faster is None else _in_100(over.probability_faster),
            )
            for rival, over in self.over.items()
        ]
        title = f"The verdict on {title_of(self.subject)}"
        return Display(title, ("over", "ratio", "likely", "faster in"), rows, self.sentence)


class Rates(Record):
    """Tokens/s and GPUs of each strategy at its best, and draws of the rates; None where nothing is uncertain.

    ``devices`` is what its GPUs are called.
    """

    rates: Mapping[str, float]
    gpus: Mapping[str, float]
    draws: Mapping[str, RateDraws] | None
    devices: str = "GPUs"

    @classmethod
    def of(cls, estimates: Mapping[str, Estimate], draws: Mapping[str, RateDraws] | None, devices: str) -> Rates:
        rates = {name: float(each.tokens_per_second) for name, each in estimates.items()}
        return cls(rates, {name: float(each.gpus) for name, each in estimates.items()}, draws, devices)

    def shown(self, name: str) -> float:
        """The median of the draws; where tokens are certain it is the prediction itself."""
        return self.rates[name] * (1.0 if self.draws is None else off_centre(self.draws[name]))

    def likely(self, name: str) -> tuple[float, float] | None:
        """The 80 % range."""
        if self.draws is None:
            return None
        low, high = quantiles(self.draws[name].joint, 0.1, 0.9)
        return float(low), float(high)

    def over(self, name: str, rival: str) -> Over:
        ratio, devices = self.rates[name] / self.rates[rival], self.gpus[rival] / self.gpus[name]
        if self.draws is None:
            return Over(ratio)
        own, its = self.draws[name], self.draws[rival]
        joint = own.joint / its.joint
        ratio *= float(median(joint / (own.timings / its.timings)))
        (low, high), (likely_low, likely_high) = bounds_95(joint), quantiles(joint, 0.1, 0.9)
        cheaper = _share_above_1(joint * devices)
        return Over(
            ratio,
            float(likely_low),
            float(likely_high),
            float(low),
            float(high),
            _share_above_1(joint),
            cheaper,
        )


def off_centre(draws: RateDraws) -> float:
    """The median of the draws over what the shown values of acceptance and hits predict."""
    return float(median(draws.joint / draws.timings))


def _share_above_1(ratios: Any) -> float:
    return float(np.mean(ratios > 1.0) + np.mean(ratios == 1.0) / 2.0)


def verdict(
    subject: str,
    rates: Rates,
    decision: Decision[Variant],
    refused: Mapping[str, str],
    turns: Sequence[Bound] = (),
) -> Verdict:
    """The verdict on what is compared; ``refused`` says why others cannot run, ``turns`` where the best is another."""
    best = decision.chosen[0]
    over = (
        {} if subject in refused else {rival: rates.over(subject, rival) for rival in rivals(subject, [*rates.rates])}
    )
    said = [_headline(rates, decision)]
    if subject in refused:
        said.insert(0, cannot_run(subject, refused[subject]))
    sure = how_sure(decision, rates) if rates.draws else ""
    return Verdict(subject, best, over, " ".join(said), sure, decision, _turns(decision, turns))


def _headline(rates: Rates, decision: Decision[Variant]) -> str:
    """Who is the fastest, by how much, and what that costs."""
    best = decision.chosen[0]
    if decision.runner_up is None:
        return stands_alone(best)
    second = decision.runner_up[0]
    others = [second, *(name for name in rivals(best, [*rates.rates]) if name != second)]
    told = [f"{rates.over(best, name).ratio:.2f}x {title_of(name)}" for name in others[: _NAMED + 1]]
    title, ratios = title_of(best), ", ".join(told)
    if decision.word in ("clear", "lean") and rates.over(best, second).ratio < _FASTER:
        return f"{title} is as fast as {title_of(second)}: {ratios}. {_cost(rates, best, second)}".rstrip()
    match decision.word:
        case "clear":
            head = f"{title} is the fastest: {ratios}."
        case "lean":
            head = f"{title} is probably the fastest: {ratios}."
        case "toss-up":
            head = f"{title} or {title_of(second)}: it hardly matters. {title} is {ratios}."
        case "measure first":
            head = f"Measure {decision.worth_knowing} first: {title} may be the fastest, {ratios}."
    return f"{head} {_cost(rates, best, second)}".rstrip()


def _cost(rates: Rates, best: str, second: str) -> str:
    """What a token costs with the best, where it has other GPUs."""
    own, its = rates.gpus[best], rates.gpus[second]
    if own == its:
        return ""
    cost = own / its / rates.over(best, second).ratio - 1.0
    if abs(cost) < _AS_MUCH:
        much = "about as much as"
    else:
        much = f"{percent(abs(cost))} {'more' if cost > 0.0 else 'less'} than"
    devices = rates.devices[:-1] if own == 1.0 else rates.devices
    return f"On {format_count(own)} {devices} for {format_count(its)}, a token costs {much} with {title_of(second)}."


def how_sure(decision: Decision[Variant], rates: Rates) -> str:
    """How sure a choice is: in how many draws it is faster than the next, and what it loses to the best."""
    if decision.runner_up is None:
        return ""
    best, second, loss = decision.chosen[0], decision.runner_up[0], percent(decision.loss.mean)
    first = decision.worth_knowing
    if decision.word == "measure first" and first is not None:
        saved = f"{100.0 * decision.gain_of_knowing[first]:.0f}"
        return f"to decide now loses {loss} on average; to know {first} first saves {saved} of these"
    over = rates.over(best, second)
    said = f"faster than {title_of(second)} in {_in_100(over.probability_faster or 0.0)}"
    if over.probability_cheaper is not None and rates.gpus[best] != rates.gpus[second]:
        said += f", cheaper a token in {round(100 * over.probability_cheaper)}"
    if decision.word == "toss-up":
        its = percent(decision.losses[decision.runner_up])
        return f"{said}; on average {loss} behind what perfect knowledge would choose, {title_of(second)} {its}"
    return (
        f"{said}; on average {loss} behind what perfect knowledge would choose"
        if decision.loss.mean >= _TOLD_LOSS
        else said
    )


def worth_measuring(decision: Decision[Any]) -> str:
    """What to measure first, and what it gains to know it before deciding; empty where nothing gains."""
    ranked = sorted(decision.gain_of_knowing.items(), key=lambda each: -each[1])
    told = [(name, gain) for name, gain in ranked if gain >= _TOLD_GAIN]
    if not told:
        return ""
    (first, gain), *others = told
    rest = "".join(f", {name} {percent(each)}" for name, each in others)
    return f"{first} first: to know it before deciding gains {percent(gain)}{rest}"


def _turns(decision: Decision[Variant], bounds: Sequence[Bound]) -> str:
    """The condition under which the runner-up is faster than the best."""
    if not bounds or decision.runner_up is None:
        return ""
    second, first = title_of(decision.runner_up[0]), title_of(decision.chosen[0])
    return f"{second} is faster than {first} only if {conditions(bounds)}"


def percent(share: float) -> str:
    """``9 %``."""
    return f"{100.0 * share:.0f} %"


def _in_100(share: float) -> str:
    return f"{round(100 * share)} of 100 draws"


def title_of(name: str) -> str:
    """The name by which a person knows a strategy."""
    return strategies.ALL.named(name).title


def cannot_run(name: str, why: str) -> str:
    """The sentence of a strategy that has no room, or that cannot run so."""
    lacks_room = isinstance(why, Shortage)
    return f"No room for {title_of(name)}: {why}." if lacks_room else f"{title_of(name)} cannot run so: {why}."


def stands_alone(subject: str) -> str:
    """The sentence if no other strategy is compared."""
    return f"{title_of(subject)} stands alone: name others in --strategies to hold it against them."


def rivals(subject: str, names: Sequence[str]) -> tuple[str, ...]:
    """The others among ``names``: the subject's main rival first, then from the last to the first."""
    first = strategies.ALL.named(subject).rival
    others = [name for name in reversed(names) if name != subject]
    return tuple(sorted(others, key=lambda name: name != first))
