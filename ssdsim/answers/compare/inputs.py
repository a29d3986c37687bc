"""What a comparison rests on beside timings: how often tokens are accepted and guesses hit, and who says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ssdsim.answers.reads import options_read
from ssdsim.errors import InputError, nearest
from ssdsim.kinds import Number, OneOrByPosition
from ssdsim.option import Group, spelled
from ssdsim.scenario.asked import effective
from ssdsim.scenario.drafting import PUBLISHED
from ssdsim.scenario.options import ALL, members
from ssdsim.settings import DEFAULT, GIVEN, Settings

Origin = Literal["placeholder", "given", "card", "published", "trace", "pair"]
Range = tuple[float, float]


@dataclass(frozen=True)
class AcceptanceInput:
    """An option's value, where it comes from, and in which range it may lie (None: exactly there).

    A ``placeholder`` is nobody's: a default. ``given`` is a user's word, a ``card`` rates with a source, ``published``
    those of a drafter's card, a ``trace`` accepted lengths of a real run, a ``pair`` the file of a pair that was
    measured, whose own intervals are drawn with the timings' errors. ``read_by`` are the strategies whose speed rests
    on it.
    """

    name: str
    value: Any
    origin: Origin
    within: Range | None
    read_by: tuple[str, ...]

    @property
    def is_measured(self) -> bool:
        return self.origin in ("trace", "pair")


def acceptance_inputs(points: Mapping[str, Mapping[str, Any]], ranges: Mapping[str, Range]) -> list[AcceptanceInput]:
    """The inputs behind the strategies at their ``points`` (options by strategy).

    Raises
    ------
    InputError : a range of an option that is no such number, that has no effect here, or that is none.
    """
    read: dict[str, list[str]] = {}
    settings: dict[str, Settings] = {}
    for strategy, point in points.items():
        known = effective(point)
        for name in options_read(strategy, point) & set(members(Group.ACCEPTANCE)):
            if known[name] is not None:
                read.setdefault(name, []).append(strategy)
                settings[name] = known
    _check_ranges(ranges, read)
    found = []
    for name in members(Group.ACCEPTANCE):
        if name in read:
            origin = _origin(name, settings[name])
            assumed = ALL[name].plausible if origin == "placeholder" else None
            within = ranges.get(name, assumed)
            found.append(AcceptanceInput(name, settings[name][name], origin, within, tuple(read[name])))
    return found


def _origin(name: str, settings: Settings) -> Origin:
    source = settings.source(name)
    if source == DEFAULT:
        return "placeholder"
    if source.startswith(PUBLISHED):
        return "published"
    if source != GIVEN:
        return "pair"
    if name == "acceptance":
        return "trace" if Path(settings[name]).suffix in (".csv", ".jsonl") else "card"
    return "given"


def _check_ranges(ranges: Mapping[str, Range], read: Mapping[str, Any]) -> None:
    ranged = [name for name in members(Group.ACCEPTANCE) if isinstance(ALL[name].kind, Number | OneOrByPosition)]
    for name, (low, high) in ranges.items():
        if name not in ranged:
            raise InputError(f"--range: no such number '{name}'{nearest(name, ranged)} Allowed: {', '.join(ranged)}")
        for end in (low, high):
            ALL[name].checked(end)
        if not low <= high:
            raise InputError(f"--range {name}={low:g}:{high:g} must not fall")
        if name not in read:
            raise InputError(f"--range {name} has no effect: no strategy that is compared reads {spelled(name)}")


def drawn(inputs: Iterable[AcceptanceInput], draws: int, seed: int) -> Iterator[Mapping[str, float]]:
    """``draws`` points of the ranges, uniform and spread evenly in each of them (a Latin hypercube)."""
    rng = np.random.default_rng(seed)
    ranged = [each for each in inputs if each.within is not None]
    columns: Sequence[Any] = [
        each.within[0] + (rng.permutation(draws) + rng.random(draws)) / draws * (each.within[1] - each.within[0])
        for each in ranged
        if each.within is not None
    ]
    for row in range(draws):
        yield {each.name: float(column[row]) for each, column in zip(ranged, columns, strict=True)}
