"""What the README shows is what the commands print."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SHOWN = ("predict-h100", "predict-unit-free", "simulate-unit-free")


@pytest.mark.parametrize("name", SHOWN)
def test_shown_output_is_the_golden_one(name: str) -> None:
    command, output = (PROJECT / "tests" / "cli" / "golden" / f"{name}.txt").read_text().split("\n", 1)
    readme = (PROJECT / "README.md").read_text()
    assert f"{command}\n{output.rstrip()}" in readme


def test_what_the_readme_links_to_exists() -> None:
    readme = (PROJECT / "README.md").read_text()
    targets = [name for name in re.findall(r"(?:\]\(|src=\")([^)\"#]+)", readme) if "://" not in name]
    assert "docs/report-light.png" in targets
    for target in targets:
        assert (PROJECT / target).is_file(), target


def test_shown_python_prints_what_is_shown() -> None:
    parser = doctest.DocTestParser()
    readme = (PROJECT / "README.md").read_text()
    blocks = "\n".join(re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL))
    example = parser.get_doctest(blocks, {}, "README", "README.md", 0)
    assert example.examples
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0
