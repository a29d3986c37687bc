"""A lock in a file, by which one process at a time works on an output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ssdsim.base.errors import InputError


@contextmanager
def locked(lock: Path, path: Path, what: str) -> Iterator[None]:
    """Hold the file ``lock`` while working at ``path``; the system frees it when the process dies.

    Raises
    ------
    InputError : another process holds it; the message calls what that does ``what``.
    OSError : the file cannot be made.
    """
    try:
        with FileLock(lock, timeout=0):
            yield
    except Timeout:
        raise InputError(f"{path}: another {what} is at work in it; wait for it or give another -o") from None
