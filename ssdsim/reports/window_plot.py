"""The figure of how much drafting fits into one verification, over one option."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from ssdsim.answers.window import AXES
from ssdsim.base.errors import InputError
from ssdsim.question.options import ALL
from ssdsim.reports.style import bars, curve, doubling_ticks, look_at, new_plot

_LINES = {
    "passes": "draft passes in a verification",
    "budget_of_passes": "outcomes, one after the other (passes / K)",
    "budget": "outcomes drafted together, as the engine does",
}


def window_plot(frame: pd.DataFrame) -> go.Figure:
    """Passes and outcomes that fit, from :func:`ssdsim.window`'s answer over one option that varies."""
    varied = [name for name in AXES if frame[name].nunique(dropna=False) > 1]
    if len(varied) != 1:
        several = f"; {', '.join(varied)} vary" if varied else ""
        raise InputError(f"the window's figure is over one option that has several values{several}")
    axis, shown = varied[0], frame[frame["passes"].notna()]
    x = shown[axis].tolist()
    plot = new_plot(ALL[axis].axis, "how many fit (log scale)", height=380)
    plot.update_yaxes(type="log", dtick=1)
    if not all(isinstance(value, int | float) for value in x):
        plot.update_xaxes(type="category")
    elif ALL[axis].doubling:
        plot.update_xaxes(type="log", tickvals=doubling_ticks(1, max(x)))
    for at, (column, name) in enumerate(_LINES.items()):
        values = shown[column].astype(float)
        error = None
        if column == "passes":
            error = bars(values, shown["passes_low"].astype(float), shown["passes_high"].astype(float))
        colour, symbol = look_at(at)
        line = {"width": 2.5, "dash": ("solid", "dash", "dot")[at]}
        look = {"line": line, "marker": {"symbol": symbol, "size": 8}, "error_y": error}
        hover = f"{name}: %{{y:.0f}}<extra>%{{x}}</extra>"
        plot.add_trace(curve(x, values.where(values > 0.0), name, colour, hover, **look))
    return plot
