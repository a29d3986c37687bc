"""Saguaro's C: hits for acceptance."""

from __future__ import annotations

from functools import cache
from typing import Any

import plotly.graph_objects as go

from site_generator.touch.slides import Drawn, Slider, Slides
from ssdsim.answers.token_model import TokenModel
from ssdsim.answers.token_rates import TokenRates
from ssdsim.reports.figure import rounded
from ssdsim.reports.style import PALETTE, new_plot
from ssdsim.tokens.acceptance import expected_tokens

_K = 6
_CS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_FAN_OUTS = (1, 2, 3, 4, 8)
_TAUS = (0.5, 0.7, 1.0)


def saguaro() -> Slides:
    """Acceptance and hits over C, from the token model."""
    sliders = (Slider("C", _CS, 1.0), Slider("fan-out F", _FAN_OUTS, 3), Slider("temperature", _TAUS, 1.0))
    return Slides(
        "What scaling the draft's top F probabilities by C does (a synthetic token model)", sliders, _empty, _draw
    )


@cache
def _rates() -> TokenRates:
    return TokenModel(spread=2.0, sigma=1.0, contexts=1000).rates(_FAN_OUTS, _TAUS, _CS)


def _empty() -> go.Figure:
    plot = new_plot("Saguaro's C", "probability", height=300)
    return plot.update_xaxes(range=[0, 1.02]).update_yaxes(range=[0, 1.02], tickformat=".0%")


def _draw(c: float, fan_out: float, tau: float) -> Drawn:
    rates = _rates()
    t, at, f = _TAUS.index(tau), _CS.index(c), _FAN_OUTS.index(int(fan_out))
    alpha, hit = rates.alpha.value[t, :, f], rates.hit.value[t, :, f]
    lines = (("accepted", alpha, PALETTE[1], "solid", "circle"), ("hit", hit, PALETTE[2], "dash", "diamond"))
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "x": list(_CS),
            "y": rounded(values),
            "name": f"P({name}{' after a rejection' if name == 'hit' else ''})",
            "mode": "lines",
            "line": {"color": colour, "dash": dash, "width": 2.5},
            "hovertemplate": f"{name} %{{y:.1%}}<extra>C = %{{x}}</extra>",
        }
        for name, values, colour, dash, _ in lines
    ]
    traces += [
        {
            "type": "scatter",
            "x": [c],
            "y": rounded([values[at]]),
            "name": name,
            "mode": "markers",
            "showlegend": False,
            "marker": {"color": colour, "symbol": symbol, "size": 12},
            "hovertemplate": f"{name} %{{y:.1%}}<extra>C = %{{x}}</extra>",
        }
        for name, values, colour, _, symbol in lines
    ]
    tokens = expected_tokens(float(alpha[at]), _K)
    said = f"{alpha[at]:.1%} of draft tokens are accepted, {tokens:.2f} tokens a round of K = {_K}; "
    return traces, f"{said}after a rejection the cache hits in {hit[at]:.1%}."
