"""Arithmetic of a round's parts, written down: what a strategy does with its steps' seconds, one operation each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ssdsim.base.checks import Array
from ssdsim.serving.compiled import ADD, CONSTANT, MAXIMUM, MULTIPLY, SUBTRACT

Row = tuple[int, int, int, float]
"""An operation, the registers that it reads, and a constant's value."""


def written(names: Sequence[str], sums: Callable[[Mapping[str, Any]], Any]) -> Array | None:
    """Rows of what ``sums`` does with seconds by name, whose registers come first; a row's result is the next one.

    None where it does something else than to add, to subtract, to multiply and to take the larger one.
    """
    sheet: list[Row] = []
    try:
        result = sums({name: _Term(sheet, at, len(names)) for at, name in enumerate(names)})
    except TypeError:
        return None
    return np.array(sheet) if isinstance(result, _Term) else None


class _Term(NDArrayOperatorsMixin):
    """A register. What is done with it becomes a row of the sheet: of an operator numpy makes one of its functions."""

    def __init__(self, sheet: list[Row], at: int, steps: int) -> None:
        self._sheet, self.at, self._steps = sheet, at, steps

    def _next(self, row: Row) -> _Term:
        self._sheet.append(row)
        return _Term(self._sheet, self._steps + len(self._sheet) - 1, self._steps)

    def _term(self, other: Any) -> _Term:
        return other if isinstance(other, _Term) else self._next((CONSTANT, 0, 0, float(other)))

    def _row(self, operation: int, left: Any, right: Any) -> _Term:
        left, right = self._term(left), self._term(right)
        return self._next((operation, left.at, right.at, 0.0))

    def __array_ufunc__(self, ufunc: Any, method: str, *terms: Any, **how: Any) -> _Term:
        if ufunc not in _OF_NUMPY or method != "__call__" or how:
            raise TypeError(f"{ufunc} is not written down")
        return self._row(_OF_NUMPY[ufunc], *terms)

    def __array__(self, *how: Any, **more: Any) -> Any:
        raise TypeError("a register has no value yet")

    __bool__ = __float__ = __array__


_OF_NUMPY = {np.add: ADD, np.subtract: SUBTRACT, np.multiply: MULTIPLY, np.maximum: MAXIMUM}
