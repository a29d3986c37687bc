"""Files in a run folder: their names, and the lock by which one process at a time writes them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os.path import samestat
from pathlib import Path

from ssdsim.base.errors import InputError

CONFIG = "config.toml"
"""Options and grid: what makes a folder a run folder."""
HOW = "sweep.json"
"""Engine, seed and version of a sweep."""
PARTS = "parts"
"""A sweep's parts while it runs."""
RESULTS = "results.parquet"
TRACE = "trace.json"
MEASURED_TRACE = "measured_trace.json"
VALIDATION = "validation.jsonl"
MEASURED = "measured.json"
"""Rows of whole engines, measured and predicted."""
RECOMMENDATION = "recommendation.json"
COMMAND = "command.sh"
"""What to paste for the engine that a recommendation is for."""
REPORT = "report.html"
FILES = "files"
"""Copies of the files that a run's options name."""
SERVING = "serving.json"
"""The answer of ``ssdsim plan``."""
REQUESTS = "requests.parquet"
"""A line a simulated request of ``ssdsim plan``."""


def folder_within(run: Path, name: str) -> Path:
    """The folder of that name in a run folder, made if it is not there.

    Raises InputError where a link in the run folder leads out of it, since others' files would be written over.
    """
    folder = run / name
    if not folder.resolve().is_relative_to(run.resolve()):
        raise InputError(f"{folder}: is a link out of the run folder, in which nothing is written; remove it")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(lock: Path, path: Path, what: str) -> Iterator[None]:
    """Hold the file ``lock``, which then goes, while ``what`` works at ``path``; the system frees it of who dies.

    Raises InputError where another process holds it, OSError where the file cannot be made.
    """
    from filelock import FileLock, Timeout  # here: most who read a folder lock none

    try:
        with FileLock(lock, timeout=0):
            own = lock.stat()
            try:
                yield
            finally:
                with suppress(OSError):  # removed while it is held: who opened it meanwhile sees that it is gone
                    if samestat(own, lock.stat()):
                        lock.unlink()
    except Timeout:
        raise InputError(f"{path}: another {what} is at work in it; wait for it or give another -o") from None


def is_written(path: Path) -> bool:
    """Whether a file is there with something in it: a kill of an earlier version could leave an empty one."""
    return path.exists() and path.stat().st_size > 0


@contextmanager
def locked_run(path: Path, what: str) -> Iterator[None]:
    """Hold a run folder, made if it is not there; one that is refused before it keeps anything is taken away again."""
    new = not path.exists()
    with locked(folder_within(path, PARTS) / "lock", path, what):
        new = new and [each.name for each in path.iterdir()] == [PARTS]
        try:
            yield
        except InputError:
            if new and not [*(path / PARTS).glob("[!l]*")]:
                shutil.rmtree(path, ignore_errors=True)
            raise
