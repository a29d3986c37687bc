"""Figures of replays of papers: published speeds as bars or points, predicted ones as marks or lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from calibration.validation.paper import FamilyReplay, SweepReplay
from ssdsim.figures import on_white
from ssdsim.reports.figure import rounded
from ssdsim.reports.style import band, colour_and_symbol, colour_of, curve, new_plot, title_of

_PATTERNS = {"ar": "", "sd": "/", "ssd": "x"}


def datasets(replay: FamilyReplay) -> go.Figure:
    """Tokens/s of AR, SD and SSD by data set: bars are published, marks predicted; SD's are what was fitted to."""
    family = replay.family
    names = list(family.datasets)
    published = {
        "ar": [family.ar_tokens_per_s] * len(names),
        "sd": list(family.sd_tokens_per_s),
        "ssd": list(family.ssd_tokens_per_s),
    }
    plot = new_plot("", "tokens/s of one sequence", height=380, barmode="group", bargap=0.25)
    for name, speeds in published.items():
        plot.add_bar(
            x=names,
            y=rounded(speeds),
            name=f"{title_of(name)}, published",
            offsetgroup=name,
            marker={"color": band(colour_of(name), 0.55), "pattern": {"shape": _PATTERNS[name], "size": 5}},
            hovertemplate=f"{title_of(name)} %{{y:.4g}} published<extra>%{{x}}</extra>",
        )
    groups = len(published)
    for at, (name, speeds) in enumerate(
        (("ar", [replay.ar_tokens_per_s] * len(names)), ("ssd", replay.ssd_tokens_per_s.tolist()))
    ):
        place = list(published).index(name)
        plot.add_scatter(
            x=[number + 0.75 * (place - (groups - 1) / 2) / groups for number in range(len(names))],
            y=rounded(speeds),
            name=f"{title_of(name)}, predicted",
            mode="markers",
            marker={"symbol": ("diamond", "circle")[at], "size": 10, "color": "#808080", "line": {"width": 2}},
            xaxis="x2",
            hovertemplate=f"{title_of(name)} %{{y:.4g}} predicted<extra></extra>",
        )
    ends = [-0.5, len(names) - 0.5]
    plot.update_layout(xaxis={"range": ends}, xaxis2={"range": ends, "overlaying": "x", "visible": False})
    return on_white(plot)


def engine_sweeps(replays: Sequence[SweepReplay]) -> go.Figure:
    """Tokens/s of engines over K: points are published, lines predicted, each from three numbers fitted to its row."""
    plot = new_plot("lookahead K (tokens)", "tokens/s of one sequence", height=380)
    for at, replay in enumerate(replays):
        (colour, symbol), sweep = colour_and_symbol(at), replay.sweep
        name = f"{sweep.engine}, {sweep.method}"
        predicted, published = (
            f"{name}: %{{y:.4g}} {how}<extra>K = %{{x}}</extra>" for how in ("predicted", "published")
        )
        line: dict[str, Any] = {"mode": "lines", "line": {"width": 2}, "showlegend": False}
        plot.add_trace(curve(sweep.k, replay.tokens_per_s, name, colour, predicted, legendgroup=name, **line))
        points: dict[str, Any] = {"mode": "markers", "marker": {"symbol": symbol, "size": 9}}
        plot.add_trace(curve(sweep.k, sweep.tokens_per_s, name, colour, published, legendgroup=name, **points))
    return on_white(plot)
