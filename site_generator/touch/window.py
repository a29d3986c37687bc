"""Where drafting fits into the window of a verification."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from site_generator.touch.slides import Drawn, Slider, Slides
from ssdsim.base.errors import InputError
from ssdsim.question.configuration import configure
from ssdsim.reports.figure import rounded
from ssdsim.reports.style import WORK_COLOUR, WORK_PATTERN, new_plot
from ssdsim.strategies.ssd import SSD

_PARTS = (("verify", "verify"), ("sample", "host"), ("glue", "fallback"), ("branch step", "draft"))
_SHOWN = {
    "verify": "target pass",
    "sample": "sampling, host",
    "glue": "draft's glue pass",
    "branch step": "branch steps",
}


def window() -> Slides:
    """A round's verification above, the draft's work on its outcomes below."""
    sliders = (
        Slider("lookahead K", (2, 4, 6, 8, 10, 12), 6),
        Slider("fan-out F", (1, 2, 4, 8, 16, 32), 4),
        Slider("batch b", (1, 4, 16, 64), 4),
    )
    title = "What the draft does while the target verifies (Llama-3.1-70B and 1B on 4 + 1 H100)"
    return Slides(title, sliders, _empty, _draw)


def _empty() -> go.Figure:
    plot = new_plot("time (ms)", "", height=220, barmode="overlay", bargap=0.3)
    plot.update_yaxes(title=None, categoryorder="array", categoryarray=["draft", "target"], range=[-0.5, 1.5])
    return plot.update_xaxes(rangemode="tozero")


def _draw(k: float, fan_out: float, batch: float) -> Drawn:
    milliseconds, refused = _milliseconds(int(k), int(fan_out), int(batch))
    traces: list[dict[str, Any]] = []
    ends = {"target": 0.0, "draft": 0.0}
    for name, kind in _PARTS:
        track, lasts = ("target" if kind in ("verify", "host") else "draft"), milliseconds.get(name, 0.0)
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": [track],
                "base": rounded([ends[track]]),
                "x": rounded([lasts]),
                "name": _SHOWN[name],
                "marker": {
                    "color": WORK_COLOUR[kind],
                    "pattern": WORK_PATTERN.get(kind, {}),
                    "line": {"width": 0.5, "color": "#ffffff"},
                },
                "hovertemplate": f"{_SHOWN[name]} %{{x:.3g}} ms<extra></extra>",
            }
        )
        ends[track] += lasts
    return traces, refused or _said(ends["target"], ends["draft"], int(fan_out * (k + 1)))


def _milliseconds(k: int, fan_out: int, batch: int) -> tuple[dict[str, float], str | None]:
    """How long each piece of a round lasts; or why there is none."""
    try:
        scenario = configure(k=k, f=fan_out, b=batch, strategies=(SSD.name,), backup="fast").scenarios[SSD.name]
    except InputError as error:
        return {}, f"Not possible: {error}"
    pieces = [piece for step in scenario.steps.values() for piece in step.pieces]
    return {piece.name: 1e3 * piece.times * piece.cost.seconds for piece in pieces}, None


def _said(target_ms: float, draft_ms: float, outcomes: int) -> str:
    drafting = f"Drafting for {outcomes} outcomes a sequence takes {draft_ms:.1f} ms"
    if draft_ms <= target_ms:
        return f"{drafting} and is hidden: the outcome is there after {target_ms:.1f}."
    return (
        f"{drafting}; the outcome is there after {target_ms:.1f}, so every round waits {draft_ms - target_ms:.1f} ms."
    )
