"""Figures of answers as plotly figures, for notebooks and papers.

``ssdsim report`` and ``ssdsim report --figure`` draw the same by the same names (docs/how-to/figures.md lists them).

>>> import ssdsim
>>> from ssdsim import figures
>>> plot = figures.figure(ssdsim.predict(t_sd=0.3, p_hit=0.85), "all-hit")
>>> [trace.name for trace in plot.data][-1]
'SSD'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from ssdsim.answers.predict import Prediction
from ssdsim.answers.token_rates import TokenRates
from ssdsim.base.checks import text
from ssdsim.base.errors import InputError, nearest
from ssdsim.reports import theme
from ssdsim.reports.answer_plots import miss_curves, saguaro, window_plot
from ssdsim.reports.drawers import drawers, one_figure
from ssdsim.reports.figure import save_picture
from ssdsim.reports.study import Study
from ssdsim.runs.report_folder import RunFolder, checked_serving, read_run_folder

Answer = Prediction | str | Path | Mapping[str, Any] | pd.DataFrame | TokenRates
_OF_TYPE: Mapping[type, Mapping[str, Callable[[Any], go.Figure]]] = {
    pd.DataFrame: {"window": window_plot},
    TokenRates: {"miss-curves": miss_curves, "saguaro": saguaro},
}
"""Figures of answers that no report shows."""


def figure(answer: Answer, name: str, seed: int = 0) -> go.Figure:
    """The figure of this name, such as ``speedup-b`` or ``serving-tpot``.

    Parameters
    ----------
    answer : a :class:`ssdsim.Prediction`, the folder of a run (``ssdsim sweep -o``), the JSON of ``ssdsim plan``, the
        table of :func:`ssdsim.window` (``window``), or rates of a token model (``miss-curves``, ``saguaro``).
    seed : of the draws behind a figure's bands.

    Raises
    ------
    InputError : there is none of this name, or this answer cannot show it; then why.
    """
    if (of_type := _OF_TYPE.get(type(answer))) is None:
        return on_white(one_figure(drawers(Study(_folder(answer), seed)), name).plot)
    if name not in of_type:
        raise InputError(f"there is no figure '{name}'{nearest(name, of_type)} There are: {', '.join(of_type)}")
    return on_white(of_type[name](answer))


def save(plot: go.Figure, path: str | Path, columns: int = 1) -> None:
    """Write a figure for a paper, 85 mm wide or (two columns) 178: SVG, PDF or PNG by the path's ending.

    Raises
    ------
    InputError : another ending, other columns, no exporter or browser here, or a path that cannot be written.
    """
    save_picture(plot, Path(text("a picture's path", path)), columns)


def on_white(plot: go.Figure) -> go.Figure:
    """The plot in the light theme, on white: a notebook's page may be of any colour."""
    template = theme.LIGHT.template()
    template["layout"] |= {"paper_bgcolor": theme.LIGHT.card, "plot_bgcolor": theme.LIGHT.card}
    return plot.update_layout(template=template)


def _folder(answer: Any) -> RunFolder:
    if isinstance(answer, Prediction):
        return RunFolder(Path(), answer.configuration.given_options)
    if isinstance(answer, Mapping):
        return RunFolder(Path(), {}, serving=checked_serving(dict(answer), "the answer"))
    return read_run_folder(Path(text("an answer", answer)))
