"""Files that engines wrote (vLLM 0.32.0, llama.cpp 11434, a model of 135M): their own counts, to the round."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssdsim.question.configuration import configure
from ssdsim.readers.acceptance.counts import ImportOptions
from ssdsim.readers.acceptance.read import PairLabels, import_acceptance
from ssdsim.tokens.pair_file import Findings

SERVED = Path(__file__).parent / "served"


def read(engine: str, *names: str) -> Findings:
    return import_acceptance(
        engine, [SERVED / name for name in names], {}, ImportOptions(), PairLabels()
    ).by_temperature[0]


def counters(name: str) -> Findings:
    return read("vllm", f"{name}-0.txt", f"{name}-1.txt")


def test_steps_that_drafted_nothing_are_rounds() -> None:
    """8 answers of 48 tokens: 376 after the first ones, in 193 steps. 63 drafted, and accepted 213 tokens.

    Rounds that drafted yield 4.38 tokens each, which is no speed of anything. Of what was accepted 30 tokens were cut
    at the ends of answers, so that what was put out does not tell the steps (376 - 213 = 163 are too few).
    """
    length = counters("ng-c4").length
    assert (length.rounds, length.undrafted, length.accepted) == (63, 130, 213)
    assert length.pooled == pytest.approx(1 + 213 / 193)
    assert length.drafted_share == pytest.approx(63 / 193)


def test_a_draft_model_drafts_in_every_step() -> None:
    assert (counters("sd3-c2").length.rounds, counters("sd3-c2").length.undrafted) == (85, 0)


def test_what_was_accepted_beyond_the_end_makes_no_step() -> None:
    """48 - 2 tokens less 8 accepted are 38 steps, but 39 drafted: one accepted token was cut."""
    length = counters("sd1-c1").length
    assert (length.rounds, length.undrafted, length.k) == (39, 0, 4)


def test_without_times_between_tokens_steps_follow_from_tokens(tmp_path: Path) -> None:
    """An engine that does not count them, so that at least 163 of the 193 steps are seen."""
    paths = []
    for name in ("ng-c4-0.txt", "ng-c4-1.txt"):
        lines = (SERVED / name).read_text().splitlines()
        paths.append(tmp_path / name)
        paths[-1].write_text("\n".join(line for line in lines if "inter_token" not in line))
    length = import_acceptance("vllm", paths, {}, ImportOptions(), PairLabels()).by_temperature[0].length
    assert length.undrafted == 100


def test_a_pair_says_in_which_share_of_rounds_anything_is_drafted(tmp_path: Path) -> None:
    pair = import_acceptance("vllm", [SERVED / f"ng-c4-{i}.txt" for i in (0, 1)], {}, ImportOptions(), PairLabels())
    pair.save(tmp_path / "pair.json")
    asked = configure(strategies=("sd",), drafter="ngram", k=7, pair=str(tmp_path / "pair.json"), b=4)
    assert asked.settings["found"] == pytest.approx(63 / 193)
    assert asked.scenarios["sd"].estimate.tokens_per_round == pytest.approx(1 + 213 / 193, rel=0.02)


def test_each_steps_drafted_tokens_tell_rates_by_position() -> None:
    findings = read("vllm", "vllm-responses.jsonl")
    assert findings.length.histogram == (29, 5, 0, 0, 0)
    assert findings.alpha_k == (pytest.approx(5 / 34), 0.0, None, None)


def test_llama_cpp_begins_its_lines_with_a_clock() -> None:
    length = read("llama-cpp", "llama-speculative.log").length
    assert (length.rounds, length.drafted, length.accepted, length.k) == (47, 141, 1, 3)


def test_drafts_of_different_lengths_may_have_a_whole_mean(tmp_path: Path) -> None:
    """As many rounds of 8 tokens as of 4: position 7 is accepted, where 6 are drafted on average."""
    lines = (
        (SERVED / "ng-c4-1.txt").read_text().replace('draft_tokens_total{engine="0",model_name="m"} 626.0', "{} 504.0")
    )
    lines = lines.replace(
        "vllm:spec_decode_num_{} 504.0", 'vllm:spec_decode_num_draft_tokens_total{model_name="m"} 504.0'
    )
    (tmp_path / "once.txt").write_text(lines)
    findings = import_acceptance(
        "vllm", [tmp_path / "once.txt"], {}, ImportOptions(since_start=True), PairLabels()
    ).by_temperature[0]
    assert (findings.length.k, findings.alpha_k, findings.length.drafted) == (None, None, 504)


def test_a_served_name_without_a_card_is_said() -> None:
    files = [SERVED / f"sd3-c2-{i}.txt" for i in (0, 1)]
    pair = import_acceptance("vllm", files, {}, ImportOptions(), PairLabels())
    assert any("no card is called 'm'" in warning for warning in pair.provenance.warnings)
    named = import_acceptance("vllm", files, {}, ImportOptions(), PairLabels(target="llama-3.1-8b"))
    assert not any("no card" in warning for warning in named.provenance.warnings)
