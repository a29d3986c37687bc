"""Files that are written whole or not at all, and read again only when they have changed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ssdsim.base.errors import InputError
from ssdsim.base.files import append_record, replaced, while_unchanged, write_whole
from ssdsim.hardware.catalog import find_hardware
from ssdsim.runs.layout import locked
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


def test_a_full_disk_names_the_file_that_has_no_room(tmp_path: Path) -> None:
    """What failed was "input and output"."""

    def write() -> None:
        with replaced(tmp_path / "kept") as partial:
            partial.symlink_to("/dev/full")
            partial.write_text("no room")

    with pytest.raises(OSError, match=re.escape(f": '{tmp_path / 'kept'}'")):
        write()
    with pytest.raises(OSError, match="/dev/full"):
        append_record(Path("/dev/full"), {})


def test_a_lock_goes_with_who_holds_it(tmp_path: Path) -> None:
    lock = tmp_path / ".rows.csv.lock"
    with locked(lock, tmp_path / "rows.csv", "bench"):
        with refused("bench", "rows.csv"), locked(lock, tmp_path / "rows.csv", "bench"):
            pass
        assert lock.exists()
    assert not lock.exists()
    with refused("k"), locked(lock, tmp_path / "rows.csv", "bench"):
        raise InputError("k")
    assert not lock.exists()


def test_the_lock_of_another_stays(tmp_path: Path) -> None:
    """It may have taken the place of one that went with its folder."""
    lock = tmp_path / "lock"
    with locked(lock, tmp_path, "sweep"):
        lock.rename(tmp_path / "old")
        lock.write_text("another's")
    assert lock.read_text() == "another's"
