"""Tokens/s per user against tokens/s per GPU: what can be had, and by which strategy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ssdsim.base.errors import InputError
from ssdsim.base.option import Group, number
from ssdsim.pricing.occupancy import format_count
from ssdsim.question.options import ALL, DEFAULTS, members
from ssdsim.reports.figure import Figure, LeftOut, rounded
from ssdsim.reports.study import Study
from ssdsim.reports.style import bars, colour_of, curve, new_plot, symbol_of, title_of
from ssdsim.runs.report_folder import grid_key, grid_keys

_BATCHES, _LOOKAHEADS = (1, 2, 4, 8, 16, 32, 64), (1, 2, 3, 4, 5, 6, 8, 10, 12)
_SHOWN_POINTS = 500  # of each strategy off the frontier: more are one blot
_DIGITS = 12  # of tokens/s: less is rounding


def pareto(study: Study) -> list[Figure | LeftOut]:
    """Every choice at the base workload, and the frontier."""
    points = _points(study)
    if points.empty:
        return [LeftOut("Pareto", "no point of the grid is possible")]
    ordered = points.sort_values(["per user", "per gpu"], ascending=False)
    best_before = ordered["per gpu"].cummax().shift(fill_value=-np.inf)
    on_frontier = (ordered["per gpu"] > best_before).reindex(points.index)
    frontier = points[on_frontier].sort_values("per user")
    frontier = frontier.join(_bounds(study, frontier))
    unit, device = study.rate_unit, study.configuration.devices[:-1]
    plot = _plot(points[~on_frontier], frontier, unit, device)
    chosen = [name for name in points.columns if name in members(Group.CHOICE)]
    fixed = study.setting(*chosen)
    renamed = {"per user": f"{unit} per user", "per gpu": f"{unit} per {device}"}
    thinned = f" At most {_SHOWN_POINTS} points of each strategy off the frontier are drawn."
    return [
        Figure(
            key="pareto",
            section="Latency against cost",
            title=_title(frontier, unit, device),
            about=f"{len(points)} ways to run, by {', '.join(chosen)}; up is cheaper, right is faster; "
            f"nothing beats the line in both. At {fixed}."
            + (thinned if len(points) - len(frontier) > _SHOWN_POINTS else ""),
            plot=plot,
            table=frontier.drop(columns=["rate"]).rename(columns=renamed),
            provenance=study.provenance,
            interval=study.bounds("Bars"),
            wide=True,
        )
    ]


def _points(study: Study) -> pd.DataFrame:
    """A row per strategy and choice: ``strategy``, options that vary, ``rate``, ``gpus``, ``per user``, ``per gpu``."""
    table = _from_results(study)
    if table is None:
        table = _computed(study)
    points = pd.concat([_ways(table, name) for name in study.names], ignore_index=True)
    batch = points["b"] if "b" in points else study.base.get("b", DEFAULTS["b"])
    return points.assign(**{"per user": points["rate"] / batch, "per gpu": points["rate"] / points["gpus"]})


def _ways(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """One strategy's possible points, once each, by the options that matter to it."""
    varied = [option for option in table.columns if option in members(Group.CHOICE)]
    part = table[varied].assign(strategy=name, rate=table[f"{name}_tokens_per_second"], gpus=table[f"{name}_gpus"])
    part = part.dropna(subset=["rate"])
    for option in varied:
        kept = [other for other in varied if other in part and other != option]
        if option != "b" and not _matters(part, kept):
            part = part.drop(columns=option).drop_duplicates(kept)
    return part


def _matters(part: pd.DataFrame, others: Sequence[str]) -> bool:
    """Say whether points equal in ``others`` differ in their tokens/s or GPUs."""
    results = pd.DataFrame({"rate": part["rate"].map(lambda rate: f"{rate:.{_DIGITS}g}"), "gpus": part["gpus"]})
    alike = results.groupby([grid_keys(part[name]) for name in others], observed=True)
    return bool((alike.nunique() > 1).to_numpy().any())


def _from_results(study: Study) -> pd.DataFrame | None:
    """The grid's points at the base workload; None if there are none, or the batch does not vary."""
    results, axes = study.folder.results, study.folder.axes
    if results is None or "b" not in axes:
        return None
    at_base = pd.Series(True, results.index)
    for name in axes:
        if name not in members(Group.CHOICE):
            at_base &= grid_keys(results[name]) == grid_key(study.base[name])
    if not at_base.any():  # of an unfinished sweep
        return None
    needed = [f"{name}_{what}" for name in study.names for what in ("tokens_per_second", "gpus")]
    return results.loc[at_base, [*(name for name in axes if name in members(Group.CHOICE)), *needed]]


def _computed(study: Study) -> pd.DataFrame:
    """Batches and lookaheads around the base point."""
    rows, choices = [], list(itertools.product(_BATCHES, _LOOKAHEADS))
    found = study.rates([{**study.base, "b": batch, "k": lookahead} for batch, lookahead in choices], draws=False)
    for (batch, lookahead), rates in zip(choices, found, strict=True):
        if isinstance(rates, InputError):
            continue  # does not fit in memory, or has not so many rates by position
        row: dict[str, Any] = {"b": batch, "k": lookahead}
        for name, side in rates.sides.items():
            row |= {f"{name}_tokens_per_second": side.tokens_per_second, f"{name}_gpus": side.scenario.gpus}
        rows.append(row)
    columns = [f"{name}_{what}" for name in study.names for what in ("tokens_per_second", "gpus")]
    return pd.DataFrame(rows, columns=["b", "k", *columns])


def _bounds(study: Study, frontier: pd.DataFrame) -> pd.DataFrame:
    """Relative 95 % bounds of tokens/s."""
    choices = [name for name in frontier.columns if name in members(Group.CHOICE)]
    options = [
        study.alone(row["strategy"], **{name: _plain(row[name]) for name in choices if pd.notna(row[name])})
        for _, row in frontier.iterrows()
    ]
    ends = [
        (np.nan, np.nan) if isinstance(rates, InputError) else rates.interval(name)
        for name, rates in zip(frontier["strategy"], study.rates(options), strict=True)
    ]
    table = pd.DataFrame(ends, frontier.index, ["low / mean", "high / mean"], dtype=float)
    return table.div(frontier["rate"], axis="index")


def _plain(value: Any) -> Any:
    """A Python value out of a column; whole numbers may have become floats beside gaps."""
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plot(dominated: pd.DataFrame, frontier: pd.DataFrame, unit: str, device: str) -> go.Figure:
    plot = new_plot(f"{unit} per user", f"{unit} per {device}", height=440)
    x, y, line = rounded(frontier["per user"]), frontier["per gpu"], {"width": 1.5}
    plot.add_trace(curve(x, y, "frontier", "#808080", mode="lines", line=line, hoverinfo="skip"))
    for name in dict.fromkeys([*dominated["strategy"], *frontier["strategy"]]):
        for rows, on_frontier in ((dominated, False), (frontier, True)):
            mine = rows[rows["strategy"] == name]
            if mine.empty:
                continue
            if not on_frontier and len(mine) > _SHOWN_POINTS:
                mine = mine.sample(_SHOWN_POINTS, random_state=0)
            plot.add_trace(_markers(mine, name, on_frontier, device))
    plot.update_xaxes(rangemode="tozero")
    plot.update_yaxes(rangemode="tozero")
    return plot


def _markers(rows: pd.DataFrame, name: str, on_frontier: bool, device: str) -> go.Scatter:
    error_y, label, mean = None, title_of(name), rows["per gpu"]
    if on_frontier and rows["low / mean"].notna().all():
        error_y = bars(mean, mean * rows["low / mean"], mean * rows["high / mean"], width=2)
    size, opacity = (10, 1.0) if on_frontier else (6, 0.35)
    how: dict[str, Any] = {"marker": {"symbol": symbol_of(name), "size": size, "opacity": opacity}, "error_y": error_y}
    how["text"] = [_describe(row, device) for _, row in rows.iterrows()]
    hover = f"%{{text}}<br>%{{x:.4g}} per user, %{{y:.4g}} per {device}<extra>{label}</extra>"
    title = f"{label}, frontier" if on_frontier else label
    return curve(rounded(rows["per user"]), mean, title, colour_of(name), hover, mode="markers", **how)


def _describe(row: pd.Series, device: str) -> str:
    chosen = [name for name in row.index if name in members(Group.CHOICE) and pd.notna(row[name])]
    return (
        ", ".join(f"{name} {number(_plain(row[name]))}" for name in chosen) + f", {format_count(row['gpus'])} {device}s"
    )


def _title(frontier: pd.DataFrame, unit: str, device: str) -> str:
    """The two ends of the frontier."""
    fastest, cheapest = frontier.iloc[-1], frontier.iloc[0]  # in order of tokens/s per user
    return (
        f"Fastest for a user: {_short(fastest)}, {fastest['per user']:.4g} {unit}; "
        f"cheapest: {_short(cheapest)}, {cheapest['per gpu']:.4g} {unit} per {device}"
    )


def _short(row: pd.Series) -> str:
    chosen = [f"{ALL[name].short} {_plain(row[name])}" for name in ("b", "k", "f") if pd.notna(row.get(name))]
    return f"{title_of(row['strategy'])} ({', '.join(chosen)})"
