"""The benchmarks, and the handler that a rank serves them with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from calibration.timings.benchmarks import communication, operations, passes
from calibration.timings.benchmarks.bench import BenchmarkRank, Result

_BENCHMARKS: Mapping[str, Callable[..., Result | None]] = {
    "gemm": operations.gemm,
    "attention": operations.attention,
    "experts": operations.experts,
    "elementwise": operations.elementwise,
    "all_reduce": communication.all_reduce,
    "all_gather": communication.all_gather,
    "all_reduce with messages": partial(communication.all_reduce, with_messages=True),
    "all_gather with messages": partial(communication.all_gather, with_messages=True),
    "link": communication.link,
    "rank link": communication.link,
    "round trip": communication.round_trip,
    "host gap": passes.host_gap,
    "pass": passes.whole_pass,
    "layer": passes.single_layer,
    "interference": passes.interference,
    "prepare": BenchmarkRank.prepare,
}


def make_handler(
    rank: int, device: torch.device, options: Mapping[str, Any]
) -> Callable[[Mapping[str, Any]], Result | None]:
    """A rank's handler: runs the benchmark that a request names; None if this rank only took part or waited."""
    bench = BenchmarkRank(rank, device, **options)

    def handle(request: Mapping[str, Any]) -> Result | None:
        parameters = {name: value for name, value in request.items() if name != "benchmark"}
        return _BENCHMARKS[request["benchmark"]](bench, **parameters)

    return handle
