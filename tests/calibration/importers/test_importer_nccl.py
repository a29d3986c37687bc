"""Texts of nccl-tests as they are found: versions, launchers, logs, and what must be refused or said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from calibration.importers.nccl_output import runs_in
from calibration.importers.nccl_tests import Timings, read_nccl_tests, unlike, with_nccl_tests
from calibration.importers.tables import smallest_messages
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.links import Links
from ssdsim.question.configuration import configure
from ssdsim.transformer.operations import Collective
from tests.calibration.importers.nccl_texts import (
    SIZES,
    all_reduce_share,
    devices,
    half,
    more_columns,
    new,
    old,
    one_group,
    rows,
    time_us,
)
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked

INFO = "node00:746:801 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/IPC"


def read(
    folder: Path, lines: list[str], operation: str | None = None, ranks: int | None = None, run: int | None = None
) -> list[Timings]:
    path = folder / "run.log"
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    return read_nccl_tests([path], operation, ranks, run)[0]


def only(
    folder: Path, lines: list[str], operation: str | None = None, ranks: int | None = None, run: int | None = None
) -> Timings:
    (timed,) = read(folder, lines, operation, ranks, run)
    return timed


def says_the_law(timed: Timings, sizes: tuple[int, ...] = SIZES) -> bool:
    return dict(timed.rows) == pytest.approx({size: 1e-6 * time_us(size) for size in sizes}, rel=2e-3)


LAYOUTS = {
    "2019, error column": old(),
    "2019, rooted as all tests of some forks": old(rooted=True),
    "2019, indented": [f"   {line}" for line in old()],
    "2019, its # lost in markdown": [line.lstrip("# ") for line in old()],
    "2019, unchecked (-c 0)": [line.replace("2e-07", "  N/A") for line in old()],
    "since 2021": new(),
    "since 2021, unchecked": new(check="N/A"),
    "Windows line ends": [f"{line}\r" for line in new()],
    "a byte order mark, no-break spaces": ["\ufeff#", *(line.replace("  ", "\u00a0 ") for line in new())],
    "colours": [f"\x1b[0;32m{line}\x1b[0m" for line in new()],
    "bitwise, per iteration, dates": more_columns(),
    "Open MPI, tagged": [f"[1,0]<stdout>:{line}" for line in new()],
    "Open MPI 5, tagged": [f"[prterun-node00-7@1,0]<stdout>: {line}" for line in new()],
    "Slurm, labelled": [f"0: {line}" for line in new()],
    "Hydra": [f"[0] {line}" for line in new()],
    "dates before": [f"2026-11-02T12:00:00.123Z {line}" for line in new()],
    "a pod's name before": [f"(worker-0, rank=0, pid=77) {line}" for line in new()],
    "NCCL's lines between": [each for line in new() for each in (INFO, line)],
    "no header": [line for line in new() if "algbw" not in line],
    "in-place not timed": [
        line[:78] + "      N/A     N/A     N/A    N/A" if " float " in line else line for line in new()
    ],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_read(tmp_path: Path, name: str) -> None:
    timed = only(tmp_path, LAYOUTS[name], "all_reduce")
    assert (timed.operation, timed.ranks) == ("all_reduce", 8)
    assert says_the_law(timed)


def test_a_table_that_its_author_shortened_is_read_and_fitted(tmp_path: Path) -> None:
    timed = only(tmp_path, one_group(), "all_reduce")
    assert says_the_law(timed, SIZES[:6])
    assert 2 in with_nccl_tests(find_hardware("h100-sxm"), [timed], "nccl-tests").collectives["all_reduce"]


def test_rows_that_nccl_breaks_in_two_are_joined(tmp_path: Path) -> None:
    broken = []
    for line in new():
        if " float " in line:
            at = line.index("-1") + 2
            broken += [line[:at] + INFO, INFO, line[at:]]
        else:
            broken.append(line)
    timed = only(tmp_path, broken)
    assert says_the_law(timed)
    assert timed.remarks == ()


def test_a_row_cut_short_is_counted(tmp_path: Path) -> None:
    lines = [line for line in new() if "concluded" not in line and not line.startswith("# O") and "Avg" not in line]
    timed = only(tmp_path, [*lines[:-2], lines[-2][:60]])
    assert says_the_law(timed, SIZES[:-1])
    assert "left out 1 row(s) broken by another line" in timed.remarks[0]


def test_rows_left_out_are_counted_by_reason(tmp_path: Path) -> None:
    lines = new()
    first = next(at for at, line in enumerate(lines) if " float " in line)
    lines[first] = rows("sum -1", "7", 1.75)[0]
    untimed = f"4096 1024 float sum -1 {'N/A N/A N/A N/A ' * 2}"
    lines[first + 1 : first + 1] = [f"0 0 float sum -1 {half(0, 1, '0')} {half(0, 1, '0')}", untimed]
    timed = only(tmp_path, lines)
    assert says_the_law(timed, SIZES[1:])
    said = " ".join(timed.remarks)
    assert "1 row(s) with a wrong result" in said
    assert "1 row(s) of size 0" in said
    assert "1 row(s) without a time" in said


def test_a_time_in_place_only_is_taken_and_said(tmp_path: Path) -> None:
    table = [f"{size} {size // 4} float sum -1 N/A N/A N/A N/A {half(size, 1.75, '0')}" for size in SIZES]
    timed = only(tmp_path, [line for line in new() if " float " not in line] + table)
    assert says_the_law(timed)
    assert "in place only" in timed.remarks[0]


def test_runs_of_a_file_are_told_apart(tmp_path: Path) -> None:
    lines = [*new(8), *new(4), *new(8, "all_gather"), *new(2, "sendrecv"), *new(8, "broadcast")]
    findings = read(tmp_path, lines)
    assert [(timed.operation, timed.ranks) for timed in findings] == [
        ("all_reduce", 8),
        ("all_reduce", 4),
        ("all_gather", 8),
        ("sendrecv", 2),
    ]
    assert all(says_the_law(timed) for timed in findings)
    assert "operation 'broadcast' is not priced" in " ".join(findings[0].remarks)
    assert [timed.ranks for timed in read(tmp_path, lines, "all_reduce", 4)] == [4]


def test_equal_runs_are_one(tmp_path: Path) -> None:
    timed = only(tmp_path, [*new(), *new()])
    assert len(timed.rows) == 2 * len(SIZES)
    assert "medians of 2 runs" in timed.remarks[-1]


def test_runs_of_other_gpus_are_not_mixed(tmp_path: Path) -> None:
    lines = [*new(), *new(gpu="NVIDIA A100-SXM4-80GB")]
    with refused("all_reduce over 8", "--run"):
        read(tmp_path, lines)
    assert only(tmp_path, lines, run=2).gpus == ("NVIDIA A100-SXM4-80GB",)
    with refused("no run 3; it has 2"):
        read(tmp_path, lines, run=3)


@pytest.mark.parametrize(
    ("other", "mode"),
    [({"graph": 20}, "one process, in CUDA graphs (20 launches)"), ({"processes": 8}, "a process a rank, eager")],
)
def test_of_two_runs_of_a_page_the_one_that_is_as_engines_run_is_taken(
    tmp_path: Path, other: dict[str, int], mode: str
) -> None:
    """A page shows one process of eight GPUs, and then the same under mpirun."""
    lines = [*new(), *new(**other)]  # type: ignore[arg-type]
    timed = only(tmp_path, lines)
    assert (timed.mode, len(timed.rows)) == (mode, len(SIZES))
    assert "run 1 (one process, eager)" in timed.remarks[-1]
    assert only(tmp_path, lines, run=1).mode == "one process, eager"


def test_logs_of_four_and_of_eight_gpus_of_a_machine_are_one_link(tmp_path: Path) -> None:
    """The usual script times every collective over four GPUs, a process each, and then over eight."""
    lines = [line for n in (4, 8) for test in ("all_reduce", "sendrecv") for line in new(n, test, processes=n)]
    timings = read(tmp_path, lines)
    assert [(timed.operation, timed.ranks) for timed in timings] == [
        ("all_reduce", 4),
        ("sendrecv", 4),
        ("all_reduce", 8),
    ]
    assert "the medians of 2 runs of sendrecv over 4, 8" in timings[1].remarks[-1]


MESH = """\
\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tmlx5_0\tCPU Affinity\x1b[0m
GPU0\t X \tNV4\tSYS\tSYS\tPIX\t0-19
GPU1\tNV4\t X \tSYS\tSYS\tPIX\t0-19
GPU2\tSYS\tSYS\t X \tNV4\tSYS\t20-39
GPU3\tSYS\tSYS\tNV4\t X \tSYS\t20-39
"""


def on(gpus: tuple[int, ...], test: str = "sendrecv", times: float = 1.0, hidden: bool = False) -> list[str]:
    """A run over these GPUs of a machine, so many times slower; a ``hidden`` one numbers them from 0 on."""
    lines = new(len(gpus), test)
    listed = [at for at, line in enumerate(lines) if "Rank" in line]
    for at, gpu in zip(listed, gpus, strict=True):
        number = listed.index(at) if hidden else gpu
        lines[at] = re.sub(r"device +\d+ \[\w+\]", f"device {number} [0x{16 * gpu + 11:02x}]", lines[at])
    share = {"sendrecv": 1.0, "all_reduce": all_reduce_share(len(gpus))}[test]
    slower = [f"{size} {size // 4} float none -1 {half(size, share, '0', times)}" for size in SIZES]
    return [*(line for line in lines if " float " not in line and "concluded" not in line), *slower]


def machine(folder: Path, *runs: list[str], links: str = "") -> tuple[list[Timings], Links]:
    paths = [folder / f"{number}.log" for number in range(len(runs))]
    for path, lines in zip(paths, runs, strict=True):
        path.write_text("\n".join(lines))
    if links:
        paths.append(folder / "topo.txt")
        paths[-1].write_text(links)
    return read_nccl_tests(paths)


def test_pairs_of_a_machine_that_are_unlike_are_not_pooled(tmp_path: Path) -> None:
    """They were: a message cost the median of one over NVLinks and one over the host."""
    with refused("8.0 times as fast", "GPUs 0, 1; GPUs 0, 2", "nvidia-smi topo -m"):
        machine(tmp_path, on((0, 1)), on((0, 2), times=8.0))
    ((timed,), _) = machine(tmp_path, on((0, 1)), on((2, 3), times=1.1))
    assert len(timed.rows) == 2 * len(SIZES)


@pytest.mark.parametrize("hidden", [False, True])
def test_a_topology_says_which_pairs_have_nvlinks(tmp_path: Path, hidden: bool) -> None:
    runs = [on((0, 1), hidden=hidden), on((2, 3), hidden=hidden), on((0, 2), times=8.0, hidden=hidden)]
    everywhere = [on((0, 1, 2, 3), "all_reduce")] if hidden else []
    timings, nvlinks = machine(tmp_path, *runs, *everywhere, links=MESH)
    assert [timed.nvlinks for timed in timings] == [4, 0, 0][: len(timings)]
    made = with_nccl_tests(find_hardware("a100-sxm"), timings, "nccl-tests", nvlinks)
    assert (made.device.count, made.device.topology) == (4, "4 NVLinks or PCIe between two GPUs")
    near, far = (made.message_seconds(2**26, pair).seconds for pair in ((2, 3), (1, 2)))
    assert near == pytest.approx(1e-6 * time_us(2**26), rel=0.02)
    assert far == pytest.approx(8 * near, rel=0.02)
    assert "over 4 NVLinks" in made.sources["nccl-tests"].note
    made.save(tmp_path / "made.json")
    assert find_hardware(tmp_path / "made.json").message_seconds(2**26, (1, 2)).seconds == far


def test_a_message_from_one_machine_to_another_is_a_link_for_drafts(tmp_path: Path) -> None:
    """It was refused, as a collective over two machines is: a profile is of one."""
    (tmp_path / "between.log").write_text("\n".join(new(2, "sendrecv", hosts=2)))
    ((timed,), _) = read_nccl_tests([tmp_path / "between.log"])
    assert timed.mode.endswith("between two machines")
    assert "--draft-link" in timed.remarks[-1]
    with_nccl_tests(find_hardware("h100-sxm"), [timed], "nccl-tests").save(tmp_path / "between.json")
    case = configure(strategies="ssd", draft_link=str(tmp_path / "between.json")).scenarios["ssd"]
    assert case.seconds["outcome"] == pytest.approx(
        find_hardware(tmp_path / "between.json").message_seconds(292).seconds
    )
    with refused("2 hosts", "a profile is of one machine"):
        (tmp_path / "between.log").write_text("\n".join(new(2, hosts=2)))
        read_nccl_tests([tmp_path / "between.log"])


def test_of_collectives_those_of_the_first_devices_are_kept(tmp_path: Path) -> None:
    over = [on((0, 2), "all_reduce", 8.0), on((0, 1), "all_reduce")]
    ((timed,), _) = machine(tmp_path, *over, links=MESH)
    assert says_the_law(timed)
    assert "on GPUs 0, 2, which are linked otherwise" in timed.remarks[-1]


def test_pairs_that_are_all_alike_are_one_link(tmp_path: Path) -> None:
    timings, nvlinks = machine(tmp_path, on((0, 1)), links=MESH.replace("SYS", "NV4"))
    made = with_nccl_tests(find_hardware("h100-sxm"), timings, "nccl-tests", nvlinks)
    assert (made.device.nvlinks, made.links, made.device.topology) == (None, None, "4 NVLinks between two GPUs")
    with refused("a topology alone has no times"):
        machine(tmp_path, links=MESH)


def test_alltoall_is_what_tokens_take_to_their_experts(tmp_path: Path) -> None:
    profile = with_nccl_tests(find_hardware("h100-sxm"), read(tmp_path, new(4, "alltoall")), "nccl-tests")
    model = profile.collectives["all_to_all"][4]
    assert model.source == "nccl-tests"
    assert float(model.seconds(1e8)) == pytest.approx(1e-6 * time_us(1e8), rel=0.02)


RCCL = """# Collective test starting: all_reduce_perf
# nThread 1 nGpus 4 minBytes 16384 maxBytes 16777216 step: 4(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
rccl-tests: Version develop:5272cd1
# Using devices
#  Rank  0 Group  0 Pid 251710 on    node01 device  0 [0000:05:00] AMD Instinct MI300X
#  Rank  1 Group  0 Pid 251710 on    node01 device  1 [0000:29:00] AMD Instinct MI300X
#  Rank  2 Group  0 Pid 251710 on    node01 device  2 [0000:49:00] AMD Instinct MI300X
#  Rank  3 Group  0 Pid 251710 on    node01 device  3 [0000:65:00] AMD Instinct MI300X
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
       16384          8192  bfloat16     sum      -1    30.33    0.54    0.81      0    29.80    0.55    0.82      0
       65536         32768  bfloat16     sum      -1    31.31    2.09    3.14      0    31.02    2.11    3.17      0
      262144        131072  bfloat16     sum      -1    35.24    7.44   11.16      0    35.01    7.49   11.23      0
     1048576        524288  bfloat16     sum      -1    50.97   20.57   30.86      0    50.61   20.72   31.08      0
     4194304       2097152  bfloat16     sum      -1   113.89   36.83   55.24      0   113.51   36.95   55.43      0
    16777216       8388608  bfloat16     sum      -1   365.54   45.90   68.85      0   364.90   45.98   68.97      0
# Errors with asterisks indicate errors that have exceeded the maximum threshold.
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 28.3432
#
# Collective test concluded: all_reduce_perf
"""  # noqa: E501, W291


@pytest.mark.parametrize(
    ("printed", "gpus"), [(RCCL, ("AMD Instinct MI300X",)), (RCCL.replace("AMD Instinct MI300X", ""), ())]
)
def test_what_rccl_tests_prints_is_read_alike(tmp_path: Path, printed: str, gpus: tuple[str, ...]) -> None:
    """Its headers: a version without a ``#``, buses with their domain, devices that may have no name."""
    timed = only(tmp_path, printed.splitlines())
    assert (timed.operation, timed.ranks, timed.gpus, timed.remarks) == ("all_reduce", 4, gpus, ())
    assert timed.mode == "one process, eager"
    assert timed.devices[3] == (3, "0000:65:00")
    assert [round(1e6 * seconds, 2) for _, seconds in timed.rows] == [30.33, 31.31, 35.24, 50.97, 113.89, 365.54]
    made = with_nccl_tests(find_hardware("h100-sxm"), [timed], "nccl-tests")
    assert made.collectives["all_reduce"][4].seconds(2**20) == pytest.approx(51e-6, rel=0.05)
    assert bool(gpus) == any(
        "ran on AMD Instinct MI300X" in line for line in unlike(find_hardware("h100-sxm"), [timed])
    )


def test_a_test_of_bandwidth_leaves_the_latency_to_the_base(tmp_path: Path) -> None:
    """It replaced an all-reduce of 16 KiB, which decoding sends, by what its intercept says: five times as long."""
    sizes = [2**power for power in range(25, 33)]
    table = [f"{size} {size // 8} double sum -1 {half(size, all_reduce_share(4), '0')}" for size in sizes]
    lines = [*(line for line in new(4, gpu="NVIDIA H100 80GB HBM3") if " float " not in line), *table]
    base = find_hardware("h100-sxm")
    made = with_nccl_tests(base, read(tmp_path, lines), "nccl-tests")
    decoding, bulk = (Collective("all_reduce", "all_reduce", size, 4) for size in (2**14, 2**26))
    assert made.seconds(decoding).seconds == base.seconds(decoding).seconds
    assert made.seconds(decoding).warnings == base.seconds(decoding).warnings == ()
    assert made.seconds(bulk).seconds == pytest.approx(1e-6 * time_us(2**26), rel=0.02)
    assert [*smallest_messages(made, "nccl-tests", "h100-sxm")] == [
        "all_reduce:4 was timed from 32 MiB on; smaller messages stay h100-sxm's"
    ]
    made.save(tmp_path / "made.json")
    assert find_hardware(tmp_path / "made.json").seconds(decoding) == made.seconds(decoding)
    assert "all_reduce below 32 MiB:4" in made.models()


def test_below_the_smallest_size_of_a_law_without_a_base_it_is_extrapolated(tmp_path: Path) -> None:
    base = find_hardware("h100-sxm")
    sizes = [2**power for power in range(25, 33)]
    table = [f"{size} {size // 8} double sum -1 {half(size, all_reduce_share(6), '0')}" for size in sizes]
    lines = [*(line for line in new(6) if " float " not in line), *table]
    made = with_nccl_tests(base, read(tmp_path, lines), "nccl-tests")
    timing = made.seconds(Collective("all_reduce", "all_reduce", 2**14, 6))
    assert timing.is_extrapolated
    assert "message_bytes below the smallest timed, 3.35544e+07" in timing.warnings[0]
    assert "their latency is not known" in next(smallest_messages(made, "nccl-tests", "h100-sxm"))


def test_a_law_whose_smallest_message_took_the_latency_speaks_for_smaller_ones(tmp_path: Path) -> None:
    made = with_nccl_tests(find_hardware("h100-sxm"), read(tmp_path, new()), "nccl-tests")
    assert made.collectives["all_reduce"][8].domain["message_bytes"][0] == 0.0
    assert [*smallest_messages(made, "nccl-tests", "h100-sxm")] == []


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ({}, "one process, eager"),
        ({"graph": 20}, "one process, in CUDA graphs (20 launches)"),
        ({"processes": 8}, "a process a rank, eager"),
        ({"processes": 2}, "2 processes, eager"),
    ],
)
def test_processes_and_graphs_are_kept_in_the_provenance(tmp_path: Path, kind: dict[str, int], mode: str) -> None:
    timed = only(tmp_path, new(**kind))  # type: ignore[arg-type]
    profile = with_nccl_tests(find_hardware("v100-sxm2-32gb"), [timed], "nccl-tests")
    assert f"all_reduce over 8 of Tesla V100-SXM2-16GB: {len(SIZES)} rows, {mode}" in profile.sources["nccl-tests"].note


def test_an_old_table_does_not_say_whether_it_ran_in_graphs(tmp_path: Path) -> None:
    assert only(tmp_path, old(), "all_reduce").mode == "one process, graphs not said"


def _rank_zeros(processes: int) -> list[str]:
    return [*(devices(1)[0].replace("Pid    700", f"Pid {700 + n}") for n in range(processes)), *new()[12:]]


REFUSED: dict[str, tuple[list[str], str | None, int | None, str]] = {
    "one rank": (new(1), None, None, r"10 rows \(column '#wrong'\) of one rank: a copy on the device"),
    "a build without MPI": (_rank_zeros(8), "all_reduce", None, "8 devices, each rank 0.*without MPI"),
    "two hosts": (new(16, hosts=2), None, None, r"16 ranks on 2 hosts \(node00, node01\): a profile is of one machine"),
    "not priced": (
        old(),
        "reduce_scatter",
        None,
        "'reduce_scatter' is not priced.*10 rows",
    ),
    "the test not named": (old(), None, None, r"does not name its test \(its busbw is that of an all_reduce\)"),
    "ranks not said": ([line for line in new() if "Rank" not in line], None, None, "say --ranks"),
    "other ranks": (new(), None, 4, "the file has 8 ranks, --ranks says 4"),
    "another test": (new(), "all_gather", None, "the file names all_reduce, --operation says all_gather"),
    "another test, not named": (old(), "all_gather", None, "busbw is 1.75 of its algbw, as of an all_reduce only"),
    "too few ranks told": (
        [line for line in new() if "Rank" not in line],
        None,
        4,
        "that of an all_reduce over 4 is 1.50",
    ),
    "the host's times": ([line.replace("  time ", "cputime ") for line in new()], None, None, r"no rows.*cputime"),
    "all wrong": (new(check="9"), None, None, "no rows.*left out 10 with a wrong result"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_priced_is_refused_with_what_was_seen(tmp_path: Path, name: str) -> None:
    lines, operation, ranks, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        read(tmp_path, lines, operation, ranks)


@pytest.mark.parametrize(
    ("lines", "base", "message"),
    [
        (new(gpu="NVIDIA H100 80GB HBM3"), "v100-sxm2-32gb", "ran on NVIDIA H100 80GB HBM3, v100-sxm2-32gb is of"),
        (new(gpu="Tesla V100-PCIE-16GB"), "v100-sxm2-32gb", "ran on Tesla V100-PCIE-16GB, .*: another link"),
        (new(12), "v100-sxm2-32gb", "is over 12 ranks, v100-sxm2-32gb is of 8 x"),
        (new(gpu="NVIDIA H100 80GB HBM3"), "h100-sxm", r"reaches 49.7 GB/s at 256 MiB, h100-sxm \d+: another link"),
    ],
)
def test_a_base_of_another_kind_is_said(tmp_path: Path, lines: list[str], base: str, message: str) -> None:
    said = unlike(find_hardware(base), read(tmp_path, lines))
    assert any(re.search(message, line) for line in said), said


def test_a_base_of_the_same_kind_is_fine(tmp_path: Path) -> None:
    assert unlike(find_hardware("v100-sxm2-32gb"), read(tmp_path, new())) == []


def test_files_of_one_collective_on_other_gpus_are_not_mixed(tmp_path: Path) -> None:
    listed = [*read(tmp_path, new()), *read(tmp_path, new(gpu="NVIDIA A100-SXM4-80GB"))]
    with refused("all_reduce over 8"):
        with_nccl_tests(find_hardware("v100-sxm2-32gb"), listed, "nccl-tests")


def nccl_json(devices_listed: int, ngpus: int) -> dict[str, object]:
    """As ``-J`` writes it: some versions list a process' first device only."""
    step = 1 if devices_listed > 1 and ngpus > 1 else ngpus
    listed = [
        {"rank": step * n, "pid": 700, "hostname": "node00", "device": n, "device_info": "Tesla V100-SXM2-16GB"}
        for n in range(devices_listed)
    ]
    results = [
        {
            "size": size,
            "type": "float",
            "redop": "sum",
            "out_of_place": {"time": time_us(size), "nwrong": None},
            "in_place": None,
        }
        for size in SIZES
    ]
    config = {"nthreads": 1, "ngpus": ngpus, "graph": 0, "devices": listed}
    return {"args": ["./build/all_reduce_perf", "-g", str(ngpus)], "config": config, "results": results}


@pytest.mark.parametrize(("listed", "ngpus"), [(1, 8), (8, 8), (8, 1)])
def test_json_of_nccl_tests_says_test_and_ranks(tmp_path: Path, listed: int, ngpus: int) -> None:
    timed = only(tmp_path, [json.dumps(nccl_json(listed, ngpus))])
    assert (timed.operation, timed.ranks, timed.gpus) == ("all_reduce", 8, ("Tesla V100-SXM2-16GB",))
    assert says_the_law(timed)


def test_the_command_says_what_it_read(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("\n".join(old()), encoding="utf-8")
    arguments = ["import", "nccl-tests", str(tmp_path / "old.txt"), "--operation", "all_reduce"]
    made = asked(*arguments, "--base", "h100-sxm", "-o", str(tmp_path / "mine.json"))
    assert made.returncode == 0, made.stderr
    said = " ".join(made.stderr.split())
    assert "all_reduce over 8 of Tesla V100-SXM2-16GB: 10 rows, one process, graphs not said" in said
    assert "warning: " in said
    assert "h100-sxm is of 8 x" in said
    assert find_hardware(tmp_path / "mine.json").collectives["all_reduce"][8].report


def test_a_file_that_is_refused_is_one_line(tmp_path: Path) -> None:
    """What it would have been told of came first: its settings, and a warning that it is of another link."""
    path = tmp_path / "one.json"
    path.write_text(json.dumps([{"name": "SendRecv", "size": 33554432, "time": 30.0, "ranks": 2, "type": "float"}]))
    done = asked("import", "nccl-tests", str(path), "-o", str(tmp_path / "x.json"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [f"error: {path}: sendrecv: 1 sizes; a fit needs at least 8"]


@pytest.mark.long
@pytest.mark.parametrize(
    "repeated", [" ", "1 ", "1", "1.5 ", "\n", " \n", "Z 1 ", "Rank 0 Pid 1 on ", "nThread 1 ", "8 2 float none\n"]
)
def test_a_long_text_that_suits_a_regular_expression_ends(repeated: str) -> None:
    """Where one of them takes the square of what it reads, this takes hours."""
    runs_in("8 2 float\n" + repeated * (1_000_000 // len(repeated)) + "x", Path("x"))
