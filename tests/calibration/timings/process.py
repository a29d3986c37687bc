"""``ssdsim calibrate`` as a process of its own: started, watched, killed, and gone when a test is done with it."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.ssdsim.cli.in_process import asked

PAIR = "--target transformer-shaped-128x2 --draft transformer-shaped-64x1 --context 32".split()
SHORT_GRID = [*PAIR, *"--b 2 --k 3 --budget 4 --minutes 14".split()]
"""What ``ssdsim validate`` calibrates for its short grid, to its end also where that takes long."""
PATIENCE_S = 900.0  # for what takes seconds on quiet cores


@contextmanager
def calibrating(output: Path, *arguments: str, program: str = "ssdsim") -> Iterator[subprocess.Popen[str]]:
    """A calibration on two cores, at the head of a session of processes; killed and reaped if it is still at work."""
    command = [sys.executable, "-m", program, "calibrate", "--device", "cpu", *arguments, "-o", str(output)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()  # nothing happens to one that has ended


@contextmanager
def ctrl_c_interrupts() -> Iterator[None]:
    """Ctrl-C interrupts this process and those it starts, also where a shell has them ignore it (``pytest &``)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def stop_and_resume(output: Path, *arguments: str) -> None:
    """A calibration that is stopped at random moments, has its log torn, and is then resumed to its end.

    It is killed, then loses a rank, then is interrupted; what it says each time is in ``killed.txt``, ``rank-lost.txt``
    and ``interrupted.txt``, what it leaves at last in ``interrupted.json``. Its visits are few. What another
    one says that wants to work beside it is in ``second.txt``.
    """
    log, program = output.with_suffix(".jsonl"), "tests.calibration.timings.few_visits"
    moments = random.Random(7)
    for name, (stop, code) in {
        "killed": (_kill, -signal.SIGKILL),
        "rank-lost": (_kill_a_rank, 2),
        "interrupted": (_interrupt, 128 + signal.SIGINT),
    }.items():
        enough = lines_in(log) + moments.randint(30, 90)  # of some 600
        with ctrl_c_interrupts(), calibrating(output, *arguments, program=program) as process:
            wait_until(lambda enough=enough: lines_in(log) >= enough, process)
            if name == "killed":
                second = asked("calibrate", "--device", "cpu", *arguments, "-o", str(output))
            stop(process)
            _, err = process.communicate(timeout=30)  # in bounded time
        assert process.returncode == code, err
        assert left_after(process.pid, seconds=10) == [], "ranks outlived their parent"
        output.with_name(f"{name}.txt").write_text(err)
    assert second.returncode == 2
    output.with_name("second.txt").write_text(second.stderr)
    shutil.copy(output, output.with_name("interrupted.json"))
    with log.open("a") as file:
        file.write('{"key": "torn')  # as if a kill had hit the middle of a line
    with calibrating(output, *arguments, program=program) as process:
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, err


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()


def _kill_a_rank(process: subprocess.Popen[str]) -> None:
    ranks = [rank for child in psutil.Process(process.pid).children() for rank in child.children()]
    max(ranks, key=psutil.Process.create_time).kill()


def _interrupt(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)


def wait_until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for what a process that is still at work does."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lines_in(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


def logged_keys(log: Path) -> Counter[str]:
    """How often every visit of every point is in the log."""
    records = [json.loads(line) for line in log.read_text().splitlines()]
    return Counter(f"{record['key']} visit {record['visit']}" for record in records if "key" in record)


def descendants(pid: int) -> list[int]:
    """Processes of the session that ``pid`` leads, itself aside, that still run."""
    descendants = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != pid:
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == pid and fields[0] != "Z":
                descendants.append(int(entry.name))
    return descendants


def left_after(pid: int, seconds: float) -> list[int]:
    """Processes of the session that still run after a while (Python's own tracker of resources goes last)."""
    end = time.monotonic() + seconds
    while descendants(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return descendants(pid)
