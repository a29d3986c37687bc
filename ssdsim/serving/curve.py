"""A function that is worked out at some whole numbers, when it is first asked for there, and interpolated between."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

_EXACT = 32
_MOST = 2_000_000


def spaced(first: int, ratio: float, exact: int = 1) -> tuple[int, ...]:
    """Whole numbers from ``first`` on: each up to ``exact``, then ``ratio`` apart."""
    numbers = list(range(first, exact + 1)) or [first]

    while numbers[-1] < _MOST:
        numbers.append(max(numbers[-1] + 1, round(numbers[-1] * ratio)))
    return tuple(numbers)


_NODES = spaced(1, 1.05, _EXACT)


class Curve(dict[int, float]):
    """``at(node)`` is exact at nodes; between two of them a straight line. What was asked once is known."""

    def __init__(self, at: Callable[[int], float], nodes: Sequence[int] = _NODES) -> None:
        super().__init__()
        self._at = at
        self._nodes = nodes

    def __missing__(self, x: int) -> float:
        y = self[x] = self._between(x)
        return y

    def _between(self, x: int) -> float:
        low = max(0, bisect_right(self._nodes, x) - 1)
        start = self._nodes[low]
        if x == start:
            return self._at(x)
        value = self[start]
        if x < start:
            return value
        end = self._nodes[low + 1]
        return value + (x - start) / (end - start) * (self[end] - value)
