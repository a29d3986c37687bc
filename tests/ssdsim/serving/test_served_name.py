"""``serve --compare`` holds the model that was measured against itself, not against the default one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ssdsim.cli.in_process import asked
from tests.ssdsim.readers.test_served import SERVED


def test_a_served_name_without_a_card_is_refused() -> None:
    answer = asked("serve", "--compare", str(SERVED / "ar-c2.json"))
    assert answer.returncode == 2
    assert "no card is called 'm'; give one by --model" in answer.stderr


def test_a_card_that_is_given_stands_for_a_name_without_one() -> None:
    answer = asked("serve", "--compare", str(SERVED / "ar-c2.json"), "--target", "llama-3.1-8b")
    assert answer.returncode == 0, answer.stderr
    assert "llama-3.1-8b" in answer.stdout


def test_another_model_than_was_measured_is_refused(tmp_path: Path) -> None:
    result = json.loads((SERVED / "ar-c2.json").read_text()) | {"model_id": "meta-llama/Llama-3.1-8B-Instruct"}
    (tmp_path / "bench.json").write_text(json.dumps(result))
    answer = asked("serve", "--compare", str(tmp_path / "bench.json"), "--target", "llama-3.1-70b")
    assert answer.returncode == 2
    assert "measured llama-3.1-8b, not --target llama-3.1-70b" in answer.stderr


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        ({"model_id": "llama-3.1-8b"}, "--save-detailed"),
        ({"total_output_tokens_retokenized": 90}, "--output-details"),
        ({"request_latency": {"avg": 1.0}, "output_sequence_length": {"avg": 9.0}}, "--export-level records"),
    ],
)
def test_a_benchmark_of_sums_names_the_flag_that_it_lacks(tmp_path: Path, lists: dict[str, object], said: str) -> None:
    sums = {"mean_tpot_ms": 9.0, "total_output_tokens": 90, **lists}
    (tmp_path / "bench.json").write_text(json.dumps(sums))
    answer = asked("serve", "--compare", str(tmp_path / "bench.json"), "--target", "llama-3.1-8b")
    assert answer.returncode == 2
    assert said in answer.stderr


def test_guidellms_requests_are_a_log(tmp_path: Path) -> None:
    requests = [
        {
            "request_start_time": 100.0 + start,
            "prompt_tokens": 94,
            "output_tokens": 16,
            "time_to_first_token_ms": 50.0,
            "inter_token_latency_ms": 10.0,
            "request_latency": 0.2,
        }
        for start in (0.0, 0.2)
    ]
    report = {
        "metadata": {"guidellm_version": "0.8.1"},
        "config": {"spec": {"backend": {"model": "llama-3.1-8b"}}},
        "benchmarks": [{"requests": {"successful": requests}}],
    }
    (tmp_path / "guide.json").write_text(json.dumps(report))
    answer = asked("serve", "--compare", str(tmp_path / "guide.json"), "--strategies", "ar", "--json")
    assert answer.returncode == 0, answer.stderr
    rows = {(row["metric"], row["statistic"]): row for row in json.loads(answer.stdout)["compared"]}
    assert rows["tpot", "mean"]["measured"] == 10.0
