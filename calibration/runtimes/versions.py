"""How an engine's versions differ: what each adds to a card's numbers, and how far one may be that no row is of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from calibration.timings.fit import significant
from ssdsim.base.checks import Array
from ssdsim.hardware.engine_versions import ByVersion, Deviation
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.readers.row import Row

Versions = tuple[tuple[str, str], ...]
"""Versions, each with a number in which it differs."""

VERSION_SD: Mapping[str, float] = {
    "per_layer_s": 4e-6,
    "per_sequence_s": 15e-6,
    "per_expert_layer_s": 2e-5,
    "per_recurrent_layer_s": 2e-5,
}
"""The numbers in which an engine's versions differ, and by how much they usually do."""

_USUAL_VERSIONS = 3
"""For how many versions the usual differences count beside those there are."""


def version_of(row: Row) -> str:
    """The release that ran a row; empty where nobody says it."""
    return row.stated_version.partition(".post")[0]


def of_version(card: Runtime, version: str) -> Runtime:
    """The card of one version: what that was known to add is in its numbers, to which a fit is drawn."""
    there = card.of_version(version)
    stated = None if there.by_version is None else there.by_version.stated
    if there.by_version is None or stated is None:
        return there
    numbers = {name: max(0.0, there.numbers[name] + added) for name, added in stated.adds.items()}
    return there.with_numbers(numbers).changed(by_version=there.by_version.changed(stated=stated.changed(adds={})))


def spreads(versions: Versions, adds: Array, variances: Array) -> dict[str, float]:
    """How far versions lie apart in each number: by what they add, and the usual spread for a few versions more."""
    spreads = {}
    for number in {number for _, number in versions}:
        own = np.array([name == number for _, name in versions])
        squares = float((adds[own] ** 2 + variances[own]).sum()) + _USUAL_VERSIONS * VERSION_SD[number] ** 2
        spreads[number] = math.sqrt(squares / (own.sum() + _USUAL_VERSIONS))
    return spreads


def as_said(
    versions: Versions,
    fields: Sequence[str],
    adds: Array,
    covariance: Array,
    beside: Array,
    spread: Mapping[str, float],
) -> ByVersion:
    """What versions add as a card says it: of those that somebody said, and how far another one may be.

    ``covariance`` is of the fields and of what is added together, ``beside`` that of the fields beside it.
    """
    count = len(fields)
    found: dict[str, tuple[dict[str, float], dict[str, float]]] = {}
    wide = {}
    for place, (version, number) in enumerate(versions):
        own = fields.index(number) if number in fields else None
        at = [count + place] if own is None else [own, count + place]
        known = 0.0 if own is None else float(beside[own, own])
        mean = 0.0 if own is None else float(covariance[own, own])
        wide[number] = significant(math.sqrt(spread[number] ** 2 + max(0.0, mean - known)))
        added, left = found.setdefault(version, ({}, {}))
        added[number] = significant(float(adds[place]))
        left[number] = significant(math.sqrt(max(0.0, float(covariance[np.ix_(at, at)].sum()) - known)))
    known_versions = tuple(Deviation(version=name, adds=a, open=left) for name, (a, left) in sorted(found.items()))
    return ByVersion(spread=wide, known=known_versions)


def merged(parts: Sequence[ByVersion | None]) -> ByVersion | None:
    """What several fits of a card say of its versions; where two know a number of one, the one that knows it better."""
    there = [part for part in parts if part is not None]
    if not there:
        return None
    names = {name for part in there for name in part.spread}
    spread = {name: max(part.spread.get(name, 0.0) for part in there) for name in sorted(names)}
    best: dict[str, dict[str, tuple[float, float]]] = {}
    for each in (each for part in there for each in part.known):
        own = best.setdefault(each.version, {})
        for name, added in each.adds.items():
            found = each.open.get(name, 0.0), added
            own[name] = min(own.get(name, found), found)
    known = tuple(
        Deviation(
            version=version,
            adds={name: added for name, (_, added) in own.items()},
            open={name: left for name, (left, _) in own.items()},
        )
        for version, own in sorted(best.items())
    )
    return ByVersion(spread=spread, known=known)


def fitted(base: ByVersion | None, own: ByVersion | None, fields: Sequence[str]) -> ByVersion | None:
    """What a card says of versions after a fit of ``fields``: of these what its rows showed, of others as before.

    Rows of one version settle it.
    """
    if base is None:
        return own
    spread = {name: sd for name, sd in base.spread.items() if name not in fields}
    if base.stated is not None:
        left = {name: 0.0 if name in fields else sd for name, sd in base.stated.open.items()}
        return base.changed(spread=spread, stated=base.stated.changed(open=left))
    known = tuple(
        each.changed(
            adds={name: added for name, added in each.adds.items() if name not in fields},
            open={name: sd for name, sd in each.open.items() if name not in fields},
        )
        for each in base.known
    )
    before = ByVersion(spread=spread, known=tuple(each for each in known if each.adds)) if spread else None
    return merged((before, own))
