"""Measured against predicted: rounds of ssdsim validate, and rows of whole engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ssdsim import strategies
from ssdsim.reports.figure import Figure, LeftOut, enumerated, numbered, rounded
from ssdsim.reports.study import Study
from ssdsim.reports.style import (
    PALETTE,
    SYMBOLS,
    against_measured,
    band,
    bars,
    colour_and_symbol,
    colour_of,
    curve,
    new_plot,
    symbol_of,
    title_of,
)
from ssdsim.runs.report_folder import RunFolder

_NEAR = 0.1
_SECTION = "An engine's benchmarks"
_METRICS = {
    "step_ms": ("decoding step", "ms"),
    "tpot_ms": ("time per output token", "ms"),
    "latency_s": ("latency of a batch", "s"),
    "tokens_per_s": ("output", "tokens/s"),
}
_AXES = {"batch": "batch", "tp": "tensor-parallel degree", "model": "model", "hardware": "GPU", "runtime": "runtime"}
_ERROR, _BIAS = PALETTE[1], PALETTE[2]


def validation(study: Study) -> list[Figure | LeftOut]:
    """Mean rounds of ``ssdsim validate``, with intervals over the repeats."""
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
            about=f"{len(table)} mean rounds measured by ssdsim validate and predicted from microbenchmarks alone."
            f"{_beside(study.folder)}",
            plot=plot,
            table=table,
            provenance="Measured rounds: ssdsim validate on the machine of the run; predictions: event engine.",
            interval="Bars: 95 % over the repeats of a measurement.",
        )
    ]


def rounds_sentence(folder: RunFolder) -> str:
    """The finding on rounds that ran."""
    rows = pd.DataFrame(map(_row, folder.validation))
    errors = rows["error"].abs()
    off = f"by {np.median(errors):.1%} (median), at most by {errors.max():.1%}"
    return f"Predictions of {len(rows)} mean rounds that ran on this machine are off {off}.{_beside(folder)}"


def _beside(folder: RunFolder) -> str:
    """How busy the cores were meanwhile; empty where nobody knows."""
    shares = [share for record in folder.validation if (share := record.get("others")) is not None]
    return f" Other programs took {np.mean(shares):.0%} of the cores meanwhile." if shares else ""


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


def measured(folder: RunFolder) -> list[Figure]:
    """A scatter per metric, and errors by each axis on which rows differ; none without ``measured.json``."""
    if folder.measured is None:
        return []
    rows = pd.DataFrame(folder.measured["rows"])
    metrics = [metric for metric in _METRICS if metric in set(rows["metric"])]
    figures = [_scatter(rows[rows["metric"] == metric], metric, number) for number, metric in enumerate(metrics)]
    summaries = pd.DataFrame(folder.measured["summaries"])
    by_axis = ((axis, summaries[summaries["axis"] == axis]) for axis in _AXES)
    return [*figures, *(_errors(axis, along, rows) for axis, along in by_axis if len(along) > 1)]


def measured_lines(folder: RunFolder) -> tuple[str, list[str]]:
    """The finding, and the lines under it."""
    assert folder.measured is not None
    rows, every = folder.measured["rows"], folder.measured["summaries"][0]
    off, held = f"{every['error']:.1%}", f"{every['coverage']:.0%}"
    sentence = (
        f"Predictions of {len(rows)} measured rows are off by {off} on average; {held} of the 95 % intervals hold."
    )
    runtimes = enumerated(list(dict.fromkeys(row["runtime"] for row in rows)))
    lines = [f"Predicted with the runtime {runtimes}; bias {every['bias']:+.1%}."]
    left_out = [f"Row {one['number']} was skipped: {one['reason']}." for one in folder.measured.get("skipped", ())]
    return sentence, [*lines, *left_out]


def _scatter(rows: pd.DataFrame, metric: str, number: int) -> Figure:
    what, unit = _METRICS[metric]
    ends = [0.85 * rows[["value", "low"]].min().min(), 1.18 * rows[["value", "high"]].max().max()]
    plot = against_measured(f"{what} ({unit})", ends)
    for at, (name, of) in enumerate(rows.groupby(_coloured_by(rows), sort=True)):
        colour, symbol = colour_and_symbol(at)
        beside: dict[str, Any] = {"error_y": bars(of["predicted"], of["low"], of["high"])}
        beside["text"] = [f"{row.series}, batch {row.batch}" for row in of.itertuples()]
        beside |= {"customdata": rounded(100 * of["error"]), "marker": {"symbol": symbol, "size": 8}}
        hover = f"%{{text}}<br>measured %{{x:.4g}} {unit}, predicted %{{y:.4g}} {unit} "
        hover += "(seconds %{customdata:+.1f} %)<extra></extra>"
        x, y = rounded(of["value"]), of["predicted"]
        plot.add_trace(curve(x, y, str(name), colour, hover, mode="markers", **beside))
    error, held = rows["error"].abs().mean(), rows["holds"].mean()
    shown = ["series", "model", "hardware", "tp", "batch", "value", "predicted", "low", "high", "error"]
    names = {each: f"{each} {unit}" for each in ("value", "predicted", "low", "high")}
    return Figure(
        key=numbered("measured", number),
        section=_SECTION,
        title=f"{what[0].upper()}{what[1:]}: off by {error:.1%} on average; {held:.0%} of the intervals hold",
        about=f"{len(rows)} rows that an engine ran. Above the line the prediction is too high.",
        plot=plot,
        table=rows[shown].rename(columns=names),
        provenance=_provenance(rows),
        interval="Bars: 95 % from the timings' and the runtime's errors.",
    )


def _coloured_by(rows: pd.DataFrame) -> str:
    """The column shown by colours: the runtime if there are several, else the first with few enough values."""
    if rows["runtime"].nunique() > 1:
        return "runtime"
    return next((name for name in ("series", "model", "hardware") if rows[name].nunique() < len(SYMBOLS)), "metric")


def _errors(axis: str, along: pd.DataFrame, rows: pd.DataFrame) -> Figure:
    """Mean absolute errors as bars, with biases as points."""
    plot = new_plot(_AXES[axis], "error of the predicted seconds (%)")
    values = list(along["value"])
    plot.add_bar(
        x=values,
        y=rounded(100 * along["error"]),
        name="mean absolute error",
        marker={"color": band(_ERROR, 0.6)},
        customdata=list(along["rows"]),
        hovertemplate="%{x}: %{y:.1f} % over %{customdata} rows<extra></extra>",
    )
    plot.add_scatter(
        x=values,
        y=rounded(100 * along["bias"]),
        mode="markers",
        name="bias (above 0: predicted too slow)",
        marker={"color": _BIAS, "symbol": "diamond", "size": 9},
        hovertemplate="%{x}: bias %{y:+.1f} %<extra></extra>",
    )
    plot.update_xaxes(type="category")
    worst = along.sort_values("error").iloc[-1]
    return Figure(
        key=f"measured-{axis}",
        section=_SECTION,
        title=f"By {_AXES[axis]}: the mean error is largest at {worst['value']}, {worst['error']:.1%}",
        about="Mean absolute error of the rows, and its bias.",
        plot=plot,
        table=along.drop(columns="axis").rename(columns={"value": _AXES[axis]}),
        provenance=_provenance(rows),
        interval="No interval: every row is in the means.",
    )


def _provenance(rows: pd.DataFrame) -> str:
    runtimes = enumerated(list(dict.fromkeys(rows["runtime"])))
    return f"Measured: the files given to ssdsim validate rows; predictions: the runtime {runtimes}."
