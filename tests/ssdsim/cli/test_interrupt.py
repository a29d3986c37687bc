"""Ctrl-C ends the command line in one line, whenever it comes: while modules load, and where Python drops errors."""

from __future__ import annotations

import subprocess
import sys

import pytest

_LOADING = """
import os, signal, sys
from ssdsim.cli import entry

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == WHEN:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.argv = ["ssdsim", "predict", "--t-sd", "0.2"]
entry.main()
"""
_DROPPED = """
import signal, time
from ssdsim.cli import entry, main

class Lost:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)  # Python drops what is raised here

def work():
    Lost()
    time.sleep(60)

main.main = work
entry.main()
"""


@pytest.mark.parametrize(
    "program",
    [_LOADING.replace("WHEN", repr(name)) for name in ("ssdsim.cli.main", "click", "ssdsim.answers.predict")]
    + [_DROPPED],
    ids=["first module", "library", "verb", "dropped"],
)
def test_an_interrupt_is_one_line(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "interrupted")
