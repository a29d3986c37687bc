"""SGLang's tiers of K (``--speculative-adaptive``), which follow what was accepted in the last rounds.

The rule and its constants are those of sgl-project/sglang: ``adaptive_spec_params.py`` 015c872 and
``adaptive_step_router.py`` a12239f. It asks for no durations: it does not know what it costs to draft and to verify.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.record import Record

STARTS_AT = 3
"""K of a server to which nobody gives one: the middle of all candidates."""
_WEIGHT = 0.2  # of the last round in the moving average
_WARM_UP, _EVERY = 10, 5  # rounds of a slot before its first decision, and from one to the next


class Slot(Record):
    """Slot: from ``first`` sequences on K is one of ``ks``; ``down`` moves the bound below which K goes down."""

    first: int
    ks: tuple[int, ...]
    down: float = 0.0


SLOTS = (Slot(1, (1, 3, 5, 7), down=-0.25), Slot(8, (0, 1, 3)), Slot(31, (0, 1)), Slot(61, (0,)))
"""SGLang's begin at 1, 8, 32 and 64. Before it looks there it pads a batch to the next size that it captured, so that
31 counts as 32, and 61 to 63 as 64.
"""
KS = tuple(sorted({k for slot in SLOTS for k in slot.ks}, reverse=True))


class _InSlot:
    """A slot's K, with the moving average of accepted drafted tokens a sequence that decides it."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self.k = STARTS_AT if STARTS_AT in slot.ks else slot.ks[len(slot.ks) // 2]
        self._average, self._rounds = self.k - 1.0, 0

    def heard(self, accepted: float) -> bool:
        """Hear of a round of the slot; whether K is another now."""
        if self.k > 0:
            self._average += _WEIGHT * (accepted - self._average)
        self._rounds += 1
        if self._rounds <= _WARM_UP or (self._rounds - _WARM_UP) % _EVERY:
            return False
        before, self.k = self.k, self._probed() if self.k == 0 else self._moved()
        return self.k != before

    def _probed(self) -> int:
        """Try the next K after rounds without a draft, from an average as if all but one were accepted."""
        k = self._slot.ks[min(1, len(self._slot.ks) - 1)]
        if k > 0 and self._average < 0.0:
            self._average = k - 1.0
        return k

    def _moved(self) -> int:
        """Down as long as the average is below what the next smaller K asks for; else up while it is near K."""
        ks, start = self._slot.ks, self._slot.ks.index(self.k)
        at = start
        while at > 0 and self._average <= self._falls_at(ks[at - 1]):
            at -= 1
        while start <= at < len(ks) - 1 and self._average > ks[at] - 0.5:
            at += 1
        return ks[at]

    def _falls_at(self, smaller: int) -> float:
        return (smaller - 0.5 if smaller > 0 else 0.5) + self._slot.down


class EmaTiers:
    """K of one replica, by how many sequences decode and what was accepted of the drafts of each slot's rounds."""

    def __init__(self) -> None:
        self._firsts = [slot.first for slot in SLOTS]
        self._slots = [_InSlot(slot) for slot in SLOTS]

    def k(self, batch: int) -> int:
        """K of the next round of so many sequences."""
        return self._of(batch).k

    def heard(self, accepted: Array, _k: int) -> bool:
        """Drafted tokens of each sequence that were accepted in a round; whether K moved."""
        return self._of(accepted.size).heard(float(np.add.reduce(accepted)) / accepted.size)

    def _of(self, batch: int) -> _InSlot:
        return self._slots[max(0, bisect_right(self._firsts, batch) - 1)]
