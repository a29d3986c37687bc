"""How many cores have nothing to do."""

import os
import subprocess
import sys
import time

from ssdsim.answers.idle_cores import IdleCores, idle_ticks

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


def test_what_a_process_that_was_begun_has_taken_is_idle_again() -> None:
    idle = IdleCores()
    busy = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    began_s = time.monotonic()
    subprocess.run([sys.executable, "-c", busy], check=True)
    assert idle.count() * (time.monotonic() - began_s) >= 0.45
