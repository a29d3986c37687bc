"""Inputs that are wrong in random ways end in an answer or in one line."""

from __future__ import annotations

import time

import pytest

from ssdsim.cli.main import main
from tests.mutations.run import every_end

pytestmark = pytest.mark.long

COUNT, BY_NIGHT = 150, 20_000


def test_a_wrong_input_ends_in_an_answer_or_one_line() -> None:
    """More of them: ``python -m tests.mutations --count 100000``; one alone: ``--first NUMBER --count 1``."""
    _all_end(COUNT, seed=0, jobs=1)  # another worker of pytest has the other core


@pytest.mark.slow
def test_so_do_others_every_night(capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(time.time())
    with capsys.disabled():
        print(f"\n{BY_NIGHT} inputs of seed {seed}")
    _all_end(BY_NIGHT, seed, jobs=2)


def _all_end(count: int, seed: int, jobs: int) -> None:
    """As they should, and a share of them in an answer: files that all end at a first check test nothing behind it."""
    ends = list(every_end(range(count), seed, jobs))
    failed = [end.failure for end in ends if end.failure is not None]
    shown = "\n\n".join(f"{one.number} {one.kind}: {one.what[:500]}\n{one.how}\n{one.detail}" for one in failed)
    assert not failed, f"{len(failed)} of {count} inputs (seed {seed}) failed\n\n{shown}"
    assert sum(end.answered for end in ends) > 0.4 * count


def test_a_planted_bug_still_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistakes of the user end in a line; nothing may swallow one of ours."""

    def planted(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("ssdsim.answers.predict.predict_configured", planted)
    monkeypatch.setattr("sys.argv", ["ssdsim", "predict", "--t-sd", "0.2"])
    with pytest.raises(ZeroDivisionError, match="planted"):
        main()
