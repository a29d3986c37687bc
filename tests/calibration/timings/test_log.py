"""A calibration's log: nothing that was timed is lost to a kill, and another's log is refused for what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibration.timings.plan import TimingPoint
from calibration.timings.rows import CalibrationLog, Visit
from ssdsim.base.errors import InputError

POINT = TimingPoint.of("gemm", m=1, n=2, k=3)


def opened(path: Path) -> CalibrationLog:
    return CalibrationLog(path, {"device": "a core"}).open()


@pytest.mark.parametrize("torn", ["", "\n", '\n{"key": "torn', "\n\xff\xfe", '\n{"key": "no time"}'])
def test_whatever_a_kill_left_no_whole_visit_is_lost(tmp_path: Path, torn: str) -> None:
    """The first: the kill hit between the last line and its newline."""
    path = tmp_path / "log.jsonl"
    opened(path).add(POINT, Visit(1.0, {"seconds": 1.0}))
    path.write_bytes(path.read_bytes().rstrip(b"\n") + torn.encode("latin-1"))
    log = opened(path)
    assert log.count(POINT) == 1
    log.add(POINT, Visit(2.0, {"seconds": 2.0}))
    assert [visit.seconds for visit in opened(path).visits[POINT.key]] == [1.0, 2.0]


@pytest.mark.parametrize("left", [b"", b'{"schema": 2, "mach'])
def test_a_header_that_a_kill_tore_is_written_again(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(left)
    opened(path).add(POINT, Visit(1.0, {"seconds": 1.0}))
    assert opened(path).count(POINT) == 1


def test_a_log_of_another_version_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"machine": {"device": "a core"}}\n')
    with pytest.raises(InputError, match="written by another version"):
        opened(path)
