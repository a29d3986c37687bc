"""Nightly: strategies of other rounds than SD's run for real on this machine, predicted within a tenth."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

NAMES = ("ssd", "pearl", "specbranch", "amusd")
COMMAND = ["validate", "--grid", "single", "--strategies", ",".join(NAMES), "--repeats", "5", "--rounds", "40"]
_PATIENCE_S = 3600.0


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.ranks
def test_median_rounds_of_five_runs_are_predicted_within_a_tenth(tmp_path: Path) -> None:
    """From microbenchmarks of the same minutes; on cores that nothing else uses."""
    command = [sys.executable, "-m", "ssdsim", *COMMAND, "-o", str(tmp_path / "run"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    compared = json.loads(done.stdout)["comparisons"]
    off = {
        name: [
            abs(c["predicted_s"] / float(np.median(c["repeats_s"])) - 1.0) for c in compared if c["strategy"] == name
        ]
        for name in NAMES
    }
    assert all(len(each) == 3 for each in off.values())
    assert {name: each for name, each in off.items() if np.median(each) > 0.10} == {}
