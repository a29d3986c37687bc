"""Errors of a page between its points: against exact answers at random places."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ssdsim import strategies
from ssdsim.base.record import Record
from ssdsim.reports.explorer.explore import Explored
from ssdsim.reports.explorer.interpolation import Floats


class Error(Record):
    """Relative, of a quantity at so many random ``points``: the ``worst``, and what 99 of 100 are below."""

    what: str
    worst: float
    most: float
    points: int

    @classmethod
    def of(cls, what: str, shown: Floats, exact: Floats) -> Iterator[Error]:
        """Compare shown with exact values; None where neither is known anywhere."""
        off = np.abs(shown / exact - 1.0)
        off = off[np.isfinite(off)]
        if len(off):
            yield cls(what, float(off.max()), float(np.quantile(off, 0.99)), len(off))


def interpolation_errors(found: Explored) -> list[Error]:
    """Errors of tokens/s, of ratios and of the ends of their intervals; none where no exact answers were worked out."""
    return list(_errors(found)) if found.exact.places else []


def _errors(found: Explored) -> Iterator[Error]:
    space, exact = found.space, found.exact
    title = strategies.ALL.named(space.subject).title
    given = [found.given.table.at(place) for place in exact.places]
    shown = {
        name: np.array([np.exp(found.rates[name].table.at(place)["log_rate"]) for place in exact.places])
        for name in exact.rates
    }
    for name, rate in exact.rates.items():
        if any(axis.continuous for axis in found.rates[name].table.axes):
            yield from Error.of(f"tokens/s of {strategies.ALL.named(name).title}", shown[name], rate)
    for rival in space.rivals:
        said = f"{title} over {strategies.ALL.named(rival).title}"
        ratio = shown[space.subject] / shown[rival]
        yield from Error.of(said, ratio, exact.rates[space.subject] / exact.rates[rival])
        for end, bound in zip(("low", "high"), exact.ends.get(rival, ()), strict=False):
            off = np.exp([each[f"{rival}:{end}"] for each in given])
            yield from Error.of(f"{'lower' if end == 'low' else 'upper'} end of {said}", ratio * off, bound)
