"""Every point of the grid for the page, which redraws its speedup charts from them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ssdsim.reports.ratios import ratios
from ssdsim.reports.study import Study
from ssdsim.runs.report_folder import grid_key
from ssdsim.scenario.options import ALL

NONE = 65535


def grid_json(study: Study) -> Mapping[str, Any] | None:
    """Axes in order, and each speedup in thousandths at every point, :data:`NONE` where there is none.

    In row-major order of the axes. None where there are no results or only one axis, which its chart shows already.
    """
    folder, drawn = study.folder, ratios(study)
    if folder.results is None or len(folder.axes) < 2 or not drawn:
        return None
    keys = {name: [grid_key(value) for value in values] for name, values in folder.axes.items()}
    frame = pd.DataFrame({name: [grid_key(value) for value in folder.results[name]] for name in keys})
    index = pd.MultiIndex.from_frame(frame)
    wanted = pd.MultiIndex.from_product(list(keys.values()), names=list(keys))
    rates = {
        name: folder.results[f"{name}_tokens_per_second"].to_numpy(float)
        for name in {name for ratio in drawn for name in (ratio.above, ratio.below)}
    }
    encoded = {}
    for ratio in drawn:
        series = pd.Series(rates[ratio.above] / rates[ratio.below], index)
        series = series[~series.index.duplicated()].reindex(wanted)
        thousandths = np.nan_to_num(np.round(1000 * series.to_numpy()), nan=NONE).clip(0, NONE).astype("<u2")
        encoded[ratio.key] = base64.b64encode(thousandths.tobytes()).decode()
    base = {name: keys[name].index(grid_key(study.base[name])) for name in keys}
    titles = {name: ALL[name].axis for name in keys}
    return {"axes": keys, "titles": titles, "base": base, "engine": folder.engine, "ratios": encoded}
