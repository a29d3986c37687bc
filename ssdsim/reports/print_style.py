"""Figures for a paper: widths of one and two columns, eight points of type, colours that differ in lightness too.

On a screen a line must stand out against a light page and a dark one, so that all are of about the same lightness. On
paper the same lines become darker and lighter ones, which a grey copy still tells apart; dashes, symbols and patterns
do the rest.
"""

from __future__ import annotations

import json
from math import ceil
from typing import Any

import plotly.graph_objects as go

from ssdsim.reports.theme import template

WIDTH_MM = {1: 85.0, 2: 178.0}
DOTS_PER_INCH = 300
_TYPE_POINTS = 8.0
_SHRUNK = 2 / 3
"""A figure is laid out larger and shrunk as a whole, so that lines and markers of a screen become those of print."""
_FAMILY = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_PIXELS_PER_INCH, _POINTS_PER_INCH, _MM_PER_INCH = 96, 72, 25.4
_LETTER, _LEGEND_ENTRY, _LEGEND_ROW = 9, 60, 26  # of a legend's text, in the pixels of the layout
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


def for_print(plot: go.Figure, columns: int) -> go.Figure:
    """Lay a figure out for a column of a page, or for two."""
    text = plot.to_json()
    for screen, paper in _replacements():
        text = text.replace(screen, paper)
    made = go.Figure(json.loads(text))
    size = {"width": _layout_width(columns), "height": height_for_print(plot, columns)}
    return made.update_layout(template=_template(), **size, autosize=False)


def height_for_print(plot: go.Figure, columns: int) -> int:
    """The height on a screen, and more where the legend needs rows that a wider screen saves."""
    names = {trace.name for trace in plot.data if trace.showlegend is not False and trace.name}
    wide = sum(_LEGEND_ENTRY + _LETTER * len(name) for name in names)
    rows = ceil(wide / _layout_width(columns))
    return int(plot.layout.height) + _LEGEND_ROW * max(0, rows - 1)


def image_options(kind: str) -> dict[str, Any]:
    """The options that plotly's exporters take beside the figure."""
    return {"format": kind, "scale": _SHRUNK * (DOTS_PER_INCH / _PIXELS_PER_INCH if kind == "png" else 1.0)}


def for_pages() -> dict[str, Any]:
    """The style of print for the download buttons of a page."""
    return {
        "template": _template(),
        "widths": {str(columns): _layout_width(columns) for columns in WIDTH_MM},
        "colours": _replacements(),
        "scales": {kind: image_options(kind)["scale"] for kind in ("svg", "png")},
    }


def _layout_width(columns: int) -> int:
    return round(WIDTH_MM[columns] / _MM_PER_INCH * _PIXELS_PER_INCH / _SHRUNK)


def _template() -> dict[str, Any]:
    size = _TYPE_POINTS * _PIXELS_PER_INCH / _POINTS_PER_INCH / _SHRUNK
    made = template("#000000", "#dddddd", "#ffffff", size=round(size, 1), family=_FAMILY)
    made["layout"] |= {"paper_bgcolor": "#ffffff", "plot_bgcolor": "#ffffff"}
    return made


def _replacements() -> list[tuple[str, str]]:
    """Colours and their translucent fills, as they are written in a figure."""
    return [pair for each in _ON_PAPER.items() for pair in (each, (_fill(each[0]), _fill(each[1])))]


def _fill(colour: str) -> str:
    """The beginning of a fill of :func:`ssdsim.reports.style.band`."""
    return "rgba({},{},{},".format(*(int(colour[at : at + 2], 16) for at in (1, 3, 5)))
