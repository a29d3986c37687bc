"""A first screen keeps to its columns."""

from __future__ import annotations

import pytest

from ssdsim.cli.screen import print_screen

ROWS = [
    ("in flight", "run", "tokens/s", "how sure"),
    ("1", "SSD on 4 + 2", "154", "lean"),
    ("64", "SD on 8", "91", "clear"),
]
NEXT = "ssdsim recommend --gpus 8 --strategies ar,sd,ssd --hit-backup 0.3\n--explain for rounds, sources and more"


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_screen(
        "SSD, " * 30, ROWS, {"How sure": "best in 91 of 100 draws", "Next": NEXT, "None": ""}, words=["run", "how sure"]
    )
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("columns", "widest"), [("60", 60), ("80", 80), ("200", 80), (None, 80)])
def test_lines_are_as_wide_as_columns_and_never_wider_than_80(
    columns: str | None, widest: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    lines = shown(capsys)
    assert widest - 12 < max(map(len, lines)) <= widest


def test_labels_stand_beside_what_they_say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Words stand at the left, numbers at the right, a label once; a flag stays whole, and a line break stays one."""
    monkeypatch.setenv("COLUMNS", "60")
    assert [line.rstrip() for line in shown(capsys)[3:]] == [
        "",
        "in flight  run           tokens/s  how sure",
        "        1  SSD on 4 + 2       154  lean",
        "       64  SD on 8             91  clear",
        "",
        "How sure  best in 91 of 100 draws",
        "Next      ssdsim recommend --gpus 8 --strategies ar,sd,ssd",
        "          --hit-backup 0.3",
        "          --explain for rounds, sources and more",
    ]
