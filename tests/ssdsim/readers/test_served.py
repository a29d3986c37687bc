"""Files that benchmarks of real engines wrote (vLLM 0.32.0, llama.cpp 11434, guidellm 0.8.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import called, find_hardware
from ssdsim.readers.result_files import read_measured
from tests.refusals import refused

SERVED = Path(__file__).parent / "served"
GIVEN: dict[str, Any] = {"hardware": "h100-sxm", "model": "transformer-shaped-576x30"}
H100 = find_hardware("h100-sxm")
CPU = H100.changed(device=H100.device.changed(name="AMD EPYC", kind="cpu"))
ON_CPU = GIVEN | {"hardware": called("an-epyc", CPU)}


def test_vllm_bench_counts_cut_tokens_as_no_time() -> None:
    """96 tokens of 6 answers, in 87 steps after the first ones."""
    (row,) = read_measured(SERVED / "sd3-c2.json", **GIVEN, draft="transformer-shaped-576x10")
    assert (row.k, row.batch, row.acceptance_length) == (3, 2, pytest.approx(90 / 87))
    assert row.value == pytest.approx(279.65, abs=0.01)


def test_llama_bench_has_a_row_for_each_test_that_generates() -> None:
    (row,) = read_measured(SERVED / "llama-bench.json", **ON_CPU)
    assert (row.metric, row.batch, row.input_tokens, row.output_tokens) == ("step_ms", 1, 0.0, 24.0)
    assert row.value == pytest.approx(458.685743 / 24)


def test_llama_bench_of_prompts_alone_has_no_row(tmp_path: Path) -> None:
    tests = json.loads((SERVED / "llama-bench.json").read_text())
    (tmp_path / "pp.json").write_text(json.dumps([test for test in tests if not test["n_gen"]]))
    with pytest.raises(InputError, match="no test in it that generated tokens"):
        read_measured(tmp_path / "pp.json", **GIVEN)


def test_llama_bench_after_a_prompt_has_its_seconds(tmp_path: Path) -> None:
    test = json.loads((SERVED / "llama-bench.json").read_text())[1] | {"n_prompt": 512, "avg_ns": 2_000_000_000}
    (tmp_path / "pg.json").write_text(json.dumps([test]))
    (row,) = read_measured(tmp_path / "pg.json", **ON_CPU)
    assert (row.metric, row.value, row.input_tokens, row.output_tokens) == ("latency_s", 2.0, 512.0, 25.0)


def test_a_prompt_that_is_no_number_is_refused(tmp_path: Path) -> None:
    test = json.loads((SERVED / "llama-bench.json").read_text())[1] | {"n_prompt": [512]}
    (tmp_path / "pg.json").write_text(json.dumps([test]))
    with refused("n_prompt", "[512]"):
        read_measured(tmp_path / "pg.json", **GIVEN)


def test_llama_batched_bench_has_a_row_a_batch() -> None:
    rows = read_measured(SERVED / "batched.jsonl", **GIVEN)
    assert [row.batch for row in rows] == [1, 2, 4, 8]
    assert [row.value for row in rows] == pytest.approx([506.956 / 24, 848.918 / 24, 1306.381 / 24, 2049.66 / 24])


def test_guidellms_report_has_a_row_a_benchmark(tmp_path: Path) -> None:
    means = {
        "inter_token_latency_ms": 104.80661789576213,
        "prompt_token_count": 94.0,
        "output_token_count": 16.0,
        "request_concurrency": 1.980867192056595,
    }
    metrics = {
        name: {"successful": {"mean": mean, "count": 4}, "errored": {"mean": 0.0}} for name, mean in means.items()
    }
    report = {
        "metadata": {"version": 2, "guidellm_version": "0.8.1"},
        "config": {"spec": {"backend": {"kind": "openai_http", "model": "m"}}},
        "benchmarks": [{"type_": "generative_benchmark", "metrics": metrics}],
    }
    (tmp_path / "guide.json").write_text(json.dumps(report))
    (row,) = read_measured(tmp_path / "guide.json", **GIVEN)
    assert (row.batch, row.metric, row.value) == (2, "tpot_ms", pytest.approx(104.8066))
    with refused("m"):
        read_measured(tmp_path / "guide.json", hardware="h100-sxm")


@pytest.mark.parametrize("damaged", ["metadata", "config", "spec", "backend", "metrics", "inter_token_latency_ms"])
@pytest.mark.parametrize("by", [5, [7], "x"])
def test_a_damaged_report_of_guidellm_is_refused(tmp_path: Path, damaged: str, by: object) -> None:
    inner = {"inter_token_latency_ms": {"successful": {"mean": 1.0, "count": 1}}}
    report: dict[str, Any] = {
        "metadata": {"guidellm_version": "0.8.1"},
        "config": {"spec": {"backend": {"model": "m"}}},
        "benchmarks": [{"metrics": inner}],
    }
    spec = report["config"]["spec"]
    for parent in (report, report["config"], spec, report["benchmarks"][0], inner):
        if damaged in parent:
            parent[damaged] = by
    (tmp_path / "guide.json").write_text(json.dumps(report))
    with pytest.raises(InputError):
        read_measured(tmp_path / "guide.json", hardware="h100-sxm")


def test_requests_that_came_at_a_rate_have_littles_number_in_flight(tmp_path: Path) -> None:
    """The closed loop of 2 had 6 answers of 418 + 15 x 90 ms in 5.31 s: 2.00 in flight."""
    result = json.loads((SERVED / "ar-c2.json").read_text())
    assert sum(result["latencies"]) / result["duration"] == pytest.approx(2.0, abs=0.05)
    (tmp_path / "rate.json").write_text(json.dumps(result | {"max_concurrency": None, "request_rate": 1.13}))
    (row,) = read_measured(tmp_path / "rate.json", **GIVEN)
    assert row.batch == 2
