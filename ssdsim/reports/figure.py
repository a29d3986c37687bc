"""A figure of the report with all that must stand beside it: its title, its data, its provenance and interval."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ssdsim.base.record import Record
from ssdsim.reports.print_style import height_for_print

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

DIGITS = 4  # significant ones: a screen shows three


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
    """Traces and layout for plotly.js, whose template is the page's."""
    document: dict[str, Any] = json.loads(plot.to_json())
    document["layout"].pop("template", None)
    return {"data": document["data"], "layout": document["layout"]}


def numbered(key: str, number: int) -> str:
    """A figure's key where there may be several of its kind: ``key``, ``key-2``, ``key-3``."""
    return f"{key}-{number + 1}" if number else key


def rounded(values: Iterable[float]) -> list[float | None]:
    """Numbers to :data:`DIGITS` significant digits; what is not finite is a gap."""
    return [round_off(float(value)) for value in values]


def round_off(value: float) -> float | None:
    if not math.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")


def enumerated(words: Sequence[str]) -> str:
    """``A``, ``A and B``, ``A, B and C``."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
