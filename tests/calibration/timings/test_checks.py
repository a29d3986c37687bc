"""Messages between each target rank and the draft, and what makes a calibration doubtful."""

from __future__ import annotations

import pytest

from calibration.machine.ranks import Ranks
from calibration.timings.checks import check_rank_links, doubts, slow_ranks
from calibration.timings.measure import workload_options
from calibration.timings.plan import CalibrationWorkload, TimingPoint, plan
from calibration.timings.rows import TimedPoint, Visit
from ssdsim.hardware.catalog import find_hardware
from ssdsim.transformer.card import transformer_shaped

TARGET, DRAFT = transformer_shaped(256, 1, "float32"), transformer_shaped(128, 1, "float32")
WORKLOAD = CalibrationWorkload(TARGET, DRAFT, batch=1, lookahead=2, branches=3, context=16, tp=2, dtype="float32")


def timed(
    benchmark: str, seconds: float, off_core: float = 0.0, slowness: float = 1.0, **parameters: int
) -> TimedPoint:
    return TimedPoint(
        TimingPoint.of(benchmark, **parameters), [Visit(0.0, {"seconds": seconds, "off_core": off_core})], [slowness]
    )


def links(slower: float) -> list[TimedPoint]:
    """Rank 1 as fast as rank 0; rank 2 so many times slower with large messages."""
    rows = [timed("link", 1e-5, message_bytes=64), timed("link", 1e-3, message_bytes=1 << 20)]
    for rank, factor in ((1, 1.0), (2, slower)):
        rows.append(timed("rank link", 1e-5, rank=rank, message_bytes=64))
        rows.append(timed("rank link", 1e-3 * factor, rank=rank, message_bytes=1 << 20))
    return rows


def test_every_target_ranks_messages_are_planned_at_sizes_of_the_first_ranks() -> None:
    points = plan(WORKLOAD, ranks=3)
    first = {dict(point.parameters)["message_bytes"] for point in points if point.benchmark == "link"}
    others = [point for point in points if point.benchmark == "rank link"]
    assert {dict(point.parameters)["rank"] for point in others} == {1}
    assert len(others) == 4
    assert {dict(point.parameters)["message_bytes"] for point in others} <= first
    assert not any(point.fitted for point in others)


@pytest.mark.ranks
def test_a_message_of_the_second_target_rank_is_timed_on_three_processes() -> None:
    with Ranks(
        ["cpu:0", "cpu:1", "cpu:0"], "calibration.timings.benchmarks:make_handler", workload_options(WORKLOAD)
    ) as ranks:
        for rank in (0, 1):
            found, *others = ranks.ask({"benchmark": "rank link", "rank": rank, "message_bytes": 4096})
            assert 0.0 < found["seconds"] < 10.0
            assert others == [None, None]


def test_a_rank_with_slow_messages_is_named() -> None:
    assert slow_ranks(links(1.2)) == {}
    assert slow_ranks(links(2.0)) == {2: (1 << 20, 2.0)}


def test_other_ranks_messages_are_held_against_the_profiles_link() -> None:
    profile = find_hardware("h100-sxm")
    checks = check_rank_links(profile, links(2.0))
    assert [check.name for check in checks] == [
        "rank 1, 64 B",
        "rank 1, 1,048,576 B",
        "rank 2, 64 B",
        "rank 2, 1,048,576 B",
    ]
    assert checks[3].measured_s == 2e-3
    assert checks[3].predicted_s == profile.message_seconds(1 << 20).seconds
    assert check_rank_links(profile.changed(link=None), links(2.0)) == []


def test_doubts_are_sentences() -> None:
    devices = ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert list(doubts("0-1 NV2", [timed("gemm", 1.0, off_core=0.02), *links(1.0)], devices)) == []
    rows = [timed("gemm", 1.0, 0.3, slowness, m=m) for m, slowness in enumerate((1.0, 1.0, 1.0, 2.0))]
    listed = list(doubts("no direct link from target to draft (GPUs 0-3)", [*rows, *links(2.0)], devices))
    assert [sentence.split(" ")[0] for sentence in listed] == ["this", "other", "no", "messages"]
    assert "took 30% of the cores" in listed[1]
    assert "target rank 2 (cuda:2) 2.0x rank 0's time" in listed[3]
