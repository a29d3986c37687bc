"""A figure with its title, data, provenance and interval, on a page or as a file for a paper (SVG, PDF or PNG)."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssdsim.base.errors import InputError
from ssdsim.base.extras import install
from ssdsim.base.files import replaced
from ssdsim.base.record import Record
from ssdsim.reports.theme import WIDTH_MM, for_print, height_for_print, image_options

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

DIGITS = 4  # significant ones: a screen shows three
KINDS = ("svg", "pdf", "png")
_NEEDS = f"a figure's file needs plotly's exporter ({install('figures')}) and a browser (apt install chromium)"
_ENDED = "the browser ended before it drew the figure: ask once more, or install another (apt install chromium)"


class Figure(Record):
    """One figure.

    ``title`` says what it shows and ``about`` how to read it; ``table`` is its data (units in the column names),
    ``interval`` says what its bands or bars are, or why there are none. ``axis`` is the grid option along which a
    speedup chart runs; the page redraws such a chart when another option of the grid is chosen.
    """

    key: str
    section: str
    title: str
    about: str
    plot: go.Figure
    table: pd.DataFrame
    provenance: str
    interval: str
    axis: str | None = None
    wide: bool = False

    @property
    def columns(self) -> int:
        """The number of columns of a paper that the figure takes."""
        return 2 if self.wide else 1

    def plot_json(self) -> dict[str, Any]:
        """Traces and layout for plotly.js, without Python's own template (the page has one for light, one for dark)."""
        paper = {"columns": self.columns, "height": height_for_print(self.plot, self.columns)}
        return {"key": self.key, "axis": self.axis, **bare(self.plot), "paper": paper}

    def csv(self) -> str:
        """The table, rounded."""
        table = self.table.copy()
        for name in table.select_dtypes("number"):
            table[name] = rounded(table[name])
        return table.to_csv(index=False, float_format="%.10g")


class LeftOut(Record):
    """A figure that this run cannot show, and why."""

    what: str
    why: str


def bare(plot: go.Figure) -> dict[str, Any]:
    """Traces and layout for plotly.js, whose template is the page's; names in them are text."""
    document = _with_plain_names(json.loads(plot.to_json()))
    document["layout"].pop("template", None)
    return {"data": document["data"], "layout": document["layout"]}


def with_plain_names(plot: go.Figure) -> go.Figure:
    """The plot, in which a name of a file is text where plotly would make a link or a style of it."""
    document = json.loads(plot.to_json())
    plain = _with_plain_names(document)
    return plot if plain == document else type(plot)(plain)


_OURS = "br>|/?extra>|/?sup>"  # of hover labels, of an exponent
_MARKUP = re.compile(f'(?<!")<(?!{_OURS})|(?<=")<(?!=?"|{_OURS})')
"""What begins markup, but for what is ours, and for a contour's operation, ``<`` or ``<=``."""


def _with_plain_names(document: dict[str, Any]) -> dict[str, Any]:
    said = json.dumps(document, ensure_ascii=False).replace("&", "&amp;")
    plain: dict[str, Any] = json.loads(_MARKUP.sub("&lt;", said))
    return plain


def numbered(key: str, number: int) -> str:
    """A figure's key where there may be several of its kind: ``key``, ``key-2``, ``key-3``."""
    return f"{key}-{number + 1}" if number else key


def rounded(values: Iterable[float]) -> list[float | None]:
    """Numbers to :data:`DIGITS` significant digits; what is not finite is a gap."""
    return [float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in map(float, values)]


def enumerated(words: Sequence[str]) -> str:
    """``A``, ``A and B``, ``A, B and C``."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def kind_of(path: Path) -> str:
    """The kind of file that a picture's name asks for."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise InputError(f"{path}: a figure is written as {', '.join(f'.{each}' for each in KINDS)}")
    return kind


def save_picture(plot: go.Figure, path: Path, columns: int = 1) -> None:
    """Write a figure, laid out for print, in the format that the name asks for."""
    kind = kind_of(path)
    if columns not in WIDTH_MM:
        raise InputError(f"a figure is {' or '.join(map(str, WIDTH_MM))} columns wide, got {columns}")
    content = _picture(plot, kind, columns)
    try:
        with replaced(path) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise InputError(f"{path}: the figure cannot be written there ({error.strerror})") from None


def _picture(plot: go.Figure, kind: str, columns: int) -> bytes:
    if find_spec("kaleido") is None:
        raise InputError(_NEEDS)
    import kaleido
    from choreographer.errors import BrowserFailedError, ChromeNotFoundError

    logging.getLogger("choreographer").setLevel(logging.ERROR)  # it warns of what is an error below
    figure = for_print(plot, columns)
    size = {"width": figure.layout.width, "height": figure.layout.height}
    # without its MathJax, which plotly's write_image would have it ask of the network
    try:
        made: bytes = kaleido.calc_fig_sync(
            figure.to_dict(), opts={**size, **image_options(kind)}, kopts={"mathjax": False}
        )
    except ChromeNotFoundError:
        raise InputError(_NEEDS) from None
    except BrowserFailedError:
        raise InputError(_ENDED) from None
    return made
