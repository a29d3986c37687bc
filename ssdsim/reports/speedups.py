"""Speedups along one option at a time: the subject over its rivals, and those over the baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from ssdsim.base.errors import InputError
from ssdsim.base.option import Group, number, spelled
from ssdsim.question.configuration import configure
from ssdsim.question.options import ALL, members
from ssdsim.reports.figure import Figure, LeftOut, enumerated, rounded
from ssdsim.reports.study import Ratio, Study, ratios
from ssdsim.reports.style import band, curve, doubling_ticks, interval, new_plot, title_of, upper_panel
from ssdsim.tokens.hit_rates import backup_in_proportion

_SECTION = "Speedups"
KEY = "speedup"
# along which options a chart is drawn where the grid does not say
_ALONG: dict[str, Sequence[Any]] = {
    "b": (1, 2, 4, 8, 16, 32, 64),
    "k": tuple(range(1, 13)),
    "alpha": (0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
    "p_hit": (0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0),
    "f": (1, 2, 3, 4, 6, 8, 12, 16),
}


def speedup_axes(study: Study) -> tuple[str, ...]:
    """The axes of the grid, and those of the usual five that it does not vary."""
    return tuple({**dict.fromkeys(_ALONG, ()), **study.folder.axes})


def speedup(study: Study, axis: str) -> list[Figure | LeftOut]:
    """The subject over its rivals along one option, and those over the baseline."""
    try:
        values = study.folder.axes.get(axis) or _usual_values(study, axis)
        return [_chart(study, axis, values)]
    except InputError as error:
        return [LeftOut(f"speedups over {axis}", str(error))]


def _usual_values(study: Study, axis: str) -> list[Any]:
    """Values of ``axis`` to draw, the base point's among them."""
    if axis not in study.read:
        present = enumerated([title_of(name) for name in study.configuration.scenarios])
        raise InputError(f"{spelled(axis)} has no effect on {present}")
    base = study.configuration.settings.get(axis)
    values = [*_ALONG[axis]]
    if isinstance(base, int | float):
        values = sorted({*values, base})
    (first,) = study.rates([setter(study, axis)(values[0])], draws=False)
    if isinstance(first, InputError):
        raise first
    return values


def setter(study: Study, axis: str) -> Callable[[Any], dict[str, Any]]:
    """A function from a value of ``axis`` to the base options with it."""
    if axis == "p_hit" and study.base.get("p_hit") is None:
        return _at_hit_rate(study)
    return lambda value: {**study.base, axis: value}


def _at_hit_rate(study: Study) -> Callable[[Any], dict[str, Any]]:
    """Set a hit rate: it replaces the cache behind it, but not its work; the backup's hit rate keeps its proportion.

    So the chart passes through the base point, where the cache gave both rates.
    """
    cache = (*members(Group.CACHE_SHAPE), "f", "budget")
    base = {name: value for name, value in study.base.items() if name not in cache}
    if not study.unit_free:
        base["budget"] = study.configuration.settings["budget"]
    if base.get("backup") == "jit":  # every speculation is the primary's
        return lambda p_hit: {**base, "p_hit": p_hit}
    now = configure(**study.configurable({**study.base, "backup": "fast"})).settings
    primary, backup = float(now["p_hit"]), float(now["p_hit_backup"])
    return lambda p_hit: {**base, "p_hit": p_hit, "p_hit_backup": backup_in_proportion(p_hit, primary, backup)}


def _chart(study: Study, axis: str, values: Sequence[Any]) -> Figure:
    drawn = ratios(study)
    table = _table(study, axis, values, drawn)
    drawn = tuple(ratio for ratio in drawn if table[ratio.key].notna().sum() > 1)
    if not drawn:
        raise InputError(f"fewer than two of its values are possible: {table['not possible'].dropna().iloc[0]}")
    replaces = axis == "p_hit" and "p_hit" not in study.base
    fixed = study.setting(axis, *(["f"] if replaces else []))
    return Figure(
        key=f"{KEY}-{axis}",
        section=_SECTION,
        title=_title(axis, table, drawn[0]),
        about=f"At {fixed}.{_note(study, axis)}",
        plot=_plot(axis, values, table, drawn),
        table=table.dropna(axis="columns", how="all"),
        provenance=study.provenance,
        interval=study.interval,
        axis=axis if axis in study.folder.axes else None,
    )


def _table(study: Study, axis: str, values: Sequence[Any], drawn: Sequence[Ratio]) -> pd.DataFrame:
    """A row per value: each ratio with its bounds, and why the value or one of the strategies is not possible."""
    rows = []
    for value, rates in zip(values, study.rates(map(setter(study, axis), values)), strict=True):
        row: dict[str, Any] = {axis: value if isinstance(value, int | float | str) else str(value)}
        if isinstance(rates, InputError):
            rows.append({**row, "not possible": str(rates)})
            continue
        for each in drawn:
            ratio, low, high = rates.ratio(each.above, each.below)
            row |= {each.key: ratio, f"{each.key} low": low, f"{each.key} high": high}
        rows.append({**row, "not possible": rates.reason})
    columns = [axis, *(f"{each.key}{end}" for each in drawn for end in ("", " low", " high")), "not possible"]
    return pd.DataFrame(rows, columns=columns)


def _note(study: Study, axis: str) -> str:
    """A note on the relation of fan-out and hit rate in this chart."""
    if axis == "f" and "p_hit" in study.base:
        return " F is the draft's work only, since the hit rate is given."
    if axis == "p_hit" and "p_hit" not in study.base and not study.unit_free:
        return f" The draft's work stays that of {study.configuration.settings['budget']} cached outcomes a sequence."
    return ""


def _title(axis: str, table: pd.DataFrame, ratio: Ratio) -> str:
    possible = table.dropna(subset=[ratio.key])
    ratios, at = possible[ratio.key].tolist(), [number(value) for value in possible[axis]]
    symbol = ALL[axis].axis.split(" (")[0]
    who, whom = title_of(ratio.above), title_of(ratio.below)
    if f"{min(ratios):.2f}" == f"{max(ratios):.2f}":
        return f"Over {symbol}: {who} stays at {ratios[0]:.2f}x {whom}"
    best = ratios.index(max(ratios))
    peak = f", at most {ratios[best]:.2f}x at {at[best]}" if 0 < best < len(ratios) - 1 else ""
    return f"Over {symbol}: {who} is {ratios[0]:.2f}x {whom} at {at[0]} and {ratios[-1]:.2f}x at {at[-1]}{peak}"


def _plot(axis: str, values: Sequence[Any], table: pd.DataFrame, drawn: Sequence[Ratio]) -> go.Figure:
    """The subject over its rivals above, on a scale of its own; everything over the baseline below."""
    upper, lower = ([r for r in drawn if r.over_baseline is over_baseline] for over_baseline in (False, True))
    plot = new_plot(ALL[axis].axis, _axis_title(lower or upper), height=400)
    x = table[axis].tolist()
    numeric = all(isinstance(value, int | float) for value in values)
    if numeric and ALL[axis].doubling:
        ticks = doubling_ticks(min(x), max(x))
        plot.update_xaxes(type="log", tickvals=ticks if len(ticks) > 1 else x)
    elif not numeric:
        plot.update_xaxes(type="category")
    panels = {"y": lower or upper}
    if upper and lower:
        panels = {"y": lower, "y2": upper}
        plot.update_layout(upper_panel(_axis_title(upper)))
    for ratio in drawn:
        for trace in _line(x, table, ratio):
            plot.add_trace(trace.update(yaxis=next(panel for panel, those in panels.items() if ratio in those)))
    for panel in panels:
        line = {"width": 1, "color": "#808080"}
        plot.add_shape(type="line", xref="paper", x0=0, x1=1, yref=panel, y0=1, y1=1, line=line)
    return plot


def _axis_title(panel: Sequence[Ratio]) -> str:
    """Axis title: what the ratios of a panel have in common."""
    if len(panel) == 1:
        return f"{panel[0].title} (×)"
    if len({ratio.below for ratio in panel}) == 1:
        return f"over {title_of(panel[0].below)} (×)"
    return f"{title_of(panel[0].above)} / rival (×)"


def _line(x: list[Any], table: pd.DataFrame, ratio: Ratio) -> Iterator[go.Scatter]:
    """The 95 % band, if there is one, and the line; one legend entry hides both."""
    low, high = table[f"{ratio.key} low"], table[f"{ratio.key} high"]
    bounded = low.notna() & high.notna()
    if bounded.any():
        inside = [i for i in table.index if bounded[i]]
        there, bottom, top = ([values[i] for i in inside] for values in (x, low, high))
        yield interval(there, bottom, top, band(ratio.colour), ratio.key, meta="band")
    look = {"line": {"dash": ratio.dash, "width": 2.5}, "marker": {"size": 6, "symbol": ratio.symbol}}
    more: dict[str, Any] = {"legendgroup": ratio.key, "meta": ratio.key, **look}
    said = ""
    if bounded.any():
        more["customdata"] = [rounded(pair) for pair in zip(low, high, strict=True)]
        said = "<br>95 % %{customdata[0]:.3f} to %{customdata[1]:.3f}"
    hover = f"{ratio.title} %{{y:.3f}}×{said}<extra>%{{x}}</extra>"
    yield curve(x, table[ratio.key], ratio.title, ratio.colour, hover, **more)
