"""Measured against predicted rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ssdsim import strategies
from ssdsim.reports.figure import Figure, LeftOut, rounded
from ssdsim.reports.study import Study
from ssdsim.reports.style import bars, colour_of, log_ticks, new_plot, symbol_of, title_of

_NEAR = 0.1


def validation(study: Study) -> list[Figure | LeftOut]:
    """The mean rounds of ``ssdsim validate``, each with the interval of its repeats."""
    if not study.folder.validation:
        return [LeftOut("validation", "the folder holds no validation.jsonl (ssdsim validate -o makes one)")]
    table = pd.DataFrame([_row(record) for record in study.folder.validation])
    errors = table["error"].abs()
    plot = new_plot("measured round (ms)", "predicted round (ms)", height=440)
    ends = [0.9 * table["measured ms"].min(), 1.1 * table["measured ms"].max()]
    for factor, dash in ((1.0, "solid"), (1 - _NEAR, "dot"), (1 + _NEAR, "dot")):
        plot.add_scatter(
            x=rounded(ends),
            y=rounded(factor * end for end in ends),
            mode="lines",
            line={"color": "#808080", "width": 1, "dash": dash},
            name="equal" if factor == 1.0 else f"±{_NEAR:.0%}",
            showlegend=factor >= 1.0,
            legendgroup="equal" if factor == 1.0 else "near",
            hoverinfo="skip",
        )
    for name in (name for name in strategies.ALL.names if name in set(table["strategy"])):
        rows = table[table["strategy"] == name]
        plot.add_scatter(
            x=rounded(rows["measured ms"]),
            y=rounded(rows["predicted ms"]),
            error_x=bars(rows["measured ms"], rows["low ms"], rows["high ms"]),
            text=rows["point"],
            customdata=rounded(100 * rows["error"]),
            mode="markers",
            name=title_of(name),
            marker={"color": colour_of(name), "symbol": symbol_of(name), "size": 9},
            hovertemplate="%{text}<br>measured %{x:.4g} ms, predicted %{y:.4g} ms (%{customdata:+.1f} %)<extra>"
            + title_of(name)
            + "</extra>",
        )
    ticks = log_ticks(ends)
    plot.update_xaxes(type="log", tickvals=ticks)
    plot.update_yaxes(type="log", tickvals=ticks)
    return [
        Figure(
            key="validation",
            section="Measured against predicted",
            title=f"Rounds are predicted within {np.median(errors):.1%} (median) and {errors.max():.1%} (worst)",
            about=f"{len(table)} mean rounds measured by ssdsim validate and predicted from microbenchmarks alone.",
            plot=plot,
            table=table,
            provenance="Measured rounds: ssdsim validate on the machine of the run; predictions: event engine.",
            interval="Bars: 95 % over the repeats of a measurement.",
        )
    ]


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    measured, predicted = record["measured"], 1e3 * record["predicted_s"]
    point = ", ".join(f"{name} {value}" for name, value in record["point"].items() if value is not None)
    value, low, high = (1e3 * measured[end] for end in ("value", "low", "high"))
    return {
        "strategy": record["strategy"],
        "point": point,
        "measured ms": value,
        "low ms": low,
        "high ms": high,
        "predicted ms": predicted,
        "error": predicted / value - 1.0,
    }
