"""aiconfigurator's tables: a sample with their columns and quirks, and the real ones where they are at hand."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibration.importers.aiconfigurator import import_aiconfigurator
from calibration.importers.tables import bytes_per_count
from calibration.timings.fit import hold_out
from calibration.timings.fit_gemm import fit_gemm
from ssdsim.base.errors import InputError
from ssdsim.base.record import replace
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.transformer.operations import Attention, Collective, Gemm
from tests.refusals import refused

pytestmark = pytest.mark.long

REAL = Path(__file__).parents[4] / "shared" / "measurements" / "aiconfigurator" / "h100_sxm"
real = pytest.mark.skipif(not REAL.is_dir(), reason="the measured tables are not here")

SYSTEM = """\
# made up
data_dir: data/toy
gpu:
  mem_bw: 2000000000000 # 2000GB/s
  mem_bw_empirical_scaling_factor: 0.8
  mem_empirical_constant_latency: 0.000003
  mem_capacity: 85899345920
  bfloat16_tc_flops: 312000000000000
node:
  num_gpus_per_node: 8
  intra_node_bw: 300000000000
  pcie_bw: 32000000000
  p2p_latency: 0.00001
misc:
  nccl_mem:
    1: 0
    2: 5
  nccl_version: '2.27.3'
"""
BANDWIDTH, WIRES = 1.6e12, 250e9
MACHINE = {"framework": "TRTLLM", "version": "1.0.0", "device": "NVIDIA A100-SXM4-80GB"}


def gemm_ms(m: int, n: int, k: int) -> float:
    return 1e3 * (4e-6 + 2 * (m * k + k * n + m * n) / BANDWIDTH)


def gemms(dtype: str = "bfloat16", kernel: str = "torch_flow", factor: float = 1.0) -> pd.DataFrame:
    rows = [
        {"kernel_source": kernel, "gemm_dtype": dtype, "m": m, "n": n, "k": k, "latency": factor * gemm_ms(m, n, k)}
        for m, n, k in product((1, 2, 4, 8, 16, 32, 64), (512, 1024, 4096, 8192), (512, 1024, 4096, 8192))
    ]
    return pd.DataFrame(rows).assign(**MACHINE)


def attentions() -> pd.DataFrame:
    rows = []
    for batch, heads, kv, step, window, cache in product(
        (1, 4, 16, 64), (8, 32), (0, 1, 4), (127, 1023, 8191), (0, 128), ("bfloat16", "fp8")
    ):
        context = min(step + 1, window or step + 1)
        moved = 2 * batch * context * (kv or heads) * 128 * (1 if cache == "fp8" else 2)
        rows.append(
            {
                "attn_dtype": "bfloat16",
                "kv_cache_dtype": cache,
                "batch_size": batch,
                "isl": 1,
                "step": step,
                "num_heads": heads,
                "num_key_value_heads": kv,  # 0: as many as heads
                "head_dim": 128,
                "beam_width": 1,
                "window_size": window,
                "latency": 1e3 * (10e-6 + moved / BANDWIDTH),
            }
        )
    return pd.DataFrame(rows).assign(**MACHINE)


def messages(kind: str, unit: int) -> pd.DataFrame:
    """All-reduces or all-gathers whose sizes count ``unit`` bytes."""
    rows = []
    for ranks, power in product((1, 2, 4, 8), range(8, 29)):
        size = 2**power
        share = (ranks - 1) / ranks * (2 if kind == "all_reduce" else 1)
        seconds = 5e-6 + unit * size * share / WIRES
        rows.append({"op_name": kind, "num_gpus": ranks, "message_size": size, "latency": 1e3 * seconds})
    return pd.DataFrame(rows).assign(**MACHINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of another GPU: text and parquet tables, other kernel names, eager and captured all-reduces."""
    folder = tmp_path / "a100_sxm"
    folder.mkdir()
    (folder / "system.yaml").write_text(SYSTEM)
    gemms().to_csv(folder / "gemm_perf.txt", index=False)
    attentions().to_parquet(folder / "generation_attention_perf.parquet")
    captured = messages("all_reduce", 2).assign(kernel_source="custom_graph")
    eager = captured.assign(kernel_source="custom_eager", latency=captured["latency"] + 0.02)
    pd.concat([captured, eager]).to_parquet(folder / "custom_allreduce_perf.parquet")
    nccl = pd.concat([messages("all_gather", 2), messages("all_reduce", 2), messages("alltoall", 2)])
    wide = nccl.assign(nccl_dtype="half")
    pd.concat([wide, wide, nccl.assign(nccl_dtype="int8", latency=9.0)]).to_parquet(folder / "nccl_perf.parquet")
    return folder


def test_a_sample_of_another_gpu_becomes_a_profile(folder: Path) -> None:
    profile = import_aiconfigurator(folder, commit="abc")
    assert (profile.name, profile.device.compute_units, profile.device.count) == ("a100-sxm", 108, 8)
    assert profile.device.topology == "NVLink, 300 GB/s each way per device"
    assert profile.seconds(Gemm("x", 6, 2048, 2048, "bfloat16")).seconds == pytest.approx(
        1e-3 * gemm_ms(6, 2048, 2048), rel=0.05
    )
    attention = profile.seconds(Attention("x", 8, 1, 2048, 32, 4, 128, "bfloat16"))
    assert attention.seconds == pytest.approx(10e-6 + 4 * 8 * 2048 * 4 * 128 / BANDWIDTH, rel=0.1)
    assert sorted(profile.collectives["all_reduce"]) == [2, 4, 8]
    assert profile.collectives["all_reduce"][4].source == "custom_allreduce_perf"
    assert profile.collectives["all_gather"][4].source == "nccl_perf"
    exchanged = profile.seconds(
        Collective("x", "all_to_all", 2**20, 4)
    ).seconds  # of what a rank sends, 3/4 goes elsewhere
    assert exchanged == pytest.approx(5e-6 + 2**20 * 0.75 / WIRES, rel=0.02)
    assert profile.sources["gemm_perf"].commit == "abc"
    assert profile.link
    assert profile.sources[profile.link.source].kind == "datasheet"


def windowed(folder: Path, window: int = 128) -> tuple[HardwareProfile, float, float]:
    """The profile, and its seconds of attention over as many tokens as a window has, without and with one."""
    profile = import_aiconfigurator(folder)
    over = Attention("x", 8, 1, window, 32, 4, 128, "bfloat16")
    return profile, *(profile.seconds(op).seconds for op in (over, replace(over, windowed=True)))


def test_windows_that_cost_more_than_what_they_leave_have_a_law_of_their_own(folder: Path) -> None:
    table = attentions()
    later = table["latency"] + np.where(table["window_size"] > 0, 5e-3, 0.0)
    table.assign(latency=later).to_parquet(folder / "generation_attention_perf.parquet")
    found, plain_s, windowed_s = windowed(folder)
    assert sorted(found.attention_windowed) == ["bfloat16", "float8"]
    assert windowed_s - plain_s == pytest.approx(5e-6, rel=0.1)


def test_flash_attention_2_takes_each_head_by_itself_where_there_is_a_window(folder: Path) -> None:
    """Its times are those of all heads, however few caches they share; another kernel's are of the caches."""
    table = attentions().assign(kernel_source="vllm_flash_attn_fa2")
    of_heads = table["batch_size"] * table["num_heads"] * table[["step"]].add(1)["step"].clip(upper=128)
    apart_ms = 1e3 * (10e-6 + 4 * 128 * of_heads / BANDWIDTH)
    table = table.assign(latency=np.where(table["window_size"] > 0, apart_ms, table["latency"]))
    table.to_parquet(folder / "generation_attention_perf.parquet")
    found, _, windowed_s = windowed(folder)
    assert (found.attention["bfloat16"].packed, found.attention_windowed["bfloat16"].packed) == (True, False)
    assert windowed_s == pytest.approx(10e-6 + 4 * 8 * 128 * 32 * 128 / BANDWIDTH, rel=0.1)
    shared, own = (Attention("x", 8, 5, 128, 32, kv, 128, "bfloat16", windowed=True) for kv in (4, 32))
    assert found.seconds(shared).seconds == found.seconds(own).seconds
    assert found.seconds(shared).warning is None  # several queries of a head fit into its tile


def test_windows_that_skip_nothing_are_left_out(folder: Path) -> None:
    table = attentions()
    whole = table["window_size"] == 0
    shape = ["kv_cache_dtype", "batch_size", "num_heads", "num_key_value_heads", "step"]
    full = table[whole].set_index(shape)["latency"]
    same = table.assign(latency=full.reindex(pd.MultiIndex.from_frame(table[shape])).to_numpy())
    same.to_parquet(folder / "generation_attention_perf.parquet")
    found, plain_s, windowed_s = windowed(folder)
    assert not found.attention_windowed
    assert windowed_s == plain_s


@pytest.mark.long
def test_two_processes_fit_what_one_does(folder: Path) -> None:
    """To the last digit; what is fitted elsewhere comes back as it is."""
    one, two = (import_aiconfigurator(folder, jobs=jobs) for jobs in (1, 2))
    assert one.as_json() == two.as_json()


def test_graph_rows_are_taken_and_sizes_are_elements(folder: Path) -> None:
    profile = import_aiconfigurator(folder)
    million = profile.seconds(Collective("x", "all_reduce", 2**20, 4)).seconds
    assert million == pytest.approx(5e-6 + 2**20 * 1.5 / WIRES, rel=0.02)
    gathered = profile.seconds(Collective("x", "all_gather", 2**20, 4)).seconds
    assert gathered == pytest.approx(5e-6 + 2**20 * 0.75 / WIRES, rel=0.02)


def test_sizes_in_bytes_are_noticed(folder: Path) -> None:
    messages("all_reduce", 1).to_parquet(folder / "custom_allreduce_perf.parquet")
    million = import_aiconfigurator(folder).seconds(Collective("x", "all_reduce", 2**20, 4)).seconds
    assert million == pytest.approx(5e-6 + 2**20 * 1.5 / WIRES, rel=0.02)


def test_the_unit_of_a_message_follows_from_the_wires() -> None:
    sizes = 2.0 ** np.arange(10, 28)
    assert bytes_per_count("all_reduce", {8: (sizes, 2 * sizes * 1.75 / 445e9)}, 2, 450e9) == 2
    assert bytes_per_count("send_recv", {2: (sizes, sizes / 350e9)}, 2, 450e9) == 1


@pytest.mark.parametrize(
    ("missing", "left"),
    [
        ("gemm_perf.txt", {"attention", "collectives"}),
        ("generation_attention_perf.parquet", {"gemm", "collectives"}),
    ],
)
def test_a_missing_table_leaves_its_operations_out(folder: Path, missing: str, left: set[str]) -> None:
    (folder / missing).unlink()
    profile = import_aiconfigurator(folder)
    assert {part for part in ("gemm", "attention", "collectives") if getattr(profile, part)} == left


def test_without_its_own_all_reduce_nccls_is_taken(folder: Path) -> None:
    (folder / "custom_allreduce_perf.parquet").unlink()
    assert import_aiconfigurator(folder).collectives["all_reduce"][8].source == "nccl_perf"


def test_versions_kernels_dtypes_and_failures_are_sorted_out(folder: Path) -> None:
    """The newest version of a shape counts, then the fastest kernel's median; failed rows and odd dtypes do not."""
    old = gemms(factor=5.0).assign(version="0.9.0")
    new = [gemms(factor=factor).assign(version="0.20.0") for factor in (0.9, 1.0, 30.0)]
    slow_kernel = gemms(kernel="other", factor=2.0).assign(version="0.20.0")
    failed = gemms(factor=0.0).assign(version="0.20.0")
    others = [gemms(dtype=dtype) for dtype in ("float16", "fp8", "fp8_block", "int4_wo")]
    pd.concat([old, *new, slow_kernel, failed, *others]).to_csv(folder / "gemm_perf.txt", index=False)
    profile = import_aiconfigurator(folder)
    assert sorted(profile.gemm) == ["bfloat16", "float16", "float8", "float8-block"]
    assert profile.seconds(Gemm("x", 4, 4096, 4096, "bfloat16")).seconds == pytest.approx(
        1e-3 * gemm_ms(4, 4096, 4096), rel=0.02
    )


def test_mistakes_are_one_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a readable system card"):
        import_aiconfigurator(tmp_path)
    gemms().drop(columns="gemm_dtype").to_csv(folder / "gemm_perf.txt", index=False)
    with refused("gemm_perf.txt", "gemm_dtype"):
        import_aiconfigurator(folder)
    (folder / "system.yaml").write_text(SYSTEM.replace("mem_capacity", "capacity"))
    gemms().to_csv(folder / "gemm_perf.txt", index=False)
    with refused("system.yaml", "gpu.mem_capacity"):
        import_aiconfigurator(folder)
    (folder / "system.yaml").write_text(SYSTEM.replace("bfloat16_tc_flops", "tc_flops"))
    with refused("system.yaml"):
        import_aiconfigurator(folder)
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "system.yaml").write_text(SYSTEM)
    with pytest.raises(InputError, match="no table of aiconfigurator there"):
        import_aiconfigurator(empty)


def held_out_errors(seed: int) -> pd.DataFrame:
    """Shapes and relative errors of the held-out bfloat16 GEMMs of the H100."""
    table = pd.read_parquet(REAL / "gemm_perf.parquet")
    rows = table[table["gemm_dtype"] == "bfloat16"].reset_index(drop=True)
    held = hold_out(len(rows), seed)
    fitted = rows[~held]
    model = fit_gemm(fitted["m"], fitted["n"], fitted["k"], fitted["latency"] * 1e-3, 2, "table", seed)
    judged = rows[held]
    seconds = judged["latency"] * 1e-3
    return judged.assign(error=np.abs(model.seconds(judged["m"], judged["n"], judged["k"]) / seconds - 1))


@real
@pytest.mark.parametrize("seed", [0, 1])
def test_h100_gemms_are_within_the_bars(seed: int) -> None:
    judged = held_out_errors(seed)
    decode = judged[(judged["m"] <= 64) & (judged["n"] * judged["k"] >= 4e6)]["error"]
    assert decode.median() <= 0.025
    assert decode.quantile(0.95) <= 0.10
    assert judged[judged["m"] <= 512]["error"].median() <= 0.03


@real
def test_the_bundled_h100_profile_is_what_the_importer_makes() -> None:
    made, bundled = import_aiconfigurator(REAL, jobs=1), find_hardware("h100-sxm")
    assert made.gemm["bfloat16"].segments[0].report
    assert made.gemm["bfloat16"].segments[0].report.coefficients <= 64
    for name, model in made.models().items():
        if name != "link":
            assert model == bundled.models()[name], name
    reports = {name: model.report for name, model in made.models().items() if model.report}
    assert max(report.median_error for name, report in reports.items() if "all_reduce" in name) < 0.05
    assert reports["attention:bfloat16"].median_error < 0.03
    assert reports["attention:bfloat16"].p95_error < 0.15


@real
def test_h100_time_grows_with_the_tokens() -> None:
    model = find_hardware("h100-sxm").gemm["bfloat16"]
    tokens = np.arange(1, 8193)
    for n, k in ((10240, 8192), (8192, 28672), (57344, 8192), (1280, 8192), (4096, 14336), (128256, 8192)):
        seconds = model.seconds(tokens, n, k)
        assert (seconds / np.maximum.accumulate(seconds)).min() > 0.93
        assert np.diff(np.log(seconds)).max() < 0.05
