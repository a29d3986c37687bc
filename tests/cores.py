"""Tests that measure the cores have them to themselves, whatever other workers of pytest-xdist would run."""

from __future__ import annotations

import fcntl
from collections.abc import Generator
from pathlib import Path

import pytest


class Cores:
    """A plugin: a test marked ``alone`` waits until no other runs, and the others wait until it is done.

    Two locks on files that are there anyway. Whoever waits for the cores holds the turnstile before them, so that a
    test that wants them alone is not overtaken for ever.
    """

    def __init__(self, folder: Path) -> None:
        self._turnstile = (folder / "__init__.py").open()
        self._cores = (folder / "cores.py").open()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        alone = item.get_closest_marker("alone") is not None
        fcntl.flock(self._turnstile, fcntl.LOCK_EX)
        fcntl.flock(self._cores, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(self._turnstile, fcntl.LOCK_UN)
        try:
            return (yield)
        finally:
            fcntl.flock(self._cores, fcntl.LOCK_UN)

    def pytest_unconfigure(self) -> None:
        self._turnstile.close()
        self._cores.close()
