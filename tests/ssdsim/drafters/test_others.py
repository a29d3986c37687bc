"""Look-ups, one-pass drafters, Medusa, and the target over a sparse cache: tokens, rows, devices, engines alike."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

import ssdsim
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.hardware.catalog import find_transformer
from ssdsim.pricing.step import Pass
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.tokens.acceptance import accepted_length_pmf, expected_tokens_of_pmf
from ssdsim.tokens.accepted import Accepted
from ssdsim.tokens.drafter_card import find_drafter
from ssdsim.transformer.heads import medusa_parameters
from ssdsim.transformer.operations import Gemm

EIGHT_B: dict[str, Any] = {"target": "llama-3.1-8b", "tp": 1}


def _sd(drafter: str, **options: Any) -> Scenario:
    return configure(**{**EIGHT_B, "drafter": drafter, "strategies": ("ar", "sd"), **options}).scenarios["sd"]


def _tokens(scenario: Scenario) -> float:
    return float(scenario.tokens.averages.tokens_per_round)


def _weights(scenario: Scenario) -> int:
    assert scenario.site is not None
    return scenario.drafter.demand(scenario.site, 7, 0, beside=True).weights_bytes


def _rows(scenario: Scenario, step: str, piece: int = 0) -> int:
    work = scenario.steps[step].pieces[piece].work
    assert isinstance(work, Pass)
    return work.forward.tokens


# n-grams and suffixes


def test_n_grams_yield_what_was_measured_of_an_edit_workload() -> None:
    """vLLM#24344: 4.59 tokens a drafted step, 2.96 a step over all of them (K = 5)."""
    card = find_drafter("ngram-edits")
    assert card is not None
    known = card.acceptance[0]
    drafted = expected_tokens_of_pmf(accepted_length_pmf(known.by_position, 5))
    assert drafted == pytest.approx(4.59, abs=0.01)
    scenario = _sd("ngram", k=5, draft_set="code edits")
    assert scenario.settings["found"] == known.found
    assert _tokens(scenario) == pytest.approx(2.96, abs=0.005)
    assert _tokens(scenario) == pytest.approx(1.0 + known.found * (drafted - 1.0))


def test_a_round_is_a_verification_where_something_was_found_and_else_a_step_of_decoding() -> None:
    """T = found T_v(K + 1) + (1 - found) T_ar at batch 1 (systems-trees.md, section 4.8)."""
    configuration = configure(**EIGHT_B, drafter="ngram", k=5, alpha=0.6, found=0.3, strategies=("ar", "sd"))
    ar, sd = (configuration.scenarios[name] for name in ("ar", "sd"))
    full = configure(**EIGHT_B, drafter="ngram", k=5, alpha=0.6, found=1.0, strategies=("sd",)).scenarios["sd"]
    verify_s, decode_s = full.seconds["verify"], ar.seconds["decode"]
    assert float(sd.estimate.round_s) == pytest.approx(0.3 * verify_s + 0.7 * decode_s + sd.seconds["sample"])
    assert sd.gpus == 1


def test_without_a_match_it_is_autoregressive() -> None:
    rarely, never = (_sd("ngram", k=5, alpha=0.9, found=found) for found in (1e-6, 0.0))
    assert _tokens(rarely) == pytest.approx(1.0, abs=1e-5)
    assert float(rarely.estimate.round_s) == pytest.approx(float(never.estimate.round_s), rel=1e-5)


def test_in_a_batch_the_pass_has_the_rows_of_those_that_found_something() -> None:
    """Each number of them has a pass of its own; their mean is over how many of eight found something."""
    b, k, found = 8, 4, 0.25
    scenario = _sd("ngram", k=k, alpha=0.6, found=found, b=b)
    table = scenario.steps["verify"].by_rows
    assert table is not None
    assert table.rows.tolist() == [b + k * each for each in range(b + 1)]
    chances = [math.comb(b, each) * found**each * (1.0 - found) ** (b - each) for each in range(b + 1)]
    assert scenario.seconds["verify"] == pytest.approx(float(np.dot(chances, table.seconds)))


def test_a_knee_in_t_v_is_met_by_rounds_in_which_many_found_something() -> None:
    """T_v of the mean rows is 1 there, and so it was in every engine."""
    given: dict[str, Any] = {"t_sd": 0.0, "drafter": "ngram", "k": 4, "alpha": 0.7, "found": 0.5, "b": 4}
    scenario = configure(**given, t_v=[(1, 1.0), (12, 1.0), (20, 2.0)], strategies=("sd",)).scenarios["sd"]
    assert float(scenario.estimate.round_s) == pytest.approx(1.0 + (4 * 0.5 + 1 * 1.0) / 16)
    for solver in ("mc", "des"):
        run = simulate(scenario, solver=solver, rounds=6_000, confidence=0.999).tokens_per_second
        assert run.covers(float(scenario.estimate.tokens_per_second))


def test_a_longer_match_proposes_more_suffixes() -> None:
    """``min(p, K, 24 - p)`` tokens; never more tokens than a proposal of K would yield."""
    whole = _tokens(_sd("suffix", k=8, alpha=0.8, found=0.5))
    listed = [_tokens(_sd("suffix", k=8, alpha=0.8, found=0.5, suffix_match=mean)) for mean in (1.0, 3.0, 9.0)]
    assert listed[0] == pytest.approx(1.0 + 0.5 * 0.8)  # matches of one token propose one
    assert listed[0] < listed[1] < listed[2] < whole
    rows = [_sd("suffix", k=8, alpha=0.8, found=1.0, suffix_match=mean).seconds["verify"] for mean in (1.0, 9.0)]
    assert rows[0] <= rows[1] <= _sd("suffix", k=8, alpha=0.8, found=1.0).seconds["verify"]
    assert _sd("suffix", k=8, alpha=0.8).seconds["draft"] == pytest.approx(8 * 20e-6)


def test_published_suffixes_accept_what_their_authors_say() -> None:
    """6.3 accepted tokens a step on AgenticSQL."""
    assert _tokens(_sd("suffix", k=24)) == pytest.approx(7.3, abs=0.01)


def test_without_hardware_a_step_of_decoding_is_a_verification() -> None:
    scenario = configure(t_sd=0.0, drafter="ngram", k=4, alpha=0.7, found=0.5, strategies=("sd",)).scenarios["sd"]
    assert float(scenario.estimate.tokens_per_second) == pytest.approx(_tokens(scenario))
    assert simulate(scenario, rounds=6_000, confidence=0.999).tokens_per_second.covers(_tokens(scenario))


# Medusa


@pytest.mark.parametrize(
    ("size", "first"), [("7b", (0.560, 0.316, 0.201, 0.147)), ("13b", (0.594, 0.340, 0.216, 0.150))]
)
def test_medusas_chain_follows_from_its_heads(size: str, first: tuple[float, ...]) -> None:
    """Four heads of 7B as a chain: 1.779 tokens; the guesses of a head sum to its cumulative accuracy."""
    card = find_drafter(f"medusa-vicuna-{size}")
    assert card is not None
    assert card.acceptance[0].rates[:4] == first
    if size == "7b":
        assert expected_tokens_of_pmf(accepted_length_pmf(first, 4)) == pytest.approx(1.779, abs=2e-3)
        assert [sum(ranks) for ranks in card.ranks] == pytest.approx([0.780, 0.563, 0.417, 0.340, 0.300])


def test_medusas_tree_takes_further_guesses_of_its_heads(tmp_path: Path) -> None:
    """No more passes than a chain: a head a level, over the accepted token; ranks are the card's, by head."""
    card = find_transformer("llama-2-7b").changed(name="vicuna-7b")
    target = tmp_path / "vicuna-7b.toml"
    target.write_text(tomli_w.dumps(card.as_dict(without_none=True)))
    given: dict[str, Any] = {"target": str(target), "tp": 1, "context": 512, "dtype": "bfloat16"}
    given |= {"drafter": "medusa", "strategies": "tree"}
    chain, tree = (
        configure(**given, **shape).scenarios["tree"]
        for shape in ({"tree_children": [1, 1, 1, 1]}, {"tree_nodes": 38, "tree_depth": 4})
    )
    assert _tokens(chain) == pytest.approx(1.779, abs=2e-3)
    assert _tokens(tree) == pytest.approx(2.340, abs=1e-3)  # as its own tree without guesses 6 to 10
    assert tree.seconds["draft"] == pytest.approx(chain.seconds["draft"])
    assert tree.seconds["verify"] > chain.seconds["verify"]
    other = configure(**given, tree_nodes=38, tree_depth=4, alpha=0.3).scenarios["tree"]
    assert abs(_tokens(other) - 2.340) > 0.1, "other rates than the card's have other ranks, too"


def test_medusas_heads_are_148_million_weights_each_and_run_beside_the_target() -> None:
    assert medusa_parameters(
        _sd("medusa", alpha=0.5, target="llama-2-7b", dtype="bfloat16").site.target, 1
    ) / 1e6 == pytest.approx(147.8, abs=0.1)  # type: ignore[union-attr]
    scenario = _sd("medusa", alpha=0.5, k=4)
    (heads,) = scenario.steps["draft"].pieces
    assert isinstance(heads.work, Pass)
    assert sum(op.bytes * count for op, count in heads.work.forward.counted) > 4 * 2 * 4096 * (4096 + 128256)


@pytest.mark.parametrize("drafter", ["medusa", "self"])
def test_what_reads_the_targets_memory_drafts_nowhere_else(drafter: str) -> None:
    options: dict[str, Any] = {**EIGHT_B, "drafter": drafter, "alpha": 0.7}
    configuration = configure(**options, strategies=("ar", "sd", "ssd"))
    assert set(configuration.scenarios) == {"ar", "sd"}
    assert "only on the target's" in configuration.cannot_run["ssd"]
    with pytest.raises(ssdsim.InputError, match="drafts on devices of its own"):
        configure(**options, strategies=("sd",), sd_draft="separate")
    assert ssdsim.roofline(**EIGHT_B, drafter=drafter, strategies=("sd",)).shape[0] > 0


def test_a_target_that_chooses_blocks_has_no_smaller_part_of_its_cache_to_draft_with() -> None:
    with pytest.raises(ssdsim.InputError, match="a cache of which it chooses blocks"):
        configure(target="minimax-m3", hardware="b200-sxm", tp=8, drafter="self", strategies=("sd",))


# one pass


@pytest.mark.parametrize(
    ("drafter", "rows"),
    [("pard", 2 * 6), ("p-eagle", 2 * 6), ("dflash", 7), ("dspark", 6), ("dflash2", 7), ("domino", 7)],
)
def test_one_pass_drafts_all_tokens(drafter: str, rows: int) -> None:
    scenario = _sd(drafter, alpha=0.7, k=6, b=2)
    (only,) = scenario.steps["draft"].pieces
    assert only.times == 1
    assert isinstance(only.work, Pass)
    assert only.work.forward.attention.queries == rows
    assert _tokens(scenario) == pytest.approx(_tokens(_sd("model", alpha=0.7, k=6, b=2)))


def test_a_pass_for_all_tokens_is_shorter_than_a_pass_for_each() -> None:
    """PARD against its own model drafting one by one, at equal acceptance."""
    one, each = (_sd(drafter, alpha=0.7, k=8).seconds["draft"] for drafter in ("pard", "model"))
    assert one < each / 4


def test_dflashs_mean_length_is_an_acceptance_of_86_percent() -> None:
    """Tau 6.49 at K = 15: .860 (systems-trees.md, section 4.9); on MT-Bench 4.24."""
    from ssdsim.tokens.drafter_card import PublishedAcceptance

    mean = PublishedAcceptance(data="mean", k=15, tokens=6.49, source="table 1")
    assert mean.by_position[0] == pytest.approx(0.860, abs=5e-4)
    deviation = _sd("dflash", target="qwen3-8b", k=15, draft_set="MT-Bench")
    assert _tokens(deviation) == pytest.approx(4.24, abs=1e-6)


def test_dsparks_second_matrix_is_read_once_a_token() -> None:
    """Qwen3-8B: W2 has 151,936 x 256 values, 77.8 MB in bfloat16; the confidence is left out."""
    scenario = _sd("dspark", target="qwen3-8b", k=7, b=4)
    (only,) = scenario.steps["draft"].passes
    bias = [(op, times) for op, times in only.forward.counted if op.name == "markov_bias"]
    (op, times) = bias[0]
    assert isinstance(op, Gemm)
    assert (op.m, op.n, op.k, times) == (4, 151936, 256, 7)
    assert len(bias) == 1
    without = _sd("dflash", target="qwen3-8b", k=7, b=4)
    assert _weights(scenario) - _weights(without) == 2 * (2 * 256 * 151936 + 4096 + 256)


def test_a_block_costs_a_loop_more_and_no_more() -> None:
    """The paper measures 0.2 to 1.3 % of a round at batch 128; ours has a launch for every step as well."""
    options: dict[str, Any] = {"target": "qwen3-8b", "drafter": "dspark", "strategies": "ar,sd", "alpha": 0.97}
    for given, k in ({}, 7), ({"k": 9}, 9):
        assert ssdsim.predict(**options, tp=1, **given).configuration.scenarios["sd"].settings["k"] == k
    (answer,) = ssdsim.recommend(gpus=1, batch=8, **options).answers
    assert dict(answer.by_strategy["sd"].shape.speculation) == {"k": 7}


def test_dsparks_published_rates_yield_its_published_lengths() -> None:
    """Mean accepted lengths at K 7 of Qwen3-8B, as printed beside the rates by position."""
    for data, tokens in (("GSM8K", 6.49), ("MATH500", 6.395), ("HumanEval", 5.874), ("MBPP", 5.561)):
        assert _tokens(_sd("dspark", target="qwen3-8b", k=7, draft_set=data)) == pytest.approx(tokens, abs=2e-3)
    for k, tokens in ((7, 4.842), (15, 6.044)):
        deviation = _sd("dflash", target="qwen3-8b", k=k, draft_set=f"GSM8K at K {k}")
        assert _tokens(deviation) == pytest.approx(tokens, abs=2e-3)


# the target over a sparse cache


def test_a_full_budget_drafts_the_target_itself() -> None:
    """Budget >= context: a draft step is a step of decoding, so nothing is gained (section 8)."""
    options: dict[str, Any] = {"b": 4, "context": 2048, "engine": "kernels"}
    scenario = _sd("self", alpha=1.0, k=3, draft_budget=4096, **options)
    decode = configure(**EIGHT_B, **options, strategies=("ar",)).scenarios["ar"].estimate.round_s
    assert scenario.steps["draft"].pieces[0].cost.seconds == pytest.approx(float(decode))
    assert float(scenario.estimate.tokens_per_second) < 4 * 4 / (3 * float(decode))


def test_a_sparse_cache_pays_at_long_contexts_and_large_batches() -> None:
    """The step's time no longer grows with the context; at batch 1 it loses (LongSpec measures .68 ... 1.35)."""
    steps = [
        _sd("self", alpha=0.8, context=context).steps["draft"].pieces[0].cost.seconds for context in (4096, 32_768)
    ]
    assert steps[0] == pytest.approx(steps[1])
    gains = []
    for b in (1, 32):
        options: dict[str, Any] = {"target": "llama-3.1-8b", "tp": 4, "b": b, "context": 32_000}
        configuration = configure(**options, engine="kernels", drafter="self", alpha=0.8, k=3, strategies=("ar", "sd"))
        rates = {name: float(scenario.estimate.tokens_per_second) for name, scenario in configuration.scenarios.items()}
        gains.append(rates["sd"] / rates["ar"])
    assert gains[0] < gains[1]


MAGIC_DEC = [  # gamma, gamma T_D, T_V, Omega, T_SD measured: arXiv 2408.11049, tables 1 and 2
    (3, 44.11, 45.12, 3.00, 30.32, 29.74), (2, 29.06, 42.02, 2.53, 28.70, 28.09), (3, 58.33, 74.85, 3.14, 42.96, 42.41),
    (3, 15.09, 18.30, 2.82, 12.16, 11.84), (3, 14.20, 15.64, 2.98, 10.29, 10.01), (4, 23.63, 27.90, 3.37, 15.58, 15.29),
    (7, 34.34, 28.50, 5.61, 11.35, 11.20), (11, 53.90, 29.89, 7.93, 10.64, 10.57),
    (11, 53.98, 29.93, 8.21, 10.29, 10.22),
    (6, 32.89, 28.80, 5.41, 11.54, 11.40), (7, 38.40, 29.11, 6.08, 11.20, 11.10), (8, 43.91, 29.29, 6.83, 10.81, 10.72),
]  # fmt: skip


@pytest.mark.parametrize(("k", "drafting_ms", "verify_ms", "tokens", "measured_ms", "formula_ms"), MAGIC_DEC)
def test_magicdecs_twelve_rows(
    k: int, drafting_ms: float, verify_ms: float, tokens: float, measured_ms: float, formula_ms: float
) -> None:
    """SD's round over its tokens, in units of T_v: within 3 % under what was measured (the host is not in it)."""
    from ssdsim.tokens.drafter_card import PublishedAcceptance

    alpha = PublishedAcceptance(data="a row", k=k, tokens=tokens, source="a row").by_position[0]
    found = configure(strategies=("sd",), t_sd=drafting_ms / verify_ms, k=k, alpha=alpha).scenarios["sd"]
    per_token_ms = verify_ms / float(found.estimate.tokens_per_second)
    assert per_token_ms == pytest.approx(formula_ms, abs=0.02)
    assert 0.97 < per_token_ms / measured_ms < 1.0


# all of them


@pytest.mark.long
@pytest.mark.parametrize(
    "drafter", ["medusa", "pard", "p-eagle", "dflash", "dspark", "dflash2", "domino", "ngram", "suffix", "self"]
)
@pytest.mark.parametrize("b", [1, 3])
def test_engines_agree(drafter: str, b: int) -> None:
    scenario = _sd(drafter, alpha=0.7, k=4, b=b, **({"found": 0.4} if drafter in ("ngram", "suffix") else {}))
    run = simulate(scenario, rounds=6_000, confidence=0.999)
    assert run.tokens_per_second.covers(float(scenario.estimate.tokens_per_second))


def test_a_share_of_rounds_is_a_mixture() -> None:
    whole = Accepted(accepted_length_pmf(0.5, 3))
    half = whole.found_in(0.5)
    assert half.pmf == pytest.approx(0.5 * whole.pmf + 0.5 * np.eye(4)[0])
    assert whole.found_in(1.0) is whole
