"""Ranks that several tests share: most of a run on ranks is their start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calibration.machine.ranks import Ranks
from tests.calibration.executor.run import executing


@pytest.fixture(scope="session")
def pair() -> Iterator[Ranks]:
    """A target rank and a draft rank."""
    with executing(1, 1) as ranks:
        yield ranks


@pytest.fixture(scope="session")
def quartet() -> Iterator[Ranks]:
    """Two of each, oversubscribed: only that it works."""
    with executing(2, 2) as ranks:
        yield ranks
