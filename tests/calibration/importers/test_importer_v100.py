"""The V100 from public measurements, on a small folder of the same layout: what wins where, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibration.importers.v100 import import_v100
from ssdsim.base.errors import InputError
from ssdsim.hardware.profile import HardwareProfile
from tests.calibration.importers.nccl_texts import old

HOST_US, GRAPH_US, BYTES_PER_US = 50.0, (20.0, 30.0), 60_000.0
GEMMS = [(m, n, k) for m in (16, 64, 256) for n in (512, 2048, 8192) for k in (512, 2048)]


def table_us(size: float) -> float:
    """One process: its host takes 50 us, whatever the devices do below."""
    return max(HOST_US, 25.0 + size / BYTES_PER_US)


def nccl(sizes: list[int]) -> str:
    rows = [f"{size} {size // 4} float sum {table_us(size):.2f} 0.00 0.00 1e-07 1.0 0.00 0.00 1e-07" for size in sizes]
    return "\n".join([line for line in old() if " float " not in line] + rows)


def folder(path: Path) -> Path:
    (path / "nccl").mkdir()
    sizes = [2**power for power in range(3, 28)]
    (path / "nccl" / "allreduce_8xV100-SXM2-16GB_hcm.txt").write_text(nccl(sizes))
    (path / "nccl" / "allreduce_8xV100-SXM2-16GB_OCI.txt").write_text(nccl([2**30]))
    copies = [f"{2**p} {2**p // 4} float sum -1 {3 + 2 * 2**p / 8e5:.2f} 0.00 0.00 0 0.1 0 0 0" for p in range(3, 28)]
    (path / "nccl" / "onerank_copy_V100-SXM2.txt").write_text("\n".join(copies))
    pairs = [
        f"s,A 8x V100-SXM2,{a},{b},{(a + b) % 3},{(8, 24, 48)[(a + b) % 3]},,,"
        for a in range(8)
        for b in range(8)
        if a != b
    ]
    late = ["s,DGX-1 8x V100,0,1,1,,,1.6,P2P enabled", "s,DGX-1 8x V100,0,5,0,,,18.6,P2P enabled"]
    (path / "p2p.csv").write_text(
        "\n".join(["source,machine,gpu_a,gpu_b,links,uni_gbs,bi_gbs,latency_us,notes", *pairs, *late])
    )
    (path / "collectives.csv").write_text(
        "\n".join(
            ["machine,operation,ranks,bytes,method,time_us"]
            + [f"m,all_reduce,8,8192,NCCL way {n} graph,{us}" for n, us in enumerate(GRAPH_US)]
            + ["m,all_reduce,8,8192,NCCL back to back graph,9.0"]
        )
    )
    (path / "memory_bandwidth.csv").write_text(
        "source,gpu,tool,gbs\na,V100-SXM2-32GB,copy,780\nb,V100-SXM2-16GB,STREAM,820\nc,V100-PCIE-16GB,copy,999\n"
    )
    (path / "launch.csv").write_text(
        "gpu,what,time_us\nx,GPU 0 to itself,1.8\ny,GPU to itself,2.0\nz SXM3,GPU to itself,4\n"
    )
    lines = ["m,n,k,a_transposed,b_transposed,dtype,time_us"]
    lines += [f"{n},{m},{k},N,N,float16,{3 + 2 * n * k / 8e5}" for m, n, k in GEMMS]
    (path / "gemm.csv").write_text("\n".join(lines))
    return path


@pytest.fixture
def made(tmp_path: Path) -> HardwareProfile:
    return import_v100(folder(tmp_path) / "gemm.csv", tmp_path, "v100", 16)


def test_small_messages_pay_the_graphs_floor_and_large_ones_the_table(made: HardwareProfile) -> None:
    model = made.collectives["all_reduce"][8]
    assert 1e6 * float(model.seconds(8192)) == pytest.approx((20.0 * 30.0) ** 0.5, rel=0.05)
    for size in (2**22, 2**25, 2**30):
        assert 1e6 * float(model.seconds(size)) == pytest.approx(25.0 + size / BYTES_PER_US, rel=0.05)
    assert model.report
    assert model.report.p95_error > 0.3  # the two graphs leave each other out
    assert "its host's floor, 50.0 us" in made.sources["all_reduce"].note


@pytest.mark.long
def test_streaming_and_launches_are_typical_of_their_sources(made: HardwareProfile) -> None:
    kernel = made.elementwise
    assert kernel
    assert kernel.launch_s == pytest.approx(1.9e-6, rel=0.01)  # neither the DGX-2's nor the host's
    assert kernel.bandwidth == pytest.approx(800e9, rel=0.01)
    assert kernel.report


def test_links_and_the_card(made: HardwareProfile) -> None:
    assert made.device.memory_bytes == 16 * 2**30
    assert made.links
    assert {n: link.bandwidth for n, link in made.links.items()} == pytest.approx({0: 8e9, 1: 24e9, 2: 48e9})
    assert made.links[0].latency_s - made.links[1].latency_s == pytest.approx(17e-6)
    assert made.sources[made.collectives["all_reduce"][4].source].kind == "datasheet"


@pytest.mark.parametrize("missing", ["p2p.csv", "collectives.csv", "launch.csv", "nccl/onerank_copy_V100-SXM2.txt"])
def test_a_missing_table_is_named(tmp_path: Path, missing: str) -> None:
    gemms = folder(tmp_path) / "gemm.csv"
    (tmp_path / missing).unlink()
    with pytest.raises(InputError, match=missing.split("/")[-1].split("_")[0]):
        import_v100(gemms, tmp_path, "v100")
