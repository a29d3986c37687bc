"""Programs of strategies run for real on gloo ranks: overlap, the simulator's outcomes, tensor parallelism."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from calibration.machine.executor.actor import Guesses, SpeculationCache, outcomes_of
from calibration.machine.executor.messages import head_bytes, read, write
from calibration.machine.executor.plan import RankPlan
from calibration.machine.ranks import Ranks
from calibration.validation.bench import HANDLER, executor_options
from calibration.validation.comparison import grid_of
from ssdsim import strategies
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.pricing.step import Pass, Step
from ssdsim.question.configuration import Configuration
from ssdsim.rounds.outcomes import OutcomeBlock
from ssdsim.transformer.forward import forward_pass
from tests.calibration.executor.run import DTYPE, ROUNDS, SEED, overlap_s, run, small, spans, whats

pytestmark = pytest.mark.ranks


def block_of(configuration: Configuration, strategy: str) -> OutcomeBlock:
    return outcomes_of(RankPlan.of(configuration.scenarios[strategy]), SEED, ROUNDS)


def test_every_strategy_runs_on_the_ranks_that_it_declares_with_the_simulators_tokens(pair: Ranks) -> None:
    """Whose rank has no part in a strategy is idle in it."""
    configuration = small(*strategies.ALL.names, p_hit=0.6, tree_nodes=6, tree_depth=3)
    for scenario in configuration.scenarios.values():
        if scenario.strategy.cannot_run(scenario.settings) is not None:
            continue
        answers = run(pair, scenario)
        programs = scenario.strategy.programs(scenario.settings, scenario.drafter)
        assert [timeline is not None for timeline in answers] == [role in programs for role in ("target", "draft")]
        simulated = simulate(scenario, rounds=ROUNDS, seed=SEED)
        assert len(answers[0].ends_s) == ROUNDS
        assert sum(answers[0].tokens) / (2 * ROUNDS) == simulated.tokens_per_round.value


@pytest.mark.parametrize("lost", ["wait", "verify_root"])
def test_a_tree_that_is_rerooted_is_lost_where_the_simulator_loses_it(lost: str, pair: Ranks) -> None:
    """SwiftSpec: one sequence. What the draft looks up in vain it grows anew, or the target checks the root."""
    given = {"b": 1, "alpha": 0.6, "swift_passes": 3, "swift_width": 2, "swift_lost": lost}
    scenario = small("swiftspec", **given).scenarios["swiftspec"]
    target, draft = run(pair, scenario)
    simulated = simulate(scenario, rounds=ROUNDS, seed=SEED)
    assert sum(target.tokens) / ROUNDS == simulated.tokens_per_round.value
    assert 0 < sum(draft.misses) < ROUNDS
    assert len(spans(draft, "regrow step")) == (3 * sum(draft.misses) if lost == "wait" else 0)
    assert bool(spans(target, "verify root")) == (lost == "verify_root")


def test_in_ssd_the_draft_works_while_the_target_verifies_and_in_sd_it_does_not(pair: Ranks) -> None:
    scenarios = small("sd", "ssd", p_hit=1.0, sd_draft="separate").scenarios
    target, draft = run(pair, scenarios["ssd"])
    verifying, drafting = spans(target, "verify"), spans(draft, "glue", "branch step")
    assert overlap_s(verifying, drafting) > 0.0  # in how many rounds, and how long, is the machine's mood
    target, draft = run(pair, scenarios["sd"])
    assert len(spans(draft, "draft step")) == 3 * ROUNDS
    assert overlap_s(spans(target, "verify"), spans(draft, "draft step")) == 0.0  # one clock, and they take turns


def test_misses_are_found_by_looking_up_what_the_target_sent_and_are_the_simulators(pair: Ranks) -> None:
    configuration = small("ssd", p_hit=0.6)
    _, draft = run(pair, configuration.scenarios["ssd"])
    misses = block_of(configuration, "ssd").count_to("miss")
    missed_rounds = int(np.count_nonzero(misses))
    assert 0 < missed_rounds < ROUNDS
    assert draft.misses == misses.tolist()
    assert len(spans(draft, "fallback step")) == 3 * missed_rounds


def test_a_colocated_draft_of_sd_drafts_on_the_targets_device_before_each_verification(pair: Ranks) -> None:
    target, idle = run(pair, small("sd").scenarios["sd"])
    assert idle is None  # the draft's rank takes no part
    assert whats(target) == ["draft step", "draft step", "draft step", "tell speculation", "verify"] * ROUNDS


def test_a_mixtures_experts_lie_on_two_ranks(tmp_path: Path) -> None:
    """With a plan as it is priced, and room as validate makes it: each rank has half of the experts, whole."""
    config = {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 64, "vocab_size": 128,
        "max_position_embeddings": 512, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "decoder_sparse_step": 1, "mlp_only_layers": [], "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    configuration = small("ar", "sd", target=str(tmp_path / "config.json"), tp=2, ep=2)
    options = executor_options([configuration], 2, DTYPE)
    assert (options["buffers"]["target"].ep, options["buffers"]["draft"].ep) == (2, 1)
    with Ranks(["cpu:0", "cpu:1"], HANDLER, options) as ranks:
        for name, scenario in configuration.scenarios.items():
            first, other = run(ranks, scenario)
            assert first.tokens == other.tokens
            assert (
                sum(first.tokens) / (2 * ROUNDS) == simulate(scenario, rounds=ROUNDS, seed=SEED).tokens_per_round.value
            )
            assert len(spans(first, "decode", "verify")) == len(spans(other, "decode", "verify")) == ROUNDS, name


@pytest.mark.parametrize("draft_tp", [1, 2])
def test_a_colocated_draft_sits_on_the_first_target_rank_or_on_all(draft_tp: int, quartet: Ranks) -> None:
    """Ranks without the draft wait for its tokens, then all verify."""
    configuration = small("sd", tp=2)
    site, scenario = configuration.site, configuration.scenarios["sd"]
    assert site is not None
    forward = forward_pass(site.draft, batch=2, context=32, tp=draft_tp, dtype="bfloat16")
    drafting = Pass("draft step", "draft", forward, draft_tp, site.profile)
    steps = {"draft": Step("draft", (site.piece(drafting, 3),)), "speculation": site.broadcast_message(3, drafting)}
    placed = scenario.with_steps({**scenario.steps, **steps})
    first, other, *idle = run(quartet, placed)
    assert idle == [None, None]
    assert whats(first) == ["draft step", "draft step", "draft step", "tell speculation", "verify"] * ROUNDS
    drafts = ["draft step"] * 3 if draft_tp == 2 else []
    assert whats(other) == [*drafts, "tell speculation", "verify"] * ROUNDS
    assert first.tokens == other.tokens
    if draft_tp == 1:
        drafted = [end for _, end in spans(first, "draft step")[2::3]]
        received = [end for _, end in spans(other, "tell speculation")]
        assert all(got > made for made, got in zip(drafted, received, strict=True))  # one clock


def test_an_outcome_is_a_hit_where_its_bonus_token_was_guessed_after_as_many_accepted_tokens() -> None:
    guesses = Guesses((2, 0, 1))
    cache = SpeculationCache(guesses)
    cache.fill(round_=5, sequences=2)
    outcome = np.array([[0, guesses.token(5, 0, 0, 1)], [2, guesses.token(5, 1, 2, 0)]])
    assert cache.look_up(outcome) == [1, 5]
    elsewhere = np.array([[0, guesses.token(4, 0, 0, 1)], [2, guesses.token(5, 0, 2, 0)]])
    assert cache.look_up(elsewhere) == [None, None]  # another round, another sequence
    unguessed = np.array([[0, guesses.token(5, 0, 0, 2)], [1, guesses.token(5, 1, 1, 0)]])
    assert cache.look_up(unguessed) == [None, None]


@pytest.mark.parametrize("content", [None, 0, 1, np.array([[3, 1 << 40], [0, 7]])])
def test_what_is_written_into_a_message_is_read_from_it(content: object) -> None:
    message = torch.full((head_bytes(2) + 8,), 255, dtype=torch.uint8)
    write(content, message)
    np.testing.assert_array_equal(read(message, 2), content)


def test_never_hitting_with_jit_drafts_every_round_as_sd_does(pair: Ranks) -> None:
    _, draft = run(pair, small("ssd", p_hit=0.0).scenarios["ssd"])
    assert len(spans(draft, "fallback step")) == 3 * ROUNDS


def test_a_fast_fallback_takes_its_latency(pair: Ranks) -> None:
    configuration = small("ssd", p_hit=0.0, p_hit_backup=0.0, backup="fast", backup_ms=5.0)
    _, draft = run(pair, configuration.scenarios["ssd"])
    waits = [end - start for start, end in spans(draft, "fast fallback")]
    assert len(waits) == ROUNDS
    assert min(waits) >= 0.005


def test_two_target_ranks_and_two_draft_ranks_work_on_four_processes(quartet: Ranks) -> None:
    """Both drafts share the branches, and both know of misses."""
    configuration = small("ar", "sd", "ssd", p_hit=0.5, tp=2, draft_gpus=2, sd_draft="separate")
    ar, sd, ssd = (run(quartet, scenario) for scenario in configuration.scenarios.values())
    assert [timeline is None for timeline in ar] == [False, False, True, True]
    assert [timeline is None for timeline in sd] == [False, False, False, True]  # SD drafts on one device
    for answers in (ar, sd, ssd):
        assert len(answers[0].ends_s) == len(answers[1].ends_s) == ROUNDS
        assert answers[0].mean_round_s > 0
    one, other = ssd[2:]
    assert one.misses == other.misses == block_of(configuration, "ssd").count_to("miss").tolist()
    assert len(spans(one, "branch step")) == len(spans(other, "branch step")) == 3 * ROUNDS
    assert spans(one, "fallback step")
    assert not spans(other, "fallback step")


def test_given_fan_outs_set_k_and_the_hit_rate_and_are_what_the_draft_caches(pair: Ranks) -> None:
    """Nothing is cached after two accepted tokens, so nothing hits there; elsewhere the hit curve says how often."""
    points = grid_of("short", "separate", (3, 1, 0, 2))
    assert {(point.k, point.branches, point.sd_draft) for point in points} == {(3, 6, "separate")}
    configuration = small("ssd", fl=[3, 1, 0, 2])
    block = block_of(configuration, "ssd")
    assert block.leads_to("miss")[block.tokens == 3].all()
    _, draft = run(pair, configuration.scenarios["ssd"])
    assert draft.misses == block.count_to("miss").tolist()
    assert 0 < sum(draft.misses) < 2 * ROUNDS


@pytest.mark.parametrize("handshake", ["ideal", "code"])
def test_sides_that_never_wait_find_out_on_real_ranks_what_a_pass_verifies(handshake: str, pair: Ranks) -> None:
    """AMUSD: the draft's tokens come while the target verifies, and no pass yields more than was there."""
    scenario = small("amusd", b=1, alpha=0.9, amusd_most=4, amusd_handshake=handshake).scenarios["amusd"]
    for _ in range(2):  # nothing is left over for the next run
        target, draft = run(pair, scenario)
        assert len(target.ends_s) == len(target.tokens) == ROUNDS
        assert set(target.tokens) <= {1, 2, 3, 4, 5}
        outcomes = outcomes_of(RankPlan.of(scenario), SEED, ROUNDS)
        assert all(each <= drawn for each, drawn in zip(target.tokens, outcomes.tokens[0].tolist(), strict=True))
        assert len(spans(draft, "draft step")) >= sum(target.tokens) - ROUNDS
        assert overlap_s(spans(target, "verify"), spans(draft, "draft step")) > 0.0
        of_one_row = [
            n for n, what in enumerate(w for w in whats(target) if w in ("verify", "stale")) if what == "stale"
        ]
        assert handshake == "code" or not of_one_row
        assert all(target.tokens[n] == 1 for n in of_one_row)


def test_adaptive_rounds_run_passes_over_the_rows_that_they_chose(pair: Ranks) -> None:
    """Two-valued confidences, so that rows vary; drafted beside the target, and on a device of its own."""
    for sd_draft in ("colocated", "separate"):
        configuration = small("adaptive", confidence_spread=0.0, alpha=0.6, sd_draft=sd_draft)
        target, draft = run(pair, configuration.scenarios["adaptive"])
        rows = block_of(configuration, "adaptive").rows
        assert rows is not None
        assert len(set(rows.tolist())) > 2
        verified = [event.what for event in target.events if event.step == "verify"]
        assert verified == [f"verify {each} rows" for each in rows]
        drafting = target if draft is None else draft
        assert len(spans(drafting, "draft step")) == 3 * ROUNDS


def test_adaptive_rounds_are_told_by_the_times_that_chose_their_rows(pair: Ranks) -> None:
    """At other prices, as on a machine that is slower now, the simulator replays the rounds that ran."""
    scenario = small("adaptive", confidence_spread=0.0, alpha=0.6).scenarios["adaptive"]
    slow = scenario.with_steps(
        {name: step.stretched(3.0 if name == "draft" else 1.0) for name, step in scenario.steps.items()}
    )
    target, _ = run(pair, scenario)
    assert sum(target.tokens) / (2 * ROUNDS) == simulate(slow, rounds=ROUNDS, seed=SEED).tokens_per_round.value


def test_a_pass_over_rows_that_differ_by_sequence_runs_on_two_target_ranks(quartet: Ranks) -> None:
    scenario = small("adaptive", confidence_spread=0.0, alpha=0.6, tp=2).scenarios["adaptive"]
    first, other, *_ = run(quartet, scenario)
    whats_of = [[event.what for event in each.events if event.step == "verify"] for each in (first, other)]
    assert whats_of[0] == whats_of[1]
    assert any("3 rows" in what for what in whats_of[0])
