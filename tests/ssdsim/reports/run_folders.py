"""Run folders as ``ssdsim sweep`` and ``validate`` leave them."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.validation.comparison import GridPoint, RoundComparison
from ssdsim.answers.simulation.trace import Trace
from ssdsim.answers.sweep import sweep
from ssdsim.base.intervals import Measured
from ssdsim.base.plain import plain
from tests.calibration.pairs import sample


def write_run(folder: Path, options: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]) -> Path:
    """A folder with the results of a grid; one with options alone if there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    if grid:
        sweep(folder=folder, **options, **grid)
        return folder
    lines = ["schema = 1", 'verb = "sweep"', "[options]", *(f"{k} = {json.dumps(v)}" for k, v in options.items())]
    (folder / "config.toml").write_text("\n".join(lines) + "\n")
    return folder


LINKED = '<a href="https://evil.example/x">here</a> <span style="font-size:200px">big</span> R&D &lt;b&gt;'
"""A name that plotly would take for a link, a style and letters."""


def write_linked(folder: Path) -> Path:
    """A folder of options alone, about a pair in which a set is :data:`LINKED`."""
    run = write_run(folder, {"pair": "pair.json"}, {})
    path = Path(sample.written(run, sample.rich()))
    path.write_text(path.read_text().replace('"code"', json.dumps(LINKED)))
    return run


def write_measurements(folder: Path) -> None:
    """A validation log and a measured trace in the formats of ``ssdsim validate``; the numbers are the test's own."""
    point = GridPoint(k=3, f=1, alpha=0.8, p_hit=0.8, b=1, backup="jit", sd_draft="colocated")
    rounds = {"ar": (0.020, 0.0202), "sd": (0.050, 0.048), "ssd": (0.040, 0.0441)}
    comparisons = [
        RoundComparison(
            point=point,
            strategy=name,
            devices=(1, 1 if name == "ssd" else 0),
            measured=Measured(measured, 0.98 * measured, 1.02 * measured),
            predicted_s=predicted,
            tokens_per_round=2.9,
            tokens_repeats=(2.9,) * 3,
            parts={},
            repeats_s=(measured,) * 3,
        )
        for name, (measured, predicted) in rounds.items()
    ]
    lines = [{"bench": {}}, {"key": point.key, "comparisons": plain(comparisons)}]
    torn = '{"key": "cut by a ki'
    (folder / "validation.jsonl").write_text("\n".join([*map(json.dumps, lines), torn]))
    trace = Trace("ssdsim validate")
    for number in range(6):
        for step in range(3):
            drafted = 0.05 * number + 0.005 * step
            trace.slice("measured SD target 0 (cpu:0)", "draft step", drafted, drafted + 0.005)
        trace.slice("measured SD target 0 (cpu:0)", "verify", 0.05 * number + 0.015, 0.05 * number + 0.045)
        start = 0.04 * number
        trace.slice("measured SSD target 0 (cpu:0)", "verify", start, start + 0.03)
        trace.slice("measured SSD target 0 (cpu:0)", "send outcome", start + 0.03, start + 0.031)
        trace.slice("measured SSD draft (cpu:1)", "glue", start, start + 0.004)
        trace.slice("measured SSD draft (cpu:1)", "branch step", start + 0.004, start + 0.009)
        trace.slice("measured SSD draft (cpu:1)", "send speculation", start + 0.038, start + 0.039)
    trace.save(folder / "measured_trace.json")


def thousandths(packed: str) -> NDArray[np.uint16]:
    """What a page unpacks of its grid."""
    differences = np.frombuffer(gzip.decompress(base64.b64decode(packed)), "<u2")
    return np.cumsum(differences, dtype=np.uint16)
