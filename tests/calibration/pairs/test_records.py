"""Records outlive a kill, keep what they were given, and say what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from calibration.pairs.analysis import Questions
from calibration.pairs.measured import pair_of
from calibration.pairs.records import Positions, RecordFolder
from ssdsim.base.errors import InputError
from ssdsim.base.parquet import read_table, write_table
from ssdsim.base.record import replace
from tests.calibration.measure.chains import answer, chain_pair, positions_between
from tests.refusals import refused

PAIR = chain_pair()
HEADER = {"target": {"id": "big"}, "draft": {"id": "small"}}


def folder_of(path: Path, count: int = 3) -> RecordFolder:
    folder = RecordFolder(path / "pair")
    folder.open(HEADER)
    for seed in range(count):
        folder.add(answer(PAIR, 30, 1.0, seed))
    return folder


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    listed = list(folder.requests())
    assert [request.id for request in listed] == [f"all-{seed:05d}" for seed in range(3)]
    for seed, request in enumerate(listed):
        expected = answer(PAIR, 30, 1.0, seed)
        assert (request.prompt, request.temperature, request.data_set) == (expected.prompt, 1.0, "all")
        for name in Positions.__struct_fields__:
            mine, theirs = getattr(request.positions, name), getattr(expected.positions, name)
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype


def test_a_torn_file_is_no_answer(tmp_path: Path) -> None:
    """What a kill leaves of an answer that was being written is written again."""
    folder = folder_of(tmp_path)
    torn = tmp_path / "pair" / "t1" / "all-00009.parquet.partial"
    torn.write_bytes(b"PAR1 and then nothing")
    assert not folder.has("all-00009", 1.0)
    assert folder.has("all-00001", 1.0)
    assert len(list(folder.requests())) == 3
    folder.add(answer(PAIR, 30, 1.0, 9))
    assert len(list(folder.requests())) == 4


def test_a_header_or_an_answer_of_another_kind_is_one_line(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, 1)
    with refused("settings"):
        pair_of(folder, Questions())
    file = next(folder.path.glob("t*/*.parquet"))
    table = read_table(file)
    for about in ({"id": 3}, [], {}, {"id": "x", "prompt": None}):
        write_table(table.replace_schema_metadata({"request": json.dumps(about)}), file)
        with refused("all-00000.parquet"):
            list(folder.requests())


def test_numbers_alone_hold_no_token(tmp_path: Path) -> None:
    folder = RecordFolder(tmp_path / "pair")
    folder.open(HEADER)
    folder.add(answer(PAIR, 30, 1.0, 0).without_tokens())
    (found,) = folder.requests()
    assert not found.has_tokens
    assert set(found.positions.token.tolist()) | set(found.positions.top_ids.ravel().tolist()) == {-1}


def test_another_pairs_folder_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    with pytest.raises(InputError, match="measured with another target"):
        folder.open({**HEADER, "target": {"id": "other"}})
    (tmp_path / "pair" / "measurement.json").write_text(json.dumps({"schema": 99}))
    with pytest.raises(InputError, match="another version"):
        folder.open(HEADER)
    with pytest.raises(InputError, match="no measurement there"):
        _ = RecordFolder(tmp_path).header
    with pytest.raises(InputError, match="no answer was collected"):
        list(RecordFolder(tmp_path).requests())


def test_a_broken_answer_is_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (tmp_path / "pair" / "t1" / "all-00001.parquet").write_bytes(b"nothing")
    with refused("all-00001.parquet"):
        list(folder.requests())


@pytest.mark.long
def test_a_position_of_a_large_vocabulary_takes_little(tmp_path: Path) -> None:
    """Below 1.2 kB with 64 tops."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 300, 5_000)).astype(np.float32) * 2.0
    request = answer(PAIR, 30, 1.0, 0)
    large = replace(request, positions=positions_between(*logits, rng.integers(0, 5_000, 300), 1.0, 64))
    folder = RecordFolder(tmp_path / "pair")
    folder.open(HEADER)
    folder.add(large)
    assert (tmp_path / "pair" / "t1" / f"{large.id}.parquet").stat().st_size < 1200 * 300
