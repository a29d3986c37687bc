"""From timings to a profile, on a made-up machine whose every time is known."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibration.timings.build import build_profile, build_runtime
from calibration.timings.checks import check_passes
from calibration.timings.plan import CalibrationWorkload, TimingPoint, plan
from calibration.timings.rows import CalibrationLog, Visit, rows_of
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.what_if import scale
from ssdsim.transformer.card import transformer_shaped
from ssdsim.transformer.forward import ForwardPass
from ssdsim.transformer.operations import Attention, Collective, Elementwise, Gemm, Operation

pytestmark = pytest.mark.long

TARGET, DRAFT = transformer_shaped(1536, 4, "float32"), transformer_shaped(768, 2, "float32")
WORKLOAD = CalibrationWorkload(TARGET, DRAFT, batch=4, lookahead=5, branches=18, context=256, tp=2, dtype="float32")
DEVICES = ["cpu:0", "cpu:1", "cpu:0"]
GAP_S = 1.5e-5


def operation_s(op: Operation) -> float:
    match op:
        case Gemm():
            return 2e-5 + max(4.0 * op.n * op.k / 1e10, 2.0 * op.m * op.n * op.k / 5e10)
        case Attention():
            blocks = op.batch * op.kv_heads
            several = 1.3 if op.queries > 1 else 1.0
            return 3e-5 + 5e-6 * op.kv_heads + several * 8.0 * blocks * op.context * op.head_dim / 8e9
        case Collective():
            return 5e-5 + op.message_bytes / 2e9
        case Elementwise():
            return 5e-6 + op.moved_bytes / 1e10


def pass_s(forward: ForwardPass) -> float:
    return forward.layers * GAP_S + sum(times * operation_s(op) for op, times in forward.counted)


def result(point: TimingPoint) -> dict[str, Any]:
    """What the benchmark of ``point`` finds on this machine."""
    given = dict(point.parameters)
    passes = dict(WORKLOAD.target_passes()) | dict(WORKLOAD.draft_passes())
    kind, _, beside = point.benchmark.partition(" with ")
    match kind:
        case "gemm":
            return {"seconds": operation_s(Gemm("gemm", given["m"], given["n"], given["k"], given["dtype"]))}
        case "attention":
            return {"seconds": operation_s(Attention("attention", **given))}
        case "elementwise":
            return {"seconds": operation_s(Elementwise("stream", given["moved_bytes"]))}
        case "all_reduce" | "all_gather":
            seconds = operation_s(Collective(kind, kind, given["message_bytes"], given["ranks"]))
            return {"seconds": 1.3 * seconds if beside else seconds}
        case "link" | "rank link":
            return {"seconds": 1e-4 + given["message_bytes"] / 4e9}
        case "round trip":
            return {"seconds": 2e-4 + (given["outcome_bytes"] + given["response_bytes"]) / 4e9}
        case "host gap":
            return {"seconds": GAP_S, "per_pass_s": 0.0, "per_launch_s": 4e-6}
        case "pass":
            return {"seconds": pass_s(passes[given["name"]])}
        case "layer":
            return {"seconds": GAP_S + sum(map(operation_s, passes[given["name"]].layer))}
        case "interference":
            alone = {role: pass_s(passes[given[role]]) for role in ("target", "draft")}
            figures = {f"{role}_alone_s": seconds for role, seconds in alone.items()}
            return figures | {f"{role}_s": 1.1 * seconds for role, seconds in alone.items()} | {"seconds": 1.0}
    raise AssertionError(point.benchmark)


def built(
    tmp_path: Path, points: list[TimingPoint], noise: float, visits: int = 16
) -> tuple[HardwareProfile, CalibrationLog]:
    log = CalibrationLog(tmp_path / "made-up.jsonl", {"device": "a made-up core"}).open()
    rng, clock = np.random.default_rng(0), count()
    for _ in range(visits):
        for point in points:
            row = result(point)
            row["seconds"] *= np.exp(noise * rng.standard_normal())
            log.visits.setdefault(point.key, []).append(Visit(0.05 * next(clock), row))
    planned = plan(WORKLOAD, 3)
    rows = rows_of(log, planned)
    return build_profile("made-up", WORKLOAD, DEVICES, planned, rows, "a made-up core", "made up"), log


def test_a_known_machine_is_found_again_and_its_passes_add_up(tmp_path: Path) -> None:
    points = plan(WORKLOAD, 3)
    profile, log = built(tmp_path, points, noise=0.02)
    for model in profile.models().values():
        assert model.report is not None
        assert model.report.median_error < 0.03
    runtime = build_runtime("made-up", rows_of(log, points))
    assert runtime is not None
    checks = check_passes(profile, runtime, WORKLOAD, rows_of(log, points))
    assert {check.role for check in checks} == {"target", "draft", "link"}
    assert max(abs(check.error) for check in checks) < 0.05
    assert runtime.host.per_layer_s == pytest.approx(GAP_S, rel=0.1)
    assert "an eager launch takes 4.0 us more" in runtime.evidence.note
    assert profile.interference.factors(1.0, 1.0) == pytest.approx((1.1, 1.1), abs=0.01)
    (source,) = profile.sources.values()
    beside = re.search(r"all_reduce beside a message (\d\.\d\d)x", source.note)
    assert beside
    assert float(beside[1]) == pytest.approx(1.3, rel=0.03)
    assert "partial" not in source.note


def test_half_a_plan_makes_a_partial_profile(tmp_path: Path) -> None:
    """Every benchmark's first points come first, so that what was timed prices a pass."""
    points = [point for i, point in enumerate(plan(WORKLOAD, 3)) if i % 2 or point.benchmark in ("host gap", "pass")]
    profile, _ = built(tmp_path, points, noise=0.02)
    (source,) = profile.sources.values()
    assert source.note.startswith("partial: ")
    assert profile.seconds(Gemm("qkv", 4, 2304, 1536, "float32")).seconds > 0.0


def test_a_run_that_ends_after_the_first_visits_is_partial(tmp_path: Path) -> None:
    profile, _ = built(tmp_path, plan(WORKLOAD, 3), noise=0.0, visits=1)
    (source,) = profile.sources.values()
    assert source.note.startswith("partial: ")


def test_what_few_tokens_compute_scales_with_the_clock(tmp_path: Path) -> None:
    """On the made-up core one token streams and sixteen compute."""
    profile, _ = built(tmp_path, plan(WORKLOAD, 3), noise=0.0, visits=1)
    slow = scale(profile, "slow", clock=0.5)
    one, sixteen = (Gemm("up", m, 6144, 1536, "float32") for m in (1, 16))
    assert slow.seconds(one).seconds == pytest.approx(profile.seconds(one).seconds, rel=0.1)
    assert slow.seconds(sixteen).seconds > 1.3 * profile.seconds(sixteen).seconds
