"""Runtimes from the command line: listed, shown, fitted to an engine's benchmarks, and held against them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from site_generator.json_reference import undescribed
from site_generator.shown import PROJECT
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.hardware.runtime_catalog import load_runtime, runtime_names
from ssdsim.readers.row import Row, write_rows
from tests.refusals import assert_refused
from tests.ssdsim.cli.in_process import asked
from tests.ssdsim.readers.engines import HIDDEN, measured, served, write_benchmarks

PAGE = PROJECT / "docs" / "how-to" / "runtimes.md"


@pytest.fixture
def benchmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with results of vllm bench serve, in which commands run."""
    (tmp_path / "bench").mkdir()
    write_benchmarks(tmp_path / "bench", noise=0.02)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "bench"


def answered(*arguments: str) -> Any:
    done = asked(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_page_s_three_commands_change_the_verdict(benchmarks: Path) -> None:
    """Benchmarks in, card out, another verdict: the commands are those that the page shows, as a shell expands them."""
    block = re.search(r"<!-- the path -->\n```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert block
    commands = [shlex.split(line, comments=True)[1:] for line in block[1].splitlines() if line.startswith("ssdsim")]
    assert [command[0] for command in commands] == ["fit", "validate", "predict"]
    files = [str(path.relative_to(benchmarks.parent)) for path in sorted(benchmarks.glob("*.json"))]
    fit, validate, predict = ([part for word in c for part in (files if "*" in word else [word])] for c in commands)
    fitted = asked(*fit)
    assert fitted.returncode == 0, fitted.stderr
    assert "next: ssdsim predict" in fitted.stderr
    assert load_runtime(Path("engine.toml")).engine == "vllm"
    checked = asked(*validate)
    assert (checked.returncode, checked.stderr) == (0, "")
    at = predict.index("--engine")
    before, after = answered(*predict[:at], *predict[at + 2 :]), answered(*predict)
    rates = [answer["strategies"]["ar"]["tokens_per_second"] for answer in (before, after)]
    assert rates[1] < 0.95 * rates[0]  # the hidden engine is slower than the default
    assert before["verdict"]["sentence"] != after["verdict"]["sentence"]


@pytest.mark.long
def test_a_fit_says_what_the_rows_tell_and_what_they_do_not(benchmarks: Path) -> None:
    files = [str(path) for path in sorted(benchmarks.glob("*.json"))]
    options = ["--hardware", "h100-sxm", "--tp", "4", "-o", "engine.toml"]
    done = asked("fit", "runtime", *files, *options, "--explain")
    assert done.returncode == 0, done.stderr
    assert re.search(r"per_step_s +\S+ ms +\S+ ms +\S+ ms +yes", done.stdout)
    assert "little: drawn to the start" in done.stdout
    assert re.search(r"No row pays .*per_draft_step_s.*: they stay as in vllm\.", done.stdout)
    assert re.search(r"One row more would tell most at --tp \d --b \d+ --context \d+: ", done.stdout)
    both = asked(
        "fit", "runtime", *files[:5], *options, "--fields", "per_layer_s,per_step_s", "--explain"
    )  # of one model
    assert "The rows cannot tell apart: per_step_s and per_layer_s;" in both.stdout
    shown = answered("fit", "runtime", *files, *options, "--fields", "gemm,per_step_s", "--name", "ours")
    assert undescribed("fit runtime", shown) == []
    assert [each["field"] for each in shown["fields"]] == ["gemm", "per_step_s"]
    assert sum(each["rows"] for each in shown["series"]) == len(files)
    assert load_runtime(Path("engine.toml")).name == "ours"


def test_a_fit_of_a_csv_takes_the_hardware_from_the_command_line(tmp_path: Path) -> None:
    rows = [measured(served(batch=batch)) for batch in (1, 2, 4, 8, 16, 32, 64)]
    path, card = tmp_path / "rows.csv", tmp_path / "card.toml"
    write_rows(rows, path)
    lines = [line.split(",") for line in path.read_text().splitlines()]
    path.write_text("\n".join(",".join(cell for at, cell in enumerate(line) if at != 1) for line in lines))
    assert_refused(asked("fit", "runtime", str(path), "-o", str(card)), "hardware")
    assert asked("fit", "runtime", str(path), "--hardware", "h100-sxm", "-o", str(card)).returncode == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["fit", "runtime", "absent.csv", "-o", "card.toml"], "absent.csv"),
        (["fit", "runtime", "rows.csv", "--fields", "gem", "-o", "card.toml"], "gem, gemm"),
        (["fit", "runtime", "rows.csv", "--like", "vlm", "-o", "card.toml"], "vlm, vllm"),
        (["fit", "runtime", "rows.csv", "-o", "absent/card.toml"], "absent"),
        (["runtimes", "show", "ssd-engin"], "ssd-engin, ssd-engine"),
        (["validate", "rows", "rows.csv", "--rounds", "9"], "--rounds"),
        (["validate", "rows", "rows.csv", "-o", "x.jsonl"], "x.jsonl"),
        (["validate", "rows.csv"], "rows.csv"),
        (["validate", "--acceptance-length", "2"], "--acceptance-length"),
        (["validate", "paper", "kumar2026", "--engine", "kernels"], "--engine"),
    ],
)
def test_what_is_wrong_is_one_line(
    arguments: list[str], names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows([measured(served(batch=batch)) for batch in (1, 2)], tmp_path / "rows.csv")
    assert_refused(asked(*arguments), *names.split(", "))


@pytest.mark.long
def test_runtimes_are_listed_and_shown() -> None:
    assert [each["name"] for each in answered("runtimes", "list")["runtimes"]] == runtime_names()
    for name in runtime_names():
        assert Runtime(**answered("runtimes", "show", name)).name == name
        assert re.search(r"per_step_s +[\d.]+ [um]s", asked("runtimes", "show", name).stdout)
    assert "SSD paper, table B.3" in asked("runtimes", "list", "--json").stdout


def rows_off_by(factor: float, path: Path) -> Path:
    rows = [measured(served(batch=batch, tp=2), off_by=factor) for batch in (1, 8, 64)]
    rows.append(measured(served(batch=8, tp=2, metric="tokens_per_s"), off_by=1.0 / factor))
    write_rows(rows, path)
    return path


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (1.04, 0), (1.08, 1), (0.9, 1)])
def test_exit_codes_follow_the_mean_error(factor: float, code: int, tmp_path: Path) -> None:
    card = tmp_path / "hidden.toml"
    save(HIDDEN, card)
    path = rows_off_by(factor, tmp_path / "rows.csv")
    done = asked("validate", "rows", str(path), "--engine", str(card), "--max-error", "5%")
    assert (done.returncode, done.stderr) == (code, "")
    document = json.loads(asked("validate", "rows", str(path), "--engine", str(card), "--json").stdout)
    assert undescribed("validate rows", document) == []
    assert [each["error"] for each in document["rows"]] == pytest.approx([1.0 / factor - 1.0] * 4)


def save(card: Runtime, path: Path) -> None:
    from ssdsim.hardware.runtime_catalog import save_runtime

    save_runtime(card, path)


def test_rows_of_several_files_are_checked_together(tmp_path: Path) -> None:
    one, other = (rows_off_by(1.0, tmp_path / name) for name in ("one.csv", "other.csv"))
    shown = answered("validate", "rows", str(one), str(other))
    assert shown["summaries"][0]["rows"] == 8
    assert {set(Row.__struct_fields__) >= row.keys() for row in shown["rows"]} == {False}  # and the prediction


@pytest.mark.long
def test_several_runtimes_in_one_call_and_a_row_that_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write_rows([measured(served(batch=4)), served("no-such-model"), measured(served(batch=8))], path)
    done = asked("validate", "rows", str(path), "--engine", "vllm,sglang", "-o", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 measured rows (2 of AR); predicted with each of the runtimes vllm, sglang")
    assert re.search(r"^sglang: mean absolute error", done.stdout, flags=re.MULTILINE)
    (line,) = done.stderr.splitlines()
    assert line.startswith("skipped row 2 (no-such-model, h100-sxm, batch 1): unknown transformer 'no-such-model'")
    shown = answered("validate", "rows", str(path), "--engine", "vllm,sglang")
    assert undescribed("validate rows", shown) == []
    assert [one["number"] for one in shown["skipped"]] == [2]
    assert [one["runtime"] for one in shown["rows"]] == ["vllm", "vllm", "sglang", "sglang"]
    assert asked("report", str(tmp_path / "run")).returncode == 0
    assert "Row 2 was skipped: unknown transformer" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("validate --paper sequoia --json", "validate paper sequoia --json"),
        ("validate --json --paper=sequoia", "validate paper --json sequoia"),
        ("validate --measured rows.csv --engine kernels", "validate rows rows.csv --engine kernels"),
    ],
)
def test_what_was_an_option_of_validate_is_understood_and_says_the_word(
    was: str, now: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows([measured(served(batch=batch)) for batch in (1, 2)], tmp_path / "rows.csv")
    before, after = asked(*was.split()), asked(*now.split())
    assert (before.returncode, before.stdout) == (after.returncode, after.stdout)
    word = now.split()[1]
    assert f"is now a word: ssdsim validate {word}" in before.stderr
    assert before.stderr.endswith(after.stderr)
