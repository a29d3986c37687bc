"""Speedups along an option as lines with bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from ssdsim.question.options import ALL
from ssdsim.reports.figure import rounded
from ssdsim.reports.ratios import Ratio
from ssdsim.reports.style import band, curve, doubling_ticks, interval, new_plot, title_of, upper_panel


def ratio_plot(axis: str, values: Sequence[Any], table: pd.DataFrame, drawn: Sequence[Ratio]) -> go.Figure:
    """The subject over its rivals above, on its own scale since it is what is asked; all over the baseline below."""
    upper, lower = ([r for r in drawn if r.over_baseline is over_baseline] for over_baseline in (False, True))
    plot = new_plot(ALL[axis].axis, _axis_title(lower or upper), height=400)
    x = table[axis].tolist()
    numeric = all(isinstance(value, int | float) for value in values)
    if numeric and ALL[axis].doubling:
        ticks = doubling_ticks(min(x), max(x))
        plot.update_xaxes(type="log", tickvals=ticks if len(ticks) > 1 else x)
    elif not numeric:
        plot.update_xaxes(type="category")
    panels = {"y": lower or upper}
    if upper and lower:
        panels = {"y": lower, "y2": upper}
        plot.update_layout(upper_panel(_axis_title(upper)))
    for ratio in drawn:
        for trace in _line(x, table, ratio):
            plot.add_trace(trace.update(yaxis=next(panel for panel, those in panels.items() if ratio in those)))
    for panel in panels:
        line = {"width": 1, "color": "#808080"}
        plot.add_shape(type="line", xref="paper", x0=0, x1=1, yref=panel, y0=1, y1=1, line=line)
    return plot


def _axis_title(panel: Sequence[Ratio]) -> str:
    """The axis title, of what the lines of a panel have in common."""
    if len(panel) == 1:
        return f"{panel[0].title} (×)"
    if len({ratio.below for ratio in panel}) == 1:
        return f"over {title_of(panel[0].below)} (×)"
    return f"{title_of(panel[0].above)} / rival (×)"


def _line(x: list[Any], table: pd.DataFrame, ratio: Ratio) -> Iterator[go.Scatter]:
    """The 95 % band, if there is one, and the line; one legend entry hides both."""
    low, high = table[f"{ratio.key} low"], table[f"{ratio.key} high"]
    bounded = low.notna() & high.notna()
    if bounded.any():
        inside = [i for i in table.index if bounded[i]]
        there, bottom, top = ([values[i] for i in inside] for values in (x, low, high))
        yield interval(there, bottom, top, band(ratio.colour), ratio.key, meta="band")
    look = {"line": {"dash": ratio.dash, "width": 2.5}, "marker": {"size": 6, "symbol": ratio.symbol}}
    more: dict[str, Any] = {"legendgroup": ratio.key, "meta": ratio.key, **look}
    said = ""
    if bounded.any():
        more["customdata"] = [rounded(pair) for pair in zip(low, high, strict=True)]
        said = "<br>95 % %{customdata[0]:.3f} to %{customdata[1]:.3f}"
    hover = f"{ratio.title} %{{y:.3f}}×{said}<extra>%{{x}}</extra>"
    yield curve(x, table[ratio.key], ratio.title, ratio.colour, hover, **more)
