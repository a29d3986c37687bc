"""Monte Carlo of several targets that share a draft's devices: queues, many side by side."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ssdsim.checks import Array, FloatOrArray
from ssdsim.protocols.strategy import Service
from ssdsim.rounds.block import RoundBlock
from ssdsim.rounds.outcomes import OutcomeBlock
from ssdsim.scenario.scenario import Scenario

_ROUNDS = 256  # of each target in a queue, where a block has as many
_RUN_IN = 64  # of each target, before its rounds count


def shared_rounds(scenario: Scenario, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray]) -> RoundBlock:
    """The rounds of a block as those of targets whose draft works for one after the other."""
    strategy = scenario.strategy
    service = strategy.service(t, outcomes)
    assert service is not None  # else there is one target
    return strategy.with_waits(outcomes, t, round_times(service, scenario.devices.targets, outcomes.rounds))


def round_times(service: Service, targets: int, rounds: int) -> Array:
    """Seconds of each round, shape ``(rounds,)``; a number of the service is one a round, or one for all.

    Each target of each queue has rounds in a row. Targets begin evenly spaced; rounds in which a queue forgets that,
    which are those of its end, do not count.
    """
    queues = max(1, rounds // (targets * _ROUNDS))
    of_each = -(-rounds // (targets * queues))
    numbers = np.arange(queues * targets * of_each).reshape(queues, targets, of_each) % rounds
    side_by_side = _Queues(service, numbers, rounds)
    found = np.zeros(numbers.shape)
    while side_by_side.done.min() < of_each + _RUN_IN:
        queue, target, seconds = side_by_side.serve()
        number = side_by_side.done[queue, target] - 1 - _RUN_IN
        counts = (number >= 0) & (number < of_each)
        found[queue[counts], target[counts], number[counts]] = seconds[counts]
    return found.ravel()[:rounds]


class _Queues:
    """What each target of each queue has asked for, when, and since when its round runs; arrays (queues, targets)."""

    def __init__(self, service: Service, numbers: np.ndarray, rounds: int) -> None:
        def of_rounds(seconds: FloatOrArray) -> Array:
            return np.asarray(np.broadcast_to(seconds, rounds)[numbers], dtype=float)

        self._first, self._away, self._look_up, self._again = map(
            of_rounds, (service.first_s, service.away_s, service.look_up_s, service.again_s)
        )
        self._beside = service.beside
        queues, targets, _ = numbers.shape
        self._queue = np.arange(queues)
        round_s = float((self._away + self._first).mean())
        self._began = np.tile(np.arange(targets) * round_s / targets, (queues, 1))
        self._asked = self._began.copy()
        self._missed = np.zeros((queues, targets), dtype=np.bool_)
        self._free = np.zeros(queues)
        self.done = np.zeros((queues, targets), dtype=np.int64)  # rounds

    def serve(self) -> tuple[np.ndarray, np.ndarray, Array]:
        """One piece of work in each queue: where that ended a round, the queue, its target and the round's seconds.

        First come, first served, but for who missed before who drafts ahead. Nothing is broken off.
        """
        target, now = self._next()
        at = self._queue, target
        of_round = (*at, (self.done[at] - _RUN_IN) % self._first.shape[2])
        missed, began = self._missed[at], self._began[at]
        self._free = made = now + np.where(missed, self._again[of_round], self._first[of_round])
        if self._beside:
            known = np.maximum(made, began + self._away[of_round]) + self._look_up[of_round]
            ended = missed | (self._again[of_round] == 0.0)
            following = np.where(missed, made, known)
        else:
            ended, following = np.ones_like(missed), made + self._away[of_round]
        self._asked[at], self._missed[at] = following, ~ended
        self._began[at] = np.where(ended, following, began)
        self.done[at] += ended
        return self._queue[ended], target[ended], (following - began)[ended]

    def _next(self) -> tuple[np.ndarray, Array]:
        """Whose turn it is in each queue, and when."""
        now = np.maximum(self._free, self._asked.min(axis=1))
        here = self._asked <= now[:, None]
        first = np.where(here, self._asked, np.inf)
        urgent = np.where(self._missed, first, np.inf)
        return np.where(np.isfinite(urgent.min(axis=1)), urgent.argmin(axis=1), first.argmin(axis=1)), now
