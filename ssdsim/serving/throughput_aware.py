"""SGLang's throughput-aware K (``--speculative-adaptive-strategy throughput_aware``): tokens over timed rounds.

The rule and its constants are those of sgl-project/sglang, pull request 28045: ``throughput_aware_spec_params.py``
2357074, and the policy that asks it. A server times its rounds when it starts; here they are priced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.record import MutableRecord, field
from ssdsim.serving.round_table import RoundTable

KS = (7, 5, 3, 1)
"""It does not switch drafting off."""
STARTS_AT = 5
"""K of a server to which nobody gives one: the middle of the candidates."""
_WINDOW, _EVERY = 20, 5  # rounds that a rate is the mean of, and rounds from one decision to the next
_BETTER = 1.1  # how many times the score of the K that runs another one must have
_TIMED_AT = 128  # cached tokens of a sequence
_CAPTURED = (*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8))
"""Batches whose rounds are timed. Others have the time of the next one."""


class ProfiledRounds(MutableRecord):
    """Seconds of a round of each K, as a server times them when it starts: whatever the sequences' real length."""

    by_k: Mapping[int, RoundTable]
    _known: dict[tuple[int, int], float] = field(default_factory=dict)

    def __call__(self, batch: int, k: int) -> float:
        captured = _CAPTURED[min(bisect_left(_CAPTURED, batch), len(_CAPTURED) - 1)]
        if (captured, k) not in self._known:
            self._known[captured, k] = float(self.by_k[k].mean(captured, _TIMED_AT).round_s)
        return self._known[captured, k]


class ThroughputAware:
    """K of one replica: that of the most tokens a second, by what each position accepted in the last rounds.

    What was accepted is known of all batches together. A position of which nothing is known continues the others.
    """

    def __init__(self, round_s: Callable[[int, int], float]) -> None:
        self._round_s = round_s
        self._k = STARTS_AT
        self._accepted = [deque[float](maxlen=_WINDOW) for _ in range(max(KS))]
        self._rounds = 0  # since the last decision

    def k(self, batch: int) -> int:
        """K of the next round of so many sequences."""
        if self._rounds >= _EVERY:
            self._rounds = 0
            if all(len(rates) == _WINDOW for rates in self._accepted[: self._k]):
                self._k = self._best(batch)
                for rates in self._accepted[self._k :]:
                    rates.clear()
        return self._k

    def heard(self, accepted: Array, k: int) -> bool:
        """Drafted tokens of each sequence that were accepted in a round of K; whether the next one decides."""
        for position, rates in enumerate(self._accepted[:k]):
            rates.append(np.count_nonzero(accepted > position) / accepted.size)
        self._rounds += 1
        return self._rounds >= _EVERY

    def _best(self, batch: int) -> int:
        survivals: list[float] = []  # P(a drafted token is accepted) by position
        for rates in self._accepted:
            survivals.append(sum(rates) / len(rates) if rates else _continued(survivals))
        scores = {k: (1.0 + sum(survivals[:k])) / self._round_s(batch, k) for k in sorted(KS)}
        best = max(scores, key=lambda k: scores[k])
        return best if scores[best] > _BETTER * scores[self._k] else self._k


def _continued(survivals: Sequence[float]) -> float:
    """The next of a geometric series from the first to the last; no more than the last."""
    first, *others = survivals
    if not others or first <= 0.0:
        return first
    last = others[-1]
    return min(last, last * float((last / first) ** (1.0 / len(others))))
