"""The boundary at which the subject is as fast as its first rival: their ratio over two options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ssdsim.base.errors import InputError
from ssdsim.base.option import number
from ssdsim.question.options import ALL
from ssdsim.reports.figure import Figure, LeftOut, rounded
from ssdsim.reports.speedups import setter
from ssdsim.reports.study import Study
from ssdsim.reports.style import band, colour_of, curve, doubling_ticks, new_plot, title_of
from ssdsim.runs.report_folder import grid_key, grid_keys

_WHAT = "the boundary between strategies"
_USUAL = {"b": (1, 2, 4, 8, 16, 32, 64), "p_hit": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)}
_MARGIN = 0.02
_STEP = 0.1  # between two lines of equal ratio


def boundary(study: Study) -> list[Figure | LeftOut]:
    """The boundary over the grid's first two numeric axes (batch before others), or else over batch and hit rate."""
    if not study.rivals:
        return [LeftOut(_WHAT, f"{title_of(study.subject)} stands alone: --strategies names rivals")]
    rival = study.rivals[0]
    found = _of_grid(study, rival) or _computed(study, rival)
    if isinstance(found, str):
        return [LeftOut(_WHAT, found)]
    return [_figure(study, rival, *found)]


Table = tuple[str, str, pd.DataFrame]


def _of_grid(study: Study, rival: str) -> Table | None:
    """Results at the base values of the other axes; None if the grid has fewer than two numeric axes."""
    results, axes = study.folder.results, study.folder.axes
    numeric = [name for name, values in axes.items() if all(isinstance(value, int | float) for value in values)]
    if results is None or len(numeric) < 2:
        return None
    x, y, *_ = sorted(numeric, key=lambda name: name != "b")
    at_base = pd.Series(True, results.index)
    for name in set(axes) - {x, y}:
        at_base &= grid_keys(results[name]) == grid_key(study.base[name])
    shown = results.loc[at_base]
    ratio = shown[f"{study.subject}_tokens_per_second"] / shown[f"{rival}_tokens_per_second"]
    table = pd.DataFrame({x: shown[x], y: shown[y], "ratio": ratio})
    return (x, y, table) if table["ratio"].notna().any() else None


def _computed(study: Study, rival: str) -> Table | str:
    x, y = _USUAL
    if y not in study.read:
        return f"{title_of(study.subject)} looks nothing up, so a hit rate has no effect"
    at, places = setter(study, y), list(product(_USUAL[x], _USUAL[y]))
    found = study.rates([{**at(rate), x: batch} for batch, rate in places], draws=False)
    ratios = [np.nan if isinstance(each, InputError) else each.ratio(study.subject, rival)[0] for each in found]
    table = pd.DataFrame({x: [b for b, _ in places], y: [rate for _, rate in places], "ratio": ratios})
    return (x, y, table) if table["ratio"].notna().any() else "no point is possible"


def _figure(study: Study, rival: str, x: str, y: str, table: pd.DataFrame) -> Figure:
    over = f"{title_of(study.subject)} / {title_of(rival)}"
    return Figure(
        key="boundary",
        section="Speedups",
        title=_title(study, rival, x, y, table),
        about=f"{over}: the heavy line is where both are equally fast. At {study.setting(x, y)}.",
        plot=_plot(study, rival, x, y, table),
        table=table.rename(columns={"ratio": over}),
        provenance=study.provenance,
        interval="No interval drawn: the charts along one option have it, and the verdict weighs it.",
    )


def _plot(study: Study, rival: str, x: str, y: str, table: pd.DataFrame) -> go.Figure:
    grid = table.pivot_table(index=y, columns=x, values="ratio", dropna=False)
    over = f"{title_of(study.subject)} / {title_of(rival)}"
    plot = new_plot(ALL[x].axis, ALL[y].axis, height=400, showlegend=True)
    common: dict[str, Any] = {
        "x": grid.columns.tolist(),
        "y": grid.index.tolist(),
        "z": [rounded(row) for row in grid.to_numpy(float)],
        "showscale": False,
        "showlegend": True,
        "hoverinfo": "skip",
    }
    won, lost = (table["ratio"] > 1.0).any(), (table["ratio"] <= 1.0).any()
    # plotly fills where a constraint does not hold
    for name, operation, somewhere in ((study.subject, "<=", won), (rival, ">", lost)):
        if not somewhere:
            continue
        plot.add_contour(
            **common,
            name=f"{title_of(name)} is predicted faster",
            contours={"type": "constraint", "operation": operation, "value": 1.0},
            fillcolor=band(colour_of(name), 0.3),
            line={"width": 3, "color": "#808080"},
        )
    plot.add_contour(
        **common,
        name=f"{over}, in steps of {_STEP:g}",
        contours={"start": _STEP, "end": 10.0, "size": _STEP, "coloring": "none"},
        line={"width": 1, "color": "#808080", "dash": "dot"},
    )
    possible = table.dropna(subset=["ratio"])
    hover, dots = f"{over} %{{customdata}}×<extra>{x} %{{x}}, {y} %{{y}}</extra>", {"size": 4}
    how: dict[str, Any] = {"mode": "markers", "marker": dots, "customdata": rounded(possible["ratio"])}
    plot.add_trace(curve(possible[x], possible[y], "computed", "#808080", hover, **how))
    for axis, name in ((plot.update_xaxes, x), (plot.update_yaxes, y)):
        axis(**_axis_layout(name, sorted(set(table[name]))))
    for mark in _marks(x, y, table):
        plot.add_annotation(mark)
    return plot


def _axis_layout(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Range with a margin, so that points on the edge are whole, and ticks."""
    first, last = _place(name, values[0]), _place(name, values[-1])
    margin = _MARGIN * (last - first)
    layout: dict[str, Any] = {"range": [first - margin, last + margin]}
    if ALL[name].doubling:
        ticks = doubling_ticks(values[0], values[-1])
        return {**layout, "type": "log", "tickvals": ticks if len(ticks) > 1 else values}
    return {**layout, "tickvals": values} if isinstance(values[0], int) else layout


def _marks(x: str, y: str, table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Labels of the ratio at some points, for grey copies."""
    xs, ys = sorted(set(table[x])), sorted(set(table[y]))
    for at_x, at_y, ratio in table[[x, y, "ratio"]].itertuples(index=False):
        if at_x in _spread(xs) and at_y in _spread(ys) and np.isfinite(ratio):
            yield {
                "x": _place(x, at_x),
                "y": _place(y, at_y),
                "text": f"{ratio:.2f}",
                "showarrow": False,
                "bgcolor": "rgba(0,0,0,0)",
                "xanchor": {xs[0]: "left", xs[-1]: "right"}.get(at_x, "center"),
                "yanchor": {ys[0]: "bottom", ys[-1]: "top"}.get(at_y, "middle"),
            }


def _spread(values: Sequence[Any]) -> Sequence[Any]:
    """The first, the last and at most two values between them."""
    wanted = np.linspace(0, len(values) - 1, min(len(values), 4)).round().astype(int)
    return [values[at] for at in wanted]


def _place(name: str, value: float) -> float:
    """Place of an annotation, which on a log axis is an exponent."""
    return float(np.log10(value)) if ALL[name].doubling else float(value)


def _title(study: Study, rival: str, x: str, y: str, table: pd.DataFrame) -> str:
    who, whom, possible = title_of(study.subject), title_of(rival), table.dropna(subset=["ratio"])
    share = (possible["ratio"] > 1.0).mean()
    best, worst = (possible.iloc[int(at)] for at in (possible["ratio"].argmax(), possible["ratio"].argmin()))
    at = {1.0: "every point", 0.0: "no point"}.get(share, f"{share:.0%} of the points")
    return f"{who} is predicted faster than {whom} at {at}: {_at(worst, x, y)} to {_at(best, x, y)}"


def _at(row: pd.Series, x: str, y: str) -> str:
    where = ", ".join(f"{ALL[name].short} {number(float(row[name]))}" for name in (x, y))
    return f"{row['ratio']:.2f}x ({where})"
