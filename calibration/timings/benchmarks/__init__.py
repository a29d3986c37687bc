"""The benchmarks, one module a kind of thing, and the handler that a rank serves them with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from calibration.timings.benchmarks import (
    attention,
    collectives,
    elementwise,
    experts,
    gemm,
    host,
    interference,
    link,
    passes,
)
from calibration.timings.benchmarks.bench import Bench, Result

_BENCHMARKS: Mapping[str, Callable[..., Result | None]] = {
    "gemm": gemm.measure,
    "attention": attention.measure,
    "experts": experts.measure,
    "elementwise": elementwise.measure,
    "all_reduce": collectives.all_reduce,
    "all_gather": collectives.all_gather,
    "all_reduce with messages": partial(collectives.all_reduce, with_messages=True),
    "all_gather with messages": partial(collectives.all_gather, with_messages=True),
    "link": link.measure,
    "rank link": link.measure,
    "round trip": link.round_trip,
    "host gap": host.measure,
    "pass": passes.measure,
    "layer": passes.measure_layer,
    "interference": interference.measure,
    "prepare": Bench.prepare,
}


def make_handler(
    rank: int, device: torch.device, options: Mapping[str, Any]
) -> Callable[[Mapping[str, Any]], Result | None]:
    """A rank's handler: runs the benchmark that a request names; None where this rank only took part or waited."""
    bench = Bench(rank, device, **options)

    def handle(request: Mapping[str, Any]) -> Result | None:
        parameters = {name: value for name, value in request.items() if name != "benchmark"}
        return _BENCHMARKS[request["benchmark"]](bench, **parameters)

    return handle
