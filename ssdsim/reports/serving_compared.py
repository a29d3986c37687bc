"""A benchmark's times against those of the same requests served here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ssdsim.reports.figure import Figure, rounded
from ssdsim.reports.style import PALETTE, SYMBOLS, log_ticks, new_plot, title_of

Answer = Mapping[str, Any]

_WORDS = {"ttft": "time to the first token", "tpot": "time per output token", "e2el": "whole request"}


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
    plot = new_plot("measured (ms)", "predicted (ms)", height=460)
    rows = []
    for (metric, quantiles), colour, symbol in zip(answer["quantiles"].items(), PALETTE, SYMBOLS, strict=False):
        what = _WORDS.get(metric, metric)
        plot.add_scatter(
            x=rounded(pd.Series(quantiles["measured"])),
            y=rounded(pd.Series(quantiles["predicted"])),
            name=what,
            mode="lines+markers",
            line={"color": colour},
            marker={"symbol": symbol, "size": 7},
            customdata=quantiles["percent"],
            hovertemplate="p%{customdata}: measured %{x} ms, predicted %{y} ms<extra></extra>",
        )
        columns = zip(quantiles["percent"], quantiles["measured"], quantiles["predicted"], strict=True)
        rows += [{"metric": metric, "percent": p, "measured_ms": m, "predicted_ms": o} for p, m, o in columns]
    table = pd.DataFrame(rows)
    ends = [float(table[["measured_ms", "predicted_ms"]].to_numpy().min()), float(table["measured_ms"].max())]
    plot.add_scatter(x=ends, y=ends, name="equal", mode="lines", line={"color": "#808080", "dash": "dash"})
    ticks = log_ticks(ends)
    plot.update_xaxes(type="log", tickvals=ticks)
    plot.update_yaxes(type="log", tickvals=ticks)
    profiles = "; ".join(f"{each['profile']}: {each['summary']}" for each in answer["provenance"])
    return Figure(
        key="serving-compared",
        section="Requests that arrive",
        title="Measured against predicted",
        about="The 1st to the 99th percentile over requests. Below the dashed line the prediction is too fast.",
        plot=plot,
        table=table,
        provenance=f"Measured: {answer['workload']['source']}. Predicted. {profiles}. Runtime {answer['runtime']}.",
        interval="No interval: one benchmark, one run.",
    )
