"""Texts that gzip packed are read as they are, within bounds; what is torn is one line."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.base import documents
from ssdsim.base.documents import read_text
from ssdsim.base.errors import InputError
from ssdsim.readers.request_logs.records import read_log
from ssdsim.readers.result_files import read_measured
from ssdsim.readers.row import write_rows
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked
from tests.ssdsim.readers.acceptance import logs
from tests.ssdsim.readers.engines import measured, served

TABLE = "arrival_s,input_tokens,output_tokens\r\n0,100,10\r\n2,200,20\r\n"
LINES = '{"timestamp": 0, "input_length": 6758, "output_length": 500}\n' * 2


@pytest.mark.parametrize("text", [TABLE, LINES, "\ufeff" + TABLE], ids=["csv", "json", "with a byte order mark"])
@pytest.mark.parametrize("packed", [gzip.compress, lambda text: gzip.compress(text[:40]) + gzip.compress(text[40:])])
def test_a_packed_log_is_that_log(text: str, packed: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(text.encode())
    (tmp_path / "log.gz").write_bytes(packed(text.encode()))
    one, other = (read_log(tmp_path / name) for name in ("log", "log.gz"))
    assert (one.form, one.output_tokens.tolist()) == (other.form, other.output_tokens.tolist())
    assert read_text(tmp_path / "log", "log") == read_text(tmp_path / "log.gz", "log")


def test_an_engines_packed_log_makes_a_pair(tmp_path: Path) -> None:
    (tmp_path / "log.gz").write_bytes(gzip.compress(logs.vllm_metrics(logs.requests(6, 20)).encode()))
    words = ("--since-start", "--sampled", "-o", str(tmp_path / "pair.json"))
    done = asked("import", "acceptance", "vllm", str(tmp_path / "log.gz"), *words)
    assert done.returncode == 0, done.stderr


def test_packed_rows_are_those_rows(tmp_path: Path) -> None:
    write_rows([measured(served(batch=batch)) for batch in (1, 2, 4)], tmp_path / "rows.csv")
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress((tmp_path / "rows.csv").read_bytes()))
    assert read_measured(tmp_path / "rows.csv.gz") == read_measured(tmp_path / "rows.csv")


def test_what_unpacks_to_more_than_is_read_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_MOST_UNPACKED", 2_000_000)
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(TABLE.encode() + b"9,9,9\n" * 400_000))
    assert path.stat().st_size < 10_000
    with refused("log.csv.gz", "unpack"):
        read_log(path)
    path.write_bytes(gzip.compress(TABLE.encode() + b"9,9,9\n" * 300_000))
    assert len(read_log(path).output_tokens) == 300_002


@given(data=st.data())
def test_what_is_torn_or_flipped_is_one_line(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    packed = bytearray(gzip.compress(TABLE.encode()))
    at = data.draw(st.integers(2, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "torn.gz"
    path.write_bytes(packed[: data.draw(st.integers(at, len(packed)))])
    try:
        said = read_text(path, "log")
    except InputError as error:
        said = str(error)
    is_refused = said.startswith(f"{path}: not a readable log (") and len(said.splitlines()) == 1
    assert is_refused or said == TABLE.replace("\r\n", "\n")
