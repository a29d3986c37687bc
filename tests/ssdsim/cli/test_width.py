"""A pipe is as wide as COLUMNS says, else as the terminal beside it, else 80 columns; no word is broken."""

from __future__ import annotations

import pytest

from ssdsim.cli.console import columns
from tests.ssdsim.cli.in_process import asked

WORDS = ["predict", "--b", "16", "--strategies", "ar,sd", "--quiet"]


@pytest.mark.parametrize(("said", "expected"), [("60", 60), ("200", 200), ("0", 80), ("wide", 80), (None, 80)])
def test_columns_are_those_that_somebody_says(said: str | None, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.get_terminal_size", _no_terminal)
    monkeypatch.delenv("COLUMNS", raising=False)
    if said is not None:
        monkeypatch.setenv("COLUMNS", said)
    assert columns() == expected


def test_a_pipe_beside_a_terminal_is_as_wide_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("os.get_terminal_size", lambda fd: os.terminal_size((101, 24)))
    assert columns() == 101


@pytest.mark.parametrize("said", [60, 80, 100])
def test_no_line_of_a_pipe_is_wider_and_no_word_is_broken(said: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(said))
    narrow = asked(*WORDS).stdout
    assert max(map(len, narrow.splitlines())) <= said
    monkeypatch.setenv("COLUMNS", "1000")
    assert {word for word in narrow.split() if word.isalpha()} <= set(asked(*WORDS).stdout.split())


def _no_terminal(fd: int) -> object:
    raise OSError
