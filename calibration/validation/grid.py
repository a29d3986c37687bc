"""The grids of settings that a validation runs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from ssdsim.base.errors import InputError
from ssdsim.base.plain import picked
from ssdsim.base.record import Record, replace


class GridPoint(Record):
    """One setting of the grid; ``f`` is the fan-out a position, whose branches the draft really runs.

    ``sd_draft`` is where SD's draft sits: beside the target (SD on n devices against SSD on n+1), or where SSD's does.
    ``fl`` are the K+1 fan-outs themselves, in place of ``f`` and of ``p_hit``, which then follows from them. Where it
    is ``staged``, n-grams draft so many tokens for the draft, each accepted with that probability.
    """

    k: int
    f: int | None
    alpha: float
    p_hit: float | None
    b: int
    backup: str
    sd_draft: str
    fl: tuple[int, ...] | None = None
    staged: tuple[int, float] | None = None

    @property
    def branches(self) -> int:
        """Cached outcomes a sequence."""
        return sum(self.fl) if self.fl is not None else (self.f or 0) * (self.k + 1)

    @property
    def options(self) -> dict[str, Any]:
        """The setting as options of a scenario."""
        given: dict[str, Any] = {
            **picked(self, "k", "alpha", "p_hit", "fl", "b", "backup", "sd_draft"),
            "budget": self.branches if self.fl is None else None,
        }
        if self.staged is not None:
            drafted, accepted = self.staged
            given |= {"staged_by": "ngram", "staged_k": [drafted], "staged_alpha": [accepted]}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def key(self) -> str:
        said = {name: value for name, value in asdict(self).items() if name != "staged" or value is not None}
        return json.dumps(said, sort_keys=True)  # older logs know no stages


GRIDS: Mapping[str, tuple[GridPoint, ...]] = {
    "short": (
        GridPoint(3, 1, 0.8, 0.8, 1, "jit", "colocated"),
        GridPoint(3, 1, 0.8, 0.0, 2, "jit", "separate"),  # where SSD is SD but for messages and contention
        GridPoint(2, 1, 0.8, 0.8, 2, "fast", "colocated"),
    ),
    "single": (  # one sequence, which every strategy decodes
        GridPoint(3, 1, 0.8, 0.8, 1, "jit", "separate"),
        GridPoint(4, 1, 0.6, 0.5, 1, "jit", "separate"),
        GridPoint(4, 2, 0.9, 0.9, 1, "jit", "separate"),
    ),
    "staged": (  # a draft that n-grams draft for
        GridPoint(5, 1, 0.8, 0.8, 1, "jit", "colocated", staged=(3, 0.6)),
        GridPoint(5, 1, 0.8, 0.8, 2, "jit", "separate", staged=(2, 0.7)),
    ),
    "full": tuple(  # either placement at half of the points, spread evenly over each axis
        GridPoint(k, f, alpha, p_hit, b, backup, sd_draft)
        for (k, f, b, (alpha, p_hit, backup)), sd_draft in zip(
            itertools.product((2, 4), (1, 2), (1, 2), ((0.6, 0.5, "jit"), (0.9, 0.85, "fast"), (0.8, 1.0, "jit"))),
            itertools.cycle(("colocated", "separate")),
            strict=False,
        )
    ),
}


def grid_of(name: str, sd_draft: str | None, fl: tuple[int, ...] | None) -> tuple[GridPoint, ...]:
    """The grid called ``name``, with SD's draft in one place at all points, and fan-outs that set K, where given."""
    points: Sequence[GridPoint] = GRIDS[name]
    if sd_draft is not None:
        points = [replace(point, sd_draft=sd_draft) for point in points]
    if fl is not None:
        if min(fl) < 0 or not any(fl):
            raise InputError(f"--fl {','.join(map(str, fl))}: fan-outs are whole numbers of at least 0, one above 0")
        points = [replace(point, k=len(fl) - 1, f=None, p_hit=None, fl=fl) for point in points]
    return tuple(dict.fromkeys(points))
