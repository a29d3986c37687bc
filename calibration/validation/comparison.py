"""Grid points of a validation, rounds measured and predicted at each, and the log that a later run goes on with."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import asdict

from ssdsim import strategies
from ssdsim.base.documents import as_record, surviving_records
from ssdsim.base.errors import InputError
from ssdsim.base.files import append_record, write_records
from ssdsim.base.intervals import Measured, student_quantile
from ssdsim.base.plain import picked, plain
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


class RoundComparison(Record):
    """A strategy at a grid point: mean round measured (with its interval over repeats) and predicted, in seconds.

    ``devices`` are the target's and the draft's; ``parts`` holds measured and predicted means of a round's parts.
    ``tokens_per_round`` is what a sequence's predicted rounds yield, ``tokens_repeats`` what the measured ones of each
    repeat yielded. ``others`` is the share of the cores that other programs took meanwhile; None where nobody knows.
    """

    point: GridPoint
    strategy: str
    devices: tuple[int, int]
    measured: Measured
    predicted_s: float
    tokens_per_round: float
    tokens_repeats: tuple[float, ...]
    parts: Mapping[str, tuple[float, float]]
    repeats_s: tuple[float, ...]
    others: float | None = None

    def __post_init__(self) -> None:
        numbers = (self.measured.value, self.predicted_s, self.tokens_per_round, *self.tokens_repeats, *self.repeats_s)
        if not all(0.0 < number < math.inf for number in numbers):
            raise ValueError("times and tokens of rounds must be positive and finite")
        if len(self.tokens_repeats) != len(self.repeats_s):
            raise ValueError("tokens_repeats and repeats_s must be lists of one length")

    @property
    def error(self) -> float:
        return self.predicted_s / self.measured.value - 1.0

    @property
    def worst_part(self) -> str:
        """The part that is off by most seconds."""
        return max(self.parts, key=lambda name: abs(self.parts[name][1] - self.parts[name][0]), default="-")


def interval(repeats: Sequence[float]) -> Measured:
    """The mean over repeats with its 95 % Student interval."""
    mean = float(np.mean(repeats))
    if len(repeats) < 2:
        return Measured(mean, float("-inf"), float("inf"))
    half = student_quantile(0.95, len(repeats) - 1) * float(np.std(repeats, ddof=1)) / len(repeats) ** 0.5
    return Measured(mean, mean - half, mean + half)


def speedups(comparisons: Sequence[RoundComparison]) -> list[tuple[str, str, Measured, float]]:
    """Each strategy's speed over its rival's at one grid point, where both ran: measured (by repeats, paired) and
    predicted, after the two names.
    """
    by_name = {c.strategy: c for c in comparisons}
    rivals = {name: strategies.ALL.named(name).rival for name in by_name}
    speedups = []
    for above, below in rivals.items():
        if below is None or below not in by_name:
            continue
        a, b = by_name[above], by_name[below]
        rates = [[t / s for t, s in zip(c.tokens_repeats, c.repeats_s, strict=True)] for c in (a, b)]
        pairs = [faster / slower for faster, slower in zip(*rates, strict=True)]
        predicted = (a.tokens_per_round / a.predicted_s) / (b.tokens_per_round / b.predicted_s)
        speedups.append((above, below, interval(pairs), predicted))
    return speedups


_SCHEMA = 3  # 3 says which strategies ran, and on which devices


class _Entry(Record):
    """A grid point's comparisons, one a strategy."""

    key: str
    comparisons: tuple[RoundComparison, ...]

    def __post_init__(self) -> None:
        unknown = [one.strategy for one in self.comparisons if one.strategy not in strategies.ALL.names]
        if unknown or not self.comparisons:
            raise ValueError(f"comparisons must be of some of {', '.join(strategies.ALL.names)}")


def append_point(log: Path, point: GridPoint, comparisons: Sequence[RoundComparison]) -> None:
    """Write a grid point's comparisons for good."""
    append_record(log, {"key": point.key, "comparisons": plain(comparisons)})


def read_or_start(log: Path, bench: Mapping[str, Any], profiles: str) -> dict[str, list[RoundComparison]]:
    """Grid points that an earlier run left, by their keys; ``profiles`` is a digest of the profiles' content."""
    header = {"schema": _SCHEMA, "bench": json.loads(json.dumps(dict(bench))), "profiles": profiles}
    if not log.exists() or not log.stat().st_size:  # a kill can leave an empty one
        write_records(log, [header])
        return {}
    records = surviving_records(log)
    if not records or records[0] != header:
        raise InputError(f"{log}: measured with another setting or profile; remove it or use another -o")
    entries = [_entry(record, f"{log}: entry {n}") for n, record in enumerate(records[1:], 1)]
    write_records(log, records)  # what a kill tore goes for good
    return {entry.key: list(entry.comparisons) for entry in entries}


def _entry(record: Any, where: str) -> _Entry:
    return as_record(_Entry, record, where, "entry")
