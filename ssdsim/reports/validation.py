"""Measured against predicted rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ssdsim import strategies
from ssdsim.reports.figure import Figure, LeftOut, rounded
from ssdsim.reports.study import Study
from ssdsim.reports.style import against_measured, bars, colour_of, curve, symbol_of, title_of

_NEAR = 0.1


def validation(study: Study) -> list[Figure | LeftOut]:
    """The mean rounds of ``ssdsim validate``, each with the interval of its repeats."""
    if not study.folder.validation:
        return [LeftOut("validation", "the folder holds no validation.jsonl (ssdsim validate -o makes one)")]
    table = pd.DataFrame([_row(record) for record in study.folder.validation])
    errors = table["error"].abs()
    ends = [0.9 * table["measured ms"].min(), 1.1 * table["measured ms"].max()]
    plot = against_measured("round (ms)", ends, height=440)
    near: dict[str, Any] = {"mode": "lines", "line": {"width": 1, "dash": "dot"}, "legendgroup": "near"}
    for factor in (1 - _NEAR, 1 + _NEAR):
        y, legend = (factor * end for end in ends), {"showlegend": factor > 1.0, "hoverinfo": "skip"}
        plot.add_trace(curve(rounded(ends), y, f"±{_NEAR:.0%}", "#808080", **near, **legend))
    for name in (name for name in strategies.ALL.names if name in set(table["strategy"])):
        rows = table[table["strategy"] == name]
        said = "%{text}<br>measured %{x:.4g} ms, predicted %{y:.4g} ms (%{customdata:+.1f} %)"
        how: dict[str, Any] = {"mode": "markers", "marker": {"symbol": symbol_of(name), "size": 9}}
        how["error_x"] = bars(rows["measured ms"], rows["low ms"], rows["high ms"])
        how |= {"text": rows["point"], "customdata": rounded(100 * rows["error"])}
        x, hover = rounded(rows["measured ms"]), f"{said}<extra>{title_of(name)}</extra>"
        plot.add_trace(curve(x, rows["predicted ms"], title_of(name), colour_of(name), hover, **how))
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
