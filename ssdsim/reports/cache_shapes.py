"""Shapes of the cache by temperature: what a better spread of guesses over a round's outcomes gains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ssdsim.base.errors import InputError
from ssdsim.reports.figure import Figure, LeftOut
from ssdsim.reports.hit_rate import POLICY_LINES
from ssdsim.reports.ratios import baseline
from ssdsim.reports.study import Study
from ssdsim.reports.style import curve, new_plot, title_of, upper_panel
from ssdsim.tokens.hit_models import POLICIES
from ssdsim.tokens.pair_choice import chosen_by

_WHAT = "shapes of the cache by temperature"
_SYMBOLS = {"uniform": "circle-open", "geometric": "square", "optimal": "diamond"}


def cache_shapes(study: Study) -> list[Figure | LeftOut]:
    """Hit rate and speed of the subject by fan-out policy over the temperatures of its pair; none without a pair."""
    chosen = chosen_by(study.configurable(study.base), study.configuration.settings.get("temperature"))
    if chosen is None:
        return []
    if len(chosen.pair.by_temperature) < 2:
        return [LeftOut(_WHAT, "the pair was measured at one temperature")]
    if not study.rivals or study.subject not in [each.strategy.name for each in study.caching]:
        return [LeftOut(_WHAT, f"{title_of(study.subject)} looks nothing up, or stands alone")]
    if any(study.base.get(name) is not None for name in ("p_hit", "fl")):
        return [LeftOut(_WHAT, "the hit rate or the fan-outs are given")]
    measured_at = [each.temperature for each in chosen.pair.by_temperature if each.temperature is not None]
    table = pd.DataFrame(_rows(study, measured_at))
    if table.empty:
        return [LeftOut(_WHAT, "no point is possible")]
    temperatures = ", ".join(f"{each:g}" for each in sorted(set(table["temperature"])))
    return [
        Figure(
            key="cache-shapes",
            section="Hit rate",
            title=_title(table),
            about=f"As many guesses spread evenly over a round's outcomes, by Theorem 12, or best under the measured "
            f"curves; measured at temperatures {temperatures}. At {study.setting('alpha', 'p_hit')}.",
            plot=_plot(study, table),
            table=table,
            provenance=f"{study.provenance} {chosen.source}",
            interval="No interval drawn: the shapes share what is not known.",
        )
    ]


def _rows(study: Study, temperatures: list[float]) -> list[dict[str, Any]]:
    rows = []
    shapes = [{"temperature": each, "fan_out_policy": policy} for each in sorted(temperatures) for policy in POLICIES]
    found = study.rates([{**study.base, **shape} for shape in shapes], draws=False)
    for shape, rates in zip(shapes, found, strict=True):
        if isinstance(rates, InputError) or study.subject not in rates.sides:
            continue  # geometric needs a power law; a strategy may have no room
        over, hits = rates.ratio(study.subject, baseline(study))[0], rates.sides[study.subject].scenario.estimate.p_hit
        temperature, policy = shape.values()
        rows.append({"temperature": temperature, "policy": policy, "hit rate": hits, "speedup": over})
    return rows


def _plot(study: Study, table: pd.DataFrame) -> go.Figure:
    above, below = title_of(study.subject), title_of(baseline(study))
    plot = new_plot("temperature", f"{above} / {below} (×)", height=400)
    plot.update_layout(upper_panel("hit rate", tickformat=".0%"))
    for policy in (name for name in POLICIES if name in set(table["policy"])):
        rows, (colour, dash) = table[table["policy"] == policy], POLICY_LINES[policy]
        for column, axis in (("hit rate", "y2"), ("speedup", "y")):
            look = {"line": {"dash": dash, "width": 2.5}, "marker": {"symbol": _SYMBOLS[policy], "size": 8}}
            place = {"yaxis": axis, "legendgroup": policy, "showlegend": axis == "y"}
            hover = f"{policy}: %{{y:.4g}}<extra>temperature %{{x}}</extra>"
            plot.add_trace(curve(rows["temperature"], rows[column], policy, colour, hover, **look, **place))
    return plot


def _title(table: pd.DataFrame) -> str:
    by = table.pivot_table(index="temperature", columns="policy", values="hit rate")
    shaped = "geometric" if "geometric" in by else "optimal"
    gains = 100.0 * (by[shaped] - by["uniform"])
    first, last = gains.iloc[0], gains.iloc[-1]
    ends = f"at temperature {by.index[0]:g} and {last:.1f} at {by.index[-1]:g}"
    return f"The {shaped} shape gains {np.round(first, 1):.1f} points of hit rate over the uniform one {ends}"
