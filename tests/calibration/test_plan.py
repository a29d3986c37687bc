"""What a calibration times covers every pass that a round may run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from calibration.points import Workload, plan
from ssdsim import strategies
from ssdsim.transformer.card import transformer_shaped
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.operations import Attention, Collective, Gemm
from tests.executor.toys import Alternating


@pytest.mark.parametrize(("hidden_size", "degrees"), [(256, (1, 2)), (384, (1,))])
def test_a_draft_step_on_the_targets_ranks_is_timed_as_it_can_be_shared(
    hidden_size: int, degrees: tuple[int, ...]
) -> None:
    """A draft with three heads runs whole or not at all."""
    target, draft = transformer_shaped(512, 2, "float32"), transformer_shaped(hidden_size, 1, "float32")
    workload = Workload(target, draft, batch=2, lookahead=3, branches=4, context=32, tp=2, dtype="float32")
    points = [(point.benchmark, dict(point.parameters)) for point in plan(workload, ranks=3)]
    timed = {name: [p for benchmark, p in points if benchmark == name] for name in ("gemm", "attention", "all_reduce")}
    assert {one.tp for one in workload.passes if one.model == "draft"} == set(degrees)
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


class Longer(Alternating):
    """It verifies two tokens more than it is told."""

    name = "longer"
    title = "Longer"

    def lookahead(self, options: Mapping[str, Any]) -> int:
        return int(options["k"]) + 2


def test_the_passes_of_whatever_strategy_is_registered_are_timed() -> None:
    target, draft = transformer_shaped(256, 1, "float32"), transformer_shaped(128, 1, "float32")

    def checked() -> dict[str, object]:
        workload = Workload(target, draft, batch=2, lookahead=3, branches=4, context=32, tp=1, dtype="float32")
        points = [dict(point.parameters) for point in plan(workload, ranks=2) if point.benchmark == "pass"]
        return {point["name"]: point["shape"] for point in points}

    before = checked()
    strategies.ALL.register(Longer())
    try:
        added = {name: shape for name, shape in checked().items() if name not in before}
    finally:
        strategies.ALL.forget(Longer.name)
    # what it runs after a rejection is a decode
    assert added == {"verify one of Longer": (1, 5, False), "verify of Longer": (2, 5, False)}
