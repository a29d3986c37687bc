"""Plots of tables with plotly, as pandas asks for them; a sweep's table says what to draw where nobody does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plotly

from ssdsim.base.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


def plot(data_frame: pd.DataFrame, kind: str, **how: Any) -> go.Figure:
    """Draw with plotly; of a bare ``sweep(...).plot()`` the ratio over the first axis that varies.

    Each combination of the other axes' values is a line.
    """
    if {"axes", "ratio"} <= data_frame.attrs.keys() and how.get("x") is None and how.get("y") is None:
        varied = [name for name in data_frame.attrs["axes"] if data_frame[name].astype(str).nunique() > 1]
        if not varied:
            raise InputError("the sweep has nothing to draw: none of its options has several values")
        how |= {"x": varied[0], "y": data_frame.attrs["ratio"]}
        if varied[1:]:
            data_frame = data_frame.assign(**{", ".join(varied[1:]): _together(data_frame[varied[1:]])})
            how.setdefault("color", ", ".join(varied[1:]))
    return plotly.plot(data_frame, kind=kind, **how)


def _together(columns: pd.DataFrame) -> pd.Series:
    return columns.astype(str).agg(", ".join, axis=1)
