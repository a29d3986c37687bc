"""What a collective pays where pairs of devices differ, by numbers worked out here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.links import rings
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.what_if import Datasheet, from_datasheet, scale
from ssdsim.question.configuration import configure
from ssdsim.transformer.operations import Collective
from tests.refusals import refused

ONE_LINK, NO_LINK = 24.2e9, 8.505e9  # bytes/s one way, of copies between V100s
REACHED = 0.9
MESSAGE = 1 << 28
LAUNCH_S, STEP_S = 5e-6, 1.5e-6


def matrix(count: int, links: dict[tuple[int, int], int]) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(links.get((min(a, b), max(a, b)), 0) if a != b else 0 for b in range(count)) for a in range(count)
    )


def v100(order: Sequence[int] = range(8)) -> HardwareProfile:
    """The DGX-1 with its devices in another order, as ``CUDA_VISIBLE_DEVICES`` makes it."""
    profile = find_hardware("v100-sxm2-32gb")
    assert profile.device.nvlinks
    rows = tuple(tuple(profile.device.nvlinks[a][b] for b in order) for a in order)
    return profile.changed(device=profile.device.changed(nvlinks=rows))


def seconds(profile: HardwareProfile, kind: str, ranks: int) -> float:
    return profile.seconds(Collective("x", kind, MESSAGE, ranks)).seconds  # type: ignore[arg-type]


def reduced(rate: float, ranks: int) -> float:
    """Seconds of a ring: each device sends its share of the message twice around to the next one."""
    return LAUNCH_S + 2 * (ranks - 1) * (STEP_S + MESSAGE / ranks / rate)


def test_two_v100s_pay_the_links_of_their_pair() -> None:
    """Devices 0 and 1 of a DGX-1 have one NVLink, 0 and 2 two, 0 and 5 none."""
    for order, rate in (
        (range(8), ONE_LINK),
        ((0, 2, 1, 3, 4, 5, 6, 7), 2 * ONE_LINK),
        ((0, 5, 1, 2, 3, 4, 6, 7), NO_LINK),
    ):
        assert seconds(v100(order), "all_reduce", 2) == pytest.approx(reduced(REACHED * rate, 2), rel=1e-6)


def test_a_quad_of_v100s_has_four_rings() -> None:
    """Devices 0 and 1 have four links within it: two ways around, each there and back."""
    rate = REACHED * 4 * ONE_LINK
    assert seconds(v100(), "all_reduce", 4) == pytest.approx(reduced(rate, 4), rel=1e-6)
    assert seconds(v100(), "all_gather", 4) == pytest.approx(LAUNCH_S + 3 * (STEP_S + MESSAGE / 4 / rate), rel=1e-6)


def test_four_v100s_of_both_quads_may_have_to_cross_the_host() -> None:
    """0, 1, 6 and 7: 6-7 and 0-1 are linked, 0-6, 0-7 and 1-6 and 1-7 are not, so a ring crosses the host."""
    assert seconds(v100((0, 1, 6, 7, 2, 3, 4, 5)), "all_reduce", 4) == pytest.approx(reduced(REACHED * NO_LINK, 4))


def test_the_law_says_what_eight_v100s_were_measured_to_do() -> None:
    """Six links a device make six rings; the table's 128 MiB took 1819 us."""
    share = 7 / 8 * (128 << 20)
    assert 2 * share / (REACHED * 6 * ONE_LINK) == pytest.approx(1819e-6, rel=0.02)
    assert rings(v100().device.nvlinks or (), 8) == 6


def test_what_was_timed_is_not_worked_out() -> None:
    assert seconds(v100(), "all_reduce", 8) == seconds(v100((0, 5, 1, 2, 3, 4, 6, 7)), "all_reduce", 8)
    assert seconds(find_hardware("h100-sxm"), "all_reduce", 2) > 0.0  # behind a switch pairs do not differ


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_pcie_in_the_place_of_nvlinks_is_one_ring(ranks: int) -> None:
    """Of a lane's 80 %: 12.8 GB/s on to the next device, whatever number of NVLinks there was."""
    sheet = Datasheet(name="V100-PCIE", link="pcie3")
    for pcie in (scale(v100(), "x", link="pcie3"), from_datasheet(v100(), sheet, "x")):
        assert seconds(pcie, "all_reduce", ranks) == pytest.approx(reduced(REACHED * 12.8e9, ranks), rel=0.02)


def test_another_clock_leaves_the_rings() -> None:
    assert seconds(scale(v100(), "x", clock=1.1), "all_reduce", 4) == seconds(v100(), "all_reduce", 4)


def test_rings_share_no_link() -> None:
    full = matrix(5, dict.fromkeys(combinations(range(5), 2), 1))
    assert rings(full, 5) == 4  # ten links, five a way around: two ways
    cycle = matrix(4, {(0, 1): 3, (1, 2): 2, (2, 3): 3, (0, 3): 3})
    assert rings(cycle, 4) == 4  # as many ways as the thinnest side has links
    star = matrix(4, {(0, 1): 9, (0, 2): 9, (0, 3): 9})
    assert rings(star, 4) == 0


@given(st.dictionaries(st.sampled_from(list(combinations(range(5), 2))), st.integers(0, 3)))
def test_rings_never_fall_with_a_link_more(links: dict[tuple[int, int], int]) -> None:
    for pair in combinations(range(5), 2):
        more = links | {pair: links.get(pair, 0) + 1}
        assert rings(matrix(5, more), 5) >= rings(matrix(5, links), 5)


def test_a_placement_is_the_node_with_its_devices_in_another_order() -> None:
    for order, then in (((0, 5), (0, 5, 1, 2, 3, 4, 6, 7)), ((7, 2, 4), (7, 2, 4, 0, 1, 3, 5, 6)), ((), range(8))):
        placed = v100().placed(order)
        assert placed.device.nvlinks == v100(then).device.nvlinks
        assert seconds(placed, "all_reduce", 2) == seconds(v100(then), "all_reduce", 2)
        assert placed.message_seconds(1 << 20, (0, 2)) == v100(then).message_seconds(1 << 20, (0, 2))


def test_a_placement_keeps_what_it_has_priced() -> None:
    node = v100()
    assert node.placed([0, 5]) is node.placed((0, 5))
    assert node.placed([0, 5]) is not node.placed([5, 0])
    assert seconds(node, "all_reduce", 2) < seconds(node.placed([0, 5]), "all_reduce", 2)


@pytest.mark.parametrize(("order", "said"), [([0, 8], "device 8"), ([1, 0, 1], "device 1")])
def test_a_placement_that_cannot_be_is_refused(order: list[int], said: str) -> None:
    with refused("--placement", said):
        v100().placed(order)


def test_where_pairs_are_alike_a_placement_has_no_effect() -> None:
    with refused("--placement", "h100-sxm"):
        configure(placement=[1, 0])


def test_the_draft_is_the_device_after_the_targets_and_pays_its_pair() -> None:
    """0 and 4 have two NVLinks, 0 and 5 none: the draft of a target on 0 alone is on one or the other."""
    models = {"target": "llama-3.2-1b", "draft": "llama-3.2-1b", "dtype": "float16", "tp": 1, "temperature": 1.0}
    sites = [configure(**models, hardware="v100-sxm2-32gb", placement=[0, draft]).site for draft in (4, 5)]
    near, far = (site.speculation_message(1) for site in sites if site)
    assert near.message
    sent = near.message.sent_bytes
    assert far.seconds - near.seconds == pytest.approx(sent / NO_LINK - sent / (2 * 24.05e9) + 17e-6, rel=0.02)
