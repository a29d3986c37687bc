"""Processes that work for another one, and end with it."""

from __future__ import annotations

import os
from threading import Thread
from time import sleep

_LOOK_S = 0.5


def end_with(parent: int) -> None:
    """Have this process end soon after ``parent``, whose child it is, was killed: nobody else would tell it.

    The kernel could (``prctl``), but it watches the thread that made the process, which a pool may have let go.
    """

    def watch() -> None:
        while os.getppid() == parent:
            sleep(_LOOK_S)
        os._exit(1)

    Thread(target=watch, daemon=True, name="ends with its parent").start()
