"""Whole passes and single layers of the two models: never fitted, they check what the fit adds up to."""

from __future__ import annotations

import torch

from calibration.machine.graph import Graph
from calibration.machine.timing import Clock
from calibration.timings.benchmarks.bench import Bench, Result
from calibration.timings.points import Shape
from ssdsim.base.record import replace
from ssdsim.transformer.forward import ForwardPass, forward_pass

_RUNS = {"cpu": 1, "cuda": 10}  # of each visit


def measure(bench: Bench, *, role: str, name: str, shape: Shape) -> Result | None:
    """A pass of :class:`calibration.timings.points.Workload`."""
    captured = graph_and_pass(bench, role, shape)
    return None if captured is None else _time(bench, *captured, reports=_reports(bench, role))


def measure_layer(bench: Bench, *, role: str, name: str, shape: Shape) -> Result | None:
    """One layer of that pass, run as often as the model has layers, divided by their number."""
    captured = graph_and_pass(bench, role, shape)
    if captured is None:
        return None
    graph, forward = captured
    timed = _time(bench, graph, replace(forward, before=(), after=()), reports=_reports(bench, role))
    return None if timed is None else timed | {"seconds": timed["seconds"] / forward.layers}


def graph_and_pass(bench: Bench, role: str, shape: Shape) -> tuple[Graph, ForwardPass] | None:
    """The model of ``role`` and its pass of that shape; None on a rank that does not hold it."""
    if not (bench.has_target if role == "target" else bench.has_draft):
        return None
    graph, (batch, queries, masked) = bench.target if role == "target" else bench.draft, shape
    return graph, forward_pass(
        graph.card,
        batch=batch,
        queries=queries,
        context=bench.workload.context,
        tp=graph.tp,
        dtype=graph.dtype,
        masked=masked,
    )


def clock_of(forward: ForwardPass, device: torch.device) -> Clock:
    """A pass with collectives waits for the other ranks; one on a GPU is launched and waited for, as in a round."""
    waits = any(op.family == "communication" for op, _ in forward.counted())
    return "wall" if waits or device.type == "cuda" else "core"


def _reports(bench: Bench, role: str) -> bool:
    return bench.rank == (0 if role == "target" else bench.draft_rank)


def _time(bench: Bench, graph: Graph, forward: ForwardPass, reports: bool) -> Result | None:
    runs, clock = _RUNS[bench.device.type], clock_of(forward, bench.device)
    timed = bench.time(graph.prepare(forward), warm_ups=1, least_runs=runs, most_runs=runs, clock=clock)
    return timed.to_json() if reports else None
