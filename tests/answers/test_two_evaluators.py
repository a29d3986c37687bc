import os
import subprocess
import sys
import threading
import time
from itertools import product
from typing import Any

import numpy as np
import psutil
import pytest

from ssdsim.answers.grid import Evaluated, Evaluator
from ssdsim.answers.idle_cores import IdleCores, idle_ticks
from ssdsim.answers.two_evaluators import TwoEvaluators

POINTS = [
    *({"strategies": (s,), "b": b, "k": k, "tp": 4} for s, b, k in product(("ar", "sd", "ssd"), (1, 8), range(1, 16))),
    {"strategies": ("ssd",), "b": 3, "k": 4, "tp": 4, "draft_gpus": 9},  # finds no room
    {"strategies": ("ssd",), "b": 3, "k": -1, "tp": 4},
]


def rows(table: Evaluated) -> list[dict[str, Any]]:
    """With None for NaN, which is not equal to itself."""
    return [{name: None if value != value else value for name, value in row.items()} for row in table.rows()]


@pytest.mark.long
@pytest.mark.parametrize("threads", [0, 1], ids=["forked", "started"])
def test_a_second_process_changes_nothing_and_may_be_killed(threads: int) -> None:
    """In a process of its own, whose threads decide how the second one begins."""
    done = subprocess.run([sys.executable, __file__, str(threads)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def _shared_and_killed(threads: int) -> None:
    for _ in range(threads):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    shuffled = [POINTS[i] for i in np.random.default_rng(0).permutation(len(POINTS))]
    alone = Evaluator().evaluate(shuffled)
    with TwoEvaluators() as evaluator:
        evaluator.start()
        children = psutil.Process().children()
        (other,) = children if threads == 0 else (each for each in children if "--process-name" in each.cmdline())
        for _ in range(2):  # while the process begins, and after
            both = evaluator.evaluate(shuffled)
            assert rows(both) == rows(alone)
            assert (both.errors, both.warnings) == (alone.errors, alone.warnings)
            evaluator.wait()
        assert evaluator.shared > 0
        other.kill()
        assert rows(evaluator.evaluate(shuffled)) == rows(alone)


STAT = """cpu  50 0 30 1500 60 0 0 0 0 0
cpu0 20 0 10 700 20 0 0 0 0 0
cpu1 20 0 10 500 10 0 0 0 0 0
cpu10 10 0 10 300 30 0 0 0 0 0
intr 27128612 0
"""


def test_cores_are_idle_that_did_nothing_meanwhile() -> None:
    assert idle_ticks(STAT, {1}) == 510
    assert idle_ticks(STAT, {0, 10}) == 1050
    idle = IdleCores()
    assert idle.count() >= 0.0
    end = time.process_time() + 0.2
    while time.process_time() < end:  # one of them works for this process
        pass
    assert 0.0 <= idle.count() <= (os.cpu_count() or 1)
    assert 0 <= idle.free() <= (os.cpu_count() or 1)


if __name__ == "__main__":
    _shared_and_killed(int(sys.argv[1]))
