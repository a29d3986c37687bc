"""Geometric fan-out over the acceptance rate, the power of the hit curve and the budget."""

from __future__ import annotations

import plotly.graph_objects as go

from site_generator.touch.slides import Drawn, Slider, Slides
from ssdsim.reports.style import PALETTE, band, new_plot
from ssdsim.tokens.acceptance import accepted_length_pmf
from ssdsim.tokens.hit_models import PowerLawHits, geometric_fan_out, hit_rate, uniform_fan_out

_K, _C = 7, 0.4


def fan_out() -> Slides:
    """Bars of guesses by accepted length, Theorem 12 beside the uniform shape."""
    sliders = (
        Slider("acceptance alpha", (0.5, 0.6, 0.7, 0.8, 0.9, 0.95), 0.8),
        Slider("power r", (0.3, 0.5, 0.7, 1.0, 1.5), 0.7),
        Slider("budget B", (8, 16, 24, 32, 48, 64), 32),
    )
    return Slides(
        f"Where {_K + 1} outcomes get their guesses (K = {_K}, one guess misses in {_C:.0%})", sliders, _empty, _draw
    )


def _empty() -> go.Figure:
    return new_plot("accepted tokens k", "guesses F_k", height=300, barmode="group").update_xaxes(dtick=1)


def _draw(alpha: float, r: float, budget: float) -> Drawn:
    h, pmf = PowerLawHits(c=_C, r=r), accepted_length_pmf(alpha, _K)
    shapes = {
        "uniform": uniform_fan_out(int(budget), _K),
        "geometric": geometric_fan_out(int(budget), _K, alpha, r, h),
    }
    hits = {name: hit_rate(shape, pmf, h) for name, shape in shapes.items()}
    traces = [
        {
            "type": "bar",
            "x": list(range(_K + 1)),
            "y": [int(guesses) for guesses in shape],
            "name": name,
            "marker": {"color": band(colour, 0.8), "pattern": {"shape": pattern, "size": 5}},
            "hovertemplate": f"{name}: %{{y}} guesses<extra>%{{x}} accepted</extra>",
        }
        for (name, shape), colour, pattern in zip(shapes.items(), (PALETTE[0], PALETTE[2]), ("", "/"), strict=True)
    ]
    return traces, f"The cache hits in {hits['geometric']:.1%} of rounds; the uniform shape in {hits['uniform']:.1%}."
