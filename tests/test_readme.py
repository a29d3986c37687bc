"""What the README shows is what the commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
SHOWN = ("predict-h100", "predict-unit-free", "simulate-unit-free")


@pytest.mark.parametrize("name", SHOWN)
def test_shown_output_is_the_golden_one(name: str) -> None:
    command, output = (PROJECT / "tests" / "golden" / f"{name}.txt").read_text().split("\n", 1)
    readme = (PROJECT / "README.md").read_text()
    assert f"{command}\n{output.rstrip()}" in readme


def test_what_the_readme_links_to_exists() -> None:
    for target in ("docs/fallback_over_batch.png", "docs/fallback_over_batch.md", "CHANGELOG.md", "LICENSE"):
        assert (PROJECT / target).is_file()
