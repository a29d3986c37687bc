"""Ranks that strategies share: most of a run on ranks is their start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calibration.machine.ranks import Ranks
from tests.calibration.executor.conftest import pair
from tests.calibration.executor.run import executing

__all__ = ["pair"]


@pytest.fixture(scope="session")
def trio() -> Iterator[Ranks]:
    """Two target ranks and a draft rank."""
    with executing(2, 1) as ranks:
        yield ranks
