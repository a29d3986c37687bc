"""Errors of a page between its points: interpolated against exact answers at random places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ssdsim import strategies
from ssdsim.answers.grid import Evaluator
from ssdsim.base.intervals import Draws, bounds_95
from ssdsim.base.record import Record
from ssdsim.question.many import estimate
from ssdsim.reports.explorer.space import Space, random_value
from ssdsim.reports.explorer.strategy_grid import ErrorDraws, PricedPoints, RateTable
from ssdsim.reports.explorer.table import Floats, GridTable

FEW_PLACES = 400  # at most, where other strategies than the default ones are compared: some search a tree at each point
Place = Mapping[str, Any]


def beyond_default(space: Space) -> bool:
    """Say whether strategies beyond the default ones are compared."""
    return not {*space.names} <= {*strategies.default()}


def random_places(space: Space, count: int, seed: int) -> list[Place]:
    """Random places between the axes' ends, at most ``count``; none if nothing is interpolated."""
    if not any(axis.continuous for axis in space.axes):
        return []
    if beyond_default(space):
        count = min(count, FEW_PLACES)
    rng = np.random.default_rng(seed)
    return [{axis.name: random_value(axis, rng) for axis in space.axes} for _ in range(count)]


class Exact(Record):
    """Exact tokens/s by strategy at ``places`` (NaN without room), and by rival the ends of the subject's ratio.

    There are no ends if nothing is uncertain, or if token inputs are.
    """

    places: Sequence[Place]
    rates: Mapping[str, Floats]
    ends: Mapping[str, tuple[Floats, Floats]]

    @classmethod
    def of(cls, space: Space, places: Sequence[Place], evaluator: Evaluator, errors: ErrorDraws | None) -> Exact:
        """Exact answers with all rates given."""
        rates: dict[str, Floats] = {}
        joint: dict[str, Draws] = {}
        for name in (space.subject, *space.rivals):
            at = PricedPoints.of(name, [space.alone(name, place) for place in places], evaluator)
            rows = at.side_by_side
            if rows is None:
                rates[name] = np.full(len(places), np.nan)
                continue
            rates[name] = at.spread(np.broadcast_to(estimate(rows).tokens_per_second, len(rows)))
            if errors is not None and all(known.is_sure for known in rows.known):
                joint[name] = at.spread(errors.joint(rows))
        both = [rival for rival in space.rivals if {space.subject, rival} <= joint.keys()]
        return cls(places, rates, {rival: bounds_95(joint[space.subject] / joint[rival]) for rival in both})

    @classmethod
    def joined(cls, parts: Sequence[Exact]) -> Exact:
        """All places of the parts that have any."""
        parts = [part for part in parts if part.places] or list(parts[:1])
        rivals = [rival for rival in parts[0].ends if all(rival in part.ends for part in parts)]

        def end(rival: str, which: int) -> Floats:
            return np.concatenate([part.ends[rival][which] for part in parts])

        return cls(
            [place for part in parts for place in part.places],
            {name: np.concatenate([part.rates[name] for part in parts]) for name in parts[0].rates},
            {rival: (end(rival, 0), end(rival, 1)) for rival in rivals},
        )


class Error(Record):
    """Relative errors of a quantity at ``points`` random places: the ``worst``, and what 99 of 100 are below."""

    what: str
    worst: float
    most: float
    points: int

    @classmethod
    def of(cls, what: str, shown: Floats, exact: Floats) -> Iterator[Error]:
        """Compare shown values with exact ones; nothing if no place has both."""
        off = np.abs(shown / exact - 1.0)
        off = off[np.isfinite(off)]
        if len(off):
            yield cls(what, float(off.max()), float(np.quantile(off, 0.99)), len(off))


def interpolation_errors(
    exact: Exact, space: Space, rates: Mapping[str, RateTable], intervals: GridTable
) -> Iterator[Error]:
    """Errors of tokens/s, of ratios and of the ends of their intervals; none without exact answers."""
    if not exact.places:
        return
    title = strategies.ALL.named(space.subject).title
    ends = [intervals.at(place) for place in exact.places]
    shown = {
        name: np.array([np.exp(rates[name].table.at(place)["log_rate"]) for place in exact.places])
        for name in exact.rates
    }
    for name, rate in exact.rates.items():
        if any(axis.continuous for axis in rates[name].table.axes):
            yield from Error.of(f"tokens/s of {strategies.ALL.named(name).title}", shown[name], rate)
    for rival in space.rivals:
        said = f"{title} over {strategies.ALL.named(rival).title}"
        ratio = shown[space.subject] / shown[rival]
        yield from Error.of(said, ratio, exact.rates[space.subject] / exact.rates[rival])
        for end, bound in zip(("low", "high"), exact.ends.get(rival, ()), strict=False):
            off = np.exp([each[f"{rival}:{end}"] for each in ends])
            yield from Error.of(f"{'lower' if end == 'low' else 'upper'} end of {said}", ratio * off, bound)
