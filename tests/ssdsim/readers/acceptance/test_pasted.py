"""What people paste of an engine's speculation is read, and facts in it are held against what is given."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ssdsim.base.errors import InputError
from ssdsim.readers.acceptance.counts import ImportOptions
from ssdsim.readers.acceptance.read import ENGINES, PairLabels, import_acceptance
from ssdsim.readers.acceptance.sglang import lookaheads
from ssdsim.tokens.pair_file import Findings, Pair
from tests.refusals import refused
from tests.ssdsim.readers.acceptance import logs
from tests.ssdsim.readers.acceptance.test_importers import SSD

METRICS = (
    "SpecDecoding metrics: Draft acceptance rate: 40.0%, Mean acceptance length: 2.20, Accepted: 120 tokens, "
    "Drafted: 300 tokens, Per-position acceptance rate: 0.600, 0.360, 0.240\n"
)
RATE = "INFO 01-05 10:00:{:02} [loggers.py:116] Engine 000: Avg generation throughput: {} tokens/s, Running: 8 reqs\n"
WINDOW = "[2026-01-05 10:00:01 TP0] Decode batch. #running-req: 1, accept len: {:.2f}, accept rate: {:.2f}\n"
FINISHED = (
    "[2026-01-05 10:00:16] Finish: obj=GenerateReqInput(rid='a1', stream=True), out={{'meta_info': {{'id': 'a1', "
    "'finish_reason': {{'type': 'stop', 'matched': 2}}, 'completion_tokens': {}, 'spec_accept_rate': {:.3f}, "
    "'spec_accept_length': {:.2f}, 'spec_verify_ct': {}, 'e2e_latency': 1.9}}}}\n"
)
EXAMPLE = """\
--------------------------------------------------
total_num_output_tokens: 2560
num_drafts: 1000
num_draft_tokens: 3000
num_accepted_tokens: 1500
mean acceptance length: 2.50
--------------------------------------------------
acceptance at token 0: 0.70
acceptance at token 1: 0.50
acceptance at token 2: 0.30
"""
SPECFORGE = {
    "mtbench": [
        {"steps": 0, "topk": 0, "num_draft_tokens": 0, "metrics": [{"latency": 90.0, "output_throughput": 100.0}]},
        {
            "steps": 3,
            "topk": 1,
            "num_draft_tokens": 4,
            "metrics": [{"latency": 60.0, "output_throughput": 160.0, "accept_length": 1.9}],
        },
    ]
}


def pair(engine: str, text: str, folder: Path, named: PairLabels | None = None, **asked: Any) -> Pair:
    path = folder / "log.txt"
    path.write_text(text)
    return import_acceptance(engine, [path], {}, ImportOptions(**asked), named or PairLabels())


def found(engine: str, text: str, folder: Path, **asked: Any) -> Findings:
    return pair(engine, text, folder, **asked).by_temperature[0]


def test_steps_that_drafted_nothing_follow_from_the_generation_throughput(tmp_path: Path) -> None:
    """250 tokens/s in 10 s are 2,500 tokens, of which 220 came in 100 rounds: the other 2,280 steps drafted nothing."""
    log = RATE.format(10, 250.0) + METRICS + RATE.format(20, 250.0) + METRICS
    length = found("vllm", log, tmp_path).length
    assert (length.rounds, length.undrafted) == (200, 4560)
    assert length.pooled == pytest.approx(5000 / 4760)
    (note,) = (note for note in pair("vllm", log, tmp_path).provenance.notes if "generated" in note)
    assert "5000 tokens were generated, and 440 of them in rounds that drafted" in note


def test_a_throughput_of_rounds_and_first_tokens_leaves_every_step_drafted(tmp_path: Path) -> None:
    length = found("vllm", RATE.format(10, 23.0) + METRICS, tmp_path).length
    assert (length.rounds, length.undrafted, length.pooled) == (100, None, pytest.approx(2.2))


def test_metrics_over_several_lines_are_those_of_one(tmp_path: Path) -> None:
    broken = re.sub(r", (?=[A-Z])", "\n  - ", METRICS.replace("metrics: ", "metrics:\n"))
    assert broken.count("\n") == 6
    assert found("vllm", broken * 2, tmp_path) == found("vllm", METRICS * 2, tmp_path)


def test_vllms_offline_example(tmp_path: Path) -> None:
    findings = found("vllm", EXAMPLE, tmp_path)
    assert (findings.length.rounds, findings.length.k, findings.length.pooled) == (1000, 3, pytest.approx(2.5))
    assert findings.alpha_k == pytest.approx((0.7, 0.5 / 0.7, 0.3 / 0.5))


@pytest.mark.parametrize(("k", "older"), [*product((1, 3, 5, 7), (True, False))])
def test_a_rate_says_the_lookahead_by_either_convention(k: int, older: bool, tmp_path: Path) -> None:
    lengths = [1.0 + share * k for share in (0.31, 0.43, 0.52, 0.68)]
    text = "".join(WINDOW.format(each, each / (k + 1) if older else (each - 1.0) / k) for each in lengths)
    assert k in lookaheads(1.31, 1.31 / (k + 1) if older else 0.31 / k)
    assert found("sglang", text, tmp_path, sampled=True).length.k == k
    with refused("drafted tokens a round", "--k says 40"):
        found("sglang", text, tmp_path, sampled=True, k=40)


def test_sglangs_request_log_counts_rounds_of_requests(tmp_path: Path) -> None:
    text = FINISHED.format(312, 0.368, 2.11, 148) + FINISHED.format(201, 0.340, 2.03, 99)
    findings = found("sglang", text, tmp_path)
    assert (findings.count, findings.length.rounds, findings.length.k) == (2, 247, 3)
    assert findings.length.pooled == pytest.approx(
        1.0 + (513 - 2 - 247) / 247
    )  # the first token of each is its prompt's
    with refused("3 tokens", "--k 5"):
        found("sglang", text, tmp_path, k=5)


def test_specforges_results(tmp_path: Path) -> None:
    length = found("sglang", json.dumps(SPECFORGE), tmp_path).length
    assert (length.pooled, length.k, length.rounds) == (pytest.approx(1.9), 3, round(9600 / 1.9))


TOLD = Path(__file__).parents[1] / "told"


@pytest.mark.parametrize("engine", ["vllm bench serve", "sglang.bench_serving"])
def test_a_console_report_is_the_saved_result(engine: str, tmp_path: Path) -> None:
    printed, saved = ((TOLD / f"{engine}.{ending}").read_text() for ending in ("txt", "json"))
    name = engine.split()[0].split(".")[0]
    assert found(name, printed, tmp_path, k=3) == found(name, saved, tmp_path, k=3)


def test_models_and_temperature_of_a_log_are_held_against_what_is_given(tmp_path: Path) -> None:
    saved = (TOLD / "vllm bench serve.json").read_text()
    with refused("meta-llama/Llama-3.1-8B-Instruct", "--target says qwen3-32b"):
        pair("vllm", saved, tmp_path, PairLabels(target="qwen3-32b"))
    assert pair("vllm", saved, tmp_path, PairLabels(target="llama-3.1-8b")).target.id == "llama-3.1-8b"
    with refused("temperature 0.7", "--temperature says 0"):
        pair("ssd", SSD, tmp_path, PairLabels(temperature=0.0))


def test_requests_of_several_models_are_no_pair(tmp_path: Path) -> None:
    answers = [logs.vllm_response(request) for request in logs.requests(4, 20)]
    answers[-1]["model"] = "small"
    with refused("requests of 2 models (big, small)"):
        pair("vllm", logs.lines_of(answers), tmp_path)


REQUESTS = logs.requests(6, 20)
SAMPLES: dict[str, list[str]] = {
    "vllm": [
        logs.lines_of(map(logs.vllm_response, REQUESTS)),
        "\n".join(map(logs.vllm_log_line, REQUESTS)),
        json.dumps(logs.vllm_bench(REQUESTS)),
        logs.vllm_metrics(REQUESTS),
        EXAMPLE,
        (TOLD / "vllm bench serve.txt").read_text(),
    ],
    "sglang": [
        logs.lines_of(map(logs.sglang_answer, REQUESTS)),
        WINDOW.format(1.9, 0.49) * 3,
        FINISHED.format(312, 0.368, 2.11, 148),
        json.dumps(SPECFORGE),
        (TOLD / "sglang.bench_serving.txt").read_text(),
    ],
    "aiperf": [logs.lines_of(map(logs.aiperf_record, REQUESTS))],
    "ssd": [SSD],
    "trtllm": [logs.lines_of(map(logs.trtllm_iteration, REQUESTS))],
    "llama-cpp": ["\n".join(logs.llama_cpp_line(task, request) for task, request in enumerate(REQUESTS))],
    "transformers": [logs.lines_of(REQUESTS)],
}


def test_every_engine_has_samples() -> None:
    assert SAMPLES.keys() == ENGINES.keys()


@pytest.mark.parametrize(("engine", "place"), [(name, at) for name, each in SAMPLES.items() for at in range(len(each))])
def test_a_log_that_is_cut_short_reversed_coloured_or_empty_is_findings_or_a_line(
    engine: str, place: int, tmp_path: Path
) -> None:
    text = SAMPLES[engine][place]
    asked: dict[str, Any] = {"k": 3, "sampled": True, "since_start": True}
    coloured = "\n".join(f"\x1b[1;36m{line}\x1b[0m" for line in text.splitlines())
    cut = [text[: len(text) * part // 12] for part in range(1, 12)]
    for damaged in ("", " \n", *cut, "\n".join(text.splitlines()[::-1]), coloured):
        try:
            assert found(engine, damaged, tmp_path, **asked).length.pooled
        except InputError as error:
            said = str(error)
        else:
            continue
        assert "\x1b" not in said
        assert "\n" not in said
    if engine != "transformers":
        assert found(engine, coloured, tmp_path, **asked) == found(engine, text, tmp_path, **asked)
