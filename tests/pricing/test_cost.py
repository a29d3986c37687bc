"""Seconds of passes on the bundled profiles, and what must fit where."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ssdsim.errors import InputError
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.laws import FixedCosts
from ssdsim.pricing.cost import Cost, TimingErrors, cost_of_pass
from ssdsim.pricing.placement import Drift, round_costs, window_budget
from ssdsim.scenario.configuration import configure
from ssdsim.transformer.card import forward_pass


@pytest.mark.parametrize("context", [512, 768, 1024])
def test_kernels_of_llama_70b_sum_to_what_another_tool_sums(context: int) -> None:
    """14.9 ms for one token at TP 4; engines add the fixed costs."""
    kernels = find_hardware("h100-sxm").with_fixed(FixedCosts())
    forward = forward_pass(find_transformer("llama-3.1-70b"), batch=1, context=context, tp=4)
    assert cost_of_pass(forward, kernels).seconds == pytest.approx(14.9e-3, rel=0.08)


def test_fixed_costs_are_the_layers_of_a_pass_and_a_share_of_the_round() -> None:
    profile = find_hardware("h100-sxm")
    fixed = profile.fixed
    assert fixed.per_layer_s > 0
    assert fixed.per_round_s > 0
    assert "autoregressive speeds only" in fixed.how
    forward = forward_pass(find_transformer("llama-3.2-1b"), batch=1, context=512)
    bare = cost_of_pass(forward, profile.with_fixed(FixedCosts())).seconds
    assert cost_of_pass(forward, profile).seconds == pytest.approx(bare + 16 * fixed.per_layer_s)


def test_more_tokens_and_more_context_never_cost_less_by_much() -> None:
    profile, card = find_hardware("h100-sxm"), find_transformer("llama-3.1-70b")
    by_queries = [
        cost_of_pass(forward_pass(card, batch=4, queries=q, context=1024, tp=4), profile).seconds for q in range(1, 33)
    ]
    assert all(b >= 0.97 * a for a, b in itertools.pairwise(by_queries))  # fits wiggle a little
    by_context = [
        cost_of_pass(forward_pass(card, batch=16, context=c, tp=4), profile).seconds for c in (256, 1024, 4096, 16384)
    ]
    assert by_context == sorted(by_context)


def test_a_timings_error_moves_all_its_uses_together() -> None:
    errors = TimingErrors(500, seed=3)
    one, twice = Cost({"gemm:a": (1.0, 0.1)}), Cost({"gemm:a": (2.0, 0.1)})
    assert np.allclose(2.0 * one.sample(errors), twice.sample(errors))
    other = Cost({"gemm:b": (1.0, 0.1)})
    assert abs(np.corrcoef(one.sample(errors), other.sample(errors))[0, 1]) < 0.15
    assert np.log(one.sample(errors)).std() == pytest.approx(0.1, rel=0.1)


def test_sums_and_multiples_of_costs_keep_their_terms() -> None:
    a, b = Cost({"x": (1.0, 0.1), "y": (2.0, 0.2)}), Cost({"x": (3.0, 0.1)}, frozenset({"w"}))
    total = a + b * 2
    assert total.terms == {"x": (7.0, 0.1), "y": (2.0, 0.2)}
    assert total.seconds == 9.0
    assert total.warnings == {"w"}


def test_the_window_budget_is_the_largest_that_the_draft_finishes_in_time() -> None:
    configuration = configure(f="window", b=4, k=5)
    placement = configuration.placement
    assert placement is not None
    times = configuration.scenario.times
    window = times.verify_s + times.post_s + times.send_s
    budget = configuration.values["budget"]
    assert budget == window_budget(placement)
    assert times.prespeculate_s <= window
    one_more = configure(budget=budget + 1, b=4, k=5).scenario.times
    assert one_more.prespeculate_s > window


def test_more_draft_devices_share_the_branches_and_shorten_the_draft() -> None:
    one, three = (configure(b=16, f=8, draft_gpus=n) for n in (1, 3))
    assert three.scenario.times.branches_s < one.scenario.times.branches_s
    assert three.scenario.gpus.ssd == 7
    assert three.scenario.primary.p_hit == one.scenario.primary.p_hit


def test_sampling_sends_logits() -> None:
    greedy, sampling = (configure(b=16, temperature=t).scenario.times for t in (0.0, 0.7))
    logits = 16 * 6 * 128_256 * 2
    bandwidth = find_hardware("h100-sxm").link
    assert bandwidth is not None
    assert sampling.respond_s - greedy.respond_s == pytest.approx(logits / bandwidth.bandwidth, rel=0.05)


def test_a_separate_draft_of_sd_pays_the_messages() -> None:
    separate = configure(sd_draft="separate").scenario
    assert separate.gpus.sd == separate.gpus.ssd == 5
    assert separate.times.sd_message_s == pytest.approx(separate.times.send_s + separate.times.respond_s)
    never = configure(sd_draft="separate", p_hit=0.0, backup="jit").scenario
    sd_s = never.times.sd_draft_s + never.times.sd_verify_s + never.times.sd_message_s
    ssd_s = never.times.verify_s + never.times.fallback_s + never.times.send_s + never.times.respond_s
    assert ssd_s == pytest.approx(sd_s)  # p_hit = 0 with jit is SD on the same placement


def test_one_rank_that_drafts_tells_the_others_its_tokens() -> None:
    """Colocated SD messages only where the draft is not on every rank; SSD's speculation reaches them all."""
    profile = find_hardware("h100-sxm")
    tokens_s = profile.message_seconds(8 * 8 * 6).seconds
    three_heads = "transformer-shaped-384x2"
    sharded, single = (configure(draft=card, b=8, dtype="bfloat16") for card in ("llama-3.2-1b", three_heads))
    for configuration, degree, told_s in ((sharded, 4, 0.0), (single, 1, 2 * tokens_s)):
        assert configuration.placement is not None
        assert configuration.placement.colocated_draft_step()[1] == degree
        assert configuration.scenario.times.sd_message_s == pytest.approx(told_s)
    placement = sharded.placement
    assert placement is not None
    to_first_s = profile.message_seconds(placement.response_bytes(6)).seconds
    assert sharded.scenario.times.respond_s == pytest.approx(to_first_s + 2 * tokens_s)


def test_a_colocated_draft_step_drifts_by_itself() -> None:
    drift = Drift(colocated_draft_step=2.0)
    for sd_draft, slower in (("colocated", 2.0), ("separate", 1.0)):
        placement = configure(sd_draft=sd_draft).placement
        assert placement is not None
        steady, drifted = (round_costs(one, "jit").times() for one in (placement, replace(placement, drift=drift)))
        assert drifted.sd_draft_s == pytest.approx(slower * steady.sd_draft_s)
        assert drifted.fallback_s == steady.fallback_s


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tp": 1}, "at tp 1 needs .* not even one sequence fits; the smallest tp that fits one sequence is 2"),
        ({"b": 4000, "context": 8192}, "the largest batch that fits is [0-9]+"),
        ({"tp": 8}, "SSD needs 8 target and 1 draft devices, h100-sxm has 8; the nearest that fits is tp 4"),
        ({"tp": 4, "draft_gpus": 5}, "the nearest that fits is tp 2"),
        ({"k": 2, "fl": [0, 0, 0]}, "--fl caches no outcome: at least one fan-out must be above 0"),
        ({"tp": 2, "draft": "llama-3.1-8b"}, r"with llama-3.1-8b beside it .* --sd-draft separate needs less"),
    ],
)
def test_what_cannot_run_is_refused_with_the_nearest_that_fits(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        configure(**options)
