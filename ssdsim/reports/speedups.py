"""SSD over SD, SSD over AR and SD over AR along one option at a time."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ssdsim.errors import InputError
from ssdsim.reports.figure import Figure, LeftOut, number, rounded
from ssdsim.reports.study import RATIOS, Study
from ssdsim.reports.style import LOG2_TICKS, STRATEGY_COLOUR, STRATEGY_NAME, band, new_plot
from ssdsim.runs.report_folder import grid_key
from ssdsim.scenario.configuration import configure
from ssdsim.scenario.options import ALL, CACHE_SHAPE
from ssdsim.speculation.speculators import backup_in_proportion

SECTION = "Speedups"
# along which options a chart is drawn where the grid does not say: (values, axis title)
_ALONG: dict[str, Sequence[Any]] = {
    "b": (1, 2, 4, 8, 16, 32, 64),
    "k": tuple(range(1, 13)),
    "alpha": (0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
    "p_hit": (0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0),
    "f": (1, 2, 3, 4, 6, 8, 12, 16),
}
_DASH = {("ssd", "sd"): "solid", ("ssd", "ar"): "dash", ("sd", "ar"): "dot"}


def speedups(study: Study) -> list[Figure | LeftOut]:
    """A chart for each axis of the grid, and for those of the usual five that it does not vary."""
    axes = {**dict.fromkeys(_ALONG, ()), **study.folder.axes}
    shown: list[Figure | LeftOut] = []
    for axis in axes:
        try:
            values = study.folder.axes.get(axis) or _usual_values(study, axis)
            shown.append(_chart(study, axis, values))
        except InputError as error:
            shown.append(LeftOut(f"speedups over {axis}", str(error)))
    return shown


def _usual_values(study: Study, axis: str) -> list[Any]:
    """Values to vary ``axis`` over, with the base point's among them.

    Raises
    ------
    InputError : the axis has no effect at the base point.
    """
    configure_at = _at(study, axis)
    base = study.configuration.values.get(axis)
    values = [*_ALONG[axis]]
    if isinstance(base, int | float):
        values = sorted({*values, base})
    study.rates(configure_at(values[0]), draws=0)
    return values


def _at(study: Study, axis: str) -> Callable[[Any], dict[str, Any]]:
    """How to set ``axis`` at the base point."""
    if axis == "p_hit" and study.base.get("p_hit") is None:
        return _at_hit_rate(study)
    return lambda value: {**study.base, axis: value}


def _at_hit_rate(study: Study) -> Callable[[Any], dict[str, Any]]:
    """A hit rate takes the place of the cache that gave it, not of its work; that after a backup keeps in proportion.

    The chart so passes through the base point, where the cache gave both rates.
    """
    base = {name: value for name, value in study.base.items() if name not in (*CACHE_SHAPE, "budget")}
    if not study.unit_free:
        base["budget"] = study.configuration.values["budget"]
    if base.get("backup") == "jit":  # every speculation is the primary's
        return lambda p_hit: {**base, "p_hit": p_hit}
    now = configure(**study.configurable({**study.base, "backup": "fast"})).values
    primary, backup = float(now["p_hit"]), float(now["p_hit_backup"])
    return lambda p_hit: {**base, "p_hit": p_hit, "p_hit_backup": backup_in_proportion(p_hit, primary, backup)}


def _chart(study: Study, axis: str, values: Sequence[Any]) -> Figure:
    at = _at(study, axis)
    rows, points = [], []
    for value in values:
        try:
            rates = study.rates(at(value))
        except InputError as error:
            rows.append({axis: _cell(value), "not possible": str(error)})
            continue
        points.append(value)
        row: dict[str, Any] = {axis: _cell(value)}
        for above, below in RATIOS:
            ratio, low, high = rates.ratio(above, below)
            row |= {f"{above}/{below}": ratio, f"{above}/{below} low": low, f"{above}/{below} high": high}
        rows.append(row)
    if len(points) < 2:
        raise InputError(f"fewer than two of its values are possible: {rows[0].get('not possible', '')}")
    table = pd.DataFrame(rows)
    plot = _plot(axis, values, table)
    replaces = axis == "p_hit" and "p_hit" not in study.base
    fixed = study.setting(axis, *(["f"] if replaces else []))
    return Figure(
        key=f"speedup-{axis}",
        section=SECTION,
        title=_title(axis, table),
        about=f"At {fixed}.{_note(study, axis)}",
        plot=plot,
        table=table.dropna(axis="columns", how="all"),
        provenance=study.provenance,
        interval=study.interval,
        axis=axis if axis in study.folder.axes else None,
    )


def _note(study: Study, axis: str) -> str:
    """What a fan-out and a hit rate have to do with each other in this chart."""
    if axis == "f" and "p_hit" in study.base:
        return " F is the draft's work only, since the hit rate is given."
    if axis == "p_hit" and "p_hit" not in study.base and not study.unit_free:
        return f" The draft's work stays that of {study.configuration.values['budget']} cached outcomes a sequence."
    return ""


def _cell(value: Any) -> Any:
    return value if isinstance(value, int | float | str) else str(value)


def _title(axis: str, table: pd.DataFrame) -> str:
    possible = table.dropna(subset=["ssd/sd"])
    ratios, at = possible["ssd/sd"].tolist(), [number(value) for value in possible[axis]]
    symbol = ALL[axis].axis.split(" (")[0]
    if f"{min(ratios):.2f}" == f"{max(ratios):.2f}":
        return f"Over {symbol}: SSD stays at {ratios[0]:.2f}x SD"
    best = ratios.index(max(ratios))
    peak = f", at most {ratios[best]:.2f}x at {at[best]}" if 0 < best < len(ratios) - 1 else ""
    return f"Over {symbol}: SSD is {ratios[0]:.2f}x SD at {at[0]} and {ratios[-1]:.2f}x at {at[-1]}{peak}"


def _plot(axis: str, values: Sequence[Any], table: pd.DataFrame) -> go.Figure:
    """SSD over SD above, on its own scale since it is what is asked; both over AR below."""
    plot = new_plot(ALL[axis].axis, "over AR (×)", height=400)
    x = table[axis].tolist()
    numeric = all(isinstance(value, int | float) for value in values)
    if numeric and ALL[axis].doubling:
        ticks = [tick for tick in LOG2_TICKS if min(x) <= tick <= max(x)]
        plot.update_xaxes(type="log", tickvals=ticks if len(ticks) > 1 else x)
    elif not numeric:
        plot.update_xaxes(type="category")
    plot.update_layout(
        yaxis={"domain": [0.0, 0.46]},
        yaxis2={"domain": [0.54, 1.0], "title": {"text": "SSD / SD (×)", "standoff": 8}, "automargin": True},
    )
    for above, below in RATIOS:
        key = f"{above}/{below}"
        panel = "y2" if below == "sd" else "y"
        for trace in _line(x, table, key, STRATEGY_COLOUR[above], _DASH[above, below]):
            plot.add_trace(trace.update(yaxis=panel))
    for panel in ("y", "y2"):
        line = {"width": 1, "color": "#808080"}
        plot.add_shape(type="line", xref="paper", x0=0, x1=1, yref=panel, y0=1, y1=1, line=line)
    return plot


def _line(x: list[Any], table: pd.DataFrame, key: str, colour: str, dash: str) -> Iterator[go.Scatter]:
    """The 95 % band, if there is one, and the line; one legend entry hides both."""
    above, below = key.split("/")
    name = f"{STRATEGY_NAME[above]} / {STRATEGY_NAME[below]}"
    low, high = (table.get(f"{key} {end}", pd.Series(dtype=float)) for end in ("low", "high"))
    bounded = low.notna() & high.notna() if len(low) else low.astype(bool)
    if bounded.any():
        inside = [i for i in table.index if bounded[i]]
        there = [x[i] for i in inside]
        yield go.Scatter(
            x=[*there, *there[::-1]],
            y=rounded([*(high[i] for i in inside), *(low[i] for i in inside[::-1])]),
            fill="toself",
            fillcolor=band(colour),
            line={"width": 0},
            mode="lines",
            hoverinfo="skip",
            legendgroup=key,
            showlegend=False,
            meta="band",
        )
    yield go.Scatter(
        x=x,
        y=rounded(table[key]),
        customdata=[rounded(pair) for pair in zip(low, high, strict=True)] if bounded.any() else None,
        name=name,
        mode="lines+markers",
        line={"color": colour, "dash": dash, "width": 2.5},
        marker={"size": 6},
        legendgroup=key,
        meta=key,
        hovertemplate=f"{name} %{{y:.3f}}×"
        + ("<br>95 % %{customdata[0]:.3f} to %{customdata[1]:.3f}" if bounded.any() else "")
        + "<extra>%{x}</extra>",
    )


def grid_json(study: Study) -> Mapping[str, Any] | None:
    """Every grid point's speedups for the page: axes in order, and SSD/SD and SD/AR in thousandths, 65535 where none.

    In row-major order of the axes. None where there are no results or only one axis, which its chart shows already.
    """
    folder = study.folder
    if folder.results is None or len(folder.axes) < 2:
        return None
    keys = {name: [grid_key(value) for value in values] for name, values in folder.axes.items()}
    frame = pd.DataFrame({name: [grid_key(value) for value in folder.results[name]] for name in keys})
    index = pd.MultiIndex.from_frame(frame)
    wanted = pd.MultiIndex.from_product(list(keys.values()), names=list(keys))
    encoded = {}
    for above, below in (("ssd", "sd"), ("sd", "ar")):
        ratios = pd.Series(folder.results[f"{above}_over_{below}"].to_numpy(float), index)
        ratios = ratios[~ratios.index.duplicated()].reindex(wanted)
        thousandths = np.nan_to_num(np.round(1000 * ratios.to_numpy()), nan=65535).clip(0, 65535).astype("<u2")
        encoded[f"{above}/{below}"] = base64.b64encode(thousandths.tobytes()).decode()
    base = {name: keys[name].index(grid_key(study.base[name])) for name in keys}
    titles = {name: ALL[name].axis for name in keys}
    return {"axes": keys, "titles": titles, "base": base, "engine": folder.engine, **encoded}
