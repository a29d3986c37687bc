"""The cache hit rate against the fan-out, by policy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ssdsim.base.errors import InputError
from ssdsim.base.option import Group
from ssdsim.base.settings import DEFAULT
from ssdsim.question.options import members
from ssdsim.question.scenario import Scenario
from ssdsim.reports.cache import primary_hit_rate
from ssdsim.reports.figure import Figure, LeftOut, numbered
from ssdsim.reports.study import Study
from ssdsim.reports.style import LOG2_TICKS, PALETTE, colour_of, curve, new_plot
from ssdsim.tokens.hit_models import POLICIES

_FAN_OUTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
POLICY_LINES = {"uniform": (PALETTE[0], "dot"), "geometric": (PALETTE[2], "solid"), "optimal": (PALETTE[3], "dash")}
_LEFT_OUT = "hit rate against F"
# these do not shape it: points are unit-free, so that a budget too large for memory is no matter
_PRICES = (Group.HARDWARE, Group.UNIT_FREE, Group.GIVEN_DURATIONS, Group.BACKUP_QUALITY)
_VARIED = ("b", "f", "fan_out_policy", "budget", "backup", "strategies", "subject")


def hit_rate(study: Study) -> list[Figure | LeftOut]:
    """Hit rate of a primary speculation against F, for each fan-out policy; strategies of one table share a figure."""
    caching = [each for each in study.caching if each.strategy.guesses(each.settings) is not None]
    if not caching:
        return [LeftOut(_LEFT_OUT, "no strategy of this run caches outcomes")]
    if study.base.get("p_hit") is not None:
        return [LeftOut(_LEFT_OUT, "--p-hit gives the hit rate, so it does not follow from the fan-out")]
    if study.base.get("fl") is not None:
        return [LeftOut(_LEFT_OUT, "--fl gives the fan-outs themselves")]
    alike: list[tuple[pd.DataFrame, list[Scenario]]] = []
    for scenario in caching:
        table = _table(study, scenario.strategy.name)
        same = next((group for other, group in alike if other.equals(table)), None)
        if same is None:
            alike.append((table, [scenario]))
        else:
            same.append(scenario)
    return [_figure(study, number, table, group, len(alike) > 1) for number, (table, group) in enumerate(alike)]


def _table(study: Study, name: str) -> pd.DataFrame:
    no_part = {option for group in _PRICES for option in members(group)}.union(_VARIED)
    shape = {option: value for option, value in study.base.items() if option not in no_part}
    shape |= {"strategies": (name,), "t_sd": 1.0, "backup": "jit"}
    cases = list(product(_FAN_OUTS, POLICIES))
    found = study.rates([{**shape, "f": each, "fan_out_policy": policy} for each, policy in cases], draws=False)
    rows: dict[int, dict[str, float]] = {fan_out: {"F": fan_out} for fan_out in _FAN_OUTS}
    for (fan_out, policy), rates in zip(cases, found, strict=True):
        if not isinstance(rates, InputError):  # geometric needs a power law
            rows[fan_out][policy] = primary_hit_rate(rates.sides[name].scenario)
    return pd.DataFrame(rows.values())


def _figure(study: Study, number: int, table: pd.DataFrame, group: Sequence[Scenario], several: bool) -> Figure:
    who = f"{', '.join(each.strategy.title for each in group)}: the" if several else "The"
    first, last = table["optimal"].iloc[0], table["optimal"].iloc[-1]
    return Figure(
        key=numbered("hit-rate", number),
        section="Hit rate",
        title=f"{who} hit rate grows from {first:.0%} with one guess a position to {last:.0%} with {_FAN_OUTS[-1]}",
        about=f"A budget of F (K+1) guesses spread over the K+1 outcomes of a round. {_law(study)} "
        f"At {study.setting('b', 'f', 'p_hit', 'backup')}.",
        plot=_plot(table, group),
        table=table,
        provenance="Closed form (exact) under the given acceptance and hit curve; reads no timings.",
        interval="No interval: the acceptance rate and the hit curve are taken as known.",
    )


def _plot(table: pd.DataFrame, group: Sequence[Scenario]) -> go.Figure:
    plot = new_plot("fan-out F (guesses a position; log scale)", "hit rate p_hit")
    plot.update_xaxes(type="log", tickvals=LOG2_TICKS[:7])
    plot.update_yaxes(tickformat=".0%")
    for policy in (name for name in POLICIES if name in table):
        colour, dash = POLICY_LINES[policy]
        hover, line = f"{policy} %{{y:.1%}}<extra>F = %{{x}}</extra>", {"dash": dash, "width": 2.5}
        plot.add_trace(curve(_FAN_OUTS, table[policy], policy, colour, hover, line=line))
    for number, scenario in enumerate(group):
        name = f"this run, {scenario.strategy.title}" if len(group) > 1 else "this run"
        colour = colour_of(scenario.strategy.name) if len(group) > 1 else "#e69f00"
        plot.add_trace(_this_run(scenario, name, colour, size=15 + 8 * (len(group) - 1 - number)))
    return plot


def _this_run(scenario: Scenario, name: str, colour: str, size: int) -> go.Scatter:
    """The star of a strategy at the base point; of several sizes, since they may stand at one place."""
    guesses = scenario.strategy.guesses(scenario.settings)
    assert guesses is not None
    hover = f"{name}, {scenario.settings['fan_out_policy']} %{{y:.1%}}<extra>F = %{{x:.3g}}</extra>"
    marker = {"symbol": "star", "size": size, "line": {"width": 1, "color": "#000000"}}
    at, rate = float(np.mean(guesses)), primary_hit_rate(scenario)
    return curve([at], [rate], name, colour, hover, mode="markers", marker=marker)


def _law(study: Study) -> str:
    settings = study.configuration.settings
    if settings.get("hit_curve") is not None:
        return "One guess hits as often as the measured curve says."
    guessed = all(settings.source(name) == DEFAULT for name in ("hit_c", "hit_r"))
    origin = "; placeholders, not measurements: give --pair, or your own with --hit-c, --hit-r" if guessed else ""
    return f"h(F) = 1 - c F^-r with c = {settings['hit_c']:g}, r = {settings['hit_r']:g}{origin}."
