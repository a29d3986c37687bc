"""The content of the page: a head in JSON, and all numbers of its tables as one run of bytes."""

from __future__ import annotations

import base64
import gzip
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.answers.verdict import no_room, stands_alone
from ssdsim.base.option import Option, spelled
from ssdsim.question.options import ALL
from ssdsim.reports.explorer.command import spelled_value, words
from ssdsim.reports.explorer.contests import THRESHOLDS, Contests
from ssdsim.reports.explorer.explore import Explored
from ssdsim.reports.explorer.interpolation import WIDTH
from ssdsim.reports.explorer.space import Axis, Space, side_axis
from ssdsim.reports.explorer.table import Table
from ssdsim.reports.style import WORK_COLOUR, WORK_PATTERN, colour_of, symbol_of, title_of
from ssdsim.rounds.estimate import PARTS, part_title

_LOW_BITS = np.uint32(0xFFFFFF00)  # of the mantissa sixteen bits are left: 8e-6


def content(found: Explored) -> dict[str, Any]:
    """The page's data; ``numbers`` are float32 in base64 of gzip, of which each table knows where its own begin."""
    numbers = _Numbers()
    space = found.space
    return {
        **_asked(space),
        "seed": found.seed,
        "axes": [_axis(space, axis) for axis in space.axes],
        "width": WIDTH,
        "thresholds": THRESHOLDS,
        "parts": [_part(part) for part in PARTS],
        "rates": {name: numbers.table(each.table) for name, each in found.rates.items()},
        "refused": {
            name: {
                **numbers.array(each.refused, each.table.axes),
                "reasons": each.reasons,
                "sentences": [no_room(name, reason) for reason in each.reasons],
            }
            for name, each in found.rates.items()
        },
        "memory": {name: numbers.table(each) for name, each in found.memory.items()},
        "given": numbers.contests(found.given),
        "assumed": None if found.assumed is None else numbers.contests(found.assumed),
        "numbers": numbers.encoded,
    }


def _asked(space: Space) -> dict[str, Any]:
    """The question: who is compared, and what the page's state leaves to say."""
    return {
        "unit": "T_v" if space.unit_free else "s",
        "subject": space.subject,
        "rivals": space.rivals,
        "strategies": [
            {"name": name, "title": title_of(name), "colour": colour_of(name), "symbol": symbol_of(name)}
            for name in space.names
        ],
        "alone": stands_alone(space.subject),
        "fixedStrategies": "strategies" in space.fixed,
        "fixed": [(name, words({name: value})) for name, value in space.fixed.items() if name != "strategies"],
        "supposed": {name: {"value": value, "words": words({name: value})} for name, value in space.assumed.items()},
        "budgets": _budgets(space),
        "sides": side_axis(space),
    }


def _part(part: str) -> dict[str, str]:
    look = {"colour": WORK_COLOUR[part], "pattern": WORK_PATTERN.get(part, "")}
    return {"name": part, "title": part_title(part), **look}


def _axis(space: Space, axis: Axis) -> dict[str, Any]:
    option = ALL[axis.name]
    return {
        "name": axis.name,
        "title": option.axis,
        "flag": spelled(axis.name),
        "values": axis.values,
        "words": ["" if value is None else shlex.quote(spelled_value(value)) for value in axis.values],
        "labels": [_unsaid(option) if value is None else spelled_value(value) for value in axis.values],
        "continuous": axis.continuous,
        "best": axis.best,
        "start": axis.start,
        "read_by": [name for name in space.names if axis.name in space.read[name]],
        "step": _step(axis) if axis.continuous else None,
    }


def _unsaid(option: Option) -> str:
    """The label of an option that is not given: what it then is, where no other option says so."""
    return option.default_note if option.default_note and "--" not in option.default_note else "not given"


def _step(axis: Axis) -> float:
    """A hundredth of the range or so, a power of ten."""
    return float(10.0 ** np.floor(np.log10((axis.values[-1] - axis.values[0]) / 30.0)))


def _budgets(space: Space) -> dict[str, int] | None:
    """The budget of each F and K, where F only says how much the draft has to do."""
    names = {axis.name for axis in space.axes}
    if not {"f", "p_hit"} <= names:
        return None
    found = {}
    for at in space.points([name for name in ("f", "k") if name in names]):
        found["|".join(map(str, at.values()))] = space.options({**space.start, **at})["budget"]
    return found


class _Numbers:
    """All tables' numbers, one after the other."""

    def __init__(self) -> None:
        self._parts: list[NDArray[np.float32]] = []
        self._size = 0

    def table(self, table: Table) -> dict[str, Any]:
        return {**self.array(table.values, table.axes), "columns": table.columns}

    def array(self, values: NDArray[Any], axes: Sequence[Axis]) -> dict[str, Any]:
        """``nodes`` are those of an axis that is interpolated here."""
        start = self._size
        self._parts.append(np.asarray(values, dtype=np.float32).reshape(-1))
        self._size += values.size
        nodes = {axis.name: axis.values for axis in axes if axis.continuous}
        return {"axes": [axis.name for axis in axes], "nodes": nodes, "shape": values.shape, "start": start}

    def contests(self, found: Contests) -> dict[str, Any]:
        sentences = list(dict.fromkeys((case.sentence, case.outcome) for case in found.known))
        number = {sentence: at for at, sentence in enumerate(sentences)}
        return {
            **self.table(found.table),
            "sets": found.sets,
            "cases": self.array(found.cases, found.table.axes),
            "known": [(case.code, number[case.sentence, case.outcome]) for case in found.known],
            "sentences": sentences,
        }

    @property
    def encoded(self) -> str:
        rounded = (np.concatenate(self._parts).view(np.uint32) + np.uint32(0x80)) & _LOW_BITS
        return base64.b64encode(gzip.compress(rounded.astype("<u4").tobytes(), 7, mtime=0)).decode()
