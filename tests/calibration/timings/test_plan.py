"""What a calibration times covers every pass that a round may run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from calibration.timings.measure import machine_of
from calibration.timings.memory import rank_bytes
from calibration.timings.plan import CalibrationWorkload, plan
from calibration.timings.rows import CalibrationLog, Visit
from ssdsim import strategies
from ssdsim.strategies.pearl import PEARL
from ssdsim.transformer.card import transformer_shaped
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.operations import Attention, Collective, Gemm


@pytest.mark.parametrize(("hidden_size", "degrees"), [(256, (1, 2)), (384, (1,))])
def test_a_draft_step_on_the_targets_ranks_is_timed_as_it_can_be_shared(
    hidden_size: int, degrees: tuple[int, ...]
) -> None:
    """A draft with three heads runs whole or not at all."""
    target, draft = transformer_shaped(512, 2, "float32"), transformer_shaped(hidden_size, 1, "float32")
    workload = CalibrationWorkload(target, draft, batch=2, lookahead=3, branches=4, context=32, tp=2, dtype="float32")
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


class Longer(PEARL):
    """It verifies two tokens more than it is told."""

    name = "longer"
    title = "Longer"

    def lookahead(self, options: Mapping[str, Any]) -> int:
        return super().lookahead(options) + 2


def workload_of(*names: str) -> CalibrationWorkload:
    target, draft = transformer_shaped(256, 1, "float32"), transformer_shaped(128, 1, "float32")
    sizes: dict[str, int] = {"batch": 2, "lookahead": 3, "branches": 4, "context": 32, "tp": 1}
    return CalibrationWorkload(target, draft, **sizes, dtype="float32", strategies=names)


def test_the_passes_of_whatever_strategy_is_registered_are_timed() -> None:
    def checked(*names: str) -> dict[str, object]:
        workload = workload_of(*names)
        points = [dict(point.parameters) for point in plan(workload, ranks=2) if point.benchmark == "pass"]
        return {point["name"]: point["shape"] for point in points}

    before = checked("ar", "sd")
    strategies.ALL.register(Longer())
    try:
        assert checked("ar", "sd") == before
        added = {name: shape for name, shape in checked("ar", "sd", "longer").items() if name not in before}
    finally:
        strategies.ALL.forget(Longer.name)
    # what it runs after a rejection is a decode
    assert added == {"verify one of Longer": (1, 5, False), "verify of Longer": (2, 5, False)}


def test_every_strategy_is_planned_for_by_name_and_more_of_them_keep_what_was_timed(tmp_path: Path) -> None:
    """A log that was begun for one of them goes on for all: only what they add is missing."""
    few, many = workload_of("sd"), workload_of(*strategies.ALL.names)
    planned = plan(few, ranks=2)
    assert not {point.benchmark for point in plan(workload_of("ar"), ranks=2)} - {point.benchmark for point in planned}
    log = CalibrationLog(tmp_path / "cpu.jsonl", machine_of(["cpu:0", "cpu:1"], few)).open()
    for point in planned:
        log.add(point, Visit(0.0, {"seconds": 1.0}))
    later = CalibrationLog(log.path, machine_of(["cpu:0", "cpu:1"], many)).open()
    fits = [point for point in plan(many, ranks=2) if point.benchmark in ("gemm", "attention")]
    timed = [point for point in fits if later.count(point)]
    assert 0 < len(timed) < len(fits)
    assert {point for point in planned if point.benchmark in ("gemm", "attention")} <= set(timed)
    for name in strategies.ALL.names:
        own = {one.forward for one in workload_of(name).passes}
        assert own <= {one.forward for one in many.passes}


def test_decoding_without_a_draft_times_and_holds_no_draft() -> None:
    workload = workload_of("ar")
    assert {one.model for one in workload.passes} == {"target"}
    assert not [point for point in plan(workload, ranks=2) if "draft" in dict(point.parameters)]
    assert rank_bytes(workload, 1, 2, "cpu") < rank_bytes(workload_of("sd"), 1, 2, "cpu")
