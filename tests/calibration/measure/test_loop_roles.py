"""The settings with which a real loop asks for a strategy's programs."""

from __future__ import annotations

import pytest

from calibration.pairs.measure.loop import SEPARATE_ROLES
from ssdsim import strategies
from ssdsim.strategies import drafters


@pytest.mark.parametrize(
    ("name", "roles"), [("ar", {"target"}), ("sd", {"target", "draft"}), ("ssd", {"target", "draft"})]
)
def test_a_loops_settings_are_all_that_the_programs_read(name: str, roles: set[str]) -> None:
    assert strategies.ALL.named(name).programs(SEPARATE_ROLES, drafters.ALL.named("model")).keys() == roles
