"""Nothing is lost and nothing is too much: tokens, time, blocks of the caches, over configurations drawn at random."""

from copy import copy
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssdsim.base.record import replace
from ssdsim.serving.batching import Batching
from ssdsim.serving.journal import Requests
from ssdsim.serving.policy import Ledger, Policy
from ssdsim.serving.replica import Replica, run_of, simulate
from ssdsim.serving.workload import Workload
from tests.ssdsim.serving.checks import every_token_was_made, reserves, time_adds_up
from tests.ssdsim.serving.sample_runs import SMALL, policy, requests

pytestmark = pytest.mark.long

SHAPE = {"inputs": "uniform:1,120", "outputs": "uniform:1,90"}


@lru_cache
def _with_blocks(name: str, blocks: int) -> Policy:
    """A policy whose first cache has few blocks."""
    made = policy(name, requests(4, inputs="60", outputs="45"), Batching(), **SMALL)
    variants = [copy(variant) for variant in made.variants]
    for variant in variants:
        variant.ledgers = (replace(variant.ledgers[0], blocks=blocks), *variant.ledgers[1:])
    return replace(made, variants=variants)


def _watched(made: Policy, workload: Workload, batching: Batching, seed: int) -> tuple[Any, Replica]:
    """A run whose caches are looked at before every round."""
    lines = Requests(workload)
    replica = Replica(made, batching, workload, lines, seed=seed)
    times, came = workload.arrival_s.tolist(), 0
    while came < len(times) or replica.is_busy:
        if not replica.is_busy:
            replica.now = max(replica.now, times[came])
        while came < len(times) and times[came] <= replica.now:
            replica.offer(came, came + 1)
            came += 1
        if replica.is_busy:
            replica.step(times[came] if came < len(times) else np.inf)
            used = replica.blocks_in_use()
            # the tokens of the round just run were reserved before it
            reserved = [
                ledger.blocks + (ledger.reserve // ledger.block + 1) * replica.sequences
                for ledger in replica.variant.ledgers
            ]
            assert all(u <= r for u, r in zip(used, reserved, strict=True))
    assert replica.blocks_in_use() == [0] * len(replica.variant.ledgers)
    return run_of(made, workload, batching, lines, [replica]), replica


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(["ar", "sd", "ssd", "pearl"]),
    seed=st.integers(0, 10_000),
    rate=st.sampled_from([2.0, 20.0, 200.0, np.inf]),
    prefill=st.sampled_from(["chunked", "priority"]),
    budget=st.sampled_from([16, 64, 2048]),
    blocks=st.sampled_from([14, 18, 40, 4000]),
    most=st.sampled_from([1, 3, 16]),
)
def test_every_request_is_answered_or_rejected_and_time_and_blocks_add_up(
    name: str, seed: int, rate: float, prefill: Any, budget: int, blocks: int, most: int
) -> None:
    workload = requests(12, 1.0, seed=seed, **SHAPE).at_rate(rate)
    batching = Batching(prefill=prefill, token_budget=budget, max_batch=most)
    run, replica = _watched(_with_blocks(name, blocks), workload, batching, seed)
    every_token_was_made(run)
    assert not replica.is_busy
    if run.requests.preemptions.sum() == 0:
        time_adds_up(run)
    ledger = _with_blocks(name, blocks).variants[0].ledgers[0]
    most_tokens = workload.input_tokens + workload.output_tokens
    assert np.array_equal(run.requests.rejected, [ledger.blocks_of(int(t)) > blocks for t in most_tokens])


def test_a_small_cache_preempts_and_processes_again() -> None:
    workload = requests(30, inputs="60", outputs="100").at_rate(np.inf)
    run = simulate(_with_blocks("ssd", 40), workload, Batching())
    every_token_was_made(run)
    assert run.requests.preemptions.sum() > 0
    assert run.wasted_tokens > 0
    with pytest.raises(AssertionError):  # what comes back is held twice, but decodes once
        time_adds_up(run)


def _reserved(name: str) -> tuple[Ledger, ...]:
    return policy(name, requests(4, inputs="60", outputs="45"), Batching(), **SMALL, k=6, f=3).variants[0].ledgers


def test_a_sequence_reserves_what_is_verified_and_on_the_drafts_device_all_cached_outcomes() -> None:
    target, draft = _reserved("ssd")
    reserves(target, 6 + 1)
    reserves(draft, 6 + 1 + 6 * 21)  # K + 1 + K times the 3 guesses of each of 7 accepted lengths
    reserves(_reserved("ar")[0], 1)


def test_a_draft_that_looks_no_farther_back_than_a_window_takes_as_much_at_any_context() -> None:
    """DeepSeek-V4's MTP layer on a GPU of its own: the bytes of a sequence do not grow, and were divided by."""
    options: Any = {"target": "deepseek-v4-flash", "hardware": "b200-sxm", "tp": 4}
    target, draft = policy("ssd", requests(4, inputs="60", outputs="45"), Batching(), **options).variants[0].ledgers
    assert target.most_sequences(4096) > target.most_sequences(65_536)
    assert draft.most_sequences(1) == draft.most_sequences(1_000_000) > 10_000
    assert draft.most_tokens > 1_000_000


@pytest.mark.parametrize("blocks", [200, 333])
def test_as_many_run_as_a_count_by_hand_says(blocks: int) -> None:
    workload = requests(200, inputs="100", outputs="16").at_rate(np.inf)
    run = simulate(_with_blocks("sd", blocks), workload, Batching(token_budget=100_000))
    by_hand = blocks // -(-(100 + 7) // 16)
    assert int(run.columns[3].max()) == by_hand


def test_expected_tokens_in_the_place_of_slots_hold_too_many() -> None:
    """What inference-sim issue 1627 found: a batch that 1 + a K slots a sequence would allow."""
    target = _reserved("sd")[0]
    narrow = replace(target, reserve=round(1 + 0.55 * 6))
    assert narrow.most_sequences(106) > target.most_sequences(106)


@pytest.mark.parametrize("name", ["sd", "ssd"])
def test_a_cache_serves_no_more_than_its_blocks_last(name: str) -> None:
    """Nie et al. (arXiv 2605.04595): the stable rate is C / (blocks of a request x the time that it holds them).

    Of a cache that fills long before a pass does, with a queue that never ends: within a tenth.
    """
    of, batching = _with_blocks(name, 200), Batching(prefill="none")
    workload = requests(500, inputs="100", outputs="60").at_rate(np.inf)
    run = simulate(of, workload, batching)
    ledger = of.variants[0].ledgers[0]
    gone = np.sort(run.requests.last_s)
    served = 300 / (gone[400] - gone[100])
    held = sum(ledger.blocks_of(int(tokens)) for tokens in range(101, 161)) / 60
    round_s = float(run.round_s[run.decoding > 0].mean())
    lived_s = float(np.mean(run.requests.rounds)) * round_s
    assert served == pytest.approx(ledger.blocks / (held * lived_s), rel=0.1)
