"""The figure of whole batches that hit: what one miss costs a round grows with the batch."""

from __future__ import annotations

from math import nan

import pandas as pd

from ssdsim.base.errors import InputError
from ssdsim.reports.cache import primary_hit_rate
from ssdsim.reports.figure import Figure, LeftOut
from ssdsim.reports.study import Study
from ssdsim.reports.style import LOG2_TICKS, colour_of, curve, new_plot, symbol_of

_BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_BESIDE = (0.5, 0.7, 0.85, 0.95, 0.99)
"""Hit rates of one sequence, whose powers are drawn beside the run's."""


def all_hit(study: Study) -> list[Figure | LeftOut]:
    """P(all sequences of a batch hit) against the batch, of each strategy that looks outcomes up."""
    if not study.caching:
        return [LeftOut("hits by batch", "no strategy of this run caches outcomes")]
    found = _rates(study)
    if not found:
        return [LeftOut("hits by batch", "no batch fits")]
    table = pd.DataFrame(found)
    plot = new_plot("batch size b (sequences; log scale)", "P(all hit)", height=360)
    plot.update_xaxes(type="log", tickvals=LOG2_TICKS[:7])
    plot.update_yaxes(tickformat=".0%", rangemode="tozero")
    beside = "p<sup>b</sup>, p = " + ", ".join(f"{each:g}" for each in _BESIDE)
    for rate in _BESIDE:
        powers, hover = (rate**b for b in _BATCHES), f"p = {rate:g}: %{{y:.1%}}<extra>b = %{{x}}</extra>"
        line, legend = {"width": 1, "dash": "dot"}, {"legendgroup": "beside", "showlegend": rate == _BESIDE[0]}
        plot.add_trace(curve(_BATCHES, powers, beside, "#808080", hover, mode="lines", line=line, **legend))
    for scenario in study.caching:
        name, title = scenario.strategy.name, scenario.strategy.title
        look = {"line": {"width": 2.5}, "marker": {"symbol": symbol_of(name), "size": 7}}
        hover = f"{title} %{{y:.1%}}<extra>b = %{{x}}</extra>"
        plot.add_trace(curve(table["b"].tolist(), table[f"{title}: all hit"], title, colour_of(name), hover, **look))
    return [
        Figure(
            key="all-hit",
            section="Batch and backup",
            title=_title(study, table),
            about="One miss has the whole batch wait, or go on with the backup's tokens. Dotted: independent sequences "
            f"with one hit rate. At {study.setting('b')}.",
            plot=plot,
            table=table,
            provenance="Closed form (exact) under the given acceptance and hits; reads no timings.",
            interval="No interval: acceptance and hits are taken as known.",
        )
    ]


def _rates(study: Study) -> list[dict[str, float]]:
    """A row a batch that fits: a sequence's hit rate, and how often all hit."""
    rows = []
    found = study.rates([{**study.base, "b": batch} for batch in _BATCHES], draws=False)
    for batch, rates in zip(_BATCHES, found, strict=True):
        if isinstance(rates, InputError):
            continue
        row: dict[str, float] = {"b": batch}
        for name in (each.strategy.name for each in study.caching if each.strategy.name in rates.sides):
            scenario = rates.sides[name].scenario
            title = scenario.strategy.title
            together = scenario.estimate.p_all_hit
            row[f"{title}: one hits"] = primary_hit_rate(scenario)
            row[f"{title}: all hit"] = nan if together is None else together
        rows.append(row)
    return rows


def _title(study: Study, table: pd.DataFrame) -> str:
    title = study.caching[0].strategy.title
    possible = table.dropna(subset=[f"{title}: all hit"])
    first, last = possible.iloc[0], possible.iloc[-1]
    return (
        f"All sequences of {title} hit in {first[f'{title}: all hit']:.0%} of rounds at batch {first['b']:.0f} and in "
        f"{last[f'{title}: all hit']:.0%} at {last['b']:.0f}"
    )
