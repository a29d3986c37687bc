"""Plots of answers that no run folder holds: the window, and token rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ssdsim.answers.window import AXES
from ssdsim.base.errors import InputError
from ssdsim.question.options import ALL
from ssdsim.reports.figure import rounded
from ssdsim.reports.style import band, bars, colour_and_symbol, curve, doubling_ticks, interval, new_plot

if TYPE_CHECKING:
    from ssdsim.answers.token_rates import TokenRates

_LINES = {
    "passes": "draft passes in a verification",
    "budget_of_passes": "outcomes, one after the other (passes / K)",
    "budget": "outcomes drafted together, as the engine does",
}


def window_plot(frame: pd.DataFrame) -> go.Figure:
    """The draft passes and outcomes that fit into a verification, over the one option that varies in the frame."""
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
        colour, symbol = colour_and_symbol(at)
        line = {"width": 2.5, "dash": ("solid", "dash", "dot")[at]}
        look = {"line": line, "marker": {"symbol": symbol, "size": 8}, "error_y": error}
        hover = f"{name}: %{{y:.0f}}<extra>%{{x}}</extra>"
        plot.add_trace(curve(x, values.where(values > 0.0), name, colour, hover, **look))
    return plot


def miss_curves(rates: TokenRates) -> go.Figure:
    """P(miss of F guesses | a token was rejected): a line per temperature, with the 95 % interval over contexts."""
    if len(rates.fan_outs) < 2:
        raise InputError("a curve needs rates at more than one fan-out")
    plot = new_plot("fan-out F (guesses; log scale)", "P(miss | a token was rejected)", height=360)
    plot.update_xaxes(type="log", tickvals=doubling_ticks(1, max(rates.fan_outs)))
    plot.update_yaxes(type="log", tickformat="~p", tickvals=[0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0])
    fan_outs = rates.fan_outs.tolist()
    for at, tau in enumerate(rates.taus.tolist()):
        name, (colour, symbol) = f"temperature {tau:g}", colour_and_symbol(at)
        low, high = (1.0 - part[at, 0] for part in (rates.hit.high, rates.hit.low))
        floor = np.maximum(low, 1e-4)
        plot.add_trace(interval(fan_outs, floor.tolist(), high.tolist(), band(colour), name))
        look = {"line": {"width": 2}, "marker": {"symbol": symbol, "size": 7}}
        hover = f"{name}: %{{y:.2%}}<extra>F = %{{x}}</extra>"
        plot.add_trace(curve(fan_outs, 1.0 - rates.hit.value[at, 0], name, colour, hover, legendgroup=name, **look))
    return plot


def saguaro(rates: TokenRates) -> go.Figure:
    """Hits against acceptance along Saguaro's C: a line per fan-out, at the last of the temperatures."""
    if len(rates.cs) < 2:
        raise InputError("the trade-off needs rates at more than one C")
    plot = new_plot("acceptance rate", "P(hit | a token was rejected)", height=360)
    plot.update_xaxes(tickformat=".0%")
    plot.update_yaxes(tickformat=".0%")
    cs = rates.cs.tolist()
    for at, fan_out in enumerate(rates.fan_outs.tolist()):
        alpha, hit = rates.alpha.value[-1, :, at], rates.hit.value[-1, :, at]
        colour, symbol = colour_and_symbol(at)
        look = {"line": {"width": 2}, "marker": {"symbol": symbol, "size": 7}}
        hover = f"F {fan_out}, C %{{customdata:g}}: %{{x:.1%}} accepted, %{{y:.1%}} hit<extra></extra>"
        plot.add_trace(curve(rounded(alpha), hit, f"F {fan_out}", colour, hover, customdata=cs, **look))
    for place in (0, len(cs) - 1):  # of the first line, whose ends the others share
        alpha, hit = rates.alpha.value[-1, place, 0], rates.hit.value[-1, place, 0]
        plot.add_annotation(x=float(alpha), y=float(hit), text=f"C {cs[place]:g}", showarrow=False, yshift=-14)
    return plot
