"""Monte Carlo of several targets that share a draft's devices: many queues side by side."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.outcomes import OutcomeBlock
from ssdsim.rounds.round import RoundBlock, with_rest
from ssdsim.strategies.protocols.strategy import Service

Places = NDArray[np.int64]
_ROUNDS = 256  # of each target in a queue, where a block has as many
_RUN_IN = 64  # of each target, before its rounds count


def shared_rounds(scenario: Scenario, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray]) -> RoundBlock:
    """The rounds of a block, as rounds of targets that share one draft."""
    strategy = scenario.strategy
    service = strategy.service(t, outcomes)
    assert service is not None  # else there is one target
    devices = scenario.devices
    times = round_times(service, devices.served, devices.together, outcomes.rounds)
    return with_rest("draft", RoundBlock(outcomes, strategy.monte_carlo(outcomes, t).parts_s, times))


def round_times(service: Service, targets: int, together: bool, rounds: int) -> Array:
    """Seconds of each round, shape ``(rounds,)``; the service's numbers are one a round, or one for all.

    Each target of each queue has rounds in a row. Targets begin evenly spaced; the first rounds, in which a queue
    forgets its start, do not count.
    """
    queues = max(1, rounds // (targets * _ROUNDS))
    of_each = -(-rounds // (targets * queues))
    numbers = np.arange(queues * targets * of_each).reshape(queues, targets, of_each) % rounds
    side_by_side = _Queues(service, numbers, rounds, together)
    by_target = np.zeros(numbers.shape)
    while side_by_side.done.min() < of_each + _RUN_IN:
        queue, target, seconds = side_by_side.serve()
        number = side_by_side.done[queue, target] - 1 - _RUN_IN
        counts = (number >= 0) & (number < of_each)
        by_target[queue[counts], target[counts], number[counts]] = seconds[counts]
    return by_target.ravel()[:rounds]


class _Queues:
    """Requests of targets: their kind, their time, and the start of their round; arrays (queues, targets)."""

    def __init__(self, service: Service, numbers: Places, rounds: int, together: bool) -> None:
        def of_rounds(seconds: FloatOrArray) -> Array:
            return np.asarray(np.broadcast_to(seconds, rounds)[numbers], dtype=float)

        self._first, self._away, self._look_up, self._again, self._misses = map(
            of_rounds, (service.first_s, service.away_s, service.look_up_s, service.again_s, service.missed)
        )
        self._ahead, self._together = service.hidden_s is not None, together
        self._hidden = of_rounds(0.0 if service.hidden_s is None else service.hidden_s)
        queues, targets, _ = numbers.shape
        self._queue = np.arange(queues)
        round_s = float((self._away + self._hidden + self._first).mean())
        self._began = np.tile(np.arange(targets) * round_s / targets, (queues, 1))
        self._asked = self._began.copy()
        self._missed = np.zeros((queues, targets), dtype=np.bool_)
        self._free = np.zeros(queues)
        self.done = np.zeros((queues, targets), dtype=np.int64)  # rounds

    def serve(self) -> tuple[Places, Places, Array]:
        """Do one piece of work in each queue; return queue, target and seconds of the rounds that it ends.

        First come, first served, but misses go before drafts ahead. No work is aborted. ``together``: one piece serves
        all that wait for the same kind, in the time of the first of them.
        """
        first, alike, now = self._next()
        at = self._queue, first
        of_first = (*at, self._place(*at))
        self._free = now + np.where(self._missed[at], self._again[of_first], self._first[of_first])
        queue, target = np.nonzero(alike) if self._together else at
        of_round = queue, target, self._place(queue, target)
        missed, began, made = self._missed[queue, target], self._began[queue, target], self._free[queue]
        if self._ahead:
            known = np.maximum(made, began + self._hidden[of_round]) + self._look_up[of_round]
            ended = missed | (self._misses[of_round] == 0.0)
            following = np.where(missed, made, known) + np.where(ended, self._away[of_round], 0.0)
        else:
            ended, following = np.ones_like(missed), made + self._away[of_round]
        self._asked[queue, target], self._missed[queue, target] = following, ~ended
        self._began[queue, target] = np.where(ended, following, began)
        self.done[queue, target] += ended
        return queue[ended], target[ended], (following - began)[ended]

    def _place(self, queue: Places, target: Places) -> Places:
        """The place of the present round."""
        return np.asarray((self.done[queue, target] - _RUN_IN) % self._first.shape[2])

    def _next(self) -> tuple[Places, NDArray[np.bool_], Array]:
        """The next target of each queue, the targets that wait for the same kind, and the time.

        A request at the very time when the devices are done comes after those that waited, unless it is a miss.
        """
        now = np.maximum(self._free, self._asked.min(axis=1))
        here = self._asked <= now[:, None]
        urgent, before = here & self._missed, here & (self._asked < now[:, None])
        alike = np.where(before.any(axis=1)[:, None], before, here)
        alike = np.where(urgent.any(axis=1)[:, None], urgent, alike)
        return np.where(alike, self._asked, np.inf).argmin(axis=1), alike, now
