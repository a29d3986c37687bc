"""Many predictions on two cores: a second process works out what this one has not begun."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from itertools import groupby
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim import drafters, strategies
from ssdsim.answers.beside import Beside, Forked, Started, may_fork
from ssdsim.answers.grid import Evaluated, Evaluator
from ssdsim.answers.idle_cores import IdleCores

_MANY = 500  # points of one call, after which there are seconds of work to come
_LEAST_SHARE, _MOST_SHARE = 8, 64  # points that one of the two takes at once
_A_CALL = 16  # shares at least, so that neither waits long for the other's last one
_AHEAD = 2  # shares that the second process has before it, so that it never waits for this one


class TwoEvaluators(Evaluator):
    """An evaluator whose large calls a second process shares in, with the same numbers in the same order.

    The process begins at the first call of 500 points, where a core is idle, and ends on leaving the ``with`` block.
    On Linux, in a process of one thread, it is a fork that knows at once what this one knows; elsewhere it is started,
    which takes a second. Both keep costs and kernels from call to call, so each takes its own end of the batches.
    """

    def __init__(self) -> None:
        super().__init__()
        self._idle = IdleCores()
        self._pool: Beside | None = None
        self._ready: Any = None
        self.shared = 0
        """Points that the second process worked out."""

    def __enter__(self) -> TwoEvaluators:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.end()
            self._pool = None

    def evaluate(
        self, points: Iterable[Mapping[str, Any]], draws: int = 0, seed: int = 0, names: Collection[str] = ()
    ) -> Evaluated:
        """As :meth:`Evaluator.evaluate`; each point holds ``b`` and, as a tuple, ``strategies``."""
        points = list(points)
        names = tuple(dict.fromkeys([*names, *(name for point in points for name in point["strategies"])]))
        if self._pool is None and len(points) >= _MANY and self._idle.free() and _all_known(names, points):
            self.start()
        shares = _shares(points)
        if self._pool is None or len(shares) < 2:
            return super().evaluate(points, draws, seed, names)
        asked = [[points[number] for number in share] for share in shares]
        found = self._side_by_side(self._pool, asked, (draws, seed, names))
        return _together(shares, found)

    def start(self) -> None:
        """Begin the second process, which takes part once it is there."""
        self._pool = Forked(1, self) if may_fork() else Started(1, Evaluator)
        self._ready = self._pool.submit(_begun)

    def wait(self) -> None:
        """Until the second process, once started, is there."""
        self._ready.result()

    def _side_by_side(
        self, pool: Beside, shares: Sequence[Sequence[Mapping[str, Any]]], how: tuple[Any, ...]
    ) -> list[Evaluated]:
        """Each share's table: this process takes the first that nobody has begun, the other one the last."""
        waiting, theirs = deque(range(len(shares))), dict[int, Any]()
        found: dict[int, Evaluated] = {}
        try:
            while waiting:
                while self._takes_more(theirs.values()) and len(waiting) > 1:
                    number = waiting[-1]
                    theirs[number] = pool.submit(Evaluator.evaluate, shares[number], *how)
                    waiting.pop()
                number = waiting.popleft()
                found[number] = super().evaluate(shares[number], *how)
            found |= {number: each.result() for number, each in theirs.items()}
            self.shared += sum(len(shares[number]) for number in theirs)
        except BrokenExecutor:  # it was killed, for its memory say: this process does what it left
            self.__exit__(None, None, None)
            missing = [number for number in range(len(shares)) if number not in found]
            found |= {number: super(TwoEvaluators, self).evaluate(shares[number], *how) for number in missing}
        return [found[number] for number in range(len(shares))]

    def _takes_more(self, theirs: Collection[Any]) -> bool:
        return self._ready.done() and sum(not each.done() for each in theirs) < _AHEAD


def _all_known(names: Collection[str], points: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the strategies and drafters come with the package, so that every process knows them."""
    asked = {point["drafter"] for point in points if "drafter" in point}
    owners = [*map(strategies.ALL.named, names), *map(drafters.ALL.named, asked)]
    return all(type(owner).__module__.startswith("ssdsim.") for owner in owners)


def _shares(points: Sequence[Mapping[str, Any]]) -> list[tuple[int, ...]]:
    """Numbers of the points, in shares of one batch each: those of a batch have costs in common."""

    def batch(number: int) -> Any:
        return points[number]["b"]

    size = min(max(-(-len(points) // _A_CALL), _LEAST_SHARE), _MOST_SHARE)
    by_batch = [tuple(numbers) for _, numbers in groupby(sorted(range(len(points)), key=batch), key=batch)]
    return [numbers[at : at + size] for numbers in by_batch for at in range(0, len(numbers), size)]


def _together(shares: Sequence[Sequence[int]], found: Sequence[Evaluated]) -> Evaluated:
    """One table of the shares' tables, in the order of the points."""
    back = np.argsort(np.concatenate([np.asarray(share) for share in shares]))
    columns = {name: _joined([each.columns[name] for each in found])[back] for name in found[0].columns}
    errors = [error for each in found for error in each.errors]
    warnings = sorted({warning for each in found for warning in each.warnings})
    return Evaluated(columns, [errors[number] for number in back], warnings)


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Numbers, or words with None where nothing is possible."""
    if any(part.dtype == object for part in parts):
        parts = [part if part.dtype == object else np.full(len(part), None) for part in parts]
    return np.concatenate(parts)


def _begun(evaluator: Evaluator) -> None:
    """Nothing more than to be there."""
