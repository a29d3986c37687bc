"""What a calibration allocates, against what is free."""

from __future__ import annotations

import pytest

from calibration.machine.graph_memory import POOL_BYTES
from calibration.timings.memory import benchmark_bytes, check_memory, rank_bytes
from calibration.timings.plan import CalibrationWorkload, TimingPoint
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_transformer

WORKLOAD = CalibrationWorkload(
    find_transformer("llama-3.1-70b"),
    find_transformer("llama-3.2-1b"),
    batch=4,
    lookahead=5,
    branches=18,
    context=512,
    tp=4,
    dtype="bfloat16",
)


def test_weights_larger_than_the_pool_are_whole_copies_of_it() -> None:
    pool = POOL_BYTES["cpu"]
    values = pool // 2  # of bfloat16: as many bytes as the pool
    small, large = (values // 1024, 1024), (values // 512, 1024)

    def in_pools(matrix: tuple[int, int], after: tuple[int, int], device: str) -> float:
        point = TimingPoint.of("gemm", m=1, n=matrix[0], k=matrix[1], after=after, dtype="bfloat16")
        return benchmark_bytes(point, "bfloat16", device) / POOL_BYTES[device]

    assert in_pools(small, small, "cpu") < 0.01
    assert in_pools(large, small, "cpu") == pytest.approx(2.0, abs=0.01)
    assert in_pools(large, large, "cpu") == pytest.approx(4.0, abs=0.01)  # on a core the one before it really runs
    assert in_pools(small, (16 * values // 1024, 1024), "cuda") < 0.01


def test_each_rank_holds_its_share_and_the_first_the_pool() -> None:
    first, second, draft = (rank_bytes(WORKLOAD, rank, 5, "cuda") for rank in (0, 1, 4))
    assert first >= second + POOL_BYTES["cuda"]
    weights = WORKLOAD.target.weight_bytes(4, "bfloat16")
    assert weights < second < 1.2 * weights
    assert draft < second / 5


def test_what_does_not_fit_is_one_line() -> None:
    with pytest.raises(InputError, match=r"^llama-3.1-70b with llama-3.2-1b needs \d+\.\d GiB on cpu, [^\n]+$"):
        check_memory(WORKLOAD, [f"cpu:{core}" for core in range(5)])
