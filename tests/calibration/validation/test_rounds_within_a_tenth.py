"""Nightly: strategies of other rounds than SD's run for real on this machine, predicted within a tenth."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

RUNS = {
    "other rounds than SD's": "--grid single --strategies ssd,pearl,specbranch,amusd",
    "other draws of SSD and PEARL": "--grid single --strategies enumeration,spectre",
    "a draft that n-grams draft for": "--grid staged --strategies sd,ssd,pearl",
    "halves in turn, rows that vary": "--grid short --sd-draft separate --strategies sd,minedraft,adaptive",
}
_PATIENCE_S = 3600.0


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.ranks
@pytest.mark.parametrize("run", RUNS.values(), ids=list(RUNS))
def test_median_rounds_of_five_runs_are_predicted_within_a_tenth(run: str, tmp_path: Path) -> None:
    """From microbenchmarks of the same minutes; on cores that nothing else uses."""
    words = ["validate", "run", *run.split(), "--repeats", "5", "--rounds", "40", "--json", "-o", str(tmp_path / "run")]
    command = [sys.executable, "-m", "ssdsim", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    off = defaultdict[str, list[float]](list)
    for compared in json.loads(done.stdout)["comparisons"]:
        off[compared["strategy"]].append(compared["predicted_s"] / float(np.median(compared["repeats_s"])) - 1.0)
    assert off.keys() == set(run.split()[-1].split(","))
    assert {name: each for name, each in off.items() if np.median(np.abs(each)) > 0.10} == {}
