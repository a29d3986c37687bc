"""A runtime's numbers: each is paid somewhere, and a cost is their dot product with how often."""

from __future__ import annotations

import math

import pytest

from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.runtime_card import KERNELS
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.hardware.runtime_numbers import Host
from ssdsim.pricing.passes import Model, cost_of_pass, cost_of_step, units, units_of_step
from ssdsim.question.configuration import configure
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.prefill import Chunk, mixed_pass, prefill_pass

TARGET = find_transformer("gpt-oss-120b")
DECODING = forward_pass(TARGET, batch=4, queries=2, context=512, tp=2)
DENSE = find_transformer("qwen3-8b")
TREE = forward_pass(DENSE, batch=4, queries=6, context=512, tp=2, masked=True)
PROMPTS = prefill_pass(TARGET, batch=2, tokens=256, tp=2)
HYBRID = forward_pass(find_transformer("qwen3.5-397b-a17b"), batch=4, context=512, tp=8)
NUMBERS = {name: (1 + at) * 1e-4 for at, name in enumerate(Host.__struct_fields__)}
HOST = KERNELS.changed(name="host", host=Host(**NUMBERS), wander=tuple({name: 1e-5} for name in NUMBERS))


def test_every_number_is_paid() -> None:
    passes = (units(DECODING, "target"), units(PROMPTS, "draft"), units(TREE, "draft"), units(HYBRID, "target"))
    paid = (*passes, units_of_step(4, TARGET.layers))
    assert {name for each in paid for name, count in each.items() if count} == set(Host.__struct_fields__)


@pytest.mark.parametrize("model", ["target", "draft"])
def test_cost_and_error_of_a_pass_are_dot_products(model: Model) -> None:
    for forward in (DECODING, TREE, PROMPTS, HYBRID):
        paid = units(forward, model)
        cost, bare = (cost_of_pass(forward, find_hardware("h100-sxm"), card, model) for card in (HOST, KERNELS))
        assert cost.seconds - bare.seconds == pytest.approx(sum(paid[name] * NUMBERS[name] for name in paid))
        moved = {
            direction: seconds for direction, seconds in cost.terms.shared.items() if direction.startswith("wander")
        }
        assert sum(moved.values()) == pytest.approx(1e-5 * sum(paid.values()))


def test_a_pass_over_prompts_pays_for_the_graphs_that_it_has_not() -> None:
    assert units(DECODING, "target")["per_expert_prompt_s"] == 0
    assert units(PROMPTS, "target")["per_expert_prompt_s"] == TARGET.layers


def test_layers_with_a_state_are_paid_once_whatever_they_are_over() -> None:
    card = find_transformer("qwen3.5-397b-a17b")
    mixed = mixed_pass(card, batch=4, queries=2, context=512, chunks=(Chunk(256), Chunk(128)), tp=8)
    assert units(HYBRID, "target")["per_recurrent_layer_s"] == card.recurrent_layers == 45
    assert units(mixed, "target")["per_recurrent_layer_s"] == 45
    assert units(DECODING, "target")["per_recurrent_layer_s"] == 0


def test_a_step_of_a_round_is_one_without_and_the_rounds_own() -> None:
    plain, speculating = (cost_of_step(HOST, units_of_step(4, layers)).seconds for layers in (0, 36))
    assert plain == pytest.approx(NUMBERS["per_step_s"] + 4 * NUMBERS["per_sequence_s"])
    of_round = NUMBERS["per_round_s"] + 36 * NUMBERS["per_round_layer_s"] + 4 * NUMBERS["per_round_sequence_s"]
    assert speculating - plain == pytest.approx(of_round)


def test_a_tree_is_verified_and_drafted_under_a_mask() -> None:
    """Its attention takes more kernels a layer, and a draft sorts out children of every node."""
    verified, drafted = units(TREE, "target"), units(TREE, "draft")
    assert (verified["per_tree_layer_s"], verified["per_tree_token_s"]) == (DENSE.layers, 0)
    assert (drafted["per_tree_layer_s"], drafted["per_tree_token_s"]) == (DENSE.layers, 4 * 6)
    assert "per_tree_layer_s" not in units(DECODING, "target")


def test_a_tree_over_a_mixture_takes_what_a_chain_of_as_many_rows_takes() -> None:
    """Qwen3-235B's rounds of eight rows on SGLang: 1.74 steps as a tree, 1.79 as a chain; +0.2 had been predicted."""
    card, runtime, on = find_transformer("qwen3-235b-a22b"), find_runtime("sglang"), find_hardware("h200-sxm")
    of = {"batch": 8, "queries": 8, "context": 600, "tp": 8}
    chain, tree = (forward_pass(card, **of, masked=masked) for masked in (False, True))
    assert units(tree, "target")["per_tree_layer_s"] == 0
    chain_s, tree_s = (cost_of_pass(each, on, runtime).seconds for each in (chain, tree))
    assert chain_s <= tree_s < 1.03 * chain_s
    some_dense = forward_pass(find_transformer("deepseek-r1"), **of, masked=True)
    assert units(some_dense, "target")["per_tree_layer_s"] == 3


def test_a_branch_step_pays_for_building_its_mask() -> None:
    """Whatever its branches; a verification's mask is the same in every round."""
    assert (units(TREE, "draft")["per_mask_s"], units(TREE, "target")["per_mask_s"]) == (1, 0)
    steps = configure(p_hit=0.8, k=7).scenarios["ssd"].priced.expected["pre-speculate"].pieces
    assert sum(piece.times * piece.units.get("per_mask_s", 0) for piece in steps) == 7
    host = find_runtime("ssd-engine").host
    assert 0.0 < 7 * host.per_mask_s < 0.5 * configure(k=7).scenarios["ssd"].seconds["verify"]


@pytest.mark.parametrize("engine", ["ssd-engine", "vllm", "trtllm", "compiled", "sglang"])
def test_a_branch_step_pays_for_its_mask_on_every_engine(engine: str) -> None:
    """As the SSD engine's own timings say, or, on SGLang, as its trees do; within a factor of four."""
    branch_step = (
        configure(strategies="ssd", k=7, f=3, engine=engine)
        .scenarios["ssd"]
        .priced.expected["pre-speculate"]
        .pieces[-1]
    )
    card, paid = find_runtime(engine), branch_step.units
    own = ("per_mask_s", "per_tree_layer_s", "per_tree_token_s")
    assert 0.19e-3 <= sum(getattr(card.host, name) * paid[name] for name in own) <= 0.5e-3
    assert math.exp(1.96 * card.errors.draft_step_log_sd) > 2.9
