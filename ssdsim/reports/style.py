"""Colours and layout, the same in every figure.

After the palette of Okabe and Ito, which colour-blind people tell apart; lines have a contrast of 3 or more against the
light page and the dark one, fills that have less have a pattern too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import plotly.graph_objects as go

from ssdsim import strategies
from ssdsim.reports.figure import DIGITS, rounded
from ssdsim.reports.theme import fill

PALETTE = ("#808080", "#2b82c9", "#d55e00", "#00875f", "#c06a9a", "#b87a00")
# more than colours, and no multiple of them: where colours come again, symbols tell strategies apart
SYMBOLS = ("square", "diamond", "circle", "triangle-up", "cross", "triangle-down", "star")

# what a device does; a pattern where two colours may look alike in grey
WORK_COLOUR = {
    "verify": "#00875f",
    "draft": "#cc79a7",
    "fallback": "#e69f00",
    "communicate": "#56b4e9",
    "host": "#808080",
}
_WORK_SHAPE = {"fallback": "/", "communicate": "x", "host": "."}
WORK_PATTERN: dict[str, dict[str, Any]] = {
    part: {"shape": shape, "size": 6, "solidity": 0.35, "fillmode": "overlay", "fgcolor": "#000000", "fgopacity": 0.6}
    for part, shape in _WORK_SHAPE.items()
}
"""Dark hatches on the full colour: on a dark page, hatches of the colour alone would hardly be seen."""

# ticks within a decade where the largest value is less than so many times the smallest
_STEPS_UP_TO: dict[float, Sequence[float]] = {
    2: (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9),
    6: (1, 1.5, 2, 3, 4, 5, 7),
    300: (1, 2, 5),
    math.inf: (1,),
}
LOG2_TICKS = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def colour_of(name: str) -> str:
    """A strategy's colour, by its place in :data:`ssdsim.strategies.ALL`."""
    return PALETTE[strategies.ALL.names.index(name) % len(PALETTE)]


def symbol_of(name: str) -> str:
    """The marker of a strategy's points."""
    return SYMBOLS[strategies.ALL.names.index(name) % len(SYMBOLS)]


def colour_and_symbol(place: int) -> tuple[str, str]:
    """Colour and symbol of a line by its number; the first colour is left for the reference."""
    return PALETTE[1 + place % (len(PALETTE) - 1)], SYMBOLS[place % len(SYMBOLS)]


def title_of(name: str) -> str:
    """The title of a strategy."""
    return strategies.ALL.named(name).title


def band(colour: str, strength: float = 0.18) -> str:
    """A colour as a translucent fill."""
    return f"{fill(colour)}{strength})"


def log_ticks(values: Iterable[float]) -> list[float]:
    """Ticks of a logarithmic axis over these values: as many as stay readable, each written in full."""
    there = [value for value in values if value > 0.0 and math.isfinite(value)]
    if not there:
        return []
    low, high = min(there), max(there)
    steps = next(steps for most, steps in _STEPS_UP_TO.items() if high < most * low)
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    return [float(f"{step * 10.0**decade:.3g}") for decade in decades for step in steps]


def bars(values: Iterable[float], low: Iterable[float], high: Iterable[float], width: int = 3) -> dict[str, Any]:
    """Error bars of values with their bounds."""
    ends = list(zip(values, low, high, strict=True))
    up, down = rounded(top - value for value, _, top in ends), rounded(value - bottom for value, bottom, _ in ends)
    return {"array": up, "arrayminus": down, "thickness": 1, "width": width}


def interval(
    x: Sequence[Any], low: Sequence[float], high: Sequence[float], fill: str, group: str, **more: Any
) -> go.Scatter:
    """The area between two lines over ``x``; the legend entry of the line ``group`` hides both."""
    return go.Scatter(
        x=[*x, *x[::-1]],
        y=rounded([*high, *low[::-1]]),
        fill="toself",
        fillcolor=fill,
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        legendgroup=group,
        showlegend=False,
        **more,
    )


def curve(x: Iterable[Any], y: Iterable[float], name: str, colour: str, hover: Any = None, **how: Any) -> go.Scatter:
    """A line with markers, in one colour; only markers if the ``mode`` has no lines."""
    how = {"mode": "lines+markers", **how}
    coloured = "line" if "lines" in how["mode"] else "marker"
    how[coloured] = {"color": colour, **how.get(coloured, {})}
    return go.Scatter(x=list(x), y=rounded(y), name=name, hovertemplate=hover, **how)


def doubling_ticks(low: float, high: float) -> list[int]:
    """Powers of two between two numbers, as ticks."""
    return [tick for tick in LOG2_TICKS if low <= tick <= high]


def against_measured(what: str, ends: Sequence[float], height: int = 460) -> go.Figure:
    """An empty plot of predicted over measured, on logarithmic axes between ``ends``, with the line of equal values."""
    plot = new_plot(f"measured {what}", f"predicted {what}", height=height)
    ends = [float(f"{end:.{DIGITS}g}") for end in ends]
    plot.add_trace(curve(ends, ends, "equal", "#808080", mode="lines", line={"width": 1}, hoverinfo="skip"))
    for axis in (plot.update_xaxes, plot.update_yaxes):
        axis(type="log", tickvals=log_ticks(ends))
    return plot


def upper_panel(title: str, **how: Any) -> dict[str, Any]:
    """The layout of a second panel, on the y axis ``y2``, above the first."""
    above = {"domain": [0.54, 1.0], "title": {"text": title, "standoff": 8}, "automargin": True, **how}
    return {"yaxis": {"domain": [0.0, 0.46]}, "yaxis2": above}


def new_plot(x: str, y: str, height: int = 340, **layout: Any) -> go.Figure:
    """An empty plot with its axis titles (with units) and the legend above it."""
    begun = {
        "height": height,
        "margin": {"l": 58, "r": 14, "t": 36, "b": 46},
        "xaxis": {"title": {"text": x, "standoff": 8}, "automargin": True},
        "yaxis": {"title": {"text": y, "standoff": 8}, "automargin": True},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"},
        "hovermode": "closest",
    }
    plot = go.Figure(layout=begun)  # an update costs eight times as much
    if layout:
        plot.update_layout(**layout)
    return plot
