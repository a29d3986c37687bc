"""A figure at every position of some sliders."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape
from itertools import product
from typing import Any

import plotly.graph_objects as go

from site_generator.drawn import held
from ssdsim.base.record import Record
from ssdsim.reports.figure import bare

Drawn = tuple[list[dict[str, Any]], str]
"""Traces, as plotly.js takes them, and a sentence that says what they show."""


class Slider(Record):
    """A number that a reader moves: its values, and at which it stands at first."""

    label: str
    values: Sequence[float]
    start: float


class Slides(Record):
    """What a reader moves, the figure without its traces, and how these are drawn for a value of each slider.

    Traces are always as many.
    """

    title: str
    sliders: Sequence[Slider]
    empty: Callable[[], go.Figure]
    draw: Callable[..., Drawn]

    def html(self, key: str) -> str:
        """The sliders, the sentence and the figure, which ``touch.js`` brings to life."""
        drawn = [self.draw(*values) for values in product(*(slider.values for slider in self.sliders))]
        start = [list(slider.values).index(slider.start) for slider in self.sliders]
        at = 0
        for slider, place in zip(self.sliders, start, strict=True):
            at = at * len(slider.values) + place
        traces, sentence = drawn[at]
        first = self.empty().add_traces(traces)
        frames = [_moved(traces) for traces, _ in drawn]
        data = {**bare(first), "frames": frames, "sentences": [said for _, said in drawn]}
        moved = "".join(_input(slider, place) for slider, place in zip(self.sliders, start, strict=True))
        return (
            f'<div class="touch" id="touch-{key}"><p class="touch-title">{escape(self.title)}</p>'
            f'<div class="sliders">{moved}</div>'
            f'<p class="touch-says" aria-live="polite">{escape(sentence)}</p>'
            f'<div class="touched" role="img" aria-label="{escape(self.title)}. {escape(sentence)}" '
            f'style="height:{first.layout.height}px"></div>{held(data)}</div>'
        )


def _moved(traces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What differs from frame to frame: the places of the points."""
    return [{name: trace[name] for name in ("x", "y", "base") if name in trace} for trace in traces]


def _input(slider: Slider, place: int) -> str:
    shown = [f"{value:g}" for value in slider.values]
    values = escape(json.dumps(shown))
    return (
        f"<label>{escape(slider.label)} "
        f'<input type="range" min="0" max="{len(shown) - 1}" step="1" value="{place}" data-values="{values}" '
        f'aria-valuetext="{shown[place]}"> <output>{shown[place]}</output></label>'
    )
