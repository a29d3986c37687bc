"""Negative controls: what is made wrong on purpose fails the test that is there for it."""

import pytest

from ssdsim.base.record import replace
from ssdsim.serving.batching import Batching
from ssdsim.serving.metrics import metrics_of_requests
from ssdsim.serving.replica import simulate
from tests.ssdsim.serving.checks import (
    gaps_as_paces_ms,
    one_forced_miss_a_request,
    pace_is_the_time_over_the_tokens,
    reserves,
)
from tests.ssdsim.serving.sample_runs import SMALL, policy, requests

WORKLOAD = requests(60, rate=2.0, inputs="200", outputs="60")


def test_bursts_counted_as_tokens_fail_the_test_of_the_pace() -> None:
    run = simulate(policy("sd", WORKLOAD, Batching(), **SMALL), WORKLOAD, Batching())
    pace_is_the_time_over_the_tokens(run, metrics_of_requests(run)["tpot"])
    with pytest.raises(AssertionError):
        pace_is_the_time_over_the_tokens(run, gaps_as_paces_ms(run))


def test_forgotten_forced_misses_fail_the_test_of_the_first_look_up() -> None:
    ssd = policy("ssd", WORKLOAD, Batching(), **SMALL)
    one_forced_miss_a_request(simulate(ssd, WORKLOAD, Batching()))
    forgets = Batching(first_speculation="prefill")
    with pytest.raises(AssertionError):
        one_forced_miss_a_request(simulate(ssd, WORKLOAD, forgets))


def test_expected_tokens_reserved_in_the_place_of_slots_fail_the_count_by_hand() -> None:
    target = policy("sd", WORKLOAD, Batching(), **SMALL).variants[0].ledgers[0]
    reserves(target, 7)
    with pytest.raises(AssertionError):
        reserves(replace(target, reserve=round(1 + 0.55 * 6)), 7)
