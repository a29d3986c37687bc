"""Inputs that are wrong in random ways end in an answer or in one line."""

from __future__ import annotations

import pytest

from ssdsim.cli.main import main
from tests.mutations.run import failures

pytestmark = pytest.mark.long

COUNT = 1_000


def test_a_wrong_input_ends_in_an_answer_or_one_line() -> None:
    """More of them: ``python -m tests.mutations --count 100000``; one alone: ``--first NUMBER --count 1``."""
    failed = [found for found in failures(range(COUNT), seed=0, jobs=2) if found is not None]
    shown = "\n\n".join(f"{one.number} {one.kind}: {one.what[:500]}\n{one.how}\n{one.detail}" for one in failed)
    assert not failed, f"{len(failed)} of {COUNT} inputs (seed 0) failed\n\n{shown}"


def test_a_planted_bug_still_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistakes of the user end in a line; nothing may swallow one of ours."""

    def planted(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("ssdsim.answers.predict.predict_configured", planted)
    monkeypatch.setattr("sys.argv", ["ssdsim", "predict", "--t-sd", "0.2"])
    with pytest.raises(ZeroDivisionError, match="planted"):
        main()
