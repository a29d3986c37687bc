"""Errors of a page between its points: interpolated against exact answers at random places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ssdsim import strategies
from ssdsim.answers.grid import Evaluator
from ssdsim.base.intervals import Draws, quantiles
from ssdsim.base.record import Record
from ssdsim.question.many import estimate
from ssdsim.reports.explorer.doubts import Basis, Doubt, drawn_at
from ssdsim.reports.explorer.space import Ranges, Space, random_value
from ssdsim.reports.explorer.strategy_grid import ErrorDraws, PricedPoints
from ssdsim.reports.explorer.table import Floats, GridTable

FEW_PLACES = 400  # at most, where other strategies than the default ones are compared: some search a tree at each point
LIKELY = (0.1, 0.9)  # the likely range is between these shares of the draws
_A_DRAWN, _MANY_A_DRAWN = 16, 40  # one of so many random places has draws
Place = Mapping[str, Any]


def beyond_default(space: Space) -> bool:
    """Say whether strategies beyond the default ones are compared."""
    return not {*space.names} <= {*strategies.DEFAULT}


def random_places(space: Space, count: int, seed: int) -> list[Place]:
    """Random places between the axes' ends, at most ``count``; none if nothing is interpolated."""
    if not any(axis.continuous for axis in space.axes):
        return []
    if beyond_default(space):
        count = min(count, FEW_PLACES)
    rng = np.random.default_rng(seed)
    return [{axis.name: random_value(axis, rng) for axis in space.axes} for _ in range(count)]


class Exact(Record, eq=False):
    """Exact tokens/s by strategy at ``places`` (NaN without room), and by rival the ends of the subject's ratio.

    The ends are those of the likely range at the ``drawn`` places, with the doubts about their values; there are none
    if nothing is uncertain.
    """

    places: Sequence[Place]
    rates: Mapping[str, Floats]
    drawn: Sequence[Place]
    ends: Mapping[str, tuple[Draws, Draws]]

    @classmethod
    def of(
        cls,
        space: Space,
        places: Sequence[Place],
        evaluator: Evaluator,
        doubts: Sequence[Doubt],
        errors: ErrorDraws | None,
    ) -> Exact:
        rates: dict[str, Floats] = {}
        joint: dict[str, Draws] = {}
        drawn = places[: len(places) // (_MANY_A_DRAWN if beyond_default(space) else _A_DRAWN)]
        for name in (space.subject, *space.rivals):
            at = PricedPoints.of(name, [space.alone(name, place) for place in places], evaluator)
            rows = at.side_by_side
            rates[name] = np.full(len(places), np.nan)
            if rows is not None:
                rates[name] = at.spread(np.broadcast_to(estimate(rows).tokens_per_second, len(rows)))
            if errors is not None:
                open_ = [space.alone(name, place, _about(doubts, place)) for place in drawn]
                of_draws = PricedPoints.of(name, open_, evaluator)
                if (rows := of_draws.side_by_side) is not None:
                    joint[name] = of_draws.spread(errors.joint(rows))
        both = [rival for rival in space.rivals if {space.subject, rival} <= joint.keys()]
        ends = {}
        for rival in both:
            low, high = quantiles(joint[space.subject] / joint[rival], *LIKELY)
            ends[rival] = low, high
        return cls(places, rates, drawn if ends else (), ends)

    @classmethod
    def joined(cls, parts: Sequence[Exact]) -> Exact:
        """All places of the parts that have any."""
        parts = [part for part in parts if part.places] or list(parts[:1])
        rivals = [rival for rival in parts[0].ends if all(rival in part.ends for part in parts)]

        def end(rival: str, which: int) -> Draws:
            return np.concatenate([part.ends[rival][which] for part in parts])

        return cls(
            [place for part in parts for place in part.places],
            {name: np.concatenate([part.rates[name] for part in parts]) for name in parts[0].rates},
            [place for part in parts for place in part.drawn],
            {rival: (end(rival, 0), end(rival, 1)) for rival in rivals},
        )


def _about(doubts: Sequence[Doubt], place: Place) -> Ranges:
    """The ranges of doubts about the values of a place."""
    ends = {each.name: each.about(place[each.name])[0] for each in doubts}
    return {name: (float(low), float(high)) for name, (low, high) in ends.items()}


class Error(Record):
    """Relative errors of a quantity at ``points`` random places: the ``worst``, and what 99 of 100 are below."""

    what: str
    worst: float
    most: float
    points: int

    @classmethod
    def of(cls, what: str, shown: Draws, exact: Draws) -> Iterator[Error]:
        """Compare shown values with exact ones; nothing if no place has both."""
        off = np.abs(shown / exact - 1.0)
        off = off[np.isfinite(off)]
        if len(off):
            yield cls(what, float(off.max()), float(np.quantile(off, 0.99)), len(off))


def interpolation_errors(
    exact: Exact,
    space: Space,
    rates: Mapping[str, GridTable],
    errors: Mapping[str, GridTable],
    basis: Basis,
    doubts: Sequence[Doubt],
) -> Iterator[Error]:
    """Errors of tokens/s, of ratios and of the ends of their likely ranges; none without exact answers."""
    if not exact.places:
        return
    title = strategies.ALL.named(space.subject).title
    shown = {
        name: np.array([np.exp(rates[name].at(place)["log_rate"]) for place in exact.places]) for name in exact.rates
    }
    for name, rate in exact.rates.items():
        if any(axis.continuous for axis in rates[name].axes):
            yield from Error.of(f"tokens/s of {strategies.ALL.named(name).title}", shown[name], rate)
    drawn = {
        name: np.stack([drawn_at(place, rates[name], errors[name], basis, doubts) for place in at])
        for name in exact.rates
        if (at := exact.drawn)
    }
    for rival in space.rivals:
        said = f"{title} over {strategies.ALL.named(rival).title}"
        ratio = shown[space.subject] / shown[rival]
        yield from Error.of(said, ratio, exact.rates[space.subject] / exact.rates[rival])
        if rival in exact.ends:
            ends = quantiles(np.exp(drawn[space.subject] - drawn[rival]), *LIKELY)
            for end, found, bound in zip(("lower", "upper"), ends, exact.ends[rival], strict=True):
                yield from Error.of(f"{end} end of {said}", found, bound)
