"""Service-level objectives: what a request must keep to be a good one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.kinds import SHARE, Flag, Kind
from ssdsim.base.option import Section
from ssdsim.base.option_record import OptionRecord, option_field
from ssdsim.base.record import Record

METRICS = ("ttft", "tpot", "e2el", "queue")
"""Metrics of a request that a bound may be put on, in milliseconds (vLLM's names)."""


_ENOUGH = 0.9  # of requests


class Slo(Record):
    """Bounds by metric, in milliseconds; a good request keeps all of them.

    ``assumed`` are the metrics whose bound was said without a unit.
    """

    bounds_ms: Mapping[str, float]
    assumed: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> Slo:
        """``ttft:500,tpot:20`` in milliseconds, or with units, ``ttft:1s,tpot:20ms``."""
        bounds, assumed = {}, []
        for part in text.split(","):
            if "=" in part:
                raise InputError(f"--slo {text}: a colon stands before a bound, such as {part.replace('=', ':')}")
            name, _, value = part.partition(":")
            name, value = name.strip(), value.strip()
            if name not in METRICS:
                raise InputError(
                    f"--slo {text}: unknown metric '{name}'{nearest(name, METRICS)} Allowed: {', '.join(METRICS)}"
                )
            bounds[name] = _milliseconds(value)
            if not 0.0 < bounds[name] < np.inf:
                raise InputError(f"--slo {text}: {name} wants milliseconds above 0, such as {name}:500 or {name}:0.5s")
            if value[-1:].lower() != "s":
                assumed.append(name)
        return Slo(bounds, tuple(assumed))

    def good(self, metrics_ms: Mapping[str, Array]) -> NDArray[np.bool_]:
        """Say which requests keep all bounds; what is not defined of a request (TPOT of one token) counts as 0."""
        kept = [np.nan_to_num(metrics_ms[name], nan=0.0) <= bound for name, bound in self.bounds_ms.items()]
        return np.asarray(np.logical_and.reduce(kept))

    @property
    def told(self) -> str:
        """``TTFT up to 500 ms, TPOT up to 20 ms``, and whether a unit was taken for granted."""
        bounds = ", ".join(f"{name.upper()} up to {bound:g} ms" for name, bound in self.bounds_ms.items())
        return (
            f"{bounds} (a number without a unit is in ms: {self.assumed[0]}:1s is a second)" if self.assumed else bounds
        )

    def __str__(self) -> str:
        return ",".join(f"{name}:{bound:g}ms" for name, bound in self.bounds_ms.items())


def _milliseconds(text: str) -> float:
    """``500``, ``500ms`` or ``0.5s``; NaN where it is no time."""
    number, per_unit = text.strip().lower(), 1.0
    for unit, each_ms in (("ms", 1.0), ("s", 1e3)):
        if number.endswith(unit):
            number, per_unit = number.removesuffix(unit), each_ms
            break
    try:
        return float(number) * per_unit
    except ValueError:
        return float("nan")


class OfSlo(Kind, Record):
    """:class:`Slo`, or its text."""

    metavar = "metric:ms[,...]"
    requirement = "be bounds in milliseconds such as ttft:500,tpot:20"

    def checked(self, said: str, value: Any) -> Slo:
        return value if isinstance(value, Slo) else Slo.parse(str(value))


class Goal(OptionRecord):
    """Goal of good requests: their bounds; with ``capacity`` the highest rate at which enough do is searched."""

    section, prominence = Section.REQUESTS, 0

    slo: Slo | str | None = option_field(
        OfSlo(),
        "what a good request keeps, in ms or with units: ttft:500,tpot:20,e2el:10s,queue:100",
        prominence=8,
    )
    capacity: bool = option_field(
        Flag(),
        "the highest rate at which enough requests keep the --slo",
        False,
        prominence=7,
    )
    attainment: float | None = option_field(SHARE, "how many are enough, as a share", default_note=f"{_ENOUGH}")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attainment is not None and not self.capacity:
            raise InputError("--attainment needs --capacity (the rate that it is searched for)")

    @property
    def bounds(self) -> Slo | None:
        """The SLO, of whose text the record's check made one."""
        return cast("Slo | None", self.slo)

    @property
    def searched(self) -> float | None:
        """The share for which a rate is searched; None where none is."""
        return (_ENOUGH if self.attainment is None else self.attainment) if self.capacity else None
