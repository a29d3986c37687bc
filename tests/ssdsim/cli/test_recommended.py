"""A recommendation answers what was asked: at the rate, within the SLO, on the engine."""

from __future__ import annotations

import re

import pytest

from tests.refusals import assert_refused
from tests.ssdsim.cli.in_process import asked

SMALL = ("--k", "2,4", "--tp", "4", "--draft-gpus", "1", "--quiet")


def words(*arguments: str) -> str:
    done = asked(*arguments)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 80
    return " ".join(done.stdout.split())


@pytest.mark.long
def test_what_is_saturated_at_the_rate_is_not_the_answer() -> None:
    """The headline was "run SSD", "clear", above "a token takes SSD saturated"."""
    said = words("recommend", "--gpus", "5xh100", "--model", "llama-3.1-70b", "--rate", "5", *SMALL)
    assert "for 5 requests/s run AR TP 4; SSD and SD are saturated." in said
    assert "clear" not in said
    assert "run SSD" in words("recommend", "--gpus", "5xh100", "--model", "llama-3.1-70b", "--rate", "0.5", *SMALL)


@pytest.mark.long
def test_where_nothing_keeps_the_slo_a_plan_is_named() -> None:
    """It was "clear" beside "kept up to 0.00 requests/s"."""
    said = words("recommend", "--gpus", "5xh100", "--model", "llama-3.1-70b", "--slo", "tpot:5ms", *SMALL)
    assert "nothing at TP 4 serves requests within the SLO: SSD, SD and AR are outside the SLO" in said
    assert "ssdsim plan --rate 1 --slo tpot:5ms --model llama-3.1-70b --hardware h100-sxm" in said
    assert "clear" not in said


def test_what_is_pasted_says_first_what_the_engine_has_not() -> None:
    arguments = ("--gpus", "5xh100", "--model", "qwen3-32b", "-b", "8,16", "--k", "3", "--tp", "4", "--draft-gpus", "1")
    notes = asked("recommend", *arguments, "--paste", "vllm").stderr.splitlines()
    begins = "note: vLLM has no SSD: this is the best that it runs, 1.[0-9-.]+x slower than SSD at 8, 16 in flight"
    assert re.fullmatch(begins, notes[0])


def test_a_strategy_that_an_engine_has_not_can_be_priced() -> None:
    done = asked("recommend", "--gpus", "5xh100", "--engine", "vllm", "--strategies", "ssd")
    assert "ssdsim predict --engine vllm --strategies ar,sd,ssd" in done.stderr
    priced = words("predict", "--engine", "vllm", "--strategies", "ar,sd,ssd", "--quiet")
    assert "vLLM does not run SSD so" in priced


def test_the_next_command_keeps_what_was_given() -> None:
    given = "--model llama-3.1-8b --hardware h100-sxm --engine vllm -b 16"
    assert f"Next ssdsim recommend --gpus 8 {given}; --explain: " in words("predict", *given.split(), "--quiet")
    for more in (
        "--context 8192 --alpha 0.8,0.7",
        "--context 4096 --text code",
        "--alpha 0.8 --acceptance-rule fly",
        "--draft-link tcp --alpha 0.8",
        "--alpha 0.8 --acceptance-floor 0.4",
    ):
        said = " ".join(asked("predict", *given.split(), *more.split(), "--quiet").stdout.split())
        assert f"Next ssdsim recommend --gpus 8 {given} {more}; --explain: " in said
    assert "Next ssdsim recommend --gpus 8 --explain" in words("predict", "--quiet")


def test_a_rival_in_another_place_is_named_with_it_and_fewer_gpus_with_what_they_give() -> None:
    """1.18x SD here and 1.50x SD in a prediction at TP 1 were of one SSD."""
    searched = ("--k", "2,3", "--tp", "1,2", "--draft-gpus", "1", "--quiet")
    said = words("recommend", "--gpus", "2xrtx-4090", "--model", "llama-3.1-8b", "-b", "1", *searched)
    assert re.search(r"SSD is 1\.\d\dx SD at TP 2, ", said)
    assert re.search(r"Fewer SD TP 1, K 3: \d+ tokens/s on 1 GPU; 1 more gives 1\.\d\dx", said)


def test_what_stands_apart_has_its_baseline_k_and_batch() -> None:
    arguments = ("--gpus", "5xh100", "--model", "qwen3-32b", "--k", "3", "--tp", "4", "--draft-gpus", "1", "--quiet")
    said = words("recommend", *arguments, "--engine", "vllm")
    assert re.search(r"which vLLM does not have: 1\.\d\dx SD \(SSD TP 4 \+ 1, K 3 at 1 in flight\)", said)


def test_a_table_of_all_strategies_says_why_ssd_is_not_in_it() -> None:
    """A target that takes all eight GPUs leaves none for a draft of its own."""
    asked_for = ("--gpus", "8xb200", "--model", "glm-5.2", "--strategies", "ar,sd,ssd,pearl", "--k", "3", "--all")
    assert "No room SSD and 1 more: glm-5.2 at tp 4 needs " in words("recommend", *asked_for, "--quiet")


def test_an_engines_table_needs_no_baseline() -> None:
    """The gain over AR was looked up where AR was not among the strategies, and the drafts were to be turned on."""
    said = words(
        "recommend", "--gpus", "1xh100", "--model", "llama-3.1-8b", "--engine", "vllm", *SMALL[:2], "--strategies", "sd"
    )
    assert "SD with llama-3.2-1b, not held against AR (no speculation). in flight" in said


def test_what_stands_alone_is_not_said_to_be_the_fastest() -> None:
    """Of vLLM, which drafts with no other model over stages, it said to leave SD off."""
    asked_for = ("--gpus", "2xh100", "--model", "llama-3.1-8b", "--engine", "vllm", "--tp", "1", "--pp", "2", "--quiet")
    said = words("recommend", *asked_for)
    assert "TP 1, PP 2: AR (no speculation) stands alone. in flight" in said
    assert "which vLLM does not run on pipeline stages" in said


def test_where_nothing_fits_there_is_nothing_to_paste() -> None:
    """It ended without a word."""
    here = ("--gpus", "1xh100", "--model", "llama-3.1-70b", "--engine", "vllm", "--paste")
    assert_refused(asked("recommend", *here), "nothing to paste", "needs", "usable")


@pytest.mark.parametrize("flag", ["--json", "--explain"])
def test_a_command_to_paste_is_all_that_is_printed(flag: str) -> None:
    assert_refused(asked("recommend", "--gpus", "1", "--paste", "vllm", flag), flag, "--paste")


def test_what_is_assumed_comes_with_its_source_as_in_a_prediction() -> None:
    head = ("--model", "llama-3.1-8b", "--drafter", "eagle3", "--quiet")
    source = "published, eagle3-llama-3.1-8b on MT-Bench, temperature 0, vllm-project/vllm issue 20780"
    told = rf"Assumed acceptance 0\.\d+-0\.\d+: {source}; hits 0\.\d+-0\.\d+: nobody measured yours"
    assert re.search(told, words("recommend", "--gpus", "2xh100", *head))
    assert re.search(told, " ".join(asked("predict", "--hardware", "h100", "--tp", "1", *head).stdout.split()))
    given = ("--model", "llama-3.1-8b", "--alpha", "0.8", "--p-hit", "0.7", "--quiet")
    assert "Assumed acceptance 0.8, hits 0.7: given" in words("recommend", "--gpus", "2xh100", *given)
