"""Long work says what it will cost and what is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path
from threading import active_count
from time import monotonic, sleep
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from ssdsim.advise.recommend.recommendation import recommend
from ssdsim.base.errors import InputError
from ssdsim.cli import console, progress
from tests.ssdsim.cli.in_process import asked

MINUTES = ("plan", "--rate", "1", "--requests", "200000", "--strategies", "ar,sd")


def begun(*arguments: Any, **options: Any) -> None:
    raise InputError("begun")


@pytest.mark.long
def test_serve_says_what_long_work_will_cost_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a constant a token, ten times too much at a full batch."""
    monkeypatch.setattr("ssdsim.answers.workers.Workers.each", begun)
    monkeypatch.setattr("ssdsim.serving.replica.failure", ImportError)  # else it takes seconds
    monkeypatch.setattr("ssdsim.serving.serve.free_memory_bytes", lambda: 10**12)
    cost, end = asked(*MINUTES).stderr.splitlines()
    assert cost.startswith("plan: 2 runs of 200,000 requests and 51,200,000 tokens, about ")
    assert "of one core at the pace of the first ones, and " in cost
    assert " GB; Ctrl-C ends it" in cost
    assert end == "error: begun"
    for arguments in ((*MINUTES, "--quiet"), ("plan", "--rate", "1")):
        assert asked(*arguments).stderr == "error: begun\n"
    assert asked(*MINUTES, "--solver", "closed", "--json").stderr == ""


def test_a_pipe_hears_nothing_of_long_work() -> None:
    """It had a line every five seconds, and one at the end."""
    done = asked("sweep", "--t-sd", "0.2", "--k", "2,3")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("seconds", "said"), [(4.4, "4 s"), (99.0, "99 s"), (180.0, "3 min"), (9000.0, "2.5 h")])
def test_a_time_as_people_say_it(seconds: float, said: str) -> None:
    assert progress.duration_text(seconds) == said


@pytest.mark.long
def test_recommend_says_how_far_it_is() -> None:
    heard: list[tuple[int, int]] = []
    recommend(gpus=2, b=[1, 2], k=2, tp=1, target="llama-3.1-8b", progress=lambda *far: heard.append(far))
    assert heard == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_terminal_shows_long_work_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread draws it: a process of several makes no copies that help."""
    terminal, threads = StringIO(), active_count()
    monkeypatch.setattr(progress, "_BAR_AFTER_S", 0.001)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(console, "console", lambda stderr: Console(file=terminal, force_terminal=True, width=80))
    with progress.progress_bar("report", "", quiet=False):
        until = monotonic() + 20.0
        while "report" not in terminal.getvalue() and monotonic() < until:
            sleep(0.01)
        assert active_count() == threads
    assert "report" in terminal.getvalue()


def test_a_bar_waits_for_what_the_work_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = StringIO()
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(console, "console", lambda stderr: Console(file=terminal, force_terminal=True, width=80))
    with progress.progress_bar("report", "", quiet=False):
        with monkeypatch.context() as half_loaded:
            half_loaded.setitem(sys.modules, "rich.progress", ModuleType("rich.progress"))
            signal.raise_signal(signal.SIGALRM)
        assert terminal.getvalue() == ""
        signal.raise_signal(signal.SIGALRM)
        assert "report" in terminal.getvalue()


def test_a_bar_around_another_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(progress, "_BAR_AFTER_S", 1000.0)
    with progress.progress_bar("sweep", "points", quiet=False):
        draws = signal.getsignal(signal.SIGALRM)
        with progress.progress_bar("report", "", quiet=False):
            assert signal.getsignal(signal.SIGALRM) != draws
        assert signal.getsignal(signal.SIGALRM) == draws
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0.0
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


@pytest.mark.parametrize("terminal", [True, False])
def test_short_work_shows_nothing(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    monkeypatch.setattr(console, "console", lambda stderr: Console(file=out, force_terminal=terminal))
    with progress.progress_bar("report", "steps", quiet=False) as far:
        far(1, 2)
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("arguments", "works", "said"),
    [
        ("sweep --t-sd 0.2 --k 2,3", "ssdsim.cli.sweep.swept", "-o FOLDER would keep each point that is done"),
        ("sweep --t-sd 0.2 --k 2,3 -o run", "ssdsim.cli.sweep.swept", "run keeps each point that is done"),
        ("compare --gpus 2", "ssdsim.cli.recommend.recommended_with_launch_plan", "nothing is kept"),
        ("export", "ssdsim.cli.export.export", "nothing is kept"),
    ],
)
def test_ctrl_c_says_what_is_kept(arguments: str, works: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(works, interrupted)
    done = asked(*arguments.split())
    assert (done.returncode, done.stderr.strip()) == (130, f"interrupted: {said}")


LATE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Late:
    def __del__(self, kill=os.kill, me=os.getpid(), number=signal.SIGINT):
        kill(me, number)
sys.late = Late()  # which goes last
from ssdsim.cli.main import main
sys.argv = ["ssdsim", "--version"]
main()
"""


def test_ctrl_c_at_the_very_end_changes_no_exit_code() -> None:
    """All was written, and Python, which took its modules down, left the signal to the system: exit code -2."""
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


MET = """
import sys
from ssdsim.cli.main import main
try:
    exec("raise KeyboardInterrupt")  # as a dataclass that is made
except KeyboardInterrupt:
    sys.argv = ["ssdsim", "--version"]
    main()
"""


def test_ctrl_c_in_what_a_library_executes_is_one_too(tmp_path: Path) -> None:
    """Python remembers it until its end, and python -m then killed itself."""
    (tmp_path / "met.py").write_text(MET)
    words = [sys.executable, "-m", "met"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
