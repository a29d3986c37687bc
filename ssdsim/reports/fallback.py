"""The better fallback by batch: drafting just in time or a fast backup, Theorem 17's b*, where predictions cross."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from ssdsim.answers.verdict import rivals
from ssdsim.base.errors import InputError
from ssdsim.question.scenario import Scenario
from ssdsim.reports.figure import Figure, LeftOut, numbered
from ssdsim.reports.hits import mean_kernel
from ssdsim.reports.study import PointRates, Study
from ssdsim.reports.style import band, curve, doubling_ticks, interval, new_plot, title_of
from ssdsim.tokens.theory import critical_batch_size, crossing_batch_size

_BATCHES = (*range(1, 17), 20, 24, 28, 32, 40, 48, 56, 64)
_LINES = {"jit": ("#00875f", "solid"), "fast": ("#e69f00", "dash")}
_MEANING = {"jit": "draft just in time", "fast": "fast backup"}
_LEFT_OUT = "batch and backup"

_ByBackup = Mapping[str, Mapping[int, PointRates]]


def fallback(study: Study) -> list[Figure | LeftOut]:
    """Speedup over the batch with either fallback, of each strategy that can choose one."""
    choosing = [scenario for scenario in study.caching if _has_the_choice(scenario)]
    if not choosing:
        return [LeftOut(_LEFT_OUT, "no strategy of this run chooses what it falls back on")]
    if len(study.names) < 2:
        return [LeftOut(_LEFT_OUT, f"{choosing[0].strategy.title} stands alone: --strategies names rivals")]
    rates, full = _rates(study)
    made: list[Figure | LeftOut] = []
    for number, scenario in enumerate(choosing):
        name = scenario.strategy.name
        own, why = _possible(rates, name, rivals(name, study.names)[0])
        if len(own["jit"]) < 2:
            made.append(LeftOut(_LEFT_OUT, full or why))
        else:
            made.append(_figure(study, numbered("fallback", number), name, own, bool(full or why), len(choosing) > 1))
    return made


def _has_the_choice(scenario: Scenario) -> bool:
    undecided = scenario.settings.copy()
    undecided.settle("backup", "auto", "asked here")
    return {own["backup"] for own in scenario.strategy.alternatives(undecided)} >= set(_LINES)


def _rates(study: Study) -> tuple[_ByBackup, str]:
    """Rates by fallback and batch, and why no larger batch fits."""
    rates: dict[str, dict[int, PointRates]] = {backup: {} for backup in _LINES}
    of = {backup: study.rates([study.with_backup(backup, b=batch) for batch in _BATCHES]) for backup in _LINES}
    for at, batch in enumerate(_BATCHES):
        for backup in _LINES:
            found = of[backup][at]
            if isinstance(found, InputError):
                return {backup: {n: by[n] for n in by if n < batch} for backup, by in rates.items()}, str(found)
            rates[backup][batch] = found
    return rates, ""


def _possible(rates: _ByBackup, name: str, rival: str) -> tuple[_ByBackup, str]:
    """Rates up to the largest batch at which both strategies fit, and why no larger one does."""
    for batch in rates["jit"]:
        for rate in (rates[backup][batch] for backup in _LINES):
            if not {name, rival} <= rate.sides.keys():
                until = {b: {n: each for n, each in of.items() if n < batch} for b, of in rates.items()}
                return until, rate.reason or ""
    return rates, ""


def _figure(study: Study, key: str, name: str, rates: _ByBackup, bounded: bool, several: bool) -> Figure:
    rival = rivals(name, study.names)[0]
    table = _table(rates, name, rival)
    crossing, largest = _crossing(rates, name), max(rates["jit"])
    b_star = _b_star(rates["jit"][1].sides[name].scenario, rates["fast"][1].sides[name].scenario)
    plot = _plot(table, name, rival)
    _mark(plot, table, crossing, b_star)
    memory = f" Batches above {largest} do not fit in memory." if bounded else ""
    theorem = "" if b_star is None else "b* is Theorem 17's, with the costs at b = 1; "
    return Figure(
        key=key,
        section="Batch and backup",
        title=_title(crossing, largest, f"{title_of(name)}: " if several else ""),
        about=f"{title_of(name)} over {title_of(rival)} against the batch. One miss stalls the whole batch while the "
        f"draft drafts just in time; a fast backup costs tokens but no time. {theorem}the crossing is of the two full "
        f"predictions.{memory} At {study.setting('b', 'backup')}.",
        plot=plot,
        table=table,
        provenance=study.provenance,
        interval=study.interval,
    )


def _table(rates: _ByBackup, name: str, rival: str) -> pd.DataFrame:
    rows = []
    for batch in rates["jit"]:
        estimate = rates["jit"][batch].sides[name].scenario.estimate
        row: dict[str, Any] = {"b": batch, "P(all hit), jit": estimate.p_all_hit}
        for backup, by_batch in rates.items():
            ratio, low, high = by_batch[batch].ratio(name, rival)
            row |= {f"{backup}: {name}/{rival}": ratio, f"{backup}: low": low, f"{backup}: high": high}
        rows.append(row)
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def _crossing(rates: _ByBackup, name: str) -> float:
    """The first batch shown at which the fast backup is not slower."""
    shown = list(rates["jit"])

    def rate(backup: str, index: int) -> float:
        return rates[backup][shown[index - 1]].sides[name].tokens_per_second

    index = crossing_batch_size(lambda i: rate("jit", i), lambda i: rate("fast", i), len(shown))
    return shown[int(index) - 1] if math.isfinite(index) else math.inf


def _b_star(jit: Scenario, fast: Scenario) -> float | None:
    """Theorem 17's b*: hit rate and tokens with a fast backup, and K fresh draft steps as the slow one's time.

    None where rounds have other states than after a hit and after a miss: the theorem does not cover them.
    """
    kernel = mean_kernel(fast.tokens)
    if len(kernel.states) != 2:
        return None
    miss = kernel.states.index(str(fast.strategy.miss_state))
    hit = 1 - miss
    t_b = _seconds(jit, "fallback") / _seconds(jit, "verify")
    e_hit, e_miss = kernel.expected_tokens[[hit, miss]].tolist()
    return critical_batch_size(float(kernel.transitions[hit, hit]), t_b, e_hit, e_miss)


def _seconds(scenario: Scenario, part: str) -> float:
    return sum(step.seconds for step in scenario.steps.values() if step.part == part)


def _plot(table: pd.DataFrame, name: str, rival: str) -> go.Figure:
    above, below = title_of(name), title_of(rival)
    plot = new_plot("batch size b (sequences; log scale)", f"{above} / {below} (×)", height=360)
    plot.update_xaxes(type="log", tickvals=doubling_ticks(1, table["b"].max()))
    for backup in _LINES:
        for trace in _line(table, backup, f"{backup}: {name}/{rival}"):
            plot.add_trace(trace)
    plot.add_hline(y=1.0, line={"width": 1, "color": "#808080"}, annotation_text=below, annotation_position="top right")
    return plot


def _line(table: pd.DataFrame, backup: str, ratio: str) -> Iterator[go.Scatter]:
    colour, dash = _LINES[backup]
    batches = table["b"].tolist()
    if f"{backup}: low" in table:
        low, high = table[f"{backup}: low"].tolist(), table[f"{backup}: high"].tolist()
        yield interval(batches, low, high, band(colour, 0.25), backup)
    look = {"line": {"dash": dash, "width": 2.5}, "marker": {"size": 6}}
    hover = f"{_MEANING[backup]} %{{y:.3f}}×<extra>b = %{{x}}</extra>"
    yield curve(batches, table[ratio], _MEANING[backup], colour, hover, **look, legendgroup=backup)


def _mark(plot: go.Figure, table: pd.DataFrame, crossing: float, b_star: float | None) -> None:
    """Vertical lines for crossing and b*, labelled at the top and at the bottom: the two are often close."""
    largest = table["b"].max()
    marks = [(crossing, f"crossing b = {crossing:g}", "dash", 1.0)]
    if b_star is not None:
        marks.append((b_star, f"b* = {b_star:.2f}", "dot", 0.0))
    for at, text, dash, height in marks:
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


def _title(crossing: float, largest: int, who: str) -> str:
    if crossing == 1:
        sentence = "The fast backup is at least as good at every batch from 1 on"
    elif math.isinf(crossing):
        sentence = f"Drafting just in time is the better backup at every batch up to {largest}"
    else:
        sentence = f"Draft just in time below batch {crossing:g}; from there on the fast backup is better"
    return who + (sentence[0].lower() + sentence[1:] if who else sentence)
