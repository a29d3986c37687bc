"""EAGLE and MTP heads: their weights as published, the passes of a draft, and what of them is accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ssdsim
from ssdsim.answers.predict import predict
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.hardware.catalog import find_transformer
from ssdsim.pricing.step import Pass
from ssdsim.question.configuration import Configuration, configure
from ssdsim.question.scenario import Scenario
from ssdsim.tokens.acceptance import accepted_length_pmf, expected_tokens_of_pmf
from ssdsim.tokens.drafter_card import drafter_names, find_drafter
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.heads import block_head, eagle3_head, eagle_head, mtp_head
from ssdsim.transformer.operations import Gemm
from tests.refusals import refused

EIGHT_B: dict[str, Any] = {"target": "llama-3.1-8b", "tp": 1}


@pytest.mark.parametrize(
    ("target", "billions"),
    [("llama-2-7b", 0.236), ("llama-2-13b", 0.370), ("llama-2-70b", 0.990), ("llama-3.1-8b", 0.252)],
)
def test_eagle_1_has_its_authors_size(target: str, billions: float) -> None:
    """EAGLE's model cards say .24, .37, .99 and .25 billion; the target's LM head is not counted, but is read."""
    card = find_transformer(target)
    head = eagle_head(card)
    assert head.parameters / 1e9 == pytest.approx(billions, abs=5e-4)
    read = {op.name: op.n * op.k for op, _ in _gemms(head)}
    assert read["lm_head"] == card.vocab_size * card.hidden_size
    assert read["fc"] == 2 * card.hidden_size**2


@pytest.mark.parametrize(
    ("target", "fc", "qkv", "out", "mlp", "lm_head", "total", "without_fc"),
    [
        ("llama-3.1-8b", 50.33, 33.55 + 2 * 8.39, 16.78, 176.16, 131.07, 424.67, 374.34),
        ("llama-3.1-70b", 201.33, 134.22 + 2 * 16.78, 67.11, 704.64, 262.14, 1402.99, 1201.66),
    ],
)
def test_eagle_3_has_its_published_matrices(
    target: str, fc: float, qkv: float, out: float, mlp: float, lm_head: float, total: float, without_fc: float
) -> None:
    """The table of systems-trees.md, section 3.1, in millions of weights; ``fc`` only where target features come."""
    head = eagle3_head(find_transformer(target))
    millions = {op.name: op.n * op.k / 1e6 for op, _ in _gemms(head, fused=1)}
    assert millions["fc"] == pytest.approx(fc, abs=0.01)
    assert millions["qkv"] == pytest.approx(qkv, abs=0.02)
    assert millions["attention_out"] == pytest.approx(out, abs=0.01)
    assert millions["gate_up"] + millions["down"] == pytest.approx(mlp, abs=0.01)
    assert millions["lm_head"] == pytest.approx(lm_head, abs=0.01)
    assert sum(millions.values()) == pytest.approx(total, abs=0.01)
    assert sum(op.n * op.k for op, _ in _gemms(head)) / 1e6 == pytest.approx(without_fc, abs=0.01)
    assert head.parameters / 1e6 == pytest.approx(total, abs=0.04)  # and its norms


def _gemms(card: Any, fused: int | None = None) -> list[tuple[Gemm, int]]:
    counted = forward_pass(card, batch=1, context=1024, fused=fused).counted
    return [(op, count) for op, count in counted if isinstance(op, Gemm)]


def test_mtp_is_a_layer_of_its_target(tmp_path: Path) -> None:
    """DeepSeek-V3's: 11.6 billion beside its 671 (experts.md); its layer has the experts, the head reads 2h."""
    target = _deepseek(tmp_path)
    head = mtp_head(target)
    assert head.parameters / 1e9 == pytest.approx(11.6, abs=0.1)
    assert head.layers == 1
    assert head.experts is not None
    assert head.experts.layers == 1
    assert head.cache_bytes(1) == 576 * 2  # one latent vector in 16 bits
    with refused("llama-3.1-8b", "MTP"):
        configure(**EIGHT_B, drafter="mtp")


def _deepseek(tmp_path: Path) -> Any:
    config = {
        "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
        "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "kv_lora_rank": 512,
        "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "vocab_size": 129280,
        "max_position_embeddings": 163840, "num_nextn_predict_layers": 1, "torch_dtype": "bfloat16",
    }  # fmt: skip
    path = tmp_path / "deepseek-ai--DeepSeek-R1_config.json"
    path.write_text(json.dumps(config))
    return find_transformer(path)


@pytest.mark.long
def test_mtp_is_recommended_for_its_target(tmp_path: Path) -> None:
    _deepseek(tmp_path)
    target = str(tmp_path / "deepseek-ai--DeepSeek-R1_config.json")
    options = {"target": target, "drafter": "mtp", "hardware": "b200-sxm", "dtype": "nvfp4", "engine": "trtllm"}
    recommendation = ssdsim.recommend(gpus=8, b=1, strategies=("ar", "sd"), tp=8, **options)
    best = recommendation.answers[0].best
    assert best is not None
    assert best.shape.strategy == "sd"
    assert "SD" in recommendation.sentence
    assert any("published, not measured here" in warning for warning in recommendation.warnings)


def test_a_draft_catches_up_once_and_conditions_on_itself_after() -> None:
    """The first pass runs K + 1 verified rows with the target's features, the others one row and no ``fc``."""
    sd = _configured(drafter="eagle3", k=5, b=4).scenarios["sd"]
    catch_up, step = sd.steps["draft"].pieces
    assert (catch_up.name, catch_up.times, step.name, step.times) == ("catch up", 1, "draft step", 4)
    rows = [
        {op.name: op.m for op, _ in piece.work.forward.counted if isinstance(op, Gemm)}
        for piece in (catch_up, step)
        if isinstance(piece.work, Pass)
    ]
    assert (rows[0]["fc"], rows[0]["qkv"], rows[0]["lm_head"]) == (4 * 6, 4 * 6, 4)
    assert "fc" not in rows[1]
    assert rows[1]["qkv"] == 4


def _configured(**options: Any) -> Configuration:
    return configure(**{**EIGHT_B, "alpha": 0.7, **options})


def test_flat_acceptance_is_sd_with_the_heads_passes() -> None:
    """a(n) = alpha: the tokens of a draft model, in SD and in SSD (the reduction of systems-trees.md, section 8)."""
    head, model = (_configured(drafter=drafter, k=4, p_hit=0.8, backup="jit") for drafter in ("eagle3", "model"))
    for name in ("sd", "ssd"):
        mine, theirs = (each.scenarios[name].tokens.averages.tokens_per_round for each in (head, model))
        assert float(mine) == pytest.approx(float(theirs), rel=1e-12)


def test_a_heads_tree_is_priced_by_its_levels() -> None:
    """The first pass catches up with a path; the others run a level's nodes, under a mask, without ``fc``."""
    scenario = _configured(drafter="eagle3", strategies="tree", tree_children=[4, 2, 1], b=2).scenarios["tree"]
    pieces = [piece.work for piece in scenario.steps["draft"].pieces]
    assert all(isinstance(work, Pass) for work in pieces)
    gemms = [{op.name: op.m for op, _ in work.forward.counted if isinstance(op, Gemm)} for work in pieces]  # type: ignore[union-attr]
    assert [rows["qkv"] for rows in gemms] == [2 * 4, 2 * 4, 2 * 8]
    assert [rows["lm_head"] for rows in gemms] == [2, 2 * 4, 2 * 8]
    assert ["fc" in rows for rows in gemms] == [True, False, False]


@pytest.mark.parametrize("drafter", ["eagle3", "model"])
def test_a_tree_of_one_child_a_node_is_sds_draft(drafter: str) -> None:
    scenarios = _configured(drafter=drafter, k=3, strategies=("sd", "tree"), tree_children=[1, 1, 1]).scenarios
    assert scenarios["tree"].seconds["draft"] == pytest.approx(scenarios["sd"].seconds["draft"])
    assert scenarios["tree"].estimate.tokens_per_round == pytest.approx(scenarios["sd"].estimate.tokens_per_round)


def test_a_heads_tree_accepts_by_depth() -> None:
    """EAGLE-1's a(n): with siblings from ranks, the first guess of each depth has that depth's rate."""
    falling = (0.8, 0.7, 0.5)
    ranks = [0.8, 0.1, 0.05]
    shapes: dict[str, Any] = {"drafter": "eagle", "target": "llama-2-7b", "strategies": "tree"}
    shapes |= {"tree_ranks": ranks, "dtype": "bfloat16"}
    by_depth, alike = (
        _configured(**shapes, alpha=alpha, tree_children=[3, 1, 1]).scenarios["tree"] for alpha in (falling, 0.8)
    )
    assert by_depth.estimate.tokens_per_round == pytest.approx(1 + 0.95 * (1 + 0.7 * 1.5))
    assert alike.estimate.tokens_per_round == pytest.approx(1 + 0.95 * (1 + 0.8 * 1.8))


@pytest.mark.parametrize(("name", "warns"), [("amusd", True), ("pearl", True), ("treessd", True), ("ssd", False)])
def test_a_head_that_drafts_ahead_is_said_to_be_flattered(name: str, warns: bool) -> None:
    """SSD itself knows what a head's own states cost; those who draft on without the target's do not."""
    said = _configured(drafter="eagle3", strategies=name).warnings
    assert any("drafts on before they are there" in line for line in said) == warns
    assert not any("drafts on before" in line for line in _configured(drafter="model", strategies=name).warnings)


EAGLE_1_TAU = {
    "vicuna-7b": 3.20,
    "vicuna-13b": 3.23,
    "vicuna-33b": 2.97,
    "llama-2-7b": 3.00,
    "llama-2-13b": 3.18,
    "llama-2-70b": 3.12,
}
EAGLE_1_E = {
    "vicuna-7b": 3.309,
    "vicuna-13b": 3.325,
    "vicuna-33b": 2.973,
    "llama-2-7b": 3.037,
    "llama-2-13b": 3.107,
    "llama-2-70b": 2.957,
}


@pytest.mark.parametrize("target", EAGLE_1_TAU)
def test_eagle_1s_n_alpha_gives_its_chain_lengths(target: str) -> None:
    """Table 2 of arXiv 2401.15077, chains of five: within 6 % of the published mean lengths."""
    card = find_drafter(f"eagle-{target}")
    assert card is not None
    tokens = expected_tokens_of_pmf(accepted_length_pmf(card.acceptance[0].by_position, 5))
    assert tokens == pytest.approx(EAGLE_1_E[target], abs=6e-4)
    assert tokens == pytest.approx(EAGLE_1_TAU[target], rel=0.06)


# SSD with a head that conditions on itself: the chain of systems-trees.md, section 5.3

EAGLE_LIKE = (0.79, 0.74, 0.72, 0.73, 0.67)
DECAYING = tuple(max(0.5, 0.8 - 0.05 * n) for n in range(14))


def _ssd(alpha: tuple[float, ...], k: int, h: float, **more: Any) -> Scenario:
    return _configured(drafter="eagle", alpha=alpha, k=k, p_hit=h, backup="jit", strategies=("ssd",), **more).scenarios[
        "ssd"
    ]


@pytest.mark.parametrize(("h", "tokens"), [(0.6, 2.901), (0.8, 2.838), (0.9, 2.807), (1.0, 2.776)])
def test_a_hit_is_worth_less_than_a_draft_just_in_time(h: float, tokens: float) -> None:
    scenario = _ssd(EAGLE_LIKE, 4, h)
    by_state = scenario.tokens.expected_tokens  # type: ignore[union-attr]
    assert by_state == pytest.approx([2.922, 2.834, 2.766, 2.621, 2.621, 3.1028], abs=6e-4)
    assert float(scenario.tokens.averages.tokens_per_round) == pytest.approx(tokens, abs=6e-4)
    assert float(scenario.estimate.p_hit or 0.0) == pytest.approx(h)


@pytest.mark.parametrize(
    ("alpha", "k", "h", "share"),
    [(EAGLE_LIKE, 4, 0.6, 0.935), (EAGLE_LIKE, 4, 0.8, 0.915), (EAGLE_LIKE, 4, 0.9, 0.905), (EAGLE_LIKE, 4, 1.0, 0.895),
     (EAGLE_LIKE, 6, 0.6, 0.926), (EAGLE_LIKE, 6, 0.8, 0.903), (EAGLE_LIKE, 6, 0.9, 0.891), (EAGLE_LIKE, 6, 1.0, 0.880),
     (DECAYING, 4, 0.8, 0.841), (DECAYING, 6, 0.8, 0.816)],
)  # fmt: skip
def test_what_ssd_keeps_of_a_heads_tokens(alpha: tuple[float, ...], k: int, h: float, share: float) -> None:
    just_in_time = expected_tokens_of_pmf(accepted_length_pmf((*alpha, *alpha[-1:] * k)[:k], k))
    tokens = float(_ssd(alpha, k, h).tokens.averages.tokens_per_round)
    assert tokens / just_in_time == pytest.approx(share, abs=6e-4)


def test_no_hits_are_synchronous_eagle() -> None:
    """Without hits every round is drafted just in time."""
    number = float(_ssd(EAGLE_LIKE, 5, 0.0).tokens.averages.tokens_per_round)
    assert number == pytest.approx(expected_tokens_of_pmf(accepted_length_pmf(EAGLE_LIKE, 5)))


@pytest.mark.long
@pytest.mark.parametrize("b", [1, 4])
@pytest.mark.parametrize("drafter", ["eagle", "eagle3"])
def test_engines_agree(drafter: str, b: int) -> None:
    for scenario in _configured(drafter=drafter, alpha=EAGLE_LIKE, k=4, b=b).scenarios.values():
        run = simulate(scenario, rounds=6_000, confidence=0.999)
        assert run.tokens_per_second.covers(float(scenario.estimate.tokens_per_second)), scenario.strategy.name


def test_the_targets_hidden_states_travel_with_the_outcome() -> None:
    """(K + 1) 3h values in bf16 a sequence: 196,608 bytes at h = 4096 and K = 7, 393,216 at h = 8192."""
    for target, sent in (("llama-3.1-8b", 196_608), ("llama-3.1-70b", 393_216)):
        options = {"target": target, "tp": 4, "alpha": 0.8, "k": 7, "strategies": ("ssd",)}
        head, model = (configure(**options, drafter=drafter).scenarios["ssd"] for drafter in ("eagle3", "model"))
        more = head.steps["outcome"].message.sent_bytes - model.steps["outcome"].message.sent_bytes  # type: ignore[union-attr]
        assert more == sent


# cards


@pytest.mark.parametrize("name", drafter_names())
def test_every_card_is_of_a_drafter_that_there_is(name: str) -> None:
    from ssdsim.strategies import drafters

    card = find_drafter(name)
    assert card is not None
    assert card.name == name
    assert card.drafter in drafters.ALL.names
    assert name.startswith(f"{card.drafter}-")  # so that those of other kinds need not be read
    for published in card.acceptance:
        assert published.source
        assert all(0.0 < rate < 1.0 for rate in published.by_position)


def test_published_acceptance_takes_the_place_of_the_placeholder() -> None:
    prediction = predict(**EIGHT_B, k=6, drafter="eagle3")
    settings = prediction.configuration.settings
    assert settings["draft"] == "eagle3-llama-3.1-8b"
    assert settings.source("alpha").startswith("published: eagle3-llama-3.1-8b on MT-Bench")
    assert float(prediction.estimates["sd"].tokens_per_round) == pytest.approx(3.46, abs=0.02)  # tau at K = 6
    assert any("published, not measured here" in warning for warning in prediction.configuration.warnings)
    given = configure(**EIGHT_B, drafter="eagle3", alpha=0.5)
    assert given.settings["alpha"] == 0.5
    assert not any("published" in warning for warning in given.warnings)


def test_a_card_is_chosen_by_name_and_set() -> None:
    redhat = configure(**EIGHT_B, drafter="eagle3", draft="eagle3-llama-3.1-8b-redhat").settings
    assert redhat["k"] == 3  # as far as it is known
    assert redhat["alpha"] == (0.7296, 0.7138, 0.6807)
    options = {
        "target": "llama-2-7b",
        "tp": 1,
        "dtype": "bfloat16",
        "drafter": "eagle",
        "draft_set": "MT-Bench at temperature 1",
    }
    assert configure(**options).settings["alpha"][0] == 0.71


def test_a_checkpoint_of_eagle_3_says_its_shape(tmp_path: Path) -> None:
    """SpecForge's ``llama3-70B-ealge3.json``, with the 32,000 tokens that it drafts."""
    config = {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 8192,
        "intermediate_size": 28672, "num_hidden_layers": 1, "num_attention_heads": 64, "num_key_value_heads": 8,
        "vocab_size": 128256, "draft_vocab_size": 32000, "max_position_embeddings": 512, "torch_dtype": "bfloat16",
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    options = {"target": "llama-3.1-70b", "tp": 4, "alpha": 0.7, "drafter": "eagle3"}
    read = configure(**options, draft=str(path)).scenarios["sd"]
    recipe = configure(**options).scenarios["sd"]
    assert read.seconds == pytest.approx(recipe.seconds)
    assert read.site is not None
    assert read.site.draft.parameters / 1e6 == pytest.approx(1402.99, abs=0.04)
    with refused("8192", "4096", "llama-3.1-8b"):
        configure(**{**options, "target": "llama-3.1-8b"}, draft=str(path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drafter": "eagle", "draft": "eagle3-llama-3.1-8b"}, "--drafter eagle3"),
        ({"drafter": "eagle3", "draft": "eagle3-qwen3-8b"}, "qwen3-8b"),
        ({"drafter": "eagle3", "draft_set": "GSM8k"}, "MT-Bench"),
        ({"drafter": "eagle3", "draft": "egale3"}, "egale3"),
        ({"drafter": "eagle3", "draft": "llama-3.2-1b"}, "16 layers"),
    ],
)
def test_what_is_no_draft_is_refused(options: dict[str, str], message: str) -> None:
    with refused(message):
        configure(**EIGHT_B, **options)


def test_memory_holds_the_targets_share_where_the_head_is_apart() -> None:
    """Beside the target the LM head and the embedding are there already."""
    beside, apart = (
        _configured(drafter="eagle", sd_draft=where).scenarios["sd"] for where in ("colocated", "separate")
    )
    demands = []
    for scenario in (beside, apart):
        assert scenario.site is not None
        demands.append(list(scenario.strategy.occupancies(scenario.site, scenario.drafter))[-1].demands[-1])
    vocabulary = 2 * 128256 * 4096 * 2
    assert demands[1].weights_bytes - demands[0].weights_bytes == vocabulary


def test_dflash_reads_its_context_from_the_targets_states() -> None:
    target = find_transformer("qwen3-8b")
    head = block_head(target, "dflash")
    rows = {op.name: (op.m, op.n, op.k) for op, _ in _gemms(head, fused=3)}
    assert rows["fc"] == (3, 4096, 5 * 4096)
    assert rows["context_kv"] == (3, 2 * 8 * 128, 4096)
    assert rows["lm_head"][1] == 151936
    assert np.isclose(head.layers, 5)


# several MTP modules


def _mtp(**options: Any) -> Scenario:
    given: dict[str, Any] = {"target": "qwen3.5-27b", "tp": 2, "hardware": "h200-sxm", "drafter": "mtp", "alpha": 0.7}
    return configure(**{**given, "k": 4, **options}, strategies=("sd",)).scenarios["sd"]


def test_one_module_is_the_head_itself() -> None:
    assert _mtp(mtp_modules=1).seconds == _mtp().seconds


def test_several_modules_catch_up_with_what_was_rejected_and_lie_beside_each_other() -> None:
    """K 4 with three: the first over K + 1 tokens, two over K each (R - 1 stale ones at most), the last once more."""
    several, one = _mtp(mtp_modules=3), _mtp()
    passes = [
        (piece.times, piece.work.forward.tokens)
        for piece in several.steps["draft"].pieces
        if isinstance(piece.work, Pass)
    ]
    assert passes == [(1, 5), (2, 4), (1, 1)]
    assert several.seconds["draft"] > one.seconds["draft"]
    held = [case.drafter.demand(case.site, 4, 0, beside=True) for case in (several, one) if case.site is not None]
    assert held[0].weights_bytes == 3 * held[1].weights_bytes
    assert held[0].sequence_bytes == 3 * held[1].sequence_bytes
    many = _mtp(mtp_modules=8).steps["draft"].pieces
    assert [piece.times for piece in many] == [1, 3], "of more modules than tokens the first ones draft"


@pytest.mark.parametrize(("name", "given"), [("ssd", {}), ("tree", {"tree_nodes": 8, "tree_depth": 3})])
def test_several_modules_draft_chains_beside_a_verification(name: str, given: dict[str, Any]) -> None:
    options: dict[str, Any] = {"target": "qwen3.5-27b", "tp": 2, "hardware": "h200-sxm", "drafter": "mtp", "alpha": 0.7}
    with refused("--mtp-modules"):
        configure(**options, **given, k=4, mtp_modules=2, strategies=(name,))
