"""What is meant to be pasted into a shell runs nothing that a card says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ssdsim.advise.export.dialect import here_document
from ssdsim.base.bundled import models_folder
from ssdsim.hardware.catalog import find_transformer
from tests.refusals import refused


@pytest.mark.parametrize("text", ["a: 1\n", "END\ntouch ran\n", "END\nEND_\n$(touch ran)\n`touch ran`\n"])
def test_no_line_of_a_file_ends_it(text: str, tmp_path: Path) -> None:
    script = here_document("it's a file.yaml", text)
    subprocess.run(["sh", "-eu"], input=f"{script}\n", text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "it's a file.yaml").read_text() == text
    assert [each.name for each in tmp_path.iterdir()] == ["it's a file.yaml"]


@pytest.mark.parametrize("field", ["name", "checkpoint"])
@pytest.mark.parametrize("said", ["a\\nEND\\ntouch ran", "a\\u001b]0;title\\u0007"])
def test_a_card_has_names_of_one_line(field: str, said: str, tmp_path: Path) -> None:
    lines = (models_folder() / "transformers" / "llama-3.1-8b.toml").read_text().splitlines()
    told = [f'{field} = "{said}"' if line.startswith(f"{field} =") else line for line in lines]
    (tmp_path / "card.toml").write_text("\n".join(told) + "\n")
    with refused("card.toml", field, "one line"):
        find_transformer(tmp_path / "card.toml")
