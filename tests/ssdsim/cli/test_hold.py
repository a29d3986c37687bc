"""``fit runtime --hold``: what no fit has seen is predicted, and noise that no fit can know better is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from calibration.validation.measured import put_aside
from site_generator.json_reference import undescribed
from ssdsim.readers.row import Row, write_rows
from tests.ssdsim.cli.in_process import asked
from tests.ssdsim.readers.engines import measured, served

RATE = 0.8


def drafted(k: int) -> dict[str, object]:
    survival = tuple(RATE**place for place in range(1, k + 1))
    said = {"k": k, "draft": "llama-3.2-1b", "acceptance_length": 1.0 + sum(survival), "drafted_per_round": float(k)}
    return {**said, "rounds": 500.0, "undrafted_rounds": 0.0, "accepted_by_position": survival}


def rows_of(noise: float, repeats: int = 3) -> list[Row]:
    random = np.random.default_rng(0)
    rows = []
    for repeat in range(1, repeats + 1):
        for batch in (1, 2, 4, 8, 16, 32, 64):
            for more in ({}, drafted(2), drafted(5)):
                row = served(batch=batch, output_tokens=256.0, repeat=repeat, **more)
                rows.append(measured(row, off_by=float(np.exp(noise * random.standard_normal()))))
    return rows


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
def test_what_was_put_aside_is_predicted_within_the_noise_and_the_decision_follows(here: Path) -> None:
    write_rows(rows_of(0.03), here / "rows.csv")
    screen = asked("fit", "runtime", "rows.csv", "--hold", "0.3", "-o", "engine.toml").stdout
    assert len(screen.splitlines()) <= 15
    assert max(map(len, screen.splitlines())) <= 80
    assert all(said in screen for said in ("Good for", "off on the", "Limit", "Run", "SD, K", "Most told"))
    answer = asked("fit", "runtime", "rows.csv", "--hold", "0.3", "-o", "engine.toml", "--explain")
    assert answer.returncode == 0, answer.stderr
    assert "Your engine's noise is" in answer.stdout
    assert "On this engine: llama-3.1-8b with llama-3.2-1b" in answer.stdout
    assert (here / "engine.toml").exists()
    document = json.loads(asked("fit", "runtime", "rows.csv", "--hold", "30%", "-o", "engine.toml", "--json").stdout)
    assert undescribed("fit runtime", document) == []
    assert document["noise"] == pytest.approx(0.03, rel=0.3)
    assert document["held_error"] < document["noise"]
    assert document["held_coverage"] > 0.8
    assert len(document["held"]) == 6


def test_a_setting_is_put_aside_with_all_its_repeats_and_before_anything_is_fitted() -> None:
    rows = rows_of(0.03)
    held = put_aside(rows, 0.3)
    assert len(held.fitted) + sum(len(each.rows) for each in held.aside) == len(rows)
    seen = {(row.batch, row.k) for row in held.fitted}
    assert all((each.rows[0].batch, each.rows[0].k) not in seen and len(each.rows) == 3 for each in held.aside)
    assert {each.rows[0].k is None for each in held.aside} == {True, False}


def test_noise_beyond_what_is_asked_is_not_fitted(here: Path) -> None:
    write_rows(rows_of(0.25), here / "rows.csv")
    answer = asked("fit", "runtime", "rows.csv", "--hold", "0.3", "-o", "engine.toml")
    assert answer.returncode == 2
    assert "nothing is fitted. Measure again on a quiet machine, first batch" in answer.stderr
    assert not (here / "engine.toml").exists()


@pytest.mark.long
def test_an_error_beyond_what_is_asked_keeps_no_card(here: Path) -> None:
    write_rows(rows_of(0.002), here / "rows.csv")
    options = ("--hold", "0.3", "--within", "1%", "--fields", "per_sequence_s", "-o", "engine.toml")
    answer = asked("fit", "runtime", "rows.csv", *options)
    assert answer.returncode == 1
    assert "is more than --within 1%: engine.toml is not written. Measure more near batch" in answer.stderr
    assert not (here / "engine.toml").exists()


def test_rows_without_repeats_and_too_few_settings_are_refused(here: Path) -> None:
    write_rows(rows_of(0.03, repeats=1), here / "once.csv")
    assert "--repeats 3" in asked("fit", "runtime", "once.csv", "--hold", "0.3", "-o", "engine.toml").stderr
    write_rows([row for row in rows_of(0.03) if row.batch < 4 and row.k is None], here / "few.csv")
    answer = asked("fit", "runtime", "few.csv", "--hold", "0.3", "-o", "engine.toml")
    assert "puts none aside that the fit could spare" in answer.stderr
