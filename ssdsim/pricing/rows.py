"""A pass whose rows differ from round to round: what it takes by the rows of the whole batch, and what then runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.record import Record, replace

if TYPE_CHECKING:
    from ssdsim.pricing.step import Pass

_ROUNDING = 1e-6  # of rows


class RowTable(Record, eq=False):
    """Passes over ``least`` to ``most`` rows, priced at ``rows``, which ascend.

    Up to ``captured`` rows an engine runs the next larger of ``rows``, which it has captured: times are a staircase.
    Beyond they are linear between ``rows``. ``work`` is a pass over so many rows; None without hardware.
    """

    least: int
    most: int
    rows: Array
    seconds: Array
    captured: int = 0
    work: Callable[[int], Pass] | None = None

    def at(self, rows: FloatOrArray) -> Array:
        """Seconds of passes over so many rows."""
        stairs = self.seconds[self._next(rows)]
        return np.asarray(np.where(np.asarray(rows) <= self.captured, stairs, np.interp(rows, self.rows, self.seconds)))

    @property
    def widths(self) -> list[int]:
        """All that may run, each once."""
        return sorted({self.width(rows) for rows in range(self.least, self.most + 1)})

    def width(self, rows: int) -> int:
        """Width of what runs for so many rows."""
        return int(self.rows[self._next(rows)]) if rows <= self.captured else rows

    def between(self, rows: float) -> tuple[int, int, float]:
        """The priced rows that so many lie between, and how far; the same ones twice where these are run."""
        high = int(self._next(rows))
        low = max(0, high - 1)
        if rows <= self.captured or self.rows[high] - rows <= _ROUNDING:
            low = high
        share = (rows - self.rows[low]) / (self.rows[high] - self.rows[low]) if low < high else 0.0
        return int(self.rows[low]), int(self.rows[high]), float(share)

    def scaled(self, by: float) -> RowTable:
        """Stretch the passes: they take ``by`` times as long."""
        return replace(self, seconds=self.seconds * by)

    def _next(self, rows: FloatOrArray) -> Array:
        return np.minimum(np.searchsorted(self.rows, np.asarray(rows) - _ROUNDING), len(self.rows) - 1)


def rows_to_price(sequences: int, most: int, captured: tuple[int, ...]) -> tuple[list[int], int]:
    """The captured sizes that hold up to ``most`` rows and, beyond them, whole numbers of rows a sequence.

    After them the last of the former, 0 where there is none.
    """
    sizes = [size for size in captured if size >= sequences]
    sizes = [size for number, size in enumerate(sizes) if number == 0 or sizes[number - 1] < most]
    last = sizes[-1] if sizes else 0
    beyond = range(sequences * (last // sequences + 1), most + 1, sequences) if last < most else ()
    return [*sizes, *beyond], last
