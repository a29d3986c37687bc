"""SSD against everything else that as many GPUs could do, with the probability that the answer holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ssdsim.answers.predict import DRAWS, estimate_all
from ssdsim.answers.recommend.choice import best, score
from ssdsim.answers.recommend.deployment import Deployment
from ssdsim.answers.recommend.request import Rank, Request
from ssdsim.intervals import Draws, bounds_95, centred_on
from ssdsim.scenario.configuration import configure

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
    """The fastest SSD on at most ``gpus`` GPUs against each kind of rival on as many.

    ``best`` is the fastest of all and ``probability`` that of being so, under the timings' held-out errors.
    """

    gpus: int
    ssd: Deployment
    rivals: tuple[Versus, ...]
    best: Deployment
    probability: float
    sentence: str


@dataclass
class Errors:
    """Draws of tokens/s per user under the profiles' held-out errors; one timing's error is shared by all."""

    request: Request
    _drawn: dict[tuple[object, int], Draws] = field(default_factory=dict)

    def per_user(self, deployment: Deployment) -> Draws:
        """Shape ``(DRAWS,)``, its median the prediction."""
        shape, batch = deployment.shape, deployment.copy_batch
        if (shape, batch) not in self._drawn:
            sampled = configure(**shape.point(self.request.options, batch)).sampled(DRAWS, self.request.seed)
            assert sampled is not None  # only unit-free times have no errors
            rates = estimate_all(sampled)[shape.strategy].tokens_per_second
            self._drawn[shape, batch] = centred_on(deployment.per_user, np.asarray(rates) * np.ones(DRAWS))
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
    """The verdict on ``gpus`` GPUs; None where SSD or every rival finds no room there."""
    within = [d for d in deployments if d.gpus <= gpus]
    ssd = best((d for d in within if d.shape.strategy == "ssd"), "user")
    if ssd is None:
        return None
    found = []
    for what, is_one in _rivals(ssd).items():
        rival = best(filter(is_one, within), "user")
        if rival is not None:
            found.append(errors.versus(what, ssd, rival))
    if not found:
        return None
    closest = min(found, key=lambda versus: versus.ratio)
    others = [versus.other for versus in found]
    if closest.ratio > 1.0:
        winner, probability = ssd, errors.probability(ssd, others)
    else:
        winner = closest.other
        probability = errors.probability(winner, [ssd, *(d for d in others if d != winner)])
    return EqualCount(gpus, ssd, tuple(found), winner, probability, _sentence(gpus, ssd, closest))


def _rivals(ssd: Deployment) -> dict[str, Callable[[Deployment], bool]]:
    """What else the GPUs of ``ssd`` could do, by name."""

    def one_sd(d: Deployment) -> bool:
        return d.shape.strategy == "sd" and d.copies == 1

    return {
        f"SD, TP {ssd.shape.tp} as SSD": lambda d: one_sd(d) and d.shape.tp == ssd.shape.tp,
        "SD, larger TP": lambda d: one_sd(d) and d.shape.tp > ssd.shape.tp,
        "SD, smaller TP": lambda d: one_sd(d) and d.shape.tp < ssd.shape.tp,
        "SD, copies": lambda d: d.shape.strategy == "sd" and d.copies > 1,
        "AR": lambda d: d.shape.strategy == "ar",
    }


def _sentence(gpus: int, ssd: Deployment, closest: Versus) -> str:
    bounds = f"(95 %: {closest.low:.2f}-{closest.high:.2f}, P {max(closest.probability, 1 - closest.probability):.2f})"
    what = f"{ssd.name} is {closest.ratio:.2f}x {closest.other.name} {bounds}"
    where = f"on {gpus} GPU{'s' if gpus > 1 else ''}"
    if DECIDED > closest.probability > 1.0 - DECIDED:
        return f"Undecided {where}: {what}; the timings' errors leave the sign open."
    if closest.ratio > 1.0:
        return f"SSD {where}: {what}, the best of its rivals."
    return f"{closest.other.shape.strategy.upper()} {where}: {what}."
