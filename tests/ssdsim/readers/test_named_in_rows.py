"""Files of others name cards: nothing on this disk is read because they say so, and nothing that never ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ssdsim.hardware.catalog import HARDWARE, find_hardware
from ssdsim.readers.row import read_rows
from tests.refusals import assert_refused, refused
from tests.ssdsim.cli.in_process import asked

TITLES = "model,hardware,batch,input_tokens,output_tokens,metric,value,engine"
ROW = TITLES + "\n{model},{hardware},1,100,100,tpot_ms,9,{engine}\n"
NAMES = {"model": "llama-3.1-8b", "hardware": "h100-sxm", "engine": "vllm"}


def rows_naming(folder: Path, **names: str) -> Path:
    path = folder / "rows.csv"
    path.write_text(ROW.format(**(NAMES | names)))
    return path


@pytest.mark.parametrize("column", ["model", "hardware", "engine"])
@pytest.mark.parametrize("named", ["/dev/zero", "card.json"])
def test_a_row_names_no_file(column: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "card.json").write_text("{}")
    path = rows_naming(tmp_path, **{column: named})
    with refused("line 2", column, named):
        read_rows(path)


def test_a_file_that_is_named_beside_the_rows_is_read(tmp_path: Path) -> None:
    profile = tmp_path / "mine.json"
    profile.write_text(HARDWARE.files["h100-sxm"].read_text())
    (row,) = read_rows(rows_naming(tmp_path, hardware=str(profile)), {"hardware": str(profile)})
    assert find_hardware(row.hardware).device == find_hardware("h100-sxm").device


def test_a_cards_name_is_one_where_a_folder_has_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "llama-3.1-8b").mkdir()
    assert read_rows(rows_naming(tmp_path))[0].model == "llama-3.1-8b"


@pytest.mark.parametrize("verb", [("predict", "--hardware"), ("fit", "runtime"), ("validate", "rows")], ids=str)
def test_what_never_ends_or_never_begins_is_no_file(verb: tuple[str, str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for named in ("/dev/zero", str(tmp_path / "pipe")):
        more = ("-o", str(tmp_path / "card.toml")) if verb[0] == "fit" else ()
        assert_refused(asked(*verb, named, *more), "pipe")
