"""What a calibration times covers every pass that a round may run."""

from __future__ import annotations

import pytest

from calibration.points import Workload, plan
from ssdsim.transformer.card import forward_pass, transformer_shaped
from ssdsim.transformer.operations import Attention, Collective, Gemm


@pytest.mark.parametrize(("hidden_size", "degrees"), [(256, (1, 2)), (384, (1,))])
def test_a_draft_step_on_the_targets_ranks_is_timed_as_it_can_be_shared(
    hidden_size: int, degrees: tuple[int, ...]
) -> None:
    """A draft with three heads runs whole or not at all."""
    target, draft = transformer_shaped(512, 2, "float32"), transformer_shaped(hidden_size, 1, "float32")
    workload = Workload(target, draft, batch=2, lookahead=3, branches=4, context=32, tp=2, dtype="float32")
    points = [(point.benchmark, dict(point.parameters)) for point in plan(workload, ranks=3)]
    timed = {name: [p for benchmark, p in points if benchmark == name] for name in ("gemm", "attention", "all_reduce")}
    assert len(workload.shared_draft_steps()) == len(degrees) - 1
    for tp in degrees:
        for op in forward_pass(draft, batch=2, context=32, tp=tp, dtype="float32").operations():
            match op:
                case Gemm():
                    matrix = {"m": op.m, "n": op.n, "k": op.k, "dtype": op.dtype}
                    assert any(matrix.items() <= point.items() for point in timed["gemm"])
                case Attention():
                    shape = {"batch": 2, "queries": 1, "context": 32, "heads": op.heads, "kv_heads": op.kv_heads}
                    assert any(shape.items() <= point.items() for point in timed["attention"])
                case Collective():
                    sizes = [point["message_bytes"] for point in timed["all_reduce"]]
                    assert min(sizes) <= max(op.message_bytes, 1 << 10) <= max(sizes)
