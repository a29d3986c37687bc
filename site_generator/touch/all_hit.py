"""All hit by batch, and where the fallback switches."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from site_generator.touch.slides import Drawn, Slider, Slides
from ssdsim.reports.figure import rounded
from ssdsim.reports.style import LOG2_TICKS, PALETTE, new_plot
from ssdsim.tokens.acceptance import expected_tokens
from ssdsim.tokens.theory import critical_batch_size, sd_speedup, ssd_speedup

_K, _T_P = 6, 0.7
_RANGE = [0.5, 1.55]  # of the ratio, which keeps its scale while sliders move
_BATCHES = np.geomspace(1, 64, 49)


def all_hit() -> Slides:
    """SSD over SD with either fallback, and how often all hit, against the batch."""
    sliders = (
        Slider("hit rate p", (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99), 0.85),
        Slider("draft's time T_SD", (0.1, 0.2, 0.3, 0.5), 0.3),
        Slider("acceptance alpha", (0.6, 0.7, 0.8, 0.9), 0.8),
    )
    return Slides(
        f"One miss stalls the batch (K = {_K}, T_p = {_T_P:g}, random tokens as the fast backup)",
        sliders,
        _empty,
        _draw,
    )


def _empty() -> go.Figure:
    plot = new_plot("batch size b (log scale)", "SSD / SD (×)", height=380)
    upper = {"domain": [0.7, 1.0], "title": {"text": "P(all hit)", "standoff": 8}, "tickformat": ".0%"}
    plot.update_layout(yaxis={"domain": [0.0, 0.62], "range": _RANGE}, yaxis2={**upper, "range": [0, 1.02]})
    return plot.update_xaxes(type="log", tickvals=LOG2_TICKS[:7], range=[0, np.log10(64)])


def _draw(p: float, t_sd: float, alpha: float) -> Drawn:
    tokens = float(expected_tokens(alpha, _K))
    sd = sd_speedup(alpha, _K, t_sd)
    over_sd = {
        "draft just in time": ssd_speedup(p, tokens, tokens, _T_P, t_sd, _BATCHES) / sd,
        "random tokens": ssd_speedup(p, tokens, 1.0, _T_P, 0.0, _BATCHES) / sd,
    }
    b_star = critical_batch_size(p, t_sd, tokens, 1.0)
    looks = ((PALETTE[3], "solid"), (PALETTE[5], "dash"))
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "x": rounded(_BATCHES),
            "y": rounded(ratio),
            "name": name,
            "mode": "lines",
            "line": {"color": colour, "dash": dash, "width": 2.5},
            "hovertemplate": f"{name} %{{y:.3f}}×<extra>b = %{{x:.3g}}</extra>",
        }
        for (name, ratio), (colour, dash) in zip(over_sd.items(), looks, strict=True)
    ]
    all_hit = {
        "type": "scatter",
        "x": rounded(_BATCHES),
        "y": rounded(p**_BATCHES),
        "yaxis": "y2",
        "name": "all hit",
        "mode": "lines",
        "line": {"color": PALETTE[2], "width": 2.5, "dash": "dot"},
        "hovertemplate": "all hit %{y:.1%}<extra>b = %{x:.3g}</extra>",
    }
    at = min(max(b_star, 1.0), 64.0)
    switch = {
        "type": "scatter",
        "x": rounded([at, at]),
        "y": _RANGE,
        "name": "b*",
        "mode": "lines",
        "line": {"color": PALETTE[0], "width": 1.5, "dash": "dash"},
        "hovertemplate": "b* = %{x:.3g}<extra></extra>",
    }
    traces += [all_hit, switch]
    return traces, f"{_switch(b_star)} All 8 of a batch of 8 hit in {p**8:.1%} of rounds, all 16 of 16 in {p**16:.1%}."


def _switch(b_star: float) -> str:
    if b_star <= 1.0:
        return "Random tokens are the better fallback at every batch."
    if b_star > _BATCHES[-1]:
        return "Drafting just in time is the better fallback at every batch shown."
    return f"Below b* = {b_star:.2f} draft just in time, above it random tokens are better."
