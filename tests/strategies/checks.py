"""What tests of tables that others drew ask of the deviations from them."""

from __future__ import annotations

from collections.abc import Sequence

_OUTSIDE_99 = 2.576


def deviations_are_chance(deviations: Sequence[float]) -> None:
    """In standard errors: at most 3 % (or one of few) are outside 99 % intervals, none is beyond 4.5."""
    outside = sum(abs(each) > _OUTSIDE_99 for each in deviations)
    assert outside <= max(1, 0.03 * len(deviations)), deviations
    assert max(map(abs, deviations)) <= 4.5, deviations
