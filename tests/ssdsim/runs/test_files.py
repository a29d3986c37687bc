"""Files that are written whole or not at all, and read again only when they have changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssdsim.base.files import replaced, while_unchanged, write_whole
from ssdsim.hardware.catalog import find_hardware
from tests.refusals import refused


def test_what_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "kept.txt"
    write_whole(file, "old")
    with refused("UTF-8"):
        write_whole(file, "no character: \ud800")
    with pytest.raises(FileNotFoundError), replaced(file):
        pass  # nothing was written
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"kept.txt": "old"}


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    file, read = tmp_path / "card.toml", list[str]()

    @while_unchanged
    def load(path: Path) -> str:
        read.append(path.read_text() if path.exists() else "missing")
        return read[-1]

    assert load(file) == "missing"
    write_whole(file, "one")
    assert [load(file), load(file)] == ["one", "one"]
    write_whole(file, "two")
    assert load(file) == "two"
    assert read == ["missing", "one", "two"]


def test_bytes_that_are_no_characters_are_one_line_where_they_would_be_written(tmp_path: Path) -> None:
    with refused("UTF-8"):
        write_whole(tmp_path / "card.toml", "name = '\udcff'")
    assert list(tmp_path.iterdir()) == []
    with refused("UTF-8"):
        find_hardware("h100-sxm").changed(name="\udcff").save(tmp_path / "made.json")
    assert list(tmp_path.iterdir()) == []
