"""AR, SD and SSD run for real on gloo ranks: overlap, outcomes shared with the simulator, tensor parallelism."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ssdsim.engine.simulate import simulate
from ssdsim.errors import InputError
from ssdsim.executor.cache import Guesses, SpeculationCache, read_outcome, write_outcome
from ssdsim.executor.loops import Setting, Timeline, stream
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.profile import load_profile
from ssdsim.machine.machine import device_names
from ssdsim.machine.ranks import Ranks
from ssdsim.reports.build import report
from ssdsim.rounds.scenario import Scenario
from ssdsim.scenario.configuration import configure
from ssdsim.transformer.card import transformer_shaped
from ssdsim.validation.bench import check_profile
from ssdsim.validation.comparison import interval
from ssdsim.validation.grid import grid_of
from ssdsim.validation.timelines import mean_round_s
from tests.calibration.process import PAIR, PATIENCE_S

pytestmark = pytest.mark.ranks

HANDLER = "ssdsim.executor.loops:make_executor"
TARGET, DRAFT = transformer_shaped(512, 3, "float32"), transformer_shaped(256, 1, "float32")
SETTING = Setting(
    target=TARGET,
    draft=DRAFT,
    tp=1,
    dtype="float32",
    context=32,
    batch=2,
    lookahead=3,
    branches=4,
    fallback="jit",
    backup_s=0.0,
    outcome_bytes=88,
    response_bytes=50,
    token_bytes=48,
    sd_draft_tp=None,
    fan_out=(1, 1, 1, 1),
)
ROUNDS = 20
Runs = Callable[..., Any]


def scenario(**options: Any) -> Scenario:
    return configure(t_sd=0.3, k=3, b=2, **options).scenario


@pytest.fixture(scope="module")
def run() -> Iterator[Runs]:
    """Runs rounds on two ranks, or on three (oversubscribed) where the target has two; started once, for all tests."""
    with ExitStack() as started:

        @cache
        def ranks(tp: int) -> Ranks:
            capacity = {"tp": tp, "target": TARGET, "draft": DRAFT, "dtype": "float32", "batch": 2, "context": 36}
            devices = ("cpu:0", "cpu:1", "cpu:0")[: tp + 1]
            return started.enter_context(Ranks(devices, HANDLER, capacity))

        def run(strategy: str, case: Scenario, setting: Setting = SETTING) -> Any:
            request = {"strategy": strategy, "setting": setting, "scenario": case, "seed": 3, "rounds": ROUNDS}
            return ranks(setting.tp).ask(request, 60.0)

        yield run


def spans(timeline: Timeline, *names: str) -> list[tuple[float, float]]:
    return [(start, end) for what, start, end in timeline.events if what in names]


def overlap_s(a: list[tuple[float, float]], b: list[tuple[float, float]]) -> float:
    return sum(max(0.0, min(e, f) - max(s, t)) for s, e in a for t, f in b)


def test_in_ssd_the_draft_works_while_the_target_verifies_and_in_sd_it_does_not(run: Runs) -> None:
    target, draft = run("ssd", scenario(p_hit=1.0, backup="jit"))
    # neither waits for the other before its work is done; how long both are at it is the mood of the machine
    drafting, answering = ["glue", *["branch step"] * 3], ["fill cache", "wait for outcome", "send speculation"]
    assert [what for what, _, _ in target.events] == ["verify", "send outcome", "wait for speculation"] * ROUNDS
    assert [what for what, _, _ in draft.events] == [*drafting, *answering] * ROUNDS
    assert overlap_s(spans(target, "verify"), spans(draft, *drafting)) > 0.0
    target, draft = run("sd", scenario(p_hit=1.0, backup="jit"))
    assert len(spans(draft, "draft step")) == 3 * ROUNDS
    assert overlap_s(spans(target, "verify"), spans(draft, "draft step")) == 0.0  # one clock, and they take turns


def test_a_measured_run_has_the_simulators_rounds(run: Runs) -> None:
    """The same seed: the misses that the executor falls back on, and the tokens, are those of the event engine."""
    case = scenario(p_hit=0.6, backup="jit")
    simulated = simulate(case, "ssd", engine="des", rounds=ROUNDS, seed=3)
    tokens, misses = stream(case, "ssd", 3).block(ROUNDS).totals()
    assert simulated.tokens_per_round.value == tokens.sum() / (2 * ROUNDS)
    _, draft = run("ssd", case)
    missed_rounds = int(np.count_nonzero(misses))
    assert 0 < missed_rounds < ROUNDS
    assert draft.misses == misses.tolist()  # found by looking up what the target sent
    assert len(spans(draft, "fallback step")) == 3 * missed_rounds


def test_a_colocated_draft_of_sd_drafts_on_the_targets_device_before_each_verification(run: Runs) -> None:
    case = scenario(p_hit=1.0, backup="jit")
    target, idle = run("sd", case, replace(SETTING, sd_draft_tp=1))
    assert idle is None  # the draft's rank takes no part
    assert [what for what, _, _ in target.events] == ["draft step", "draft step", "draft step", "verify"] * ROUNDS
    simulated = simulate(case, "sd", engine="des", rounds=ROUNDS, seed=3)
    assert sum(target.tokens) / (2 * ROUNDS) == simulated.tokens_per_round.value


@pytest.mark.parametrize("draft_tp", [1, 2])
def test_a_colocated_draft_sits_on_the_first_target_rank_or_on_all(run: Runs, draft_tp: int) -> None:
    """Oversubscribed as below. Ranks without the draft wait for its tokens, then all verify."""
    setting = replace(SETTING, tp=2, sd_draft_tp=draft_tp)
    first, other, idle = run("sd", scenario(p_hit=1.0, backup="jit"), setting)
    assert idle is None
    drafting = ["draft step"] * 3
    told, waited = (["send tokens"], ["wait for tokens"]) if draft_tp == 1 else ([], drafting)
    assert [what for what, _, _ in first.events] == [*drafting, *told, "verify"] * ROUNDS
    assert [what for what, _, _ in other.events] == [*waited, "verify"] * ROUNDS
    assert first.tokens == other.tokens
    if draft_tp == 1:
        drafted = [end for _, end in spans(first, "draft step")[2::3]]
        received = [end for _, end in spans(other, "wait for tokens")]
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


def test_an_outcome_survives_its_message() -> None:
    message = torch.zeros(88, dtype=torch.uint8)
    outcome = np.array([[3, 1 << 40], [0, 7]])
    write_outcome(outcome, message)
    np.testing.assert_array_equal(read_outcome(message, 2), outcome)


def test_never_hitting_with_jit_drafts_every_round_as_sd_does(run: Runs) -> None:
    _, draft = run("ssd", scenario(p_hit=0.0, backup="jit"))
    assert len(spans(draft, "fallback step")) == 3 * ROUNDS


def test_a_fast_fallback_takes_its_latency(run: Runs) -> None:
    setting = replace(SETTING, fallback="fast", backup_s=0.005)
    _, draft = run("ssd", scenario(p_hit=0.0, p_hit_backup=0.0, backup="fast"), setting)
    waits = [end - start for start, end in spans(draft, "fallback")]
    assert len(waits) == ROUNDS
    assert min(waits) >= 0.005


@pytest.mark.parametrize("strategy", ["ar", "sd", "ssd"])
def test_two_target_ranks_and_a_draft_work_on_three_processes(run: Runs, strategy: str) -> None:
    """Oversubscribed: three ranks on two cores; only that it works."""
    setting = replace(SETTING, tp=2)
    answers = run(strategy, scenario(p_hit=0.5, backup="jit"), setting)
    assert len(answers[0].ends_s) == len(answers[1].ends_s) == ROUNDS
    assert mean_round_s(answers[0]) > 0


def test_given_fan_outs_set_k_and_the_hit_rate_and_are_what_the_draft_caches(run: Runs) -> None:
    """Nothing is cached after two accepted tokens, so nothing hits there; elsewhere the hit curve says how often."""
    points = grid_of("short", "separate", (3, 1, 0, 2))
    assert {(point.k, point.branches, point.sd_draft) for point in points} == {(3, 6, "separate")}
    case = configure(t_sd=0.3, k=3, b=2, fl=[3, 1, 0, 2], backup="jit").scenario
    block = stream(case, "ssd", 3).block(ROUNDS)
    assert not block.hits[block.tokens == 3].any()
    _, draft = run("ssd", case, replace(SETTING, branches=6, fan_out=(3, 1, 0, 2)))
    assert draft.misses == block.totals()[1].tolist()
    assert 0 < sum(draft.misses) < 2 * ROUNDS


def test_only_a_measured_profile_is_compared_with_this_machine() -> None:
    imported = find_hardware("h100-sxm")
    with pytest.raises(InputError, match="was not measured on this machine"):
        check_profile(imported, ["cpu:0"])
    by_us = {name: source.model_copy(update={"kind": "measured"}) for name, source in imported.sources.items()}
    elsewhere = imported.model_copy(update={"sources": by_us})
    with pytest.raises(InputError, match=f"was measured on {re.escape(imported.device.name)}, cpu:0 is "):
        check_profile(elsewhere, ["cpu:0"])
    here = elsewhere.device.model_copy(update={"name": device_names(["cpu:0"])["cpu:0"]})
    check_profile(elsewhere.model_copy(update={"device": here}), ["cpu:0", "cpu:1"])


def test_the_interval_of_repeats_is_students() -> None:
    found = interval([1.0, 2.0, 3.0])
    assert found.value == 2.0
    assert found.high - found.value == pytest.approx(4.303 / 3**0.5, rel=1e-3)


def test_a_validation_keeps_its_points_shows_both_traces_and_judges(tmp_path: Path, calibration: Path) -> None:
    """``ssdsim validate`` on two cores: it calibrates, runs the short grid, resumes without measuring, is shown.

    Of the calibration it finds all but the last points.
    """
    run = tmp_path / "run"
    trace, log = run / "measured_trace.json", run / "validation.jsonl"
    run.mkdir()
    timings = (calibration / "validation-profile.jsonl").read_text().splitlines(keepends=True)
    (run / "validation-profile.jsonl").write_text("".join(timings[:-40]))
    options = [*PAIR, *"--rounds 4 --repeats 2 --json".split(), "-o", str(run)]
    command = [sys.executable, "-m", "ssdsim", "validate", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert len((run / "validation-profile.jsonl").read_text().splitlines()) == len(timings)
    answer = json.loads(done.stdout)
    assert [c["strategy"] for c in answer["comparisons"]] == ["ar", "sd", "ssd"] * 3
    assert all(c["measured"]["value"] > 0 and c["predicted_s"] > 0 for c in answer["comparisons"])
    assert all(c["parts"]["draft"][0] > 0 for c in answer["comparisons"] if c["strategy"] == "sd")  # wherever it is
    tracks = {e["args"]["name"] for e in json.loads(trace.read_text())["traceEvents"] if e["name"] == "thread_name"}
    assert {"target GPU 0", "draft GPU 0"} <= tracks
    assert {name for name in tracks if name.startswith("measured")} == {
        *("measured SD target 0 (cpu:0)", "measured SSD target 0 (cpu:0)", "measured SSD draft (cpu:1)"),
    }  # SD's draft is beside its target at the first point
    profile = load_profile(run / "validation-profile.json")
    assert {source.kind for source in profile.sources.values()} == {"measured"}
    before = log.read_text()
    command += ["--max-error", "0"]
    again = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert again.returncode == 1  # no error is within 0
    assert log.read_text() == before
    assert json.loads(again.stdout)["comparisons"] == answer["comparisons"]
    shown = report(run)
    assert {"validation", "timeline"} <= {figure.key for figure in shown.figures}
