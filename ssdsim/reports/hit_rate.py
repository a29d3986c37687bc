"""The cache hit rate against the fan-out, by policy."""

from __future__ import annotations

import pandas as pd

from ssdsim.errors import InputError
from ssdsim.reports.figure import Figure, LeftOut, rounded
from ssdsim.reports.study import Study
from ssdsim.reports.style import LOG2_TICKS, STRATEGY_COLOUR, new_plot
from ssdsim.scenario.configuration import configure
from ssdsim.speculation.hit_models import POLICIES

_FAN_OUTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_LINES = {"uniform": ("#808080", "dot"), "geometric": (STRATEGY_COLOUR["ssd"], "solid"), "optimal": ("#00875f", "dash")}
# what shapes the hit rate; prices do not, so the points are unit-free and a budget too large for memory is no matter
_SHAPES = ("k", "alpha", "alpha_concentration", "acceptance", "hit_c", "hit_r", "hit_c_all", "hit_r_all", "hit_curve")


def hit_rate(study: Study) -> list[Figure | LeftOut]:
    """Hit rate of a primary speculation against F, for each fan-out policy."""
    if study.base.get("p_hit") is not None:
        return [LeftOut("hit rate against F", "--p-hit gives the hit rate, so it does not follow from the fan-out")]
    if study.base.get("fl") is not None:
        return [LeftOut("hit rate against F", "--fl gives the fan-outs themselves")]
    rows = []
    for fan_out in _FAN_OUTS:
        row: dict[str, float] = {"F": fan_out}
        for policy in POLICIES:
            try:
                row[policy] = _rate(study, fan_out, policy)
            except InputError:
                continue  # geometric needs a power law
        rows.append(row)
    table = pd.DataFrame(rows)
    plot = new_plot("fan-out F (guesses a position; log scale)", "hit rate p_hit")
    plot.update_xaxes(type="log", tickvals=LOG2_TICKS[:7])
    plot.update_yaxes(tickformat=".0%")
    for policy in (name for name in POLICIES if name in table):
        colour, dash = _LINES[policy]
        plot.add_scatter(
            x=list(_FAN_OUTS),
            y=rounded(table[policy]),
            name=policy,
            mode="lines+markers",
            line={"color": colour, "dash": dash, "width": 2.5},
            hovertemplate=f"{policy} %{{y:.1%}}<extra>F = %{{x}}</extra>",
        )
    chosen, budget = study.configuration.values["fan_out_policy"], study.configuration.values["budget"]
    plot.add_scatter(
        x=[budget / (study.configuration.scenario.lookahead + 1)],
        y=rounded([study.configuration.scenario.primary.p_hit]),
        name="this run",
        mode="markers",
        marker={"symbol": "star", "size": 15, "color": "#e69f00", "line": {"width": 1, "color": "#000000"}},
        hovertemplate=f"this run, {chosen} %{{y:.1%}}<extra>F = %{{x:.3g}}</extra>",
    )
    first, last = rows[0]["optimal"], rows[-1]["optimal"]
    return [
        Figure(
            key="hit-rate",
            section="Hit rate",
            title=f"The hit rate grows from {first:.0%} with one guess a position to {last:.0%} with {_FAN_OUTS[-1]}",
            about=f"A budget of F (K+1) guesses spread over the K+1 outcomes of a round. {_law(study)} "
            f"At {study.setting('b', 'f', 'p_hit', 'backup')}.",
            plot=plot,
            table=table,
            provenance="Closed form (exact) under the given acceptance and hit curve; reads no timings.",
            interval="No interval: the acceptance rate and the hit curve are taken as known.",
        )
    ]


def _rate(study: Study, fan_out: int, policy: str) -> float:
    base = study.configurable(study.base)
    shape = {name: base[name] for name in _SHAPES if base.get(name) is not None}
    made = configure(t_sd=1.0, backup="jit", f=fan_out, fan_out_policy=policy, **shape)
    return made.scenario.primary.p_hit


def _law(study: Study) -> str:
    values = study.configuration.values
    if values.get("hit_curve") is not None:
        return "One guess hits as often as --hit-curve says."
    given = any(name in study.base for name in ("hit_c", "hit_r"))
    origin = "" if given else "; placeholders, not measurements: give your own with --hit-c, --hit-r"
    return f"h(F) = 1 - c F^-r with c = {values['hit_c']:g}, r = {values['hit_r']:g}{origin}."
