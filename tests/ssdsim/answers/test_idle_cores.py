"""How many cores have nothing to do."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ssdsim.answers import idle_cores
from ssdsim.answers.idle_cores import IdleCores, counted_as_idle, idle_ticks

STAT = """cpu  50 0 30 1500 60 0 0 0 0 0
cpu0 20 0 10 700 20 0 0 0 0 0
cpu1 20 0 10 500 10 0 0 0 0 0
cpu10 10 0 10 300 30 0 0 0 0 0
intr 27128612 0
"""


@pytest.mark.long
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


@pytest.mark.long
def test_what_a_process_of_ours_has_taken_is_idle_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another has taken was, too: a process that a session in Python had begun."""
    busy = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"]
    monkeypatch.setattr(idle_cores, "_STAT", Path(os.devnull))  # no core is idle
    idle = IdleCores()
    subprocess.run(busy, check=True)
    assert idle.count() == 0.0
    with counted_as_idle():
        subprocess.run(busy, check=True)
    assert idle.count() > 0.0
    assert idle_cores._ended_children_s >= 0.4  # of half a second, counted in ticks


def test_no_more_cores_are_idle_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may have taken more than has passed since the first look."""
    monkeypatch.setattr(idle_cores, "_LEAST_S", 0.0)
    monkeypatch.setattr(idle_cores, "_cores", lambda: {0})
    idle = IdleCores()
    monkeypatch.setattr(idle_cores, "_ended_children_s", 1e6)
    assert idle.count() == 1.0
