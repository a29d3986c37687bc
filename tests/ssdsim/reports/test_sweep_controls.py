"""The top of a sweep's report: fewer points than the sweep has, and those as the sweep has them."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import numpy as np
import pytest

from ssdsim import sweep
from ssdsim.reports.study import Study
from ssdsim.reports.sweep_controls import sweep_controls
from ssdsim.runs.report_folder import read_run_folder


def test_a_large_grid_is_thinned_and_its_points_are_those_of_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = {"b": [1, 2, 4, 8], "k": [2, 3, 4, 5, 6], "alpha": [0.5, 0.6, 0.7, 0.8, 0.9]}
    table = sweep(folder=tmp_path / "run", t_sd=0.2, **grid)  # type: ignore[arg-type]
    monkeypatch.setattr("ssdsim.reports.sweep_controls.MOST_POINTS", 40)
    study = Study(read_run_folder(tmp_path / "run"))
    found = sweep_controls(study)
    assert found is not None
    axes = {axis["name"]: axis["values"] for axis in found.data["axes"]}
    assert list(axes["b"]) == grid["b"], "the page's figures are drawn over the batch"
    for name, values in axes.items():
        assert {grid[name][0], grid[name][-1], study.base[name]} <= {*values} <= {*grid[name]}
    (told,) = found.lines
    assert told.startswith(
        f"The sweep's 100 points are thinned to {np.prod([*map(len, axes.values())])} for this page: "
    )
    shown = table[np.logical_and.reduce([table[name].isin(values) for name, values in axes.items()])]
    numbers = np.frombuffer(gzip.decompress(base64.b64decode(found.data["numbers"])), dtype="<f4")
    rates = found.data["rates"]["ssd"]
    log_rates = numbers[rates["start"] :][: np.prod(rates["shape"])].reshape(rates["shape"])[..., 0].reshape(-1)
    in_order = shown.sort_values(list(rates["axes"]))["ssd_tokens_per_second"]
    assert np.exp(log_rates) == pytest.approx(in_order.to_numpy(), rel=1e-4)
