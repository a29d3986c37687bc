"""Published speeds beside those predicted: what a paper printed as bars or points, ours as marks and lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from ssdsim.reports.figure import rounded
from ssdsim.reports.style import PALETTE, SYMBOLS, band, colour_of, new_plot, title_of

if TYPE_CHECKING:
    from ssdsim.validation.paper import FamilyReplay, SweepReplay

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
    return plot


def engine_sweeps(replays: Sequence[SweepReplay]) -> go.Figure:
    """Tokens/s of engines over K: points are published, lines predicted, each from three numbers fitted to its row."""
    plot = new_plot("lookahead K (tokens)", "tokens/s of one sequence", height=380)
    for at, replay in enumerate(replays):
        colour, symbol = PALETTE[1 + at % (len(PALETTE) - 1)], SYMBOLS[at % len(SYMBOLS)]
        name = f"{replay.sweep.engine}, {replay.sweep.method}"
        plot.add_scatter(
            x=list(replay.sweep.k),
            y=rounded(replay.tokens_per_s),
            mode="lines",
            legendgroup=name,
            showlegend=False,
            line={"color": colour, "width": 2},
            hovertemplate=f"{name}: %{{y:.4g}} predicted<extra>K = %{{x}}</extra>",
        )
        plot.add_scatter(
            x=list(replay.sweep.k),
            y=rounded(replay.sweep.tokens_per_s),
            mode="markers",
            name=name,
            legendgroup=name,
            marker={"color": colour, "symbol": symbol, "size": 9},
            hovertemplate=f"{name}: %{{y:.4g}} published<extra>K = %{{x}}</extra>",
        )
    return plot
