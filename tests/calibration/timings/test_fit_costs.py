"""Recurrent layers of aiconfigurator's tables: what memory streams is told from what a cache holds."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from calibration.importers.aiconfigurator import import_aiconfigurator, read_silicon_table
from calibration.importers.recurrence import TABLES, import_recurrences
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.transformer.recurrences import Convolution, PrefillRecurrence, RecurrentStep
from tests.calibration.importers.test_importer_aiconfigurator import MACHINE, SYSTEM, gemms
from tests.refusals import refused

pytestmark = pytest.mark.long

REAL = Path(__file__).parents[4] / "shared" / "measurements" / "kernels-2026"
real = pytest.mark.skipif(not REAL.is_dir(), reason="the measured tables are not here")

MEMORY, CACHED = 1.7e12, 5e12  # bytes/s
LAUNCH_S, QUERY_S, CACHE_BYTES = 4e-6, 5e-7, 40 << 20
KDA = "fused_recurrent_kda"


def row(kernel: str, batch: int, tokens: int, heads: int, seconds: float, phase: str) -> dict[str, object]:
    shape = {"batch_size": batch, "seq_len": tokens, "num_k_heads": heads, "num_v_heads": heads}
    rest = {"head_k_dim": 128, "head_v_dim": 128, "d_conv": 4, "latency": 1e3 * seconds}
    return {"kernel_source": kernel, "phase": phase, **shape, **rest}


def step_s(batch: int, queries: int, heads: int) -> float:
    state_bytes = batch * heads * 128 * 128 * 4
    held = state_bytes * (1 if queries == 1 else 1 + queries)
    bandwidth = CACHED if held < CACHE_BYTES / 2 else MEMORY
    return LAUNCH_S + QUERY_S * (queries - 1) + (1 + queries) * state_bytes / bandwidth


def prompts_s(batch: int, tokens: int, heads: int) -> float:
    flops = PrefillRecurrence("x", batch, tokens, heads, heads, 128, 128, "gated-delta", "bfloat16").flops
    return 1e-5 + max(4e-8 * tokens, flops / 1e14) + 2 * batch * heads * 128 * 128 * 4 / 1e12


def steps(kernel: str, queries: tuple[int, ...]) -> list[dict[str, object]]:
    shapes = product((1, 2, 4, 8, 16, 32, 64, 128, 256, 512), queries, (4, 8, 16, 32, 64))
    return [row(kernel, b, q, h, step_s(b, q, h), "generation" if q == 1 else "verify") for b, q, h in shapes]


def prompts(kernel: str) -> list[dict[str, object]]:
    shapes = product((1, 2, 4, 8), (1, 64, 256, 1024, 4096, 16384), (4, 16, 64))
    return [row(kernel, b, t, h, prompts_s(b, t, h), "context") for b, t, h in shapes]


def convolutions() -> list[dict[str, object]]:
    convolutions = []
    for batch, heads in product((1, 4, 16, 64, 256, 1024), (4, 16, 64)):
        moved = Convolution("x", batch, 1, 3 * heads * 128, 4, "bfloat16").bytes
        convolutions.append(row("causal_conv1d_update", batch, 1, heads, 2e-6 + moved / 1e12, "generation"))
    return convolutions


def imported(folder: Path, **tables: list[dict[str, object]]) -> HardwareProfile:
    (folder / "system.yaml").write_text(SYSTEM)
    gemms().to_parquet(folder / "gemm_perf.parquet")
    for stem, rows in tables.items():
        pd.DataFrame(rows).assign(**MACHINE).to_parquet(folder / f"{stem}.parquet")
    return import_aiconfigurator(folder)


def test_steps_stream_from_memory_whatever_a_loop_found_in_the_cache(tmp_path: Path) -> None:
    profile = imported(tmp_path, kda_perf=steps(KDA, (1, 2, 4, 8)))
    costs = profile.recurrence["kimi-delta"].costs
    assert costs.launch_s == pytest.approx(LAUNCH_S, rel=0.05)
    assert costs.per_query_s == pytest.approx(QUERY_S, rel=0.1)
    assert costs.bandwidth == pytest.approx(MEMORY, rel=0.03)
    cold = profile.seconds(RecurrentStep("x", 1, 4, 32, 32, 128, 128, "kimi-delta", "bfloat16"))
    assert cold.seconds == pytest.approx(LAUNCH_S + 3 * QUERY_S + 5 * 32 * 128 * 128 * 4 / MEMORY, rel=0.05)
    assert cold.warning is None


def test_a_rule_whose_rows_have_one_token_takes_more_of_them_as_the_other_does(tmp_path: Path) -> None:
    delta = steps("fused_recurrent_gated_delta_rule_packed_decode", (1,))
    profile = imported(tmp_path, kda_perf=steps(KDA, (1, 2, 4, 8)), gdn_perf=[*delta, *convolutions()])
    one, several = profile.recurrence["gated-delta"], profile.recurrence["kimi-delta"]
    assert one.costs.per_query_s == several.costs.per_query_s
    assert one.domain["queries"] == (1, 1)
    verified = profile.seconds(RecurrentStep("x", 8, 4, 32, 32, 128, 128, "gated-delta", "bfloat16"))
    assert "queries" in str(verified.warning)
    assert profile.convolution
    assert profile.convolution.launch_s == pytest.approx(2e-6, rel=0.05)
    assert profile.convolution.bandwidth == pytest.approx(1e12, rel=0.05)


def test_chunks_of_a_prompt_come_one_after_the_other(tmp_path: Path) -> None:
    profile = imported(tmp_path, gdn_perf=prompts("chunk_gated_delta_rule"))
    model = profile.prefill_recurrence["gated-delta"]
    assert model.report
    assert model.report.median_error < 0.03
    one, eight = (PrefillRecurrence("x", b, 8192 // b, 4, 4, 128, 128, "gated-delta", "bfloat16") for b in (1, 8))
    assert profile.seconds(one).seconds > 3 * profile.seconds(eight).seconds


def test_steps_with_the_convolution_inside_are_not_read(tmp_path: Path) -> None:
    profile = imported(tmp_path, kda_perf=steps("fused_kda_decode", (1,)))
    assert not profile.recurrence
    step = profile.seconds(RecurrentStep("x", 1, 1, 8, 8, 128, 128, "kimi-delta", "bfloat16"))
    assert "was timed" in str(step.warning)


def test_steps_that_read_16_bits_and_write_32_move_three_quarters(tmp_path: Path) -> None:
    rows = steps("fused_recurrent_gated_delta_rule", (1,))
    for each in rows:
        batch, heads = int(str(each["batch_size"])), int(str(each["num_v_heads"]))
        state_bytes = batch * heads * 128 * 128 * 4
        bandwidth = CACHED if 1.5 * state_bytes < CACHE_BYTES / 2 else MEMORY
        each["latency"] = 1e3 * (LAUNCH_S + 1.5 * state_bytes / bandwidth)
    profile = imported(tmp_path, gdn_perf=[*rows, *convolutions()])
    assert profile.recurrence["gated-delta"].costs.bandwidth == pytest.approx(MEMORY, rel=0.03)
    assert profile.convolution is None


def test_a_table_without_its_columns_is_one_line(tmp_path: Path) -> None:
    with refused("phase"):
        imported(tmp_path, gdn_perf=[{k: v for k, v in each.items() if k != "phase"} for each in convolutions()])


@real
@pytest.mark.parametrize("name", ["h100-sxm", "b300-sxm"])
def test_the_bundled_laws_are_what_the_importer_makes(tmp_path: Path, name: str) -> None:
    bundled = find_hardware(name)
    (tmp_path / "system.yaml").write_text(SYSTEM)
    for table in ("gdn_perf", "kda_perf"):
        (found,) = (REAL / name.replace("-", "_")).glob(f"{table}.vllm-*.csv.gz")
        pd.read_csv(found).to_parquet(tmp_path / f"{table}.parquet")
    tables = {stem: read for stem in TABLES if (read := read_silicon_table(tmp_path, stem)) is not None}
    made = import_recurrences(tables, bundled.device)
    assert {field: getattr(bundled, field) for field in made} == made
