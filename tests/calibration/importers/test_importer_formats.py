"""aiconfigurator's quantised GEMMs, caches of 8 bits and prefill attention, on small tables; columns of odd types."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from calibration.importers.aiconfigurator import import_aiconfigurator
from calibration.importers.tables import with_numbers
from ssdsim.base.errors import InputError
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.transformer.operations import Attention, Gemm, PrefillAttention
from tests.calibration.importers.test_importer_aiconfigurator import (
    BANDWIDTH,
    MACHINE,
    SYSTEM,
    attentions,
    gemm_ms,
    gemms,
)
from tests.refusals import refused

PEAK = 2e14


def prefills(cache: str = "bfloat16", factor: float = 1.0, queries: str = "bfloat16") -> pd.DataFrame:
    rows = []
    for batch, tokens, heads, kv_heads, window in product(
        (1, 2, 8), (16, 128, 512, 2048, 8192), (8, 32), (1, 8), (0, 128)
    ):
        pairs = min(window or tokens, tokens) * tokens / 2
        rows.append(
            {
                "attn_dtype": queries,
                "kv_cache_dtype": cache,
                "batch_size": batch,
                "isl": tokens,
                "step": 0,
                "num_heads": heads,
                "num_key_value_heads": kv_heads,
                "head_dim": 128,
                "beam_width": 1,
                "window_size": window,
                "latency": 1e3 * factor * (8e-6 + 4 * batch * heads * 128 * pairs / PEAK),
            }
        )
    return pd.DataFrame(rows).assign(**MACHINE)


def imported(folder: Path, **tables: pd.DataFrame) -> HardwareProfile:
    (folder / "system.yaml").write_text(SYSTEM)
    for stem, table in tables.items():
        table.to_parquet(folder / f"{stem}.parquet")
    return import_aiconfigurator(folder)


@pytest.mark.long
@pytest.mark.parametrize(
    ("theirs", "ours", "weight_bytes"),
    [("fp8", "float8", 1), ("fp8_block", "float8-block", 1), ("nvfp4", "nvfp4", 0.5625)],
)
def test_a_format_of_weights_is_a_law_of_its_own(tmp_path: Path, theirs: str, ours: str, weight_bytes: float) -> None:
    profile = imported(
        tmp_path, gemm_perf=pd.concat([gemms(), gemms(theirs, factor=0.5), gemms("int4_wo", factor=9.0)])
    )
    assert sorted(profile.gemm) == sorted({"bfloat16", ours})
    assert profile.gemm[ours].element_bytes == weight_bytes
    timing = profile.seconds(Gemm("x", 6, 2048, 2048, ours))
    assert timing.seconds == pytest.approx(0.5e-3 * gemm_ms(6, 2048, 2048), rel=0.05)
    assert timing.warning is None


def test_peaks_of_formats_are_the_cards(tmp_path: Path) -> None:
    (tmp_path / "system.yaml").write_text(
        SYSTEM.replace("\nnode:", "\n  fp8_tc_flops: 6e14\n  fp4_tc_flops: 9e14\nnode:")
    )
    gemms().to_parquet(tmp_path / "gemm_perf.parquet")
    peaks = import_aiconfigurator(tmp_path).device.peak_flops
    assert {name: peaks[name] for name in ("float8", "float8-block", "nvfp4")} == {
        "float8": 6e14,
        "float8-block": 6e14,
        "nvfp4": 9e14,
    }


@pytest.mark.long
def test_attention_is_by_the_dtype_of_the_cache(tmp_path: Path) -> None:
    """16-bit queries over an 8-bit cache where they were timed, whatever else was."""
    both_narrow = attentions().query("kv_cache_dtype == 'fp8'").assign(attn_dtype="fp8")
    both_narrow["latency"] *= 7.0
    profile = imported(tmp_path, generation_attention_perf=pd.concat([attentions(), both_narrow]))
    assert sorted(profile.attention) == ["bfloat16", "float8"]
    moved = {"bfloat16": 4 * 8 * 4096 * 4 * 128, "float8": 2 * 8 * 4096 * 4 * 128}
    for dtype, moved_bytes in moved.items():
        seconds = profile.seconds(Attention("x", 8, 1, 4096, 32, 4, 128, dtype)).seconds
        assert seconds == pytest.approx(10e-6 + moved_bytes / BANDWIDTH, rel=0.1)


def test_where_only_narrow_queries_were_timed_they_are_taken(tmp_path: Path) -> None:
    narrow = attentions().query("kv_cache_dtype == 'fp8'").assign(attn_dtype="fp8")
    assert list(imported(tmp_path, generation_attention_perf=narrow).attention) == ["float8"]


def test_full_attention_of_prompts_is_fitted_and_judged(tmp_path: Path) -> None:
    table = pd.concat([prefills(), prefills("fp8", 0.8), prefills("fp8", 3.0).assign(kernel_source="a_triton_kernel")])
    profile = imported(tmp_path, context_attention_perf=table.fillna({"kernel_source": "flash"}))
    assert sorted(profile.prefill_attention) == ["bfloat16", "float8"]
    for dtype, factor in (("bfloat16", 1.0), ("float8", 0.8)):
        timing = profile.seconds(PrefillAttention("x", 2, 4096, 32, 8, 128, dtype))
        expected = factor * (8e-6 + 4 * 2 * 32 * 128 * 4096**2 / 2 / PEAK)
        assert timing.seconds == pytest.approx(expected, rel=0.15)
        assert timing.warning is None
        report = profile.prefill_attention[dtype].report
        assert report
        assert (report.rows_held_out, timing.log_sd) == (18, report.log_sd)
    assert profile.sources["context_attention_perf"].kind == "imported"


ODD: dict[str, Any] = {
    "lists": [[1, 2]],
    "records": [{"a": 1}],
    "bytes": [b"\xff"],
    "dates": [np.datetime64("2026-01-01")],
    "truths": [True],
    "nothing": [None],
    "numbers": [1.5],
}


@pytest.mark.long
@pytest.mark.parametrize("kind", list(ODD))
@pytest.mark.parametrize(
    "column", ["version", "device", "framework", "kernel_source", "gemm_dtype", "m", "latency", "more"]
)
def test_a_column_of_an_odd_type_is_text_or_one_line(tmp_path: Path, column: str, kind: str) -> None:
    table = gemms()
    table[column] = ODD[kind] * len(table)
    if column in {"m", "latency"} and kind != "numbers":
        with refused("gemm_perf.parquet") as raised:
            imported(tmp_path, gemm_perf=table)
        assert "np." not in str(raised.value)
    elif column == "m":
        with refused("row 1", "m", "1.5"):
            imported(tmp_path, gemm_perf=table)
    else:
        profile = imported(tmp_path, gemm_perf=table)
        assert list(profile.gemm) == ([] if column == "gemm_dtype" else ["bfloat16"])


@pytest.mark.parametrize(("cell", "shown"), [(1.5, "got 1.5"), (-3, "got -3"), ([1, 2], "got [1, 2]")])
def test_what_is_wrong_with_a_cell_is_told_bare(cell: Any, shown: str) -> None:
    cells = pd.Series([cell]) if not isinstance(cell, list) else pd.Series([np.array(cell)])
    with pytest.raises(InputError) as raised:
        with_numbers(pd.DataFrame({"m": cells}), Path("t.parquet"), ["m"], whole=True)
    assert str(raised.value).endswith(shown)


def test_a_format_timed_with_the_host_is_left_out_and_named(tmp_path: Path) -> None:
    waiting = gemms("fp8_block").assign(latency=0.18)
    profile = imported(tmp_path, gemm_perf=pd.concat([gemms(), gemms("fp8", factor=0.6), waiting]))
    assert sorted(profile.gemm) == ["bfloat16", "float8"]
    assert "fp8_block left out" in profile.sources["gemm_perf"].note


def test_a_format_is_another_engines_where_the_first_waits_for_the_host(tmp_path: Path) -> None:
    waiting = gemms("fp8_block").assign(latency=0.18)
    others = pd.concat([gemms(), gemms("fp8_block", factor=0.6)]).assign(framework="SGLang", version="0.5.14")
    profile = imported(tmp_path, gemm_perf=pd.concat([gemms(factor=2.0), waiting, others]))
    assert profile.seconds(Gemm("x", 6, 2048, 2048, "float8-block")).seconds == pytest.approx(
        0.6e-3 * gemm_ms(6, 2048, 2048), rel=0.05
    )
    assert profile.seconds(Gemm("x", 6, 2048, 2048, "bfloat16")).seconds == pytest.approx(
        2e-3 * gemm_ms(6, 2048, 2048), rel=0.05
    )
    note = profile.sources["gemm_perf"].note
    assert note.startswith("SGLang 0.5.14, TRTLLM 1.0.0 on")
    assert "fp8_block of SGLang, TRTLLM's times of few tokens are the host's" in note


def test_prefill_beyond_the_devices_peak_is_left_out_and_said(tmp_path: Path) -> None:
    """A table without a window that holds the times of one."""
    windowed = prefills().query("window_size == 128").assign(window_size=0)
    profile = imported(tmp_path, context_attention_perf=windowed, gemm_perf=gemms())
    assert profile.prefill_attention == {}
    assert "exceeds the device's peak" in profile.sources["context_attention_perf"].note
    assert "was not timed" in str(profile.seconds(PrefillAttention("x", 1, 4096, 32, 8, 128, "bfloat16")).warning)


def test_rows_whose_weights_came_from_a_cache_are_left_out_and_counted(tmp_path: Path) -> None:
    """Repeated matrices of some MB stay in a large cache: faster than memory, which a pass reads them from."""
    table = gemms()
    small = (table["n"] == 4096) & (table["k"] == 4096)
    cached = table.assign(latency=table["latency"].where(~small, 1e3 * 2 * 4096**2 / (2.0 * BANDWIDTH)))
    profile = imported(tmp_path, gemm_perf=cached)
    assert f"{small.sum()} of {len(table)} rows of bfloat16 left out, their weights came from a cache" in (
        profile.sources["gemm_perf"].note
    )
    predicted_s = profile.seconds(Gemm("x", 8, 4096, 4096, "bfloat16")).seconds
    assert predicted_s == pytest.approx(1e-3 * gemm_ms(8, 4096, 4096), rel=0.2)
