"""The K of each strategy, where nobody gives one: the best at the load that there is, by the one rule of all verbs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.answers.decision import Candidate, Decision, decide
from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.pricing.cost import TimingErrors
from ssdsim.serving.batching import Batching
from ssdsim.serving.closed_form import Sharing, SteadyState, drawn_sharing, sharing
from ssdsim.serving.options import Slo
from ssdsim.serving.policy import Policy
from ssdsim.serving.workload import Workload
from ssdsim.strategies.protocols.axes import LookaheadAxis
from ssdsim.strategies.protocols.strategy import Strategy

KS = (1, 2, 3, 4, 5, 6, 8)
"""Ks that are tried."""
NONE = 0
"""Stands for the K of what drafts nothing, and for one that is given or that follows something else."""

DRAWS = 200
"""Draws of what is not known, behind capacities, crossings and choices."""

_NEAR = 0.95  # of the capacity: beyond, means over a run are those of a queue that grows while it lasts
_HALVINGS = 14
_LEAST = 1e-3  # of the capacity


def open_lookahead(strategy: Strategy, options: Mapping[str, Any]) -> str | None:
    """The option of a strategy's K that is to be chosen; None where it is given, or follows from what is, or from the
    batch.
    """
    axis = next((each for each in strategy.searched if isinstance(each, LookaheadAxis)), None)
    if not strategy.drafts or axis is None or axis.is_idle(options) or strategy.follows_batch(options):
        return None
    return None if axis.is_settled(options, strategy.drafted) else axis.option


class AtBestK(Record):
    """A strategy at whichever K has the least time per token at a rate: what :class:`Sharing` says of one K."""

    each: tuple[Sharing, ...]

    @cached_property
    def capacity(self) -> Array:
        return np.asarray(np.max([one.capacity for one in self.each], axis=0))

    def under(self, draws: NDArray[np.intp]) -> AtBestK:
        return AtBestK(tuple(one.under(draws) for one in self.each))

    def tpot_s(self, rate: Array | float) -> Array:
        return np.asarray(np.min([one.tpot_s(rate) for one in self.each], axis=0))

    def served(self, rate: Array | float) -> SteadyState:
        states = [one.served(rate) for one in self.each]
        at = np.argmin([state.tpot_s for state in states], axis=0)[None]
        columns = {name: np.stack([getattr(state, name) for state in states]) for name in SteadyState.__struct_fields__}
        return SteadyState(**{name: np.take_along_axis(each, at, 0)[0] for name, each in columns.items()})


class Served(Record):
    """A strategy with one K: its policy, and how requests share it; ``errors`` are draws of all that is not known."""

    policy: Policy
    workload: Workload
    batching: Batching
    errors: TimingErrors | None

    @cached_property
    def mean(self) -> Sharing:
        """How requests share it, with nothing in doubt."""
        return sharing(self.policy, self.workload, self.batching)

    @property
    def drawn(self) -> Sharing | None:
        """The same in draws; None where nothing is in doubt."""
        return self._moved[0]

    @property
    def across(self) -> Sharing | None:
        """The same over the ranges of tokens, where there are any."""
        return self._moved[1]

    @cached_property
    def _moved(self) -> tuple[Sharing | None, Sharing | None]:
        if self.errors is None:
            return None, None
        return drawn_sharing(self.mean, self.policy, self.workload.context, self.errors)

    @property
    def draws(self) -> Sharing:
        """Draws of all that is not known, or the one that is known."""
        return self.mean if self.drawn is None else self.drawn


class OwnK(Record):
    """A strategy with each K that may be chosen (:data:`NONE` alone, where there is no choice)."""

    name: str
    by_k: Mapping[int, Served]

    @property
    def gpus(self) -> float:
        return next(iter(self.by_k.values())).policy.gpus

    @property
    def is_open(self) -> bool:
        return len(self.by_k) > 1

    def chosen(self, speeds: Mapping[int, Array]) -> Decision[int]:
        """The K of the highest mean log speed."""
        return decide([Candidate.of(k, self.name, self.gpus, k) for k in self.by_k], speeds)

    def at(self, rate: float | None, workload: Workload) -> Decision[int]:
        """The K by which answers are done the earliest at ``rate`` requests a second of a replica; None or infinite: at
        the most requests a second of as many as are in flight.
        """
        return self.chosen({k: speed(each.draws, rate, workload) for k, each in self.by_k.items()})

    def within(self, slo: Slo | None) -> Decision[int]:
        """The K that keeps the SLO at the most requests a second."""
        assert slo is not None  # else nobody asks for it
        return self.chosen({k: rate_within(each.draws, slo) for k, each in self.by_k.items()})

    def shared(self, which: str) -> Sharing | AtBestK | None:
        """``mean``, ``drawn`` or ``across`` of the best K at each rate."""
        every = [one for one in (getattr(each, which) for each in self.by_k.values()) if one is not None]
        if len(every) < 2:
            return every[0] if every else None
        return AtBestK(tuple(every))


def speed(shared: Sharing, rate: float | None, workload: Workload) -> Array:
    """Answers a second that one request after the other would have: over the time to the last token, in each draw.

    Where more come than go the wait grows as long as requests come: half of that time's backlog is its mean.
    """
    if rate is None or not np.isfinite(rate):
        last = min(shared.most, workload.concurrency or shared.most) - 1
        pace = shared.tokens_per_s[..., last]
        return np.atleast_1d(pace / (shared.tokens + pace * shared.lost_s[..., last]))
    capacity, lasts_s = shared.capacity, workload.requests / rate
    backlog_s = lasts_s / 2.0 * np.maximum(0.0, rate / capacity - 1.0)
    return np.atleast_1d(1.0 / (shared.served(np.minimum(rate, _NEAR * capacity)).e2e_s + backlog_s))


def rate_within(shared: Sharing, slo: Slo) -> Array:
    """The highest rate at which the closed form's means keep the bounds, in each draw."""

    def keeps(rate: Array) -> NDArray[np.bool_]:
        at = shared.served(rate)
        seconds = {"ttft": at.ttft_s, "tpot": at.tpot_s, "e2el": at.e2e_s, "queue": at.queue_s}
        return np.asarray(np.all([1e3 * seconds[name] <= bound for name, bound in slo.bounds_ms.items()], axis=0))

    low, high = np.full(shared.capacity.shape, _LEAST), np.ones(shared.capacity.shape)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        kept = keeps(middle * shared.capacity)
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return np.atleast_1d(low * shared.capacity)
