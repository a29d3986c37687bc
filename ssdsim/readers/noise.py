"""Noise between repeats of one setting: what a machine does not repeat, no fit can know better."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ssdsim.base.intervals import student_quantile
from ssdsim.base.record import Record
from ssdsim.readers.row import Row

_SEEN = {"value", "repeat", "ttft_ms", "itl_ms", "output_tokens_per_s", "input_tokens", "output_tokens"}
_SEEN |= {"acceptance_length", "rounds", "undrafted_rounds", "drafted_per_round", "accepted_by_position"}
"""Columns that are no part of a setting."""
_AS_LONG = 0.15
"""Prompts whose lengths differ by less were asked for alike."""


class Repeated(Record):
    """The rows of one setting, a repeat each."""

    rows: tuple[Row, ...]

    @property
    def mean(self) -> float:
        return float(np.mean([row.value for row in self.rows]))

    @property
    def noise(self) -> float | None:
        """Standard deviation of a repeat's logarithm, about a share of the mean; None of a single one."""
        return float(np.std(self._logs, ddof=1)) if len(self.rows) > 1 else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Student's 95 % interval, of the mean logarithm: what takes time takes more than none."""
        if self.noise is None:
            return None
        count, middle = len(self.rows), float(np.mean(self._logs))
        half = student_quantile(0.95, count - 1) * self.noise / math.sqrt(count)
        return math.exp(middle - half), math.exp(middle + half)

    @property
    def _logs(self) -> list[float]:
        return [math.log(row.value) for row in self.rows]


def repeated(rows: Sequence[Row]) -> list[Repeated]:
    """The rows by setting, in the order in which they first come; prompts of about a length are of one."""
    by_setting: dict[tuple[object, ...], list[list[Row]]] = {}
    for row in rows:
        setting = tuple(value for name, value in row.model_dump().items() if name not in _SEEN)
        alike = by_setting.setdefault((*setting, round(row.output_tokens)), [])
        own = next((each for each in alike if _as_long(each[0], row)), None)
        if own is None:
            alike.append([row])
        else:
            own.append(row)
    return [Repeated(tuple(each)) for alike in by_setting.values() for each in alike]


def _as_long(one: Row, other: Row) -> bool:
    return abs(one.input_tokens - other.input_tokens) <= _AS_LONG * max(one.input_tokens, other.input_tokens)


def noise_of(settings: Sequence[Repeated]) -> float | None:
    """Noise of a repeat over all settings, weighted by what each tells of it; None where nothing was repeated."""
    told = [(len(each.rows) - 1, each.noise) for each in settings if each.noise is not None]
    degrees = sum(weight for weight, _ in told)
    return math.sqrt(sum(weight * noise**2 for weight, noise in told) / degrees) if degrees else None
