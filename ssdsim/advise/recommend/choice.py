"""The best deployment by a rank, and the frontier of speed against economy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ssdsim import strategies
from ssdsim.advise.recommend.deployment import Deployment
from ssdsim.advise.recommend.request import Rank
from ssdsim.advise.recommend.search import INDIFFERENT


def score(deployment: Deployment, rank: Rank) -> float:
    """Number that ``rank`` maximises; the cost of a token falls as tokens/s per GPU rise, whatever a GPU costs."""
    return deployment.per_user if rank == "user" else deployment.per_gpu


def best(deployments: Iterable[Deployment], rank: Rank, at_least: float = 0.0) -> Deployment | None:
    """The highest score among those of at least ``at_least`` tokens/s per user, None if there are none.

    Among equals (within a thousandth) the one that takes the fewest GPUs; then the strategy that is listed first, with
    the fewest cached outcomes and draft steps.
    """
    allowed = [d for d in deployments if d.per_user >= at_least]
    if not allowed:
        return None
    top = max(score(d, rank) for d in allowed)
    equals = [d for d in allowed if score(d, rank) >= (1.0 - INDIFFERENT) * top]
    listed = strategies.ALL.names
    return min(equals, key=lambda d: (d.gpus, listed.index(d.shape.strategy), d.shape.work, -score(d, rank)))


def pareto(deployments: Sequence[Deployment]) -> list[Deployment]:
    """Deployments that no other beats in tokens/s per user and per GPU, from the fastest to the most economical.

    Nearly equal ones (within a thousandth) are shown once.
    """
    frontier: list[Deployment] = []
    for d in sorted(deployments, key=lambda d: (-d.per_user, -d.per_gpu)):
        if not frontier or d.per_gpu > (1.0 + INDIFFERENT) * frontier[-1].per_gpu:
            frontier.append(d)
    return frontier
