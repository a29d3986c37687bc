"""Cache hits: by fan-out, of whole batches, and by the shape of the cache over temperatures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import nan
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ssdsim.base.errors import InputError
from ssdsim.base.option import Group
from ssdsim.base.settings import DEFAULT
from ssdsim.question.options import members
from ssdsim.question.scenario import Scenario
from ssdsim.reports.figure import Figure, LeftOut, numbered
from ssdsim.reports.study import Study, baseline
from ssdsim.reports.style import LOG2_TICKS, PALETTE, colour_of, curve, new_plot, symbol_of, title_of, upper_panel
from ssdsim.rounds.kernel import Kernel, Tokens
from ssdsim.tokens.hit_models import POLICIES
from ssdsim.tokens.pair_choice import chosen_by

_FAN_OUTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_POLICY_LINES = {"uniform": (PALETTE[0], "dot"), "geometric": (PALETTE[2], "solid"), "optimal": (PALETTE[3], "dash")}
_LEFT_OUT = "hit rate against F"
# these do not shape it: points are unit-free, so that a budget too large for memory is no matter
_PRICES = (Group.HARDWARE, Group.UNIT_FREE, Group.GIVEN_DURATIONS, Group.BACKUP_QUALITY)
_VARIED = ("b", "f", "fan_out_policy", "budget", "backup", "strategies", "subject")
_BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_REFERENCE_RATES = (0.5, 0.7, 0.85, 0.95, 0.99)
"""Hit rates of one sequence, whose powers are drawn for comparison."""
_SHAPES = "shapes of the cache by temperature"
_SYMBOLS = {"uniform": "circle-open", "geometric": "square", "optimal": "diamond"}


def mean_kernel(tokens: Tokens) -> Kernel:
    """A request's kernel, averaged over the kinds of requests if they differ."""
    if isinstance(tokens, Kernel):
        return tokens
    return Kernel(tokens.states, np.tensordot(tokens.weights / tokens.weights.sum(), tokens.p, 1))


def _primary_hit_rate(scenario: Scenario) -> float:
    """P(the outcome is cached | the primary speculated), the state in which a sequence starts."""
    kernel = mean_kernel(scenario.tokens)
    misses = kernel.states.index(str(scenario.strategy.miss_state))
    return 1.0 - float(kernel.transitions[0, misses])


def hit_rate(study: Study) -> list[Figure | LeftOut]:
    """Hit rate of a primary speculation against F, by fan-out policy; strategies with the same table share a figure."""
    caching = [each for each in study.caching if each.strategy.guesses(each.settings) is not None]
    if not caching:
        return [LeftOut(_LEFT_OUT, "no strategy of this run caches outcomes")]
    if study.base.get("p_hit") is not None:
        return [LeftOut(_LEFT_OUT, "--p-hit gives the hit rate, so it does not follow from the fan-out")]
    if study.base.get("fl") is not None:
        return [LeftOut(_LEFT_OUT, "--fl gives the fan-outs themselves")]
    alike: list[tuple[pd.DataFrame, list[Scenario]]] = []
    for scenario in caching:
        table = _hit_rates(study, scenario.strategy.name)
        same = next((group for other, group in alike if other.equals(table)), None)
        if same is None:
            alike.append((table, [scenario]))
        else:
            same.append(scenario)
    return [_hit_rate_chart(study, number, table, group, len(alike) > 1) for number, (table, group) in enumerate(alike)]


def _hit_rates(study: Study, name: str) -> pd.DataFrame:
    no_part = {option for group in _PRICES for option in members(group)}.union(_VARIED)
    shape = {option: value for option, value in study.base.items() if option not in no_part}
    shape |= {"strategies": (name,), "t_sd": 1.0, "backup": "jit"}
    cases = list(product(_FAN_OUTS, POLICIES))
    found = study.rates([{**shape, "f": each, "fan_out_policy": policy} for each, policy in cases], draws=False)
    rows: dict[int, dict[str, float]] = {fan_out: {"F": fan_out} for fan_out in _FAN_OUTS}
    for (fan_out, policy), rates in zip(cases, found, strict=True):
        if not isinstance(rates, InputError):  # geometric needs a power law
            rows[fan_out][policy] = _primary_hit_rate(rates.sides[name].scenario)
    return pd.DataFrame(rows.values())


def _hit_rate_chart(study: Study, number: int, table: pd.DataFrame, group: Sequence[Scenario], several: bool) -> Figure:
    who = f"{', '.join(each.strategy.title for each in group)}: the" if several else "The"
    first, last = table["optimal"].iloc[0], table["optimal"].iloc[-1]
    return Figure(
        key=numbered("hit-rate", number),
        section="Hit rate",
        title=f"{who} hit rate grows from {first:.0%} with one guess a position to {last:.0%} with {_FAN_OUTS[-1]}",
        about=f"A budget of F (K+1) guesses spread over the K+1 outcomes of a round. {_law(study)} "
        f"At {study.setting('b', 'f', 'p_hit', 'backup')}.",
        plot=_hit_rate_plot(table, group),
        table=table,
        provenance="Closed form (exact) under the given acceptance and hit curve; reads no timings.",
        interval="No interval: the acceptance rate and the hit curve are taken as known.",
    )


def _hit_rate_plot(table: pd.DataFrame, group: Sequence[Scenario]) -> go.Figure:
    plot = new_plot("fan-out F (guesses a position; log scale)", "hit rate p_hit")
    plot.update_xaxes(type="log", tickvals=LOG2_TICKS[:7])
    plot.update_yaxes(tickformat=".0%")
    for policy in (name for name in POLICIES if name in table):
        colour, dash = _POLICY_LINES[policy]
        hover, line = f"{policy} %{{y:.1%}}<extra>F = %{{x}}</extra>", {"dash": dash, "width": 2.5}
        plot.add_trace(curve(_FAN_OUTS, table[policy], policy, colour, hover, line=line))
    for number, scenario in enumerate(group):
        name = f"this run, {scenario.strategy.title}" if len(group) > 1 else "this run"
        colour = colour_of(scenario.strategy.name) if len(group) > 1 else "#e69f00"
        plot.add_trace(_this_run(scenario, name, colour, size=15 + 8 * (len(group) - 1 - number)))
    return plot


def _this_run(scenario: Scenario, name: str, colour: str, size: int) -> go.Scatter:
    """Star of a strategy at the base point; sizes differ, since stars may coincide."""
    guesses = scenario.strategy.guesses(scenario.settings)
    assert guesses is not None
    hover = f"{name}, {scenario.settings['fan_out_policy']} %{{y:.1%}}<extra>F = %{{x:.3g}}</extra>"
    marker = {"symbol": "star", "size": size, "line": {"width": 1, "color": "#000000"}}
    at, rate = float(np.mean(guesses)), _primary_hit_rate(scenario)
    return curve([at], [rate], name, colour, hover, mode="markers", marker=marker)


def _law(study: Study) -> str:
    settings = study.configuration.settings
    if settings.get("hit_curve") is not None:
        return "One guess hits as often as the measured curve says."
    guessed = all(settings.source(name) == DEFAULT for name in ("hit_c", "hit_r"))
    origin = "; placeholders, not measurements: give --pair, or your own with --hit-c, --hit-r" if guessed else ""
    return f"h(F) = 1 - c F^-r with c = {settings['hit_c']:g}, r = {settings['hit_r']:g}{origin}."


def all_hit(study: Study) -> list[Figure | LeftOut]:
    """P(all sequences of a batch hit) against the batch, for each strategy with a cache."""
    if not study.caching:
        return [LeftOut("hits by batch", "no strategy of this run caches outcomes")]
    found = _hits_by_batch(study)
    if not found:
        return [LeftOut("hits by batch", "no batch fits")]
    table = pd.DataFrame(found)
    plot = new_plot("batch size b (sequences; log scale)", "P(all hit)", height=360)
    plot.update_xaxes(type="log", tickvals=LOG2_TICKS[:7])
    plot.update_yaxes(tickformat=".0%", rangemode="tozero")
    reference = "p<sup>b</sup>, p = " + ", ".join(f"{each:g}" for each in _REFERENCE_RATES)
    for rate in _REFERENCE_RATES:
        powers, hover = (rate**b for b in _BATCHES), f"p = {rate:g}: %{{y:.1%}}<extra>b = %{{x}}</extra>"
        line, legend = {"width": 1, "dash": "dot"}, {"legendgroup": "beside", "showlegend": rate == _REFERENCE_RATES[0]}
        plot.add_trace(curve(_BATCHES, powers, reference, "#808080", hover, mode="lines", line=line, **legend))
    for scenario in study.caching:
        name, title = scenario.strategy.name, scenario.strategy.title
        look = {"line": {"width": 2.5}, "marker": {"symbol": symbol_of(name), "size": 7}}
        hover = f"{title} %{{y:.1%}}<extra>b = %{{x}}</extra>"
        plot.add_trace(curve(table["b"].tolist(), table[f"{title}: all hit"], title, colour_of(name), hover, **look))
    return [
        Figure(
            key="all-hit",
            section="Batch and backup",
            title=_all_hit_title(study, table),
            about="One miss has the whole batch wait, or go on with the backup's tokens. Dotted: independent sequences "
            f"with one hit rate. At {study.setting('b')}.",
            plot=plot,
            table=table,
            provenance="Closed form (exact) under the given acceptance and hits; reads no timings.",
            interval="No interval: acceptance and hits are taken as known.",
        )
    ]


def _hits_by_batch(study: Study) -> list[dict[str, float]]:
    """A row per batch that fits: the hit rate of one sequence, and P(all hit)."""
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
            row[f"{title}: one hits"] = _primary_hit_rate(scenario)
            row[f"{title}: all hit"] = nan if together is None else together
        rows.append(row)
    return rows


def _all_hit_title(study: Study, table: pd.DataFrame) -> str:
    title = study.caching[0].strategy.title
    possible = table.dropna(subset=[f"{title}: all hit"])
    first, last = possible.iloc[0], possible.iloc[-1]
    return (
        f"All sequences of {title} hit in {first[f'{title}: all hit']:.0%} of rounds at batch {first['b']:.0f} and in "
        f"{last[f'{title}: all hit']:.0%} at {last['b']:.0f}"
    )


def cache_shapes(study: Study) -> list[Figure | LeftOut]:
    """Hit rate and speedup of the subject by fan-out policy, over the temperatures of its pair; none without a pair."""
    chosen = chosen_by(study.configurable(study.base), study.configuration.settings.get("temperature"))
    if chosen is None:
        return []
    if len(chosen.pair.by_temperature) < 2:
        return [LeftOut(_SHAPES, "the pair was measured at one temperature")]
    if not study.rivals or study.subject not in [each.strategy.name for each in study.caching]:
        return [LeftOut(_SHAPES, f"{title_of(study.subject)} looks nothing up, or stands alone")]
    if any(study.base.get(name) is not None for name in ("p_hit", "fl")):
        return [LeftOut(_SHAPES, "the hit rate or the fan-outs are given")]
    measured_at = [each.temperature for each in chosen.pair.by_temperature if each.temperature is not None]
    table = pd.DataFrame(_shape_rows(study, measured_at))
    if table.empty:
        return [LeftOut(_SHAPES, "no point is possible")]
    temperatures = ", ".join(f"{each:g}" for each in sorted(set(table["temperature"])))
    return [
        Figure(
            key="cache-shapes",
            section="Hit rate",
            title=_shape_title(table),
            about=f"As many guesses spread evenly over a round's outcomes, by Theorem 12, or best under the measured "
            f"curves; measured at temperatures {temperatures}. At {study.setting('alpha', 'p_hit')}.",
            plot=_shape_plot(study, table),
            table=table,
            provenance=f"{study.provenance} {chosen.source}",
            interval="No interval drawn: the shapes share what is not known.",
        )
    ]


def _shape_rows(study: Study, temperatures: list[float]) -> list[dict[str, Any]]:
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


def _shape_plot(study: Study, table: pd.DataFrame) -> go.Figure:
    above, below = title_of(study.subject), title_of(baseline(study))
    plot = new_plot("temperature", f"{above} / {below} (×)", height=400)
    plot.update_layout(upper_panel("hit rate", tickformat=".0%"))
    for policy in (name for name in POLICIES if name in set(table["policy"])):
        rows, (colour, dash) = table[table["policy"] == policy], _POLICY_LINES[policy]
        for column, axis in (("hit rate", "y2"), ("speedup", "y")):
            look = {"line": {"dash": dash, "width": 2.5}, "marker": {"symbol": _SYMBOLS[policy], "size": 8}}
            place = {"yaxis": axis, "legendgroup": policy, "showlegend": axis == "y"}
            hover = f"{policy}: %{{y:.4g}}<extra>temperature %{{x}}</extra>"
            plot.add_trace(curve(rows["temperature"], rows[column], policy, colour, hover, **look, **place))
    return plot


def _shape_title(table: pd.DataFrame) -> str:
    by = table.pivot_table(index="temperature", columns="policy", values="hit rate")
    shaped = "geometric" if "geometric" in by else "optimal"
    gains = 100.0 * (by[shaped] - by["uniform"])
    first, last = gains.iloc[0], gains.iloc[-1]
    ends = f"at temperature {by.index[0]:g} and {last:.1f} at {by.index[-1]:g}"
    return f"The {shaped} shape gains {np.round(first, 1):.1f} points of hit rate over the uniform one {ends}"
