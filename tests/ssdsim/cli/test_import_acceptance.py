"""``ssdsim import acceptance``: from an engine's log to a prediction, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from site_generator.json_reference import undescribed
from tests.refusals import assert_names, assert_refused
from tests.ssdsim.cli.in_process import asked as run
from tests.ssdsim.readers.acceptance import logs

MADE = logs.requests(count=12)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "before.txt").write_text(logs.vllm_metrics([]))
    (tmp_path / "after.txt").write_text(logs.vllm_metrics(MADE))
    (tmp_path / "code.jsonl").write_text(logs.lines_of(map(logs.vllm_response, MADE)))
    return tmp_path


def test_a_log_becomes_a_pair_that_a_prediction_reads(here: Path) -> None:
    done = run("import", "acceptance", "vllm", "before.txt", "after.txt", "--temperature", "0", "-o", "pair.json")
    assert done.returncode == 0, done.stderr
    assert "written to pair.json" in done.stderr
    rates = " ".join(f"{rate:.2f}" for rate in logs.rates(MADE))
    assert rates in done.stdout
    assert "hit rates stay unknown" in done.stdout
    done = run("predict", "--pair", "pair.json", "--b", "4", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert_names(shown["pair"], ("pair.json", "vllm-metrics", f"{sum(map(len, MADE))} rounds", "temperature 0"))
    assert shown["strategies"]["sd"]["k"] <= 4
    assert "to K 4" in json.dumps(shown)
    assert any("target big" in warning and "--target llama-3.1-70b" in warning for warning in shown["warnings"])


def test_sets_are_named_and_chosen(here: Path) -> None:
    done = run(
        *(
            "import",
            "acceptance",
            "vllm",
            "--set",
            "code=code.jsonl",
            "--set",
            "all=before.txt,after.txt",
            "-o",
            "p.json",
        )
    )
    assert done.returncode == 0, done.stderr
    assert run("predict", "--pair", "p.json", "--pair-set", "code", "--quiet").returncode == 0
    assert_refused(run("predict", "--pair", "p.json", "--pair-set", "cod"), "cod", "code")


def test_the_json_is_the_file_and_every_key_is_described(here: Path) -> None:
    done = run("import", "acceptance", "vllm", "code.jsonl", "-o", "pair.json", "--json")
    answer = json.loads(done.stdout)
    assert answer == json.loads((here / "pair.json").read_text())
    assert undescribed("import acceptance", answer) == []
    predicted = json.loads(run("predict", "--pair", "pair.json", "--json").stdout)
    assert predicted["pair"].startswith("pair.json: read from vllm-requests, 12 requests")
    assert undescribed("predict", predicted) == []


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("vlm", "code.jsonl"), "vlm, vllm"),
        (("vllm", "after.txt"), "one snapshot"),
        (("vllm", "--set", "code"), "--set, code"),
        (("vllm", "--set", "a=code.jsonl", "--set", "a=code.jsonl"), "--set a"),
        (("vllm", "nothing.txt"), "nothing.txt"),
        (("vllm",), "nothing to import"),
    ],
)
def test_what_is_wrong_is_one_line(here: Path, arguments: tuple[str, ...], names: str) -> None:
    assert_refused(run("import", "acceptance", *arguments, "-o", "pair.json"), *names.split(", "))
    assert not (here / "pair.json").exists()
