"""``ssdsim bench --plan``: its servers start, force what is accepted, and tell the numbers of a card apart."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from calibration.bench.engines import ENGINES, Setting, start_of
from calibration.bench.plan import planned
from calibration.runtimes.fit import fit_runtime
from calibration.validation.measured import check_rows
from site_generator.json_reference import undescribed
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.readers.row import Row, read_rows
from tests.ssdsim.cli.in_process import asked
from tests.ssdsim.readers.engines import measured, served

PROJECT = Path(__file__).parents[3]
MODELS = ("--model", "llama-3.1-8b", "--draft", "llama-3.2-1b", "--hardware", "h100-sxm")
SIZE = ("--concurrency", "1,2", "--output-len", "8", "--requests", "1", "--repeats", "1", "--input-len", "16")


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which ``vllm`` and ``ssdsim`` are found."""
    for name, module in (("vllm", "tests.calibration.bench.as_vllm"), ("ssdsim", "ssdsim")):
        command = tmp_path / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def as_planned(rows: list[Row]) -> None:
    assert {(row.k, row.tp) for row in rows} == {(None, 1), (2, 1), (5, 1)}
    for row in rows:
        assert row.model == "llama-3.1-8b"
        assert (row.draft, row.k is None) in (("llama-3.2-1b", False), (None, True))
        if row.k is not None:
            assert row.accepted_by_position is not None
            assert len(row.accepted_by_position) == row.k


@pytest.mark.long
def test_the_script_measures_every_server_and_leaves_none(installed: Path) -> None:
    port = free_port()
    answer = asked("bench", "--plan", "vllm", "-o", "rows.csv", *MODELS, *SIZE, "--port", str(port))
    assert answer.returncode == 0, answer.stderr
    (installed / "plan.sh").write_text(answer.stdout)
    done = subprocess.run(["sh", "plan.sh"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    as_planned(read_rows(installed / "rows.csv"))
    with socket.socket() as own:
        own.bind(("127.0.0.1", port))  # nobody listens any more
    again = subprocess.run(["sh", "plan.sh"], capture_output=True, text=True, timeout=120)
    assert "0 new rows" in again.stderr


@pytest.mark.long
def test_launch_measures_every_server_and_ends_it(installed: Path) -> None:
    port = free_port()
    answer = asked("bench", "--plan", "vllm", "--launch", "-o", "rows.csv", *MODELS, *SIZE, "--port", str(port))
    assert answer.returncode == 0, answer.stderr
    as_planned(read_rows(installed / "rows.csv"))
    with socket.socket() as own:
        own.bind(("127.0.0.1", port))


@pytest.mark.long
def test_a_server_that_does_not_start_is_one_line(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_GPU", "1")
    options = ("bench", "--plan", "vllm", "--launch", "-o", "rows.csv", *MODELS, *SIZE, "--quiet")
    answer = asked(*options, "--port", str(free_port()))
    assert answer.returncode == 2
    (line,) = answer.stderr.strip().splitlines()
    assert "the server ended with code 1: RuntimeError: no GPU here (server-1.log)" in line
    (installed / "vllm").unlink()
    monkeypatch.setenv("PATH", str(installed))
    assert "cannot start vllm" in asked(*options, "--port", str(free_port())).stderr


@pytest.mark.parametrize(
    ("engine", "drafter", "expected"),
    [
        ("vllm", "eagle3", '"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.8, 0.64, 0.512]'),
        ("vllm", "ngram", '"method": "ngram", "num_speculative_tokens": 3'),
        (
            "sglang",
            "eagle3",
            "--speculative-algorithm EAGLE3 --speculative-draft-model-path d --speculative-num-steps 3",
        ),
        ("tensorrt-llm", "mtp", "--extra_llm_api_options trtllm-k3.yaml"),
    ],
)
def test_each_engine_starts_in_its_own_words(engine: str, drafter: str, expected: str) -> None:
    start = start_of(engine, Setting("t", 1, "d", drafter, 3, 0.8), 8000)
    assert expected in " ".join(start.command)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_planned_server_answers_this_machine_alone(engine: str) -> None:
    """It has no key: vLLM listens to every network unless it is told."""
    words = list(start_of(engine, Setting("t"), 8123).command)
    assert words[words.index("--host") :][:4] == ["--host", "127.0.0.1", "--port", "8123"]


def test_what_is_accepted_is_forced_by_each_engines_law() -> None:
    """1 + 0.8 + 0.64 + 0.512 tokens a round; TensorRT-LLM counts them without the bonus."""
    setting = Setting("t", 1, "d", None, 3, 0.8)
    assert start_of("sglang", setting, 1).environment["SGLANG_SIMULATE_ACC_LEN"] == "2.952"
    assert start_of("sglang", setting, 1).environment["SGLANG_SIMULATE_ACC_METHOD"] == "match-expected"
    forced = start_of("tensorrt-llm", setting, 1).environment["TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS"]
    assert float(forced) == pytest.approx(1.952)
    words = start_of("llama.cpp", setting, 1).command
    assert "draft-simple" in words
    assert words[words.index("--spec-draft-n-max") + 1] == "3"


def test_the_plan_tells_what_predicts_other_batches_and_lookaheads() -> None:
    given = {"model": "llama-3.1-8b", "hardware": "h100-sxm", "draft": "llama-3.2-1b"}
    target = Setting("t", 1, "d", None, None, 0.8)
    rows = []
    for server in planned("vllm", target, [1], [2, 5], [1, 4, 16, 64], [256], given, []):
        tokens = {"acceptance_length": replace_k(target, server.setting.k)} if server.setting.k else {}
        for batch in server.concurrencies:
            for length in server.input_lengths:
                own = {**server.row_columns, **tokens, "input_tokens": float(length), "output_tokens": 128.0}
                rows.append(measured(served(batch=batch, **{k: v for k, v in own.items() if k != "model"})))
    assert len(rows) == 10
    fit = fit_runtime(rows, find_runtime("vllm"), "fitted", "vllm")
    held = [measured(served(batch=batch, input_tokens=512.0, output_tokens=128.0)) for batch in (4, 32)]
    drafts = {"draft": "llama-3.2-1b", "k": 3, "acceptance_length": replace_k(target, 3)}
    held += [measured(served(batch=batch, input_tokens=512.0, output_tokens=128.0, **drafts)) for batch in (4, 32)]
    assert max(abs(one.error) for one in check_rows(held, fit.card)) < 0.03


def replace_k(target: Setting, k: int | None) -> float:
    return Setting(target.model, 1, target.draft, None, k, target.rate).tokens


def test_json_of_a_plan_is_json(installed: Path) -> None:
    answer = asked("bench", "--plan", "vllm", "-o", "rows.csv", *MODELS, *SIZE, "--json")
    planned_servers = json.loads(answer.stdout)
    assert undescribed("bench", planned_servers) == []
    assert [each["title"] for each in planned_servers["servers"]] == ["AR, TP 1", *(
        f"SD with llama-3.2-1b, K {k}, TP 1" for k in (2, 5)
    )]  # fmt: skip
    assert all(each["start"] in planned_servers["script"] for each in planned_servers["servers"])


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    rows = str(tmp_path / "rows.csv")
    for options, said in (
        (("--plan", "lmdeploy", *MODELS), "allowed: vllm, sglang, tensorrt-llm, llama.cpp"),
        (("--plan", "vllm", "--hardware", "h100-sxm"), "needs --model"),
        (("--plan", "vllm", "--model", "llama-3.1-8b"), "needs --hardware"),
        (("--plan", "vllm", *MODELS, "--concurrency", "4"), "two values of --concurrency"),
        (("--plan", "sglang", *MODELS, "--drafter", "medusa"), "sglang knows no drafter 'medusa'"),
        (("http://127.0.0.1:9", "--plan", "vllm"), "give the server's URL"),
        (("http://127.0.0.1:9", "--launch"), "--launch needs --plan"),
        (("http://127.0.0.1:9", "--concurrency", "0"), "--concurrency must be a whole number of at least 1"),
    ):
        answer = asked("bench", "-o", rows, *options)
        assert answer.returncode == 2
        assert said in answer.stderr
