"""What nobody says follows the named engine and the target: who is compared, and what drafts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim import configure, predict, sweep
from ssdsim.question.drafting import drafter_by_options
from ssdsim.question.engines import strategies_by_options
from ssdsim.question.prompts import ratio_with_prompts
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked

ONE_GPU: dict[str, Any] = {"target": "llama-3.1-8b", "tp": 1}


@pytest.mark.parametrize(
    ("engine", "names"),
    [
        ("vllm", ("ar", "sd")),
        ("sglang", ("ar", "sd")),
        ("ssd-engine", ("ar", "sd", "ssd")),
        ("kernels", ("ar", "sd", "ssd")),
        (None, ("ar", "sd", "ssd")),
    ],
)
def test_what_the_engine_runs_is_compared_by_default(engine: str | None, names: tuple[str, ...]) -> None:
    assert strategies_by_options({"engine": engine}) == names
    configuration = configure(**ONE_GPU, engine=engine)
    assert (*configuration.scenarios, *configuration.refused) == names
    assert predict(**ONE_GPU, engine=engine).verdict.subject == names[-1]


def test_whom_somebody_names_is_priced_as_if_the_engine_ran_it() -> None:
    configuration = configure(**ONE_GPU, engine="vllm", strategies="ar,ssd")
    assert tuple(configuration.scenarios) == ("ar", "ssd")
    assert any("vLLM does not implement SSD" in each for each in configuration.warnings)


def test_an_option_that_only_others_read_is_refused_with_the_reason() -> None:
    with refused("--p-hit", "ar,sd", "vllm"):
        predict(**ONE_GPU, engine="vllm", p_hit=0.9)


def test_a_sweep_over_engines_has_what_each_runs() -> None:
    table = sweep(**ONE_GPU, engine=["vllm", "kernels"])
    assert table["ssd_tokens_per_second"].isna().tolist() == [True, False]
    assert "ssd_tokens_per_second" not in sweep(**ONE_GPU, engine="vllm", b=[1, 2])


@pytest.mark.parametrize(
    ("options", "drafter"),
    [
        ({"target": "deepseek-r1"}, "mtp"),
        ({"target": "deepseek-v3", "engine": "vllm"}, "mtp"),
        ({"target": "gpt-oss-120b"}, "eagle3"),
        ({"target": "gpt-oss-120b", "engine": "trtllm-0.11"}, "model"),  # which knows no EAGLE-3
        ({"target": "qwen3-32b"}, "model"),  # a smaller model of the family is known
        ({"target": "deepseek-r1", "drafter": "ngram"}, "ngram"),
        ({"target": "deepseek-r1", "draft": "qwen3-0.6b"}, "model"),
        ({}, "model"),
        ({"t_sd": 0.2}, "model"),
    ],
)
def test_a_target_drafts_with_the_heads_that_it_has(options: dict[str, Any], drafter: str) -> None:
    assert drafter_by_options(options) == drafter


def test_the_draft_of_a_target_with_heads_is_priced_and_said() -> None:
    options: dict[str, Any] = {"target": "deepseek-v3", "hardware": "h200-sxm", "tp": 8, "strategies": "ar,sd"}
    settings = predict(**options).configuration.settings
    assert (settings["drafter"], settings.source("drafter")) == ("mtp", "the MTP layers of deepseek-v3")
    assert predict(**options, mtp_modules=2).configuration.settings["mtp_modules"] == 2
    with refused("--mtp-modules", "--drafter mtp"):
        predict(**ONE_GPU, mtp_modules=2)


@pytest.mark.long
@given(b=st.sampled_from([1, 16, 64]), answer=st.integers(1, 4000), more=st.integers(1, 4000))
def test_prompts_bring_ratios_nearer_to_one_and_less_so_with_longer_answers(b: int, answer: int, more: int) -> None:
    prediction = predict(b=b, strategies="ar,sd")
    sd, ar, site = prediction.estimates["sd"], prediction.estimates["ar"], prediction.configuration.site
    assert site is not None
    bare = float(sd.tokens_per_second / ar.tokens_per_second)
    short, long = (ratio_with_prompts(site, tokens, sd, ar) for tokens in (answer, answer + more))
    assert abs(short - 1.0) <= abs(long - 1.0) <= abs(bare - 1.0)


def test_what_prompts_change_is_said_where_it_changes_the_answer() -> None:
    assert predict(b=16).prompts.endswith("ssdsim plan")
    assert predict(b=1).prompts == ""
    assert predict(b=64, t_sd=0.2).prompts == ""
    assert predict(b=64, strategies="ar").prompts == ""


def test_a_sweep_over_engines_leaves_what_one_lacks_empty() -> None:
    told = asked("sweep", "--model", "llama-3.1-8b", "--engine", "vllm,ssd-engine", "--tp", "1", "--quiet")
    assert told.returncode == 0, told.stderr
    assert "nan" not in told.stdout
