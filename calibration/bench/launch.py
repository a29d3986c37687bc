"""A server of our own: started, watched, and ended with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from calibration.bench.engines import Start
from ssdsim.base.errors import InputError

_ENDS_S = 30.0
_LAST = 160  # characters of what a server said last


@contextmanager
def launched(start: Start, log: Path) -> Iterator[Callable[[], None]]:
    """Run it beside ``log``; what is yielded raises where it has ended. In the end it is ended, whatever happened."""
    for name, text in start.files.items():
        (log.parent / name).write_text(text, encoding="utf-8")
    with log.open("wb") as said:
        try:
            process = subprocess.Popen(
                start.command,
                env={**os.environ, **start.environment},
                cwd=log.parent,
                stdout=said,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # so that its workers end with it, and Ctrl-C is ours to pass on
            )
        except OSError as error:
            raise InputError(f"cannot start {start.command[0]}: {error.strerror}") from None
        try:
            yield lambda: _check(process, log)
        finally:
            _end(process)


def _check(process: subprocess.Popen[bytes], log: Path) -> None:
    if process.poll() is not None:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        last = f": {lines[-1][:_LAST]}" if lines else ""
        raise InputError(f"the server ended with code {process.returncode}{last} ({log})")


def _end(process: subprocess.Popen[bytes]) -> None:
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDS_S)
            return
