"""docs/how-to/add.md: each recipe, followed to the letter in a copy of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from site_generator.shown import PROJECT

PAGE = PROJECT / "docs/how-to/add.md"
STEP = re.compile(r"^    <!-- (.*?) -->\n    ```\w+\n(.*?)^    ```$", flags=re.MULTILINE | re.DOTALL)
TAKEN = ("ssdsim", "calibration", "models", "tests", "site_generator", "pyproject.toml")


def steps(section: str) -> Iterator[tuple[str, str]]:
    """What each block of a section is for, and its text."""
    text = PAGE.read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    for asked, block in STEP.findall(text):
        yield asked, textwrap.dedent(block)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in TAKEN:
        source = PROJECT / name
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(source, tmp_path / name, ignore=ignored) if source.is_dir() else shutil.copy(source, tmp_path)
    command = tmp_path / "bin/ssdsim"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ssdsim "$@"\n')
    command.chmod(0o755)
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("Add a GPU from a datasheet", "hypothetical"),
        ("Add a drafter card", "published"),
        ("Add an engine's log reader", "measured, pair.json"),
    ],
)
def test_a_recipe_works_as_it_is_written(section: str, said: str, copy: Path) -> None:
    printed = ""
    for asked, block in steps(section):
        kind, _, where = asked.partition(": ")
        if kind == "file":
            (copy / where).write_text(block)
        elif kind == "add to":
            path, _, line = where.partition(", below: ")
            add(copy / path, line, block if line.startswith("from") else f"    {block}")
        else:
            printed += run(block, copy)
    assert said in printed


def add(path: Path, below: str, block: str) -> None:
    lines = path.read_text().splitlines(keepends=True)
    (at,) = (at for at, line in enumerate(lines) if line.startswith(below))
    path.write_text("".join([*lines[: at + 1], block, *lines[at + 1 :]]))


def run(commands: str, folder: Path) -> str:
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(folder)}
    done = subprocess.run(["bash", "-ec", commands], capture_output=True, text=True, check=False, cwd=folder, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
