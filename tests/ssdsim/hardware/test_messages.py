"""Messages smaller than those timed: another machine's law, which never makes a smaller message take longer."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.timings.fit import fit_collective, fit_link
from ssdsim.hardware.catalog import HARDWARE, find_hardware
from ssdsim.hardware.collectives import CollectiveModel
from ssdsim.hardware.links import LinkModel

SIZES = 2.0 ** np.arange(10, 34)


def rows(latency_s: float, rate: float, smallest: float) -> tuple[np.ndarray, np.ndarray]:
    sizes = SIZES[smallest <= SIZES][:10]
    return sizes, latency_s + sizes / rate


latencies, rates = st.floats(1e-6, 1e-4), st.floats(1e9, 1e12)


@given(latencies, rates, st.sampled_from([2.0**10, 2.0**17, 2.0**24]), latencies, rates)
def test_a_larger_message_never_takes_less(
    latency_s: float, rate: float, smallest: float, base_latency_s: float, base_rate: float
) -> None:
    model = fit_link(*rows(latency_s, rate, smallest), "mine")
    base = LinkModel(source="base", latency_s=base_latency_s, bandwidth=base_rate)
    over = model.over(base)
    times = [over.of_message(size)[1] for size in (1.0, 256.0, *SIZES)]
    assert all(before <= after * (1.0 + 1e-9) for before, after in pairwise(times))
    if over.below is not None:
        timed_s = float(model.seconds(over.smallest))
        assert over.of_message(256.0) == (base, min(timed_s, float(base.seconds(256.0))))


@given(latencies, rates, st.sampled_from([2.0**10, 2.0**14, 2.0**20, 2.0**24]))
def test_a_law_says_from_which_message_on_it_speaks(latency_s: float, rate: float, smallest: float) -> None:
    """Where a message's bytes take a fiftieth of its time, the rest is what smaller ones take, too."""
    for fit in (fit_link, fit_collective):
        sizes, seconds = rows(latency_s, rate, smallest)
        model: LinkModel | CollectiveModel = fit(sizes, seconds, "mine")
        if model.smallest == 0.0:
            assert float(model.seconds(64.0)) == pytest.approx(latency_s, rel=0.05)
        else:
            assert model.smallest == smallest
            assert model.beyond({"message_bytes": smallest / 2}) is not None


@pytest.mark.parametrize("name", HARDWARE.names())
def test_bundled_laws_say_what_the_smallest_message_takes(name: str) -> None:
    """Where a message's bytes take a fiftieth of its time, it takes hardly more than the smallest.

    Laws that were scaled to a slower link have bytes that weigh more beside their steps.
    """
    sizes = 2.0 ** np.arange(8, 30)
    ratios = []
    profile = find_hardware(name)
    for by_ranks in profile.collectives.values():
        for model in by_ranks.values():
            if profile.sources[model.source].kind == "hypothetical":
                continue
            seconds = np.asarray(model.seconds(sizes))
            at = np.flatnonzero(sizes / np.max(sizes / seconds) <= 0.02 * seconds)[-1]
            ratios.append(seconds[at] / seconds[0])
    assert not ratios or (max(ratios) <= 2.3 and np.median(ratios) <= 1.5)
