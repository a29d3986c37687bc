"""``ssdsim`` that times each point of a calibration a few times only, for tests of how one goes on and how it dies."""

from __future__ import annotations

from calibration import calibrate
from ssdsim.cli.main import main

VISITS = 3

if __name__ == "__main__":
    calibrate.VISITS["cpu"] = VISITS
    main()
