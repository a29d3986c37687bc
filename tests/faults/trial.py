"""One trial: a command that meets a fault, and what is there after it is run once more."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from tests.calibration.timings.process import left_after
from tests.faults.writers import COMMANDS, RANKS, SERVER, prepare

SIGNALS = {"killed": signal.SIGKILL, "terminated": signal.SIGTERM, "Ctrl-C": signal.SIGINT}
FAULTS = (*SIGNALS, "full disk", "two at once")
_GONE_S, _PATIENCE_S = 15.0, 900.0
_ENDS = {"killed": {-9}, "terminated": {-15, 143}, "Ctrl-C": {130}, "full disk": {2}, "two at once": {0, 2}}
_ANSWERS = {0, 1}

Made = Mapping[str, bytes]


@dataclass(frozen=True)
class Whole:
    """What a command makes where nothing happens; ``volatile`` files differ from run to run, by times or by a date."""

    made: Made
    took_s: float
    volatile: frozenset[str] = frozenset()

    @property
    def largest(self) -> int:
        return max(map(len, self.made.values()))


@dataclass(frozen=True)
class Found:
    """What a trial left: files that the whole has and this has not, lines that are there twice, other contents, files
    in part, files too many, processes; ``wrong`` says what else was not as it should.
    """

    lost: int = 0
    doubled: int = 0
    changed: int = 0
    torn: int = 0
    left_over: int = 0
    processes: int = 0
    wrong: tuple[str, ...] = field(default=())


@contextmanager
def _folder(verb: str) -> Iterator[tuple[Path, list[str]]]:
    """A folder with all inputs, and the command; of ``bench`` with a server."""
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder, arguments = Path(made) / "work", COMMANDS[verb]
        prepare(folder)
        if SERVER in arguments:
            command = [sys.executable, "-m", "tests.calibration.bench.server"]
            server = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(server.kill)
            assert server.stdout is not None
            arguments = arguments.replace(SERVER, server.stdout.readline().strip())
        program = "tests.calibration.timings.few_visits" if verb in RANKS else "ssdsim"
        yield folder, [sys.executable, "-m", program, *shlex.split(arguments)]


def _started(command: list[str], folder: Path, most_bytes: int | None = None) -> subprocess.Popen[str]:
    """A process at the head of a session; Ctrl-C reaches it also where a shell has its own ignore it."""

    def begin() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    return subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=begin,
    )


def _made(folder: Path) -> Made:
    paths = (path for path in sorted(folder.glob("made*")) for path in ([path] if path.is_file() else path.rglob("*")))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.is_file()}


def whole(verb: str) -> Whole:
    """What the command makes, told by two runs of it."""
    runs = []
    for _ in range(2):
        with _folder(verb) as (folder, command):
            began = time.monotonic()
            _, said = (process := _started(command, folder)).communicate(timeout=_PATIENCE_S)
            took_s = time.monotonic() - began
            assert process.returncode in _ANSWERS, f"{verb}: {said}"
            assert "Traceback" not in said, f"{verb}: {said}"
            runs.append((_made(folder), took_s))
    (first, _), (second, took_s) = runs
    assert first.keys() == second.keys()
    return Whole(first, took_s, frozenset(name for name in first if first[name] != second[name]))


def trial(verb: str, fault: str, expected: Whole, rng: Random) -> Found:
    """The fault at a random moment, then the same command again, which has to come to what it makes alone."""
    with _folder(verb) as (folder, command):
        wrong, processes = _faulty(fault, command, folder, expected, rng)
        torn = _torn(_made(folder), expected) if fault != "two at once" else 0
        _, said = (again := _started(command, folder)).communicate(timeout=_PATIENCE_S)
        if again.returncode not in _ANSWERS or "Traceback" in said:
            wrong.append(f"again: {again.returncode}, {said[-300:]}")
        found = _compared(_made(folder), expected)
        return Found(**found, torn=torn, processes=processes, wrong=tuple(wrong))


def _faulty(fault: str, command: list[str], folder: Path, expected: Whole, rng: Random) -> tuple[list[str], int]:
    begin = partial(_started, command, folder)
    begun = (
        [begin(), begin()]
        if fault == "two at once"
        else [begin(_room(expected, rng) if fault == "full disk" else None)]
    )
    if fault in SIGNALS:
        time.sleep(rng.uniform(0.3, 1.0) * expected.took_s)
        begun[0].send_signal(SIGNALS[fault])
    wrong = []
    for process in begun:
        _, said = process.communicate(timeout=_PATIENCE_S)
        ended_before = fault != "full disk" and process.returncode in _ANSWERS
        if process.returncode not in _ENDS[fault] and not ended_before:
            wrong.append(f"ended with {process.returncode}: {said[-300:]}")
        if "Traceback" in said:
            wrong.append(f"a traceback: {said[-600:]}")
    if fault == "two at once" and all(process.returncode not in _ANSWERS for process in begun):
        wrong.append("neither of two came to its end")
    return wrong, sum(len(left_after(process.pid, _GONE_S)) for process in begun)


def _room(expected: Whole, rng: Random) -> int:
    """Bytes that the largest file may not have."""
    return rng.randrange(max(1, expected.largest // 20), max(2, expected.largest))


def _torn(made: Made, expected: Whole) -> int:
    """Files under their final names that are a part of what they should be; a log or a table of rows may grow."""
    return sum(
        name in expected.made
        and name not in expected.volatile
        and not name.endswith((".jsonl", ".csv"))
        and content != expected.made[name]
        and bool(content)
        for name, content in made.items()
    )


def _compared(made: Made, expected: Whole) -> dict[str, int]:
    stable = [name for name in made.keys() & expected.made.keys() if name not in expected.volatile]
    return {
        "lost": len(expected.made.keys() - made.keys())
        + sum(_fewer(made[n], expected.made[n]) for n in _logs(made, expected)),
        "doubled": sum(_twice(made[name], expected.made[name]) for name in made.keys() & expected.made.keys()),
        "changed": sum(made[name] != expected.made[name] for name in stable),
        "left_over": len(made.keys() - expected.made.keys()),
    }


def _logs(made: Made, expected: Whole) -> list[str]:
    """Files of lines that are measured: there must be as many of them, whatever they say."""
    return [name for name in made.keys() & expected.volatile if name.endswith((".jsonl", ".csv"))]


def _fewer(made: bytes, expected: bytes) -> bool:
    return made.count(b"\n") < expected.count(b"\n")


def _twice(made: bytes, expected: bytes) -> bool:
    """More lines than there should be, some of them twice."""
    lines = Counter(made.splitlines())
    return len(made.splitlines()) > len(expected.splitlines()) and max(lines.values(), default=0) > 1
