"""Time between operations: what a pass takes beyond its operations timed one by one, seen on a tiny model."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from calibration.machine.graph import Graph
from calibration.machine.timing import capture
from calibration.timings.benchmarks.bench import Bench, Result
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import ForwardPass, forward_pass
from ssdsim.transformer.operations import Operation

_FEW, _MANY = 2, 18
_RUNS = 10  # of each visit
_LAUNCHES = 64


def measure(bench: Bench, *, role: str) -> Result | None:
    """Gaps a layer, a pass and an eager launch, in seconds, of the card of ``role`` made tiny; on the first rank.

    A tiny model's operations take their launch floors; the same operations timed alone take them too, so the
    difference is the host's.
    """
    if bench.rank != 0:
        return None
    card = bench.workload.target if role == "target" else bench.workload.draft
    few, many = (_seconds(bench, _tiny(card, layers)) for layers in (_FEW, _MANY))
    layer_s = (many - few) / (_MANY - _FEW)
    graph, forward = _graph(bench, _tiny(card, _FEW))
    around = (*forward.before, *forward.after)
    return {
        "seconds": max(0.0, layer_s - _alone(bench, graph, forward.layer)),
        "per_pass_s": max(0.0, few - _FEW * layer_s - _alone(bench, graph, around)),
        "per_launch_s": _launch_s(bench),
        "runs": 2 * _RUNS,
        "spread": 0.0,
        "outliers": 0,
    }


def _launch_s(bench: Bench) -> float:
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
        return card.model_copy(
            update=small | {"vocab_size": min(card.vocab_size, 64), "experts": card.experts.model_copy(update=width)}
        )
    return card.model_copy(update=small | {"vocab_size": min(card.vocab_size, 64)})


def _graph(bench: Bench, card: Transformer) -> tuple[Graph, ForwardPass]:
    dtype = bench.workload.dtype
    graph = Graph(card, device=bench.device, dtype=dtype, batch=1, context=16)
    return graph, forward_pass(card, batch=1, context=16, dtype=dtype)


def _seconds(bench: Bench, card: Transformer) -> float:
    graph, forward = _graph(bench, card)
    return bench.time(graph.prepare(forward), least_runs=_RUNS, most_runs=_RUNS, clock="wall").seconds


def _alone(bench: Bench, graph: Graph, ops: Sequence[Operation]) -> float:
    """The sum of operations, each timed by itself as the other benchmarks time them."""
    actions = graph.single_operations(ops, tokens=1)
    if bench.device.type == "cuda":
        return sum(bench.time_captured(action, 0.0).seconds for action in actions)
    return sum(bench.time(action, least_runs=_RUNS, most_runs=_RUNS, clock="wall").seconds for action in actions)
