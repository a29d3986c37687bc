"""What a request must keep to be a good one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.errors import InputError, nearest

METRICS = ("ttft", "tpot", "e2el", "queue")
"""Metrics of a request that a bound may be put on, in milliseconds (vLLM's names)."""


@dataclass(frozen=True)
class Slo:
    """Bounds by metric, in milliseconds; a good request keeps all of them."""

    bounds_ms: Mapping[str, float]

    @staticmethod
    def parse(text: str | None) -> Slo | None:
        """``ttft:500,tpot:20`` in milliseconds, or with units, ``ttft:1s,tpot:20ms``; None where nothing is asked.

        Raises
        ------
        InputError : an unknown metric, or a bound that is no positive number.
        """
        if text is None:
            return None
        bounds = {}
        for part in text.split(","):
            name, _, value = part.partition(":")
            name = name.strip()
            if name not in METRICS:
                raise InputError(
                    f"--slo {text}: unknown metric '{name}'{nearest(name, METRICS)} Allowed: {', '.join(METRICS)}"
                )
            bounds[name] = _milliseconds(value)
            if not 0.0 < bounds[name] < np.inf:
                raise InputError(f"--slo {text}: {name} wants milliseconds above 0, such as {name}:500 or {name}:0.5s")
        return Slo(bounds)

    def good(self, metrics_ms: Mapping[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
        """Whether each request keeps all bounds; what is not defined of a request (TPOT of one token) counts as 0."""
        kept = [np.nan_to_num(metrics_ms[name], nan=0.0) <= bound for name, bound in self.bounds_ms.items()]
        return np.asarray(np.logical_and.reduce(kept))

    def __str__(self) -> str:
        return ",".join(f"{name}:{bound:g}" for name, bound in self.bounds_ms.items())


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
