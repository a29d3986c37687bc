"""nccl-tests and rccl-tests, plain CSV, Vidur's layers: samples in the real layouts, made from known laws."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from calibration.importers.nccl_tests import read_nccl_tests, with_nccl_tests
from calibration.importers.plain_csv import with_plain_csv
from calibration.importers.vidur import cross_check, import_elementwise, import_gemms, read_gemms
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.what_if import LINKS, scale
from tests.refusals import refused

LATENCY_US, BYTES_PER_US = 12.0, 200_000.0  # 200 GB/s
SIZES = [1 << power for power in range(10, 30, 1)]
MEASURED = Path(__file__).parents[4] / "shared" / "measurements" / "vidur"


def time_us(size: float) -> float:
    return LATENCY_US + size / BYTES_PER_US


def text_table(named: bool = True, ranks: int = 8, wrong: str = "0") -> str:
    lines = ["# nThread 1 nGpus 8 minBytes 1024 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20"]
    if named:
        lines.insert(0, "# Collective test starting: all_reduce_perf")
    lines += [
        f"#  Rank {rank:2d} Group  0 Pid   6899 on host device {rank:2d} [0x07] NVIDIA H100" for rank in range(ranks)
    ]
    lines += [
        "#                                                              out-of-place                       in-place",
        "#       size      count    type  redop  root    time  algbw  busbw #wrong    time  algbw  busbw #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
    ]
    for size in SIZES:
        t = time_us(size)
        out_of_place, in_place = f"{t:8.2f}   1.00   1.00    {wrong}", f"{3 * t:8.2f}   1.00   1.00    0"
        lines.append(f"{size:12d} {size // 4:13d}     float     sum      -1 {out_of_place} {in_place}")
    return "\n".join([*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 55.1", "#"])


def rccl_records() -> list[dict[str, object]]:
    common = {"numCycle": 0, "name": "AllReduce", "nodes": 1, "ranks": 8, "ranksPerNode": 8, "gpusPerRank": 1}
    return [
        {**common, "size": size, "type": "float", "redop": "sum", "inPlace": place}
        | {"time": time_us(size) * (1 + 2 * place), "algBw": 1.0, "busBw": 1.0, "wrong": "0"}
        for size in SIZES
        for place in (0, 1)
    ]


def write(folder: Path, kind: str) -> Path:
    path = folder / f"sample.{kind}"
    records = rccl_records()
    if kind == "txt":
        path.write_text(text_table())
    elif kind == "json":
        path.write_text(json.dumps(records))
    elif kind == "csv":
        rows = [",".join(map(str, record.values())) for record in records]
        path.write_text("\n".join([",".join(records[0]), *rows]))
    else:
        results = [{"size": s, "out_of_place": {"time": time_us(s), "nwrong": 0}, "in_place": {}} for s in SIZES]
        path.write_text(json.dumps({"config": {"test": "all_reduce_perf", "ranks": 8}, "results": results}))
    return path


@pytest.mark.parametrize("kind", ["txt", "json", "csv", "nccl.json"])
def test_every_format_gives_the_same_law(tmp_path: Path, kind: str) -> None:
    ((timed,), _) = read_nccl_tests([write(tmp_path, kind)])
    assert (timed.operation, timed.ranks) == ("all_reduce", 8)
    assert len(timed.rows) == len(SIZES)
    profile = with_nccl_tests(find_hardware("h100-sxm"), [timed], "nccl-tests")
    model = profile.collectives["all_reduce"][8]
    for size in (2_000, 1_000_000, 100_000_000):
        assert float(model.seconds(size)) == pytest.approx(time_us(size) * 1e-6, rel=0.02)
    assert profile.collectives["all_reduce"][4] == find_hardware("h100-sxm").collectives["all_reduce"][4]
    assert profile.sources["nccl-tests"].kind == "imported"


def test_a_table_that_does_not_name_its_test_must_be_told(tmp_path: Path) -> None:
    path = tmp_path / "old.txt"
    path.write_text(text_table(named=False, wrong="N/A"))
    with refused("--operation"):
        read_nccl_tests([path])
    ((timed,), _) = read_nccl_tests([path], "sendrecv")
    link = with_nccl_tests(find_hardware("h100-sxm"), [timed], "nccl-tests").link
    assert link is not None
    assert link.latency_s == pytest.approx(LATENCY_US * 1e-6, rel=0.05)
    assert link.bandwidth == pytest.approx(BYTES_PER_US * 1e6, rel=0.05)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing here", "no rows of nccl-tests"),
        ('[{"name": "AllReduce"', "not JSON, or cut short"),
        (text_table(ranks=0), "say --ranks"),
        (text_table().replace("all_reduce_perf", "broadcast_perf"), "operation 'broadcast' is not priced"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_nccl_tests([path])


def test_wrong_results_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text(text_table(wrong="3"))
    with pytest.raises(InputError, match="no rows"):
        read_nccl_tests([path])


def gemm_seconds(m: float, n: float, k: float) -> float:
    return 3e-6 + 2.0 * (m * k + k * n + m * n) / 1.5e12 + 2.0 * m * n * k / 6e14


def test_a_plain_csv_replaces_what_it_times(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = ["op,dtype,m,n,k,message_bytes,ranks,seconds"]
    for _ in range(200):
        m, n, k = (int(2 ** rng.uniform(*span)) for span in ((0, 9), (9, 14), (9, 14)))
        rows.append(f"gemm,bfloat16,{m},{n},{k},,,{gemm_seconds(m, n, k)}")
    rows += [f"all_gather,bfloat16,,,,{size},4,{time_us(size) * 1e-6}" for size in SIZES]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(rows))
    base = find_hardware("h100-sxm")
    profile = with_plain_csv(base, path, "csv")
    assert float(profile.gemm["bfloat16"].seconds(8, 4096, 4096)) == pytest.approx(
        gemm_seconds(8, 4096, 4096), rel=0.05
    )
    assert float(profile.collectives["all_gather"][4].seconds(1e6)) == pytest.approx(time_us(1e6) * 1e-6, rel=0.02)
    assert profile.attention == base.attention


@pytest.mark.parametrize(("op", "name"), [("all_reduce", "all_reduce:4"), ("link", "link")])
def test_messages_smaller_than_a_csv_times_stay_the_bases(tmp_path: Path, op: str, name: str) -> None:
    rows = [f"{op},,{1e-6 * time_us(size)},{size},4" for size in (1 << power for power in range(25, 33))]
    path = tmp_path / "large.csv"
    path.write_text("\n".join(["op,dtype,seconds,message_bytes,ranks", *rows]))
    base = find_hardware("h100-sxm")
    made = with_plain_csv(base, path, "csv")
    assert made.models()[f"{name.partition(':')[0]} below 32 MiB{name[len(op) :]}"] == base.models()[name]
    if op == "link":
        assert made.message_seconds(256) == base.message_seconds(256)
        assert made.message_seconds(2**26).seconds == pytest.approx(1e-6 * time_us(2**26), rel=0.02)
        slower = scale(made, "slower", link="pcie4")
        assert slower.message_seconds(256).seconds == pytest.approx(LINKS["pcie4"][0], rel=0.01)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("op,dtype,secs\n", "no column seconds; did you mean 'secs'"),
        ("op,dtype,seconds\ngem,bfloat16,1\n", "unknown op 'gem'; did you mean 'gemm'"),
        ("op,dtype,seconds\nlink,,1\n", "needs a column 'message_bytes'"),
        ("op,dtype,m,n,k,seconds\ngemm,bf16,1,1,1,1\n", "unknown dtype 'bf16'"),
        ("op,dtype,m,n,k,seconds\ngemm,bfloat16,1,1,1,1\n", "1 complete rows of gemm"),
    ],
)
def test_a_plain_csvs_mistakes_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        with_plain_csv(find_hardware("h100-sxm"), path, "csv")


def write_layers(path: Path) -> None:
    """Vidur's columns for a Llama-2-70B-shaped layer, from the law above (ms)."""
    names = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")
    sizes = "n_head,n_kv_head,n_embd,n_expanded_embd,vocab_size,use_gated_mlp,num_tokens,num_tensor_parallel_workers"
    header = [f"time_stats.{name}.median" for name in (*names, "input_layernorm", "add")]
    lines = [",".join([*header, sizes])]
    for tp in (1, 2, 4, 8):
        for m in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            shapes = [
                (8192 // tp + 2 * 1024 // tp, 8192),
                (8192, 8192 // tp),
                (2 * 28672 // tp, 8192),
                (8192, 28672 // tp),
            ]
            times = [1e3 * gemm_seconds(m, n, k) for n, k in shapes]
            streams = [1e3 * (5e-6 + tensors * 2 * m * 8192 / 1e12) for tensors in (2, 3)]
            lines.append(",".join(map(str, [*times, *streams, 64, 8, 8192, 28672, 32000, True, m, tp])))
    path.write_text("\n".join(lines))


def test_vidurs_layers_are_gemms_of_known_shapes(tmp_path: Path) -> None:
    path = tmp_path / "mlp.csv"
    write_layers(path)
    rows = read_gemms(path)
    assert {(2560, 8192), (8192, 2048), (14336, 8192), (8192, 7168)} <= set(zip(rows["n"], rows["k"], strict=True))
    model = import_gemms(path)
    assert model.report is not None
    assert model.report.median_error < 0.02
    elementwise = import_elementwise(path)
    assert elementwise.launch_s == pytest.approx(5e-6, rel=0.1)
    bands = cross_check(model, rows)
    assert all(abs(band.bias) < 0.02 for band in bands)


@pytest.mark.long
@pytest.mark.skipif(not MEASURED.is_dir(), reason="the public measurements are not here")
def test_two_sources_agree_on_the_h100s_gemms_that_stream() -> None:
    """Independent measurements of one device: within 3 % up to 64 tokens; beyond, the older libraries are slower."""
    rows = read_gemms(MEASURED / "compute/h100/Llama-2-70b-hf/mlp.csv")
    few, some, more, many = cross_check(find_hardware("h100-sxm").gemm["bfloat16"], rows)
    assert few.error < 0.05
    assert some.error < 0.05
    assert -0.3 < more.bias < -0.1
    assert -0.3 < many.bias < -0.1
    report = import_gemms(MEASURED / "compute/h100/Llama-2-70b-hf/mlp.csv").report
    assert report is not None
    assert report.median_error < 0.06
