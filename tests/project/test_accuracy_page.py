"""The page of accuracy is what its result file says, and keeps what README's first screen promises."""

from __future__ import annotations

import json

import accuracy
import pytest

from site_generator.shown import PROJECT

RESULT = json.loads(accuracy.RESULT.read_text(encoding="utf-8"))
README = (PROJECT / "README.md").read_text(encoding="utf-8")


def test_the_page_is_what_the_result_file_says() -> None:
    """Update with ``python docs/accuracy.py`` after looking at the difference."""
    assert accuracy.PAGE.read_text(encoding="utf-8") == accuracy.page(RESULT)


@pytest.mark.parametrize(
    ("group", "error", "inside"), [("dense", 0.065, 0.93), ("mixtures", 0.095, 0.93), ("hybrids", 0.09, 0.93)]
)
def test_series_left_out_are_missed_by_no_more_than_is_said(group: str, error: float, inside: float) -> None:
    found = RESULT["after"]["left out"][f"series | {group}"]
    assert found["error"] <= error
    assert found["inside"] >= inside


def test_the_first_screen_of_the_readme_links_the_page_and_has_its_numbers() -> None:
    first = README.split("## What the answer says")[0]
    dense, mixtures = (RESULT["after"]["left out"][f"series | {kind}"]["error"] for kind in ("dense", "mixtures"))
    assert "(docs/accuracy.md)" in first
    assert f"{100 * dense:.1f} %" in first
    assert f"{100 * mixtures:.1f} %" in first
