"""What processes learnt stays with them, however large it grows."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from ssdsim.answers.workers import Workers

_LEARNT: list[np.ndarray] = []


def _learn(number: int) -> tuple[int, int]:
    """The process that learnt something of 400 MB, once, and looks at pieces for longer than its memory is watched."""
    if not _LEARNT and number:
        _LEARNT.append(np.ones(50_000_000))
    time.sleep(0.6)
    return number, os.getpid()


@pytest.mark.long
def test_a_process_that_remembers_much_is_not_taken_for_one_that_leaks() -> None:
    """It was let go after a second, with all it had learnt; where two left while work was sent, all waited for ever."""
    answered = Workers(jobs=2).each(_learn, [(number,) for number in range(12)])
    assert len(set(answered.values())) == 2
