"""Log of requests, whatever tool wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record, field

MOST_TOKENS = 10**8
"""The most tokens of a prompt or of an answer."""
LATEST = 1e15
"""Seconds: a clock of nanoseconds since 1970 that was taken for one of seconds is beyond."""

Tokens = Annotated[float, Field(ge=0.0, le=MOST_TOKENS, allow_inf_nan=False)]
Milliseconds = Annotated[float, Field(ge=-LATEST, le=LATEST, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=-LATEST, le=LATEST, allow_inf_nan=False)]


class RequestLog(Record):
    """A line a request: ``arrival_s`` (None where the file does not say), ``input_tokens``, ``output_tokens``.

    ``measured_ms`` are times that a benchmark saw, by metric (``ttft``, ``tpot``, ``e2el``); NaN where a request has
    none. ``concurrency`` is what the file says were in flight, where it names no arrivals. ``notes`` say what was left
    out, or taken for something else. ``model`` is the name that a benchmark calls it by.
    """

    form: str
    arrival_s: Array | None
    input_tokens: Array
    output_tokens: Array
    measured_ms: Mapping[str, Array] = field(default_factory=dict)
    concurrency: int | None = None
    notes: tuple[str, ...] = ()
    model: str | None = None

    def __post_init__(self) -> None:
        columns = {"arrivals": (self.arrival_s, LATEST), "input tokens": (self.input_tokens, MOST_TOKENS)}
        columns["output tokens"] = self.output_tokens, MOST_TOKENS
        for name, (values, most) in columns.items():
            if values is not None and (beyond := values[np.abs(values) > most]).size:
                raise InputError(f"{self.form}: {name} must be at most {most:g}, got {beyond[0]:g}")
