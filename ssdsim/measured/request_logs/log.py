"""What every log of requests comes down to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ssdsim.checks import Array


@dataclass(frozen=True)
class RequestLog:
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
