"""Looks of pages by day and by night, and of figures on paper: one source for CSS and for plots.

Texts have a contrast of at least 4.5 against every background that they stand on, edges of what can be pressed 3.
"""

from __future__ import annotations

import json
from math import ceil
from typing import Any

import plotly.graph_objects as go

from ssdsim.base.record import Record

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
WIDTH_MM = {1: 85.0, 2: 178.0}
_DOTS_PER_INCH = 300
_TYPE_POINTS = 8.0
_SHRUNK = 2 / 3
"""A figure is laid out larger and shrunk as a whole, so that lines and markers of a screen become those of print."""
_FAMILY = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_PIXELS_PER_INCH, _POINTS_PER_INCH, _MM_PER_INCH = 96, 72, 25.4
_LETTER, _LEGEND_ENTRY, _LEGEND_ROW = 9, 60, 26  # of a legend's text, in the pixels of the layout
# On a screen all lines have about the same lightness, to stand out against a light page and a dark one. On paper they
# differ in lightness, so that a grey copy tells them apart; dashes, symbols and patterns do the rest.
_ON_PAPER = {
    "#808080": "#959595",
    "#2b82c9": "#123f7a",
    "#d55e00": "#b84700",
    "#00875f": "#0a6b4c",
    "#c06a9a": "#9c4a7e",
    "#b87a00": "#c28a1c",
    "#cc79a7": "#d9a0c6",
    "#e69f00": "#d08f00",
    "#9560d0": "#4f2382",
}


class Theme(Record):
    """Colours of a page: background, cards, text, lesser text, edges and grid lines."""

    name: str
    page: str
    card: str
    ink: str
    faint: str
    edge: str
    grid: str

    def css(self) -> str:
        """The theme's variables for the style sheet."""
        names = ("page", "card", "ink", "faint", "edge")
        return f"color-scheme: {self.name}; " + " ".join(f"--{name}: {getattr(self, name)};" for name in names)

    def template(self) -> dict[str, Any]:
        """The template of plots, with a transparent ground."""
        return template(self.ink, self.grid, self.card, size=12, family=_FONT)


LIGHT = Theme("light", "#f6f6f4", "#ffffff", "#1b1d20", "#5c6066", "#dcdcd8", "#e4e4e0")
DARK = Theme("dark", "#121416", "#1b1e21", "#e8e8e4", "#a4a8ad", "#34383c", "#34383c")


def template(ink: str, grid: str, card: str, *, size: float, family: str) -> dict[str, Any]:
    """A plotly template on a transparent ground; ``card`` is behind what covers lines: hover labels and notes."""
    axis = {"gridcolor": grid, "linecolor": grid, "zeroline": False}
    return {
        "layout": {
            "font": {"color": ink, "size": size, "family": family},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {"bgcolor": card, "bordercolor": ink, "font": {"color": ink}},
            "annotationdefaults": {"font": {"color": ink, "size": round(0.92 * size, 1)}, "bgcolor": card},
        }
    }


def css() -> str:
    """Style sheet of both themes: the system's choice, unless the page says another."""
    return (
        f":root {{ {LIGHT.css()} }}\n"
        f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {DARK.css()} }} }}\n'
        f':root[data-theme="dark"] {{ {DARK.css()} }}\n'
    )


def for_print(plot: go.Figure, columns: int) -> go.Figure:
    """Lay a figure out for a column of a page, or for two."""
    text = plot.to_json()
    for screen, paper in _replacements():
        text = text.replace(screen, paper)
    made = go.Figure(json.loads(text))
    size = {"width": _layout_width(columns), "height": height_for_print(plot, columns)}
    return made.update_layout(template=_paper_template(), **size, autosize=False)


def height_for_print(plot: go.Figure, columns: int) -> int:
    """The height on a screen, and more if the legend needs more rows than on a screen."""
    names = {trace.name for trace in plot.data if trace.showlegend is not False and trace.name}
    wide = sum(_LEGEND_ENTRY + _LETTER * len(name) for name in names)
    rows = ceil(wide / _layout_width(columns))
    return int(plot.layout.height) + _LEGEND_ROW * max(0, rows - 1)


def image_options(kind: str) -> dict[str, Any]:
    """The options that plotly's exporters take beside the figure."""
    return {"format": kind, "scale": _SHRUNK * (_DOTS_PER_INCH / _PIXELS_PER_INCH if kind == "png" else 1.0)}


def for_pages() -> dict[str, Any]:
    """The style of print for the download buttons of a page."""
    return {
        "template": _paper_template(),
        "widths": {str(columns): _layout_width(columns) for columns in WIDTH_MM},
        "colours": _replacements(),
        "scales": {kind: image_options(kind)["scale"] for kind in ("svg", "png")},
    }


def _layout_width(columns: int) -> int:
    return round(WIDTH_MM[columns] / _MM_PER_INCH * _PIXELS_PER_INCH / _SHRUNK)


def _paper_template() -> dict[str, Any]:
    size = _TYPE_POINTS * _PIXELS_PER_INCH / _POINTS_PER_INCH / _SHRUNK
    made = template("#000000", "#dddddd", "#ffffff", size=round(size, 1), family=_FAMILY)
    made["layout"] |= {"paper_bgcolor": "#ffffff", "plot_bgcolor": "#ffffff"}
    return made


def _replacements() -> list[tuple[str, str]]:
    """Colours and their translucent fills, as they are written in a figure."""
    return [pair for each in _ON_PAPER.items() for pair in (each, (fill(each[0]), fill(each[1])))]


def fill(colour: str) -> str:
    """The beginning of a translucent fill, up to its strength."""
    return "rgba({},{},{},".format(*(int(colour[at : at + 2], 16) for at in (1, 3, 5)))
