"""The page of the SSD paper's numbers is what its script makes, and keeps what it promises."""

from __future__ import annotations

import json
import shlex

import numpy as np
import paper
import pytest

from tests.ssdsim.cli.in_process import asked

PREDICTED = [each for each in paper.numbers() if not each.fitted]


def test_the_page_is_what_its_script_makes() -> None:
    """Update with ``python docs/paper.py`` after looking at the difference."""
    assert paper.PAGE.read_text(encoding="utf-8") == paper.page()


def test_nine_in_ten_printed_numbers_are_inside_with_the_bundled_cards_and_all_with_the_hosts() -> None:
    assert all(each.inside for each in paper.numbers())
    assert np.mean([each.inside_bundled for each in paper.numbers()]) >= 0.9


def test_what_nothing_was_fitted_to_is_predicted_within_eight_percent_on_average() -> None:
    assert len(PREDICTED) > 60
    assert np.mean([abs(each.error) for each in PREDICTED]) <= 0.08
    assert np.mean([abs(each.error) for each in PREDICTED if each.table.startswith("Table B.3")]) <= 0.05


@pytest.mark.parametrize("what", ["GSM8k: SSD, tokens/s", "average: SSD, tokens/s"])
def test_a_command_of_the_page_prints_its_number(what: str) -> None:
    number = next(each for each in PREDICTED if each.what == what)
    answer = json.loads(asked(*shlex.split(number.command)[1:], "--json").stdout)
    assert answer["strategies"]["ssd"]["median"] == pytest.approx(number.draws.shown, rel=1e-6)


def test_the_engines_own_runs_of_one_sequence_are_inside() -> None:
    assert all(each.inside for each in paper.runs() if each.what.endswith("batch 1"))
