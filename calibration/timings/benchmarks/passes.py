"""Whole passes and single layers of the two models, their slowdown while both compute, and the host's gaps.

Passes and layers are never fitted: they check what the fit adds up to.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
import torch.distributed as dist

from calibration.machine.devices import synchronised
from calibration.machine.graph import Graph
from calibration.machine.timing import Action, Clock, capture
from calibration.timings.benchmarks.bench import BenchmarkRank, Result
from calibration.timings.plan import Shape
from ssdsim.base.record import replace
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import ForwardPass, forward_pass
from ssdsim.transformer.operations import Operation

_PASS_RUNS = {"cpu": 1, "cuda": 10}  # of each visit
_ALONE_S, _TOGETHER_S = 0.1, 0.3
_FEWEST = 2
_CYCLES = 2  # of each visit

Span = tuple[float, float]
_FEW, _MANY = 2, 18
_GAP_RUNS = 10  # of each visit
_LAUNCHES = 64


def whole_pass(bench: BenchmarkRank, *, role: str, name: str, shape: Shape) -> Result | None:
    """A pass of :class:`calibration.timings.plan.CalibrationWorkload`."""
    captured = graph_and_pass(bench, role, shape)
    return None if captured is None else _time_pass(bench, *captured, reports=_reports(bench, role))


def single_layer(bench: BenchmarkRank, *, role: str, name: str, shape: Shape) -> Result | None:
    """One layer of that pass, run as often as the model has layers, divided by their number."""
    captured = graph_and_pass(bench, role, shape)
    if captured is None:
        return None
    graph, forward = captured
    timed = _time_pass(bench, graph, replace(forward, before=(), after=()), reports=_reports(bench, role))
    return None if timed is None else timed | {"seconds": timed["seconds"] / forward.layers}


def graph_and_pass(bench: BenchmarkRank, role: str, shape: Shape) -> tuple[Graph, ForwardPass] | None:
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
    """The wall clock for a pass with collectives, which waits for other ranks, and on a GPU; else the core's."""
    waits = any(op.family == "communication" for op, _ in forward.counted)
    return "wall" if waits or device.type == "cuda" else "core"


def _reports(bench: BenchmarkRank, role: str) -> bool:
    return bench.rank == (0 if role == "target" else bench.draft_rank)


def _time_pass(bench: BenchmarkRank, graph: Graph, forward: ForwardPass, reports: bool) -> Result | None:
    runs, clock = _PASS_RUNS[bench.device.type], clock_of(forward, bench.device)
    timed = bench.time(graph.prepare(forward), warm_ups=1, least_runs=runs, most_runs=runs, clock=clock)
    return timed.to_json() if reports else None


def interference(bench: BenchmarkRank, *, target: str, draft: str, target_shape: Shape, draft_shape: Shape) -> Result:
    """The seconds of a target's pass and of a draft's, alone and while the other side works.

    Both sides run alone, then at the same time, and again. Only runs wholly within the other side's count. The numbers
    of runs are agreed beforehand: ranks of one side that stopped by their own clocks would hang in a collective.
    """
    names = {"target": target, "draft": draft}
    shapes = {"target": target_shape, "draft": draft_shape}
    actions = {role: _action(bench, role, shape) for role, shape in shapes.items()}
    alone_s: dict[str, list[float]] = {role: [] for role in names}
    together_s: dict[str, list[float]] = {role: [] for role in names}
    for _ in range(_CYCLES):
        for role in names:
            alone_s[role].append(_alone(bench, role, names[role], actions[role]))
        for role, seconds in _together(bench, actions, {role: alone_s[role][-1] for role in names}).items():
            together_s[role].append(seconds)
    alone, together = ({role: fmean(times[role]) for role in names} for times in (alone_s, together_s))
    figures = {f"{role}_alone_s": alone[role] for role in names} | {f"{role}_s": together[role] for role in names}
    return {"seconds": together["target"], "runs": _CYCLES, **figures}


def _together(
    bench: BenchmarkRank, actions: Mapping[str, Action | None], alone_s: Mapping[str, float]
) -> dict[str, float]:
    """Mean seconds of both passes while both sides work."""
    long_s = max(_TOGETHER_S, (_FEWEST + 1) * max(alone_s.values()))
    mine = "target" if bench.has_target else "draft"
    action = actions[mine]
    assert action is not None
    dist.barrier()
    spans = _spans(action, math.ceil(long_s / alone_s[mine]))
    everyone: list[Any] = [None] * bench.ranks
    dist.all_gather_object(everyone, spans)
    of = {"target": everyone[0], "draft": everyone[bench.draft_rank]}
    return {"target": _within(of["target"], of["draft"]), "draft": _within(of["draft"], of["target"])}


def _action(bench: BenchmarkRank, role: str, shape: Shape) -> Action | None:
    """The pass of ``role`` where this rank holds it; each run ends before the next starts."""
    captured = graph_and_pass(bench, role, shape)
    if captured is None:
        return None
    action = captured[0].prepare(captured[1])
    return synchronised(action, bench.device)


def _alone(bench: BenchmarkRank, role: str, name: str, action: Action | None) -> float:
    """Seconds of ``action`` with the other side idle, as the first rank of ``role`` times it."""
    if name not in bench.known_s:  # the first run also warms up
        bench.known_s[name] = _from_first(bench, role, _mean(_spans(action, 2)[1:]) if action is not None else 0.0)
    runs = max(_FEWEST, math.ceil(_ALONE_S / bench.known_s[name]))
    return _from_first(bench, role, _mean(_spans(action, runs)) if action is not None else 0.0)


def _from_first(bench: BenchmarkRank, role: str, seconds: float) -> float:
    """Broadcast the seconds that the first rank of ``role`` measured."""
    numbers = [seconds]
    dist.broadcast_object_list(numbers, src=0 if role == "target" else bench.draft_rank, device=bench.message_device)
    return numbers[0]


def _spans(action: Action, runs: int) -> list[Span]:
    """Start and end of each run on the machine's monotonic clock."""
    spans = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        spans.append((start, time.perf_counter()))
    return spans


def _within(spans: list[Span], others: list[Span]) -> float:
    """The mean time of the runs wholly within the other side's, or of the first run if there are none."""
    start, end = others[0][0], others[-1][1]
    inside = [span for span in spans if start <= span[0] and span[1] <= end]
    return _mean(inside or spans[:1])


def _mean(spans: list[Span]) -> float:
    return fmean(end - start for start, end in spans)


def host_gap(bench: BenchmarkRank, *, role: str) -> Result | None:
    """Gaps a layer, a pass and an eager launch, in seconds, of the card of ``role`` made tiny; on the first rank.

    A tiny model's operations take their launch floors; the same operations timed alone take them too, so the
    difference is the host's.
    """
    if bench.rank != 0:
        return None
    card = bench.workload.target if role == "target" else bench.workload.draft
    few, many = (_tiny_seconds(bench, _tiny(card, layers)) for layers in (_FEW, _MANY))
    layer_s = (many - few) / (_MANY - _FEW)
    graph, forward = _tiny_graph(bench, _tiny(card, _FEW))
    around = (*forward.before, *forward.after)
    return {
        "seconds": max(0.0, layer_s - _operations_alone(bench, graph, forward.layer)),
        "per_pass_s": max(0.0, few - _FEW * layer_s - _operations_alone(bench, graph, around)),
        "per_launch_s": _launch_s(bench),
        "runs": 2 * _GAP_RUNS,
        "spread": 0.0,
        "outliers": 0,
    }


def _launch_s(bench: BenchmarkRank) -> float:
    """Time what a kernel loses when the host launches it, not a CUDA graph; a CPU launches nothing."""
    if bench.device.type == "cpu":
        return 0.0
    values = torch.zeros(64, device=bench.device)

    def launches() -> None:
        for _ in range(_LAUNCHES):
            values.mul_(1.0)

    eager, captured = (bench.time(action).seconds for action in (launches, capture(launches)))
    return max(0.0, eager - captured) / _LAUNCHES


def _tiny(card: Transformer, layers: int) -> Transformer:
    small = {"hidden_size": 64, "heads": 2, "kv_heads": 2, "head_dim": 32, "intermediate_size": 64, "layers": layers}
    if card.experts is not None:
        width = {"width": 64, "shared_width": min(card.experts.shared_width, 64), "layers": layers}
        return card.changed(
            **(small | {"vocab_size": min(card.vocab_size, 64), "experts": card.experts.changed(**width)})
        )
    return card.changed(**(small | {"vocab_size": min(card.vocab_size, 64)}))


def _tiny_graph(bench: BenchmarkRank, card: Transformer) -> tuple[Graph, ForwardPass]:
    dtype = bench.workload.dtype
    graph = Graph(card, device=bench.device, dtype=dtype, batch=1, context=16)
    return graph, forward_pass(card, batch=1, context=16, dtype=dtype)


def _tiny_seconds(bench: BenchmarkRank, card: Transformer) -> float:
    graph, forward = _tiny_graph(bench, card)
    return bench.time(graph.prepare(forward), least_runs=_GAP_RUNS, most_runs=_GAP_RUNS, clock="wall").seconds


def _operations_alone(bench: BenchmarkRank, graph: Graph, ops: Sequence[Operation]) -> float:
    """The sum of operations, each timed by itself as the other benchmarks time them."""
    actions = graph.single_operations(ops, tokens=1)
    if bench.device.type == "cuda":
        return sum(bench.time_captured(action, 0.0).seconds for action in actions)
    return sum(
        bench.time(action, least_runs=_GAP_RUNS, most_runs=_GAP_RUNS, clock="wall").seconds for action in actions
    )
