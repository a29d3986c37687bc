"""Every point of the grid for the page, which redraws its speedup charts from them."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from typing import Any

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.question.options import ALL
from ssdsim.reports.ratios import ratios
from ssdsim.reports.study import Study
from ssdsim.runs.report_folder import grid_key, grid_keys

NONE = 65535


def grid_json(study: Study) -> Mapping[str, Any] | None:
    """Axes in order, and each speedup in thousandths at every point, :data:`NONE` where there is none.

    In row-major order of the axes, as :func:`packed`. None where there are no results or only one axis, which its chart
    shows already.
    """
    folder, drawn = study.folder, ratios(study)
    if folder.results is None or len(folder.axes) < 2 or not drawn:
        return None
    keys = {name: [grid_key(value) for value in values] for name, values in folder.axes.items()}
    places = np.zeros(len(folder.results))
    for name, of in keys.items():
        at = {key: number for number, key in enumerate(of)}
        places = places * len(of) + grid_keys(folder.results[name]).map(at).to_numpy(float)
    there = np.isfinite(places)
    rates = {
        name: folder.results[f"{name}_tokens_per_second"].to_numpy(float)
        for name in {name for ratio in drawn for name in (ratio.above, ratio.below)}
    }
    encoded = {}
    for ratio in drawn:
        speedups = np.full(folder.points, np.nan)
        speedups[places[there].astype(np.intp)] = (rates[ratio.above] / rates[ratio.below])[there]
        encoded[ratio.key] = packed(speedups)
    base = {name: keys[name].index(grid_key(study.base[name])) for name in keys}
    titles = {name: ALL[name].axis for name in keys}
    return {"axes": keys, "titles": titles, "base": base, "engine": folder.engine, "ratios": encoded}


def packed(speedups: Array) -> str:
    """Thousandths as what each is more than the one before, 16 bits that wrap around; base64 of gzip.

    Neighbours are alike, so differences take half of the place.
    """
    thousandths = np.nan_to_num(np.round(1000 * speedups), nan=NONE).clip(0, NONE).astype("<u2")
    differences = np.diff(thousandths, prepend=np.uint16(0)).astype("<u2")
    return base64.b64encode(gzip.compress(differences.tobytes(), mtime=0)).decode()
