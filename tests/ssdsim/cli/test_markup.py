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


@pytest.mark.parametrize(
    "verb",
    [
        "predict --hardware",
        "plan --workload",
        "validate rows",
        "import csv -o x.json",
        "import nccl-tests -o x.json",
        "import acceptance sglang -o x.json",
    ],
)
def test_what_a_terminal_obeys_is_shown(verb: str, tmp_path: Path) -> None:
    """As nvidia-smi's own log has it: a heading is underlined, and what follows may clear the screen."""
    path = tmp_path / "topo\x1b[2J.log"
    path.write_text("\x1b[4mGPU0\tGPU1\x1b[0m\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n")
    done = asked(*verb.split(), str(path))
    assert done.returncode == 2
    assert "\x1b" not in done.stdout + done.stderr
    assert r"topo\x1b[2J.log" in done.stderr


@pytest.mark.long
def test_a_papers_citation(tmp_path: Path) -> None:
    path = renamed("published", "kumar2026.toml", "Speculative Speculative Decoding", tmp_path / "paper.toml")
    done = asked("validate", "paper", str(path))
    assert (done.returncode, NAME in done.stdout) == (0, True), done.stderr
