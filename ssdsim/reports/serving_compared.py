"""A benchmark's times against those of the same requests served here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ssdsim.reports.figure import Figure, rounded
from ssdsim.reports.serving import predicted_with
from ssdsim.reports.style import PALETTE, SYMBOLS, against_measured, curve, title_of

Answer = Mapping[str, Any]

_WORDS = {"ttft": "time to the first token", "tpot": "time per output token", "e2el": "whole request"}
_OURS = "predicted_ms"


def compared_title(answer: Answer) -> str:
    """The title: what was compared."""
    return f"{title_of(answer['strategy'])} against {answer['workload']['source']}"


def compared_sentence(answer: Answer) -> str:
    """The medians, and by how much they differ."""
    medians = [row for row in answer["compared"] if row["statistic"] == "p50"]
    said = [
        f"{row['metric'].upper()} {row['predicted']:.4g} ms where {row['measured']:.4g} was measured "
        f"({row['difference']:+.1%})"
        for row in medians
    ]
    return f"Predicted medians: {', '.join(said)}."


def compared_figure(answer: Answer) -> Figure:
    """Percentile against percentile: a perfect prediction lies on the line."""
    quantiles = {
        metric: pd.DataFrame({"metric": metric, **each}).rename(columns={"measured": "measured_ms", "predicted": _OURS})
        for metric, each in answer["quantiles"].items()
    }
    table = pd.concat(quantiles.values(), ignore_index=True)[["metric", "percent", "measured_ms", _OURS]]
    plot = against_measured(
        "(ms)", [float(table[["measured_ms", _OURS]].min().min()), float(table["measured_ms"].max())]
    )
    hover = "p%{customdata}: measured %{x} ms, predicted %{y} ms<extra></extra>"
    for (metric, rows), colour, symbol in zip(quantiles.items(), PALETTE, SYMBOLS, strict=False):
        what, marker = _WORDS.get(metric, metric), {"symbol": symbol, "size": 7}
        x, percent = rounded(rows["measured_ms"]), rows["percent"].tolist()
        plot.add_trace(curve(x, rows[_OURS], what, colour, hover, marker=marker, customdata=percent))
    return Figure(
        key="serving-compared",
        section="Requests that arrive",
        title="Measured against predicted",
        about="The 1st to the 99th percentile over requests. Below the line the prediction is too fast.",
        plot=plot,
        table=table,
        provenance=f"Measured: {answer['workload']['source']}. {predicted_with(answer)}",
        interval="No interval: one benchmark, one run.",
    )
