"""``ssdsim`` that times each point of a calibration a few times only, for tests of how one goes on and how it dies."""

from __future__ import annotations

from collections.abc import Callable

from calibration.timings.plan import FEWER, VISITS
from ssdsim.cli.main import main


def few_visits(setitem: Callable[[dict[str, int], str, int], None]) -> None:
    """Three visits of each point, and one of those that take a second and more."""
    setitem(VISITS, "cpu", 3)
    setitem(FEWER, "interference", 1)


if __name__ == "__main__":
    few_visits(dict.__setitem__)
    main()
