"""The choice at a batch: the one rule, over the joint draws of every deployment that may be the best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim import strategies
from ssdsim.advise.recommend.deployment import Deployment, Shape, score, score_of_rate, worth_scoring
from ssdsim.advise.recommend.request import Rank
from ssdsim.answers.decision import Candidate, Decision, Rule, decide, knowable
from ssdsim.answers.grid import Evaluator
from ssdsim.answers.predict import DRAWS
from ssdsim.answers.turning import Bound, measurable, turning
from ssdsim.answers.verdict import off_centre
from ssdsim.base.intervals import Draws, Interval, quantiles
from ssdsim.base.record import MutableRecord, Record, field
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.many import DrawnRates, RateDraws

WORTH_DRAWING = 0.7  # of the best at the values: what is slower there is the best in hardly a draw
_OF_ITS_OWN = 0.85  # of its strategy's best, where each draw of it takes long
_TO_BE_NAMED = 0.97  # of its strategy's best, where that is too slow to be the best of all
_ROWS_AT_ONCE = 256


class RateRange(Record):
    """A rate under all that is not known: the middle of its draws, 80 of 100 of them, and 95."""

    median: float
    likely: Interval
    interval: Interval

    @classmethod
    def of(cls, rate: float, drawn: RateDraws) -> RateRange:
        """That of a rate which is exact where tokens are sure; timings alone leave it in the middle."""
        low, likely_low, likely_high, high = map(float, quantiles(drawn.joint, 0.025, 0.1, 0.9, 0.975))
        return cls(rate * off_centre(drawn), Interval(likely_low, likely_high), Interval(low, high))

    def scaled(self, by: float) -> RateRange:
        """The same of a rate that is so many times as high."""
        ends = (Interval(by * each.low, by * each.high) for each in (self.likely, self.interval))
        return RateRange(by * self.median, *ends)


class Choice(Record):
    """What is chosen at a batch, and the best of each strategy by the same rule.

    ``rates`` are their tokens/s per user, ``worth`` is what is ranked of the chosen one over theirs. ``inputs`` are the
    acceptance and the hit rate that nobody knows, as they were drawn; within ``turns`` the runner-up would be chosen.
    """

    decision: Decision[Deployment]
    by_strategy: Mapping[str, Deployment]
    rates: Mapping[str, RateRange]
    worth: Mapping[str, RateRange]
    inputs: Mapping[str, Interval]
    turns: tuple[Bound, ...]


class DeploymentDraws(MutableRecord):
    """Draws of tokens/s per user under all that is not known: a timing's error, an input's place is shared by all.

    They are made in columns: deployments of one placement differ in few numbers.
    """

    options: Mapping[str, Any]
    seed: int = 0
    evaluator: Evaluator = field(default_factory=Evaluator)
    _joint: dict[tuple[Shape, int], Draws] = field(default_factory=dict)

    @cached_property
    def errors(self) -> TimingErrors:
        return TimingErrors(DRAWS, self.seed)

    @cached_property
    def _rates(self) -> DrawnRates:
        return DrawnRates(self.errors)

    def joint(self, deployments: Iterable[Deployment]) -> dict[Deployment, Draws]:
        """Shape ``(DRAWS,)`` each."""
        cases = {deployment: (deployment.shape, deployment.copy_batch) for deployment in deployments}
        new = [case for case in dict.fromkeys(cases.values()) if case not in self._joint]
        for numbers, drawn in self._drawn(new):
            self._joint |= {new[number]: row for number, row in zip(numbers.tolist(), drawn, strict=True)}
        return {deployment: self._joint[case] for deployment, case in cases.items()}

    def _drawn(self, cases: Sequence[tuple[Shape, int]]) -> Iterator[tuple[NDArray[np.intp], Draws]]:
        found = self.evaluator.fastest([shape.point(self.options, batch) for shape, batch in cases])
        for name in dict.fromkeys(shape.strategy for shape, _ in cases):
            scenarios = found.side_by_side(name)
            for start in range(0, 0 if scenarios is None else len(scenarios), _ROWS_AT_ONCE):
                assert scenarios is not None
                at = np.arange(start, min(start + _ROWS_AT_ONCE, len(scenarios)))
                rows = scenarios.side_by_side.select(at)
                yield scenarios.rows[at], self._rates(rows) / rows.batch[:, None]

    def per_user(self, deployment: Deployment) -> RateDraws:
        """Draws of timings and tokens together, and of timings alone."""
        drawn = RateDraws.of(deployment.scenario, self.errors, self._rates)
        return drawn.scaled(1.0 / deployment.copy_batch)


def choose(
    deployments: Sequence[Deployment],
    drawn: DeploymentDraws,
    rank: Rank = "user",
    at_least: float = 0.0,
    rule: Rule = "mean-log",
) -> Choice | None:
    """The choice among those that give a user ``at_least`` so many tokens/s; None without any."""
    allowed = _worth_drawing(worth_scoring((d for d in deployments if d.per_user >= at_least), rank), rank)
    if not allowed:
        return None
    factor = {d: score_of_rate(d, rank, drawn.errors) for d in allowed}
    speeds = {d: draws * factor[d] for d, draws in drawn.joint(allowed).items()}
    points = {d: score(d, rank) for d in allowed}
    of_each = {
        name: [d for d in allowed if d.shape.strategy == name]
        for name in dict.fromkeys(d.shape.strategy for d in allowed)
    }
    tops = [max(each, key=points.__getitem__) for each in of_each.values() if each]
    known = knowable((d.scenario.known for d in tops), drawn.errors)
    candidates = [Candidate.of(d, d.shape.strategy, d.gpus, *d.shape.work) for d in allowed]
    decision = decide(candidates, speeds, known, rule, points)
    by_strategy = {name: decision.best_of[name] for name in strategies.ALL.names if name in decision.best_of}
    rates = {name: drawn.per_user(d) for name, d in by_strategy.items()}
    first = decision.chosen
    inputs = measurable([d.scenario for d in (decision.runner_up, first) if d is not None], drawn.errors)
    own_rate = rates[first.shape.strategy].scaled(factor[first])
    return Choice(
        decision,
        by_strategy,
        {name: RateRange.of(d.per_user, rates[name]) for name, d in by_strategy.items()},
        {
            name: RateRange.of(points[first] / points[d], _over(own_rate, rates[name].scaled(factor[d])))
            for name, d in by_strategy.items()
            if d != first
        },
        {what: Interval.of(values) for what, values in inputs.items()},
        turning(decision, candidates, speeds, inputs),
    )


def _worth_drawing(deployments: Sequence[Deployment], rank: Rank) -> list[Deployment]:
    """Those that may be the best of all, or of their strategy."""
    tops: dict[str, float] = {}
    for d in deployments:
        tops[d.shape.strategy] = max(tops.get(d.shape.strategy, 0.0), score(d, rank))
    bar = WORTH_DRAWING * max(tops.values(), default=0.0)
    bars = {name: _TO_BE_NAMED * top if top < bar else max(bar, _own_bar(name) * top) for name, top in tops.items()}
    return [d for d in deployments if score(d, rank) >= bars[d.shape.strategy]]


def _own_bar(name: str) -> float:
    return WORTH_DRAWING if strategies.ALL.named(name).in_columns else _OF_ITS_OWN


def _over(first: RateDraws, other: RateDraws) -> RateDraws:
    return RateDraws(first.joint / other.joint, first.timings / other.timings)
