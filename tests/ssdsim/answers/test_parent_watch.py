"""Processes that work for a verb end with it, however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.long

SWEEP = "sweep --b 1:64 --k 1:8 --solver mc --precision 0.0005 --jobs 2 --quiet"
WAIT_S = 60.0


@pytest.mark.parametrize("ends", [signal.SIGKILL, signal.SIGTERM])
def test_a_verb_that_is_ended_leaves_no_process_behind(ends: signal.Signals, tmp_path: Path) -> None:
    """Nine of ten trials left the workers of ``--jobs 2`` behind."""
    command = [sys.executable, "-m", "ssdsim", *SWEEP.split(), "-o", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    parts, started = tmp_path / "run" / "parts", time.monotonic()
    while not list(parts.glob("*.parquet")) and process.poll() is None and time.monotonic() < started + WAIT_S:
        time.sleep(0.05)
    own = psutil.Process(process.pid).children(recursive=True)
    assert any("loky" in " ".join(child.cmdline()) for child in own)
    process.send_signal(ends)
    process.wait()
    _, alive = psutil.wait_procs(own, timeout=WAIT_S)
    assert [child.cmdline() for child in alive] == []
