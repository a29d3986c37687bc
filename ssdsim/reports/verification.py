"""The cost of verifying K + 1 tokens over decoding one, where the target is a mixture of experts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ssdsim.base.record import replace
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.site import Site
from ssdsim.reports.figure import Figure, LeftOut
from ssdsim.reports.study import Study
from ssdsim.reports.style import band, curve, interval, look_at, new_plot
from ssdsim.transformer.operations import ExpertMlp

_LOOKAHEADS = range(13)
_BATCHES = (1, 4, 16, 64)
_DRAWS = 400


def verification_cost(study: Study) -> list[Figure | LeftOut]:
    """T_v over T_ar against K at several batches; nothing for dense targets, whose verification is almost free."""
    site = study.configuration.site
    if site is None or site.target.experts is None:
        return []
    table = _table(site, study.seed)
    plot = new_plot("lookahead K (tokens)", "verification of K + 1 tokens / decoding one (×)", height=360)
    for number, batch in enumerate(sorted(set(table["b"].tolist()))):
        plot.add_traces(_line(batch, table[table["b"] == batch], *look_at(number)))
    own = table[(table["b"] == table["b"].min()) & (table["K"] == 3)].iloc[0]
    return [
        Figure(
            key="verification",
            section="Verification",
            title=f"Verifying 4 tokens takes {own['T_v/T_ar']:.2f}× the time of decoding one at batch {own['b']:.0f}",
            about=f"Of {site.target.name} on {site.tp} {site.profile.name}. More tokens touch more of a layer's "
            f"{site.target.experts.count} experts, until all are read anyway: the table says how many are touched.",
            plot=plot,
            table=table,
            provenance=f"Passes as priced: {study.timings}.",
            interval="Band: 95 % interval of the timings' errors, which move both passes together.",
        )
    ]


def _table(site: Site, seed: int) -> pd.DataFrame:
    errors, rows = TimingErrors(_DRAWS, seed), []
    for batch in sorted({*_BATCHES, site.batch}):
        here = replace(site, batch=batch)
        passes = [here.target_pass("verify", k + 1) for k in _LOOKAHEADS]
        one_s, one = passes[0].cost.seconds, passes[0].cost.sample(errors)
        for k, work in zip(_LOOKAHEADS, passes, strict=True):
            low, high = np.quantile(work.cost.sample(errors) / one, (0.025, 0.975))
            touched = next(op.touched for op, _ in work.forward.counted() if isinstance(op, ExpertMlp))
            ratio = work.cost.seconds / one_s
            rows.append({"b": batch, "K": k, "T_v/T_ar": ratio, "low": low, "high": high, "experts touched": touched})
    return pd.DataFrame(rows)


def _line(batch: int, rows: pd.DataFrame, colour: str, symbol: str) -> tuple[go.Scatter, go.Scatter]:
    ks, name = rows["K"].tolist(), f"batch {batch}"
    around = interval(ks, rows["low"].tolist(), rows["high"].tolist(), band(colour), name)
    hover, look = f"{name}: %{{y:.3f}}×<extra>K = %{{x}}</extra>", {"line": {"width": 2.5}, "legendgroup": name}
    marker = {"size": 7, "symbol": symbol}
    return around, curve(ks, rows["T_v/T_ar"], name, colour, hover, marker=marker, **look)
