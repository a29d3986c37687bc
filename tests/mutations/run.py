"""Make an input from its number, run it in a folder of its own within limits, and say how it failed if it did."""

from __future__ import annotations

import io
import os
import re
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from types import FrameType

from ssdsim.answers.worker_processes import end_with
from ssdsim.base.errors import InputError
from tests.mutations import calls, engines, files, folders, options, pairs
from tests.mutations.answers import wrong_json
from tests.mutations.input import Input
from tests.mutations.reached import watched

MEMORY_BYTES = 8 * 2**30  # of a process that runs inputs
CPU_S, WALL_S = 30, 300  # of an input; most take less than a tenth of a second
_CHUNK = 20
_CODE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_AHEAD = re.compile(r"\w+: \d+ of \d+ |\d+ of \d+: |warning: |note: |\S+: \w+ over \d+: \d+ rows, ")
"""What may be said before an error: progress, warnings, what was read of a file."""

_MAKERS: Mapping[Callable[[Random], Input], int] = {
    options.options: 45,
    files.transformer_card: 7,
    files.huggingface_config: 10,
    files.hardware_profile: 9,
    files.acceptance: 4,
    files.importer: 6,
    files.published: 2,
    pairs.pair: 8,
    pairs.runtime: 4,
    engines.acceptance_log: 6,
    engines.measured_rows: 4,
    engines.workload: 4,
    folders.run_folder: 2,
    folders.resumed: 2,
    folders.records: 1,
    folders.model_folder: 1,
    calls.python_call: 6,
    calls.schedule_file: 1,
    calls.validation_log: 1,
    calls.calibration_log: 1,
}
"""Who makes inputs, and how many of a hundred."""
KINDS = {maker.__name__: maker for maker in _MAKERS}


class LimitPassed(BaseException):
    """An input took too long; no ``except Exception`` stops it."""


@dataclass(frozen=True)
class Failure:
    """An input that did not end as it should. ``how`` is short, and equal for equal causes."""

    number: int
    kind: str
    what: str
    how: str
    detail: str


@dataclass(frozen=True)
class Ended:
    """How an input ended: with an answer, or refused; ``failure`` where neither was as it should."""

    kind: str
    answered: bool
    failure: Failure | None = None
    reached: frozenset[tuple[str, str]] = frozenset()
    """Options that were handed to their verb."""


def made(number: int, seed: int, kind: str | None = None) -> Input:
    """The input of that number, of one of :data:`KINDS` if given; the same whenever it is made."""
    rng = Random(f"{seed}/{number}")
    (chosen,) = rng.choices(list(_MAKERS), list(_MAKERS.values()))
    return (KINDS[kind] if kind else chosen)(rng)


def every_end(numbers: Iterable[int], seed: int, jobs: int, kind: str | None = None) -> Iterator[Ended]:
    """What each input comes to, in order, from ``jobs`` processes with a limit on their memory."""
    with ProcessPoolExecutor(jobs, get_context("spawn"), _begin, (os.getpid(),)) as pool:
        yield from pool.map(partial(end, seed=seed, kind=kind), numbers, chunksize=_CHUNK)


def end(number: int, seed: int, kind: str | None = None) -> Ended:
    """How the input of that number ends."""
    given = made(number, seed, kind)
    with tempfile.TemporaryDirectory() as outer, _inside(Path(outer) / "work"):
        for name, content in given.files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(content)
        with watched() as reached:
            answered, wrong = ended(given.run, reached)
    failure = None if wrong is None else Failure(number, given.kind, given.what, *wrong)
    return Ended(given.kind, answered, failure, frozenset(reached))


def ended(run: Callable[[], object], reached: Collection[tuple[str, str]] = ()) -> tuple[bool, tuple[str, str] | None]:
    """Whether ``run`` comes to an answer, and how it fails: in short, and in full; None where it returns, exits as it
    should, or raises InputError.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "backslashreplace"))
    try:
        with redirect_stdout(out), redirect_stderr(err), _limited(), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # a number that overflowed was not checked
            run()
            return True, None
    except InputError as error:
        return False, _not_one_line(str(error))
    except SystemExit as exited:
        said, shown = map(_whole, (err, out))
        return exited.code in (0, 1), _wrong_exit(exited.code, said) or _wrong_text(
            said + shown, exited.code, shown if any(name == "as_json" for _, name in reached) else ""
        )
    except (Exception, LimitPassed) as error:
        return False, (f"{type(error).__name__} in {_place(error)}", traceback.format_exc())


def _wrong_exit(code: object, said: str) -> tuple[str, str] | None:
    if code not in (0, 1, 2):
        return f"exit code {code}", said
    if "Traceback" in said:
        return "a traceback on stderr", said
    if code == 2 and said:
        *before, last = said.removesuffix("\n").split("\n")
        if not last.startswith("error: ") or not all(map(_AHEAD.match, before)):
            return "not one line", said
    return None


def _whole(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def _wrong_text(said: str, code: object, as_json: str) -> tuple[str, str] | None:
    """A terminal may obey what is a code for it; whoever asks for JSON, where a verb read that, reads it."""
    if (found := _CODE.search(said)) is not None:
        return f"a raw {found[0]!r}", said
    asks_help = any(each.startswith(("--help", "-h")) for each in sys.argv)
    if not asks_help and code in (0, 1) and as_json:
        return None if (wrong := wrong_json(as_json)) is None else (wrong, as_json)
    return None


def _not_one_line(message: str) -> tuple[str, str] | None:
    return ("not one line", message) if "\n" in message or not message.strip() else None


def _place(error: BaseException) -> str:
    """The innermost line of this project's."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/ssdsim/" in frame.filename or "/calibration/" in frame.filename]
    frame = (ours or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    folder.mkdir()
    before, arguments = Path.cwd(), sys.argv
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        sys.argv = arguments


@contextmanager
def _limited() -> Iterator[None]:
    """Raise :class:`LimitPassed` after too much work, or too long a wait."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise LimitPassed

    for timer, name, seconds in (
        (signal.ITIMER_PROF, signal.SIGPROF, CPU_S),
        (signal.ITIMER_REAL, signal.SIGALRM, WALL_S),
    ):
        signal.signal(name, stop)
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _begin(parent: int) -> None:
    """End with the parent, and make an allocation that no machine has fail in this process, as it would there."""
    end_with(parent)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
