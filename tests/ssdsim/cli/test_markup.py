"""What a file calls things is shown as it stands there, and is no markup of the terminal's."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssdsim.base.bundled import models_folder
from tests.ssdsim.cli.in_process import asked

NAME = "[/x] [bold]mine[/bold] :smile:"


def renamed(folder: str, name: str, old: str, into: Path) -> Path:
    """A bundled card in which ``old`` is called :data:`NAME`."""
    text = (models_folder() / folder / name).read_text()
    assert old in text
    into.write_text(text.replace(old, NAME))
    return into


@pytest.mark.parametrize("verb", ["predict --explain --hardware", "roofline --hardware", "hardware show"])
def test_a_profiles_name(verb: str, tmp_path: Path) -> None:
    path = renamed("hardware", "h100-sxm.json", "h100-sxm", tmp_path / "mine.json")
    done = asked(*verb.split(), str(path))
    assert (done.returncode, NAME in done.stdout) == (0, True), done.stderr


@pytest.mark.long
def test_a_papers_citation(tmp_path: Path) -> None:
    path = renamed("published", "kumar2026.toml", "Speculative Speculative Decoding", tmp_path / "paper.toml")
    done = asked("validate", "paper", str(path))
    assert (done.returncode, NAME in done.stdout) == (0, True), done.stderr
