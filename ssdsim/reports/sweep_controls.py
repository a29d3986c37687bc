"""Controls of a sweep's page: the explorer over the sweep's grid, and the grid from which speedups are redrawn."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.question.options import ALL
from ssdsim.reports.explorer.grid import explorer_grid, most_points
from ssdsim.reports.explorer.page import content, grid_words, panel, spelled_value
from ssdsim.reports.study import Study, ratios
from ssdsim.runs.named_files import located
from ssdsim.runs.report_folder import RunFolder, grid_key, grid_keys

MOST_POINTS = 2_000  # each takes a millisecond: what is not known is drawn there, with hits known and not
_WEIGHT = {"b": 2.0}  # of an axis's values: the page's figures are drawn over the batch
NONE = 65535


class SweepControls(Record):
    """Controls and empty places for answers as ``html``, the ``data`` behind them, and ``lines`` on both.

    ``base`` is the point of the grid at which the rest of the report is.
    """

    html: str
    data: Mapping[str, Any]
    base: str
    lines: tuple[str, ...]


def sweep_controls(study: Study) -> SweepControls | None:
    """Controls of a sweep; None without a grid of the closed form, or if strategies are an axis of it."""
    folder = study.folder
    if folder.rows is None or folder.solver != "closed" or not folder.axes:
        return None
    if {"strategies", "subject", "drafter"} & folder.axes.keys():
        return None
    grid, thinned = _thinned(folder.axes, study.base)
    single = {name: value for name, value in study.base.items() if name not in grid}
    try:
        found = explorer_grid(study.seed, exact=True, start=study.base, **located(folder.path, {**single, **grid}))
    except InputError:  # an option that only some points of the grid read
        return None
    data = content(found)
    base = ", ".join(f"{ALL[name].short} {spelled_value(study.base[name])}" for name in folder.axes)
    return SweepControls("\n".join(panel(data)), data, base, tuple(thinned))


def made_by(folder: RunFolder) -> str:
    """The command that makes the run again, but for its solver and its folder."""
    return " ".join(["ssdsim sweep", *grid_words(folder.options, folder.grid)])


def _thinned(axes: Mapping[str, Sequence[Any]], base: Mapping[str, Any]) -> tuple[dict[str, list[Any]], list[str]]:
    """Fewer values of the longest axes, until the page can hold all points; ends and base values stay."""
    kept = {name: list(values) for name, values in axes.items()}
    most = min(MOST_POINTS, most_points(base))
    while prod(map(len, kept.values())) > most:
        name = max(kept, key=lambda each: len(kept[each]) / _WEIGHT.get(each, 1.0))
        values = kept[name]
        ends = (values[0], values[-1], base[name])
        kept[name] = [value for at, value in enumerate(values) if at % 2 == 0 or value in ends]
        if len(kept[name]) == len(values):
            kept[name] = [value for value in values if value in ends]
    said = [
        f"{name} {len(kept[name])} of its {len(values)} values"
        for name, values in axes.items()
        if len(kept[name]) < len(values)
    ]
    whole = prod(map(len, axes.values()))
    told = f"The sweep's {whole:,} points are thinned to {prod(map(len, kept.values())):,} for this page: "
    return kept, [told + ", ".join(said) + "."] if said else []


def grid_json(study: Study) -> Mapping[str, Any] | None:
    """The axes in order, and by ratio its thousandths at every point; :data:`NONE` where there is none.

    Points are in row-major order of the axes, as :func:`_packed_thousandths`. None where there are no results, or only
    one axis, which its chart shows already.
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
        encoded[ratio.key] = _packed_thousandths(speedups)
    base = {name: keys[name].index(grid_key(study.base[name])) for name in keys}
    titles = {name: ALL[name].axis for name in keys}
    return {"axes": keys, "titles": titles, "base": base, "solver": folder.solver, "ratios": encoded}


def _packed_thousandths(speedups: Array) -> str:
    """Differences between neighbouring thousandths, in 16 bits that wrap around; base64 of gzip.

    Neighbours are alike, so differences take half of the space.
    """
    thousandths = np.nan_to_num(np.round(1000 * speedups), nan=NONE).clip(0, NONE).astype("<u2")
    differences = np.diff(thousandths, prepend=np.uint16(0)).astype("<u2")
    return base64.b64encode(gzip.compress(differences.tobytes(), mtime=0)).decode()
