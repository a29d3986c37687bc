"""The subject against everything else that as many GPUs could do, with the probability that the answer holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ssdsim import strategies
from ssdsim.answers.predict import DRAWS
from ssdsim.answers.recommend.choice import best, score
from ssdsim.answers.recommend.deployment import Deployment
from ssdsim.answers.recommend.request import Rank, Request
from ssdsim.answers.verdict import rivals
from ssdsim.intervals import Draws, bounds_95, centred_on
from ssdsim.pricing.cost import TimingErrors
from ssdsim.scenario.many import rates

DECIDED = 0.95  # below this probability the verdict is "undecided"


@dataclass(frozen=True)
class Versus:
    """``first`` against ``other``: the ratio of tokens/s per user, its 95 % interval, P(first is faster)."""

    what: str
    other: Deployment
    ratio: float
    low: float
    high: float
    probability: float


@dataclass(frozen=True)
class EqualCount:
    """The subject's fastest on at most ``gpus`` GPUs against each kind of rival on as many.

    ``best`` is the fastest of all and ``probability`` that of being so, under the timings' held-out errors.
    """

    gpus: int
    subject: Deployment
    rivals: tuple[Versus, ...]
    best: Deployment
    probability: float
    sentence: str

    @property
    def closest(self) -> Versus:
        """The rival that the subject is least ahead of, or most behind."""
        return min(self.rivals, key=lambda versus: versus.ratio)


@dataclass
class Errors:
    """Draws of tokens/s per user under the profiles' held-out errors; one timing's error is shared by all."""

    request: Request
    _timings: TimingErrors = field(init=False)
    _drawn: dict[tuple[object, int], Draws] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._timings = TimingErrors(DRAWS, self.request.seed)

    def per_user(self, deployment: Deployment) -> Draws:
        """Shape ``(DRAWS,)``, its median the prediction."""
        shape, batch = deployment.shape, deployment.copy_batch
        if (shape, batch) not in self._drawn:
            self._drawn[shape, batch] = centred_on(deployment.per_user, rates([deployment.scenario], self._timings)[0])
        return self._drawn[shape, batch]

    def interval(self, deployment: Deployment) -> tuple[float, float]:
        """95 % bounds of tokens/s per user."""
        low, high = bounds_95(self.per_user(deployment))
        return float(low), float(high)

    def versus(self, what: str, first: Deployment, other: Deployment) -> Versus:
        ratios = self.per_user(first) / self.per_user(other)
        low, high = bounds_95(ratios)
        ratio = first.per_user / other.per_user
        return Versus(what, other, ratio, float(low), float(high), float(np.mean(ratios > 1.0)))

    def probability(self, first: Deployment, others: Sequence[Deployment], rank: Rank = "user") -> float:
        """P(no other has a higher score)."""

        def scores(d: Deployment) -> Draws:
            return self.per_user(d) * (score(d, rank) / d.per_user)

        ahead = [scores(first) >= scores(other) for other in others]
        return float(np.mean(np.all(ahead, axis=0))) if ahead else 1.0


def equal_count(deployments: Sequence[Deployment], gpus: int, errors: Errors) -> EqualCount | None:
    """The verdict on ``gpus`` GPUs; None where the subject or every rival finds no room there."""
    request = errors.request
    within = [d for d in deployments if d.gpus <= gpus]
    subject = best((d for d in within if d.shape.strategy == request.subject), "user")
    if subject is None:
        return None
    found = []
    for what, is_one in _rivals(subject, request.strategies).items():
        rival = best(filter(is_one, within), "user")
        if rival is not None:
            found.append(errors.versus(what, subject, rival))
    if not found:
        return None
    closest = min(found, key=lambda versus: versus.ratio)
    others = [versus.other for versus in found]
    if closest.ratio > 1.0:
        winner, probability = subject, errors.probability(subject, others)
    else:
        winner = closest.other
        probability = errors.probability(winner, [subject, *(d for d in others if d != winner)])
    return EqualCount(gpus, subject, tuple(found), winner, probability, _sentence(gpus, subject, closest))


def _rivals(subject: Deployment, names: Sequence[str]) -> dict[str, Callable[[Deployment], bool]]:
    """What else the GPUs of ``subject`` could do, by name; of its first rival by placement."""
    first = strategies.ALL.named(subject.shape.strategy).rival
    found: dict[str, Callable[[Deployment], bool]] = {}
    for name in rivals(subject.shape.strategy, names):
        if name == first:
            found |= _placements(subject, name)
        else:
            found[strategies.ALL.named(name).title] = lambda d, name=name: d.shape.strategy == name  # type: ignore[misc]
    return found


def _placements(subject: Deployment, name: str) -> dict[str, Callable[[Deployment], bool]]:
    """The ways to spend the GPUs of ``subject`` on a rival."""
    title, tp = strategies.ALL.named(name).title, subject.shape.tp

    def one(d: Deployment) -> bool:
        return d.shape.strategy == name and d.copies == 1

    return {
        f"{title}, TP {tp} as {subject.title}": lambda d: one(d) and d.shape.tp == tp,
        f"{title}, larger TP": lambda d: one(d) and d.shape.tp > tp,
        f"{title}, smaller TP": lambda d: one(d) and d.shape.tp < tp,
        f"{title}, copies": lambda d: d.shape.strategy == name and d.copies > 1,
    }


def _sentence(gpus: int, subject: Deployment, closest: Versus) -> str:
    bounds = f"(95 %: {closest.low:.2f}-{closest.high:.2f}, P {max(closest.probability, 1 - closest.probability):.2f})"
    what = f"{subject.name} is {closest.ratio:.2f}x {closest.other.name} {bounds}"
    where = f"on {gpus} GPU{'s' if gpus > 1 else ''}"
    if DECIDED > closest.probability > 1.0 - DECIDED:
        return f"Undecided {where}: {what}; the timings' errors leave the sign open."
    if closest.ratio > 1.0:
        return f"{subject.title} {where}: {what}, the best of its rivals."
    return f"{closest.other.title} {where}: {what}."
