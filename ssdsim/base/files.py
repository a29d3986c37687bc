"""Files that are written whole or not at all, and files that are read again only when they have changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar

from ssdsim.base.errors import as_utf_8

T = TypeVar("T")


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A path to write to, which becomes ``path`` at the end: a kill leaves the old file or the new one, never half.

    Its name is one that nobody knows before: in a folder of others a link could lie there, and two processes may write
    the same file.
    """
    partial = path.with_name(f"{path.name}.{os.urandom(8).hex()}.partial")
    try:
        with _named(path):
            yield partial
            with partial.open("rb") as written:
                os.fsync(written.fileno())
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """A disk that is full names the file that it has no room for."""
    try:
        yield
    except OSError as error:
        if str(error.filename or path).startswith(str(path)):  # the file itself, or what was to become it
            error.filename = str(path)
        raise


def write_whole(path: Path, text: str) -> None:
    """Write text, in UTF-8, whole or not at all."""
    with replaced(path) as partial, as_utf_8(path):
        partial.write_text(text, encoding="utf-8")


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Add a line of JSON, on the disk when this returns."""
    with _named(path), path.open("a") as file:
        file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def write_records(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write a line of JSON for each record, all or none."""
    write_whole(path, "".join(json.dumps(record) + "\n" for record in records))


def while_unchanged(load: Callable[[Path], T]) -> Callable[[Path], T]:
    """``load``, which remembers what it made of a file until the file changes.

    A sweep asks for the same cards thousands of times, and a profile remembers the operations that it has priced.
    """

    @lru_cache(maxsize=64)
    def unchanged(path: Path, mtime_ns: int, size: int, inode: int) -> T:
        return load(path)

    @wraps(load)
    def loaded(path: Path) -> T:
        try:
            status = path.stat()
        except (OSError, ValueError):  # there is no such file, which ``load`` says in its own words
            return load(path)
        return unchanged(path, status.st_mtime_ns, status.st_size, status.st_ino)

    return loaded
