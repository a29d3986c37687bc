"""A strategy at many points: its prices and its rounds' tokens, each once, and why it is not possible elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssdsim.answers.grid import Evaluator
from ssdsim.base.record import Record
from ssdsim.question.given import Asked
from ssdsim.question.many import SideBySide
from ssdsim.question.points import Scenarios
from ssdsim.question.scenario import Scenario

Float = TypeVar("Float", bound=np.floating[Any])


class AtPoints(Record):
    """``why_not`` says of each point why it is not possible there; ``number`` is its place among ``scenarios``, or -1.

    ``scenarios`` are None where it is possible nowhere.
    """

    why_not: Sequence[str | None]
    scenarios: Scenarios | None
    number: NDArray[np.intp]

    @classmethod
    def of(cls, name: str, points: Asked, evaluator: Evaluator) -> AtPoints:
        """The strategy called ``name`` at points that ask for it alone."""
        found = evaluator.fastest(points)
        scenarios = found.side_by_side(name)
        number = np.full(len(found.errors), -1, dtype=np.intp)
        if scenarios is not None:
            number[scenarios.rows] = np.arange(len(scenarios))
        return cls(found.errors, scenarios, number)

    def __len__(self) -> int:
        return len(self.number)

    def taken(self, points: NDArray[np.intp]) -> AtPoints:
        """Some of the points."""
        return AtPoints([self.why_not[each] for each in points.tolist()], self.scenarios, self.number[points])

    def scenario(self, point: int) -> Scenario:
        """Scenario at a point at which it is possible."""
        assert self.scenarios is not None
        return self.scenarios[int(self.number[point])]

    def together(self, points: NDArray[np.intp]) -> SideBySide:
        """Sides at points at which they are possible."""
        assert self.scenarios is not None
        return self.scenarios.side_by_side.taken(self.number[points])

    @cached_property
    def possible(self) -> NDArray[np.intp]:
        """The points at which it is."""
        return np.flatnonzero(self.number >= 0)

    @cached_property
    def side_by_side(self) -> SideBySide | None:
        """Sides that are possible; None where there is none."""
        if self.scenarios is None or not len(self.possible):
            return None
        return self.together(self.possible)

    def spread(self, values: NDArray[Float]) -> NDArray[Float]:
        """Values of those possible (the first axis) over all points; NaN elsewhere."""
        if len(self.possible) == len(self):
            return values
        found = np.full((len(self), *values.shape[1:]), np.nan, dtype=values.dtype)
        found[self.possible] = values
        return found
