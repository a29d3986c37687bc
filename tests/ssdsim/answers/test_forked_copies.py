"""Copies of a process that work beside it. Tests run them from a process of their own, which has one thread."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from ssdsim.answers import idle_cores
from ssdsim.answers.idle_cores import IdleCores
from ssdsim.answers.workers import Workers
from ssdsim.base.errors import InputError
from ssdsim.base.progress import tell_share


def _squared(known: list[int], number: int) -> tuple[int, int, int]:
    if multiprocessing.parent_process() is not None:
        time.sleep(0.2)  # so that this one's parent has its turn
    return number, known[number] ** 2, os.getpid()


def _copies_are_killed(parent: int, number: int) -> None:
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _copies_share_what_is_known() -> None:
    known = list(range(5))
    ordered = sorted(Workers().as_they_come(_squared, [(known, number) for number in range(5)], idle=1))
    assert [(number, squared) for number, squared, _ in ordered] == [(number, number**2) for number in range(5)]
    processes = [process for *_, process in ordered]
    assert processes[0] != os.getpid()
    assert processes[-1] == os.getpid()  # which works at the last one meanwhile


def _a_mistake_is_told_wherever_it_is_found() -> None:
    for known in ([1, 2], [1], []):  # by this process, whose piece is the last; by it or a copy
        done = Workers().as_they_come(_squared, [(known, number) for number in range(3)], idle=1)
        with pytest.raises(IndexError):
            list(done)


def _a_killed_one_is_told() -> None:
    with pytest.raises(InputError, match=r"one of the processes died \(out of memory\?\)$"):
        list(Workers().as_they_come(_copies_are_killed, [(os.getpid(), number) for number in range(5)], idle=1))


def _questions_are_answered_in_their_order() -> None:
    for idle in (0, 1):
        with patch.object(Workers, "idle", return_value=idle):
            processes = Workers().answers([_process, os.getpid])
        assert [process == os.getpid() for process in processes] == [idle == 0, True]


def _told_a_half(parent: int, number: int) -> tuple[int, int]:
    if os.getpid() != parent:
        time.sleep(0.2)  # so that this one's parent has its turn
    tell_share(0.5)
    return number, os.getpid()


def _the_piece_that_is_worked_at_here_is_heard() -> None:
    heard: list[tuple[float, int]] = []
    with patch.object(Workers, "idle", return_value=1):
        Workers(progress=lambda *far: heard.append(far)).each(_told_a_half, [(os.getpid(), n) for n in range(2)])
    assert heard == [(0.5, 2), (1, 2), (2, 2)]


def _busy(number: int) -> int:
    while time.process_time() < 0.5:
        pass
    return number


def _what_copies_have_taken_is_idle_again() -> None:
    with patch.object(idle_cores, "_STAT", Path(os.devnull)):  # no core is idle
        idle = IdleCores()
        assert sorted(Workers().as_they_come(_busy, [(0,), (1,)], idle=1)) == [0, 1]
        assert idle.count() > 0.0


def _who_leaves_early_hears_of_no_mistake() -> None:
    submit = ProcessPoolExecutor.submit

    def late(pool: ProcessPoolExecutor, *asked: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.5)  # so that the pool is shut down meanwhile
        return submit(pool, *asked)

    with patch.object(ProcessPoolExecutor, "submit", late):
        done = Workers().as_they_come(_answer_of_a_copy, [(os.getpid(), number) for number in range(4)], idle=1)
        next(done)
        done.close()  # type: ignore[attr-defined]


def _answer_of_a_copy(parent: int, number: int) -> int:
    if os.getpid() == parent:
        time.sleep(0.2)  # so that a copy has ended one
    return number


def _process() -> int:
    time.sleep(0.2)  # so that who asks has begun with the last question
    return os.getpid()


def _in_a_pool(size: int) -> list[int]:
    known = list(range(size))
    done = Workers().as_they_come(_squared, [(known, number) for number in range(size)], idle=1)
    return sorted(squared for _, squared, _ in done)


def _a_process_of_a_pool_may_have_no_copies() -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_in_a_pool, (3,)) == [0, 1, 4]


CASES = [
    _copies_share_what_is_known,
    _a_mistake_is_told_wherever_it_is_found,
    _a_killed_one_is_told,
    _questions_are_answered_in_their_order,
    _the_piece_that_is_worked_at_here_is_heard,
    _what_copies_have_taken_is_idle_again,
    _who_leaves_early_hears_of_no_mistake,
    _a_process_of_a_pool_may_have_no_copies,
]


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux alone")
@pytest.mark.parametrize("case", CASES)
def test_in_a_process_of_its_own(case: object) -> None:
    name = case.__name__  # type: ignore[attr-defined]
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
