"""Which fallback at which batch: just in time against fast, Theorem 17's b*, the crossing of full predictions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from ssdsim.errors import InputError
from ssdsim.reports.figure import Figure, LeftOut, rounded
from ssdsim.reports.study import Rates, Study
from ssdsim.reports.style import LOG2_TICKS, band, new_plot
from ssdsim.speculation.fallback import critical_batch_size, crossing_batch_size

_BATCHES = (*range(1, 17), 20, 24, 28, 32, 40, 48, 56, 64)
_LINES = {"jit": ("#00875f", "solid"), "fast": ("#e69f00", "dash")}
_MEANING = {"jit": "draft just in time", "fast": "fast backup"}


def batch_and_fallback(study: Study) -> list[Figure | LeftOut]:
    """SSD over SD against the batch with either fallback."""
    rates: dict[str, dict[int, Rates]] = {"jit": {}, "fast": {}}
    full = ""
    for batch in _BATCHES:
        try:
            both = {backup: study.rates(study.with_backup(backup, b=batch)) for backup in rates}
        except InputError as error:
            full = str(error)
            break
        for backup, found in both.items():
            rates[backup][batch] = found
    if len(rates["jit"]) < 2:
        return [LeftOut("batch and fallback", full)]
    table = _table(rates)
    crossing = _crossing(rates)
    b_star = _b_star(rates["jit"][1], rates["fast"][1])
    plot = _plot(table)
    _mark(plot, table, crossing, b_star)
    bound = f" Batches above {max(rates['jit'])} do not fit in memory." if full else ""
    return [
        Figure(
            key="fallback",
            section="Batch and fallback",
            title=_title(crossing, max(rates["jit"])),
            about="SSD over SD against the batch. One miss stalls the whole batch while the draft drafts just in time; "
            f"a fast backup costs tokens but no time. b* is Theorem 17's, with the costs at b = 1; the crossing is of "
            f"the two full predictions.{bound} At {study.setting('b', 'backup')}.",
            plot=plot,
            table=table,
            provenance=study.provenance,
            interval=study.interval,
        )
    ]


def _table(rates: dict[str, dict[int, Rates]]) -> pd.DataFrame:
    rows = []
    for batch in rates["jit"]:
        row: dict[str, Any] = {
            "b": batch,
            "P(all hit), jit": rates["jit"][batch].configuration.scenario.ssd.p_hit ** batch,
        }
        for backup, found in rates.items():
            ratio, low, high = found[batch].ratio("ssd", "sd")
            row |= {f"{backup}: ssd/sd": ratio, f"{backup}: low": low, f"{backup}: high": high}
        rows.append(row)
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def _crossing(rates: dict[str, dict[int, Rates]]) -> float:
    """The first of the batches shown at which the fast backup is not slower."""
    shown = list(rates["jit"])

    def rate(backup: str, index: int) -> float:
        return rates[backup][shown[index - 1]].tokens_per_second["ssd"]

    index = crossing_batch_size(lambda i: rate("jit", i), lambda i: rate("fast", i), len(shown))
    return shown[int(index) - 1] if math.isfinite(index) else math.inf


def _b_star(jit: Rates, fast: Rates) -> float:
    """Theorem 17 with this scenario's tokens and hit rate; the slow backup's time is that of K fresh draft steps."""
    slow, scenario = jit.configuration.scenario.times, fast.configuration.scenario
    t_b = float(slow.fallback_s) / float(slow.verify_s)
    return critical_batch_size(
        scenario.primary.p_hit, t_b, scenario.primary.expected_tokens, scenario.backup.expected_tokens
    )


def _plot(table: pd.DataFrame) -> go.Figure:
    plot = new_plot("batch size b (sequences; log scale)", "SSD / SD (×)", height=360)
    plot.update_xaxes(type="log", tickvals=[tick for tick in LOG2_TICKS if tick <= table["b"].max()])
    for backup in _LINES:
        for trace in _line(table, backup):
            plot.add_trace(trace)
    plot.add_hline(y=1.0, line={"width": 1, "color": "#808080"}, annotation_text="SD", annotation_position="top right")
    return plot


def _line(table: pd.DataFrame, backup: str) -> Iterator[go.Scatter]:
    colour, dash = _LINES[backup]
    batches = table["b"].tolist()
    if f"{backup}: low" in table:
        low, high = table[f"{backup}: low"].tolist(), table[f"{backup}: high"].tolist()
        yield go.Scatter(
            x=[*batches, *batches[::-1]],
            y=rounded([*high, *low[::-1]]),
            fill="toself",
            fillcolor=band(colour, 0.25),
            line={"width": 0},
            mode="lines",
            hoverinfo="skip",
            legendgroup=backup,
            showlegend=False,
        )
    yield go.Scatter(
        x=batches,
        y=rounded(table[f"{backup}: ssd/sd"]),
        name=_MEANING[backup],
        mode="lines+markers",
        line={"color": colour, "dash": dash, "width": 2.5},
        marker={"size": 6},
        legendgroup=backup,
        hovertemplate=f"{_MEANING[backup]} %{{y:.3f}}×<extra>b = %{{x}}</extra>",
    )


def _mark(plot: go.Figure, table: pd.DataFrame, crossing: float, b_star: float) -> None:
    """Vertical lines; one label is at the top and one at the bottom, since the two are often close."""
    largest = table["b"].max()
    for at, text, dash, height in (
        (crossing, f"crossing b = {crossing:g}", "dash", 1.0),
        (b_star, f"b* = {b_star:.2f}", "dot", 0.0),
    ):
        if not 1.0 <= at <= largest:
            continue
        plot.add_vline(x=at, line={"width": 1.5, "dash": dash, "color": "#808080"})
        right = at > largest**0.6
        plot.add_annotation(
            x=math.log10(at),  # an annotation's place on a log axis is an exponent
            y=height,
            yref="paper",
            text=text,
            showarrow=False,
            xanchor="right" if right else "left",
            xshift=-4 if right else 4,
            yanchor="top" if height else "bottom",
        )


def _title(crossing: float, largest: int) -> str:
    if crossing == 1:
        return "The fast backup is at least as good at every batch from 1 on"
    if math.isinf(crossing):
        return f"Drafting just in time is the better fallback at every batch up to {largest}"
    return f"Draft just in time below batch {crossing:g}; from there on the fast backup is better"
