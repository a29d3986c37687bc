"""Long work says what it will cost and what is left."""

from __future__ import annotations

from typing import Any

import pytest

from ssdsim.answers.recommend.answer import recommend
from ssdsim.base.errors import InputError
from ssdsim.cli import progress
from tests.cli.in_process import asked

HOURS = ("serve", "--rate", "1", "--requests", "1000000", "--strategies", "ar,sd")


def begun(*arguments: Any, **options: Any) -> None:
    raise InputError("begun")


def test_serve_says_what_long_work_will_cost_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssdsim.cli.serve.serve", begun)
    cost, end = asked(*HOURS).stderr.splitlines()
    assert cost.startswith("serve: 2 runs of 1,000,000 requests and 256,000,000 tokens, up to 26 min of one core;")
    assert "Ctrl-C ends it" in cost
    assert end == "error: begun"
    for arguments in ((*HOURS, "--quiet"), (*HOURS, "--engine", "closed"), ("serve", "--rate", "1")):
        assert asked(*arguments).stderr == "error: begun\n"


def test_lines_say_what_is_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """At the pace since the first news: a resumed run begins with what there was."""
    now = iter((0.0, 1.0, 31.0, 61.0))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    with progress.shown("sweep", "points", quiet=False) as far:
        for done in (40, 60, 100):
            far(done, 100)
    assert capsys.readouterr().err == "sweep: 60 of 100 points, 60 s left\nsweep: 100 of 100 points\n"


@pytest.mark.parametrize(("seconds", "said"), [(4.4, "4 s"), (99.0, "99 s"), (180.0, "3 min"), (9000.0, "2.5 h")])
def test_a_time_as_people_say_it(seconds: float, said: str) -> None:
    assert progress.told(seconds) == said


def test_recommend_says_how_far_it_is() -> None:
    heard: list[tuple[int, int]] = []
    recommend(gpus=2, b=[1, 2], k=2, tp=1, target="llama-3.1-8b", progress=lambda *far: heard.append(far))
    assert heard == [(1, 4), (2, 4), (3, 4), (4, 4)]
