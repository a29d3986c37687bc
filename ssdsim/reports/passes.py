"""Passes on their devices: operations against the roofs, and what verification costs over decoding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ssdsim.answers.roofline import BOUNDS, of_steps, summarise
from ssdsim.base.record import replace
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.site import Site
from ssdsim.reports.figure import Figure, LeftOut, rounded
from ssdsim.reports.study import DRAWS, Study
from ssdsim.reports.style import PALETTE, band, colour_and_symbol, curve, interval, new_plot
from ssdsim.transformer.operations import ExpertMlp, Gemm
from ssdsim.transformer.precision import Precision

_PASS_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
_COLOURS = tuple(PALETTE[place] for place in (3, 1, 4, 2, 5, 0))
_IN_TITLE = 3  # passes in the title
_LOOKAHEADS = range(13)
_BATCHES = (1, 4, 16, 64)


def roofs(study: Study) -> list[Figure | LeftOut]:
    """Achieved FLOP/s against intensity, a marker per operation with arithmetic."""
    site = study.configuration.site
    if site is None:
        return [LeftOut("roofline", "unit-free: no hardware, so no roofs")]
    table = _operations(study)
    passes = list(dict.fromkeys(table["pass"]))
    arithmetic = table[table["flops"] > 0]
    plot = new_plot("intensity (FLOP/byte; log scale)", "achieved TFLOP/s of a device (log scale)", height=440)
    for line in _roof_lines(site, arithmetic):
        plot.add_trace(line)
    for number, name in enumerate(passes):
        colour, symbol = _COLOURS[number % len(_COLOURS)], _PASS_SYMBOLS[number % len(_PASS_SYMBOLS)]
        plot.add_trace(_markers(arithmetic[arithmetic["pass"] == name], name, colour, symbol))
    plot.update_xaxes(type="log", dtick=1)
    plot.update_yaxes(type="log", dtick=1)
    without = 1.0 - arithmetic.groupby("pass")["share_of_pass"].sum()
    others = ", ".join(f"{without[name]:.0%} of {name}" for name in passes)
    shown = table[["pass", "operation", "shape", "count", "bound", "intensity"]].copy()
    shown["TFLOP/s"], shown["us a run"] = table["flops_per_second"] / 1e12, 1e6 * table["seconds"]
    return [
        Figure(
            key="roofline",
            section="Roofline",
            title=_roofs_title(table),
            about="Filled markers are matrix products, open ones attention; larger ones take more of their pass. What "
            f"has no arithmetic (messages, element-wise kernels, host gaps) takes {others} and is in the table only. "
            f"At {study.setting('alpha', 'p_hit', 'backup')}.",
            plot=plot,
            table=shown.assign(**{"share of roof": table["share_of_roof"], "share of pass": table["share_of_pass"]}),
            provenance=f"Roofs: the profile's (of a datasheet, or what a calibration reached). Times: {study.timings}.",
            interval="No interval drawn: the held-out errors of the timings are under Provenance.",
            wide=True,
        )
    ]


def _operations(study: Study) -> pd.DataFrame:
    """Operations of all passes, the subject's first; a pass unlike another of its name is named after its strategy,
    too.
    """
    scenarios = study.configuration.scenarios.values()
    taken: dict[str, pd.DataFrame] = {}
    for scenario in sorted(scenarios, key=lambda each: each.strategy.name != study.subject):
        for name, rows in of_steps([scenario.steps]).groupby("pass", sort=False):
            own = f"{name} ({scenario.strategy.title})"
            there = taken.setdefault(str(name), rows)
            one, other = (each.drop(columns="times").reset_index(drop=True) for each in (there, rows))
            if not one.equals(other):  # a round may have more of the same pass
                taken[own] = rows.assign(**{"pass": own})
    return pd.concat(taken.values(), ignore_index=True)


def _roof_lines(site: Site, arithmetic: pd.DataFrame) -> Iterator[go.Scatter]:
    """Limits of memory and arithmetic, a line per device and dtype."""
    sides = ((site.profile, site.precision_of("target")), (site.draft_profile, site.precision_of("draft")))
    roofs = {
        (profile.name, dtype): profile for profile, precision in sides for dtype in _arithmetic(precision, profile)
    }
    smallest, largest = arithmetic["intensity"].min() / 2, arithmetic["intensity"].max() * 4
    for (name, dtype), profile in roofs.items():
        yield _roof_line(profile, dtype, f"roofs of {name}, {dtype}", smallest, largest)


def _arithmetic(precision: Precision, profile: HardwareProfile) -> Iterator[str]:
    """The dtypes in which a model's operations are computed on a device."""
    weights = (precision.attention, precision.of("attention_out"), precision.mlp, precision.lm_head)
    operations = (Gemm("", 1, 1, 1, kept, precision.activations) for kept in weights)
    for op in operations:
        yield profile.device.multiplies_in(op) or precision.activations
    yield precision.activations  # attention


def _roof_line(profile: HardwareProfile, dtype: str, name: str, smallest: float, largest: float) -> go.Scatter:
    bandwidth, peak = profile.device.memory_bandwidth, profile.device.peak_flops.get(dtype, float("inf"))
    ridge = peak / bandwidth
    corners = sorted({smallest, min(max(smallest, ridge), 4 * largest), max(largest, min(4 * largest, 2 * ridge))})
    allowed = (min(peak, bandwidth * x) / 1e12 for x in corners)
    hover = f"{name}<br>%{{y:.3g}} TFLOP/s at %{{x:.3g}} FLOP/byte<extra></extra>"
    return curve(rounded(corners), allowed, name, "#808080", hover, mode="lines", line={"width": 2})


def _markers(rows: pd.DataFrame, name: str, colour: str, symbol: str) -> go.Scatter:
    return go.Scatter(
        x=rounded(rows["intensity"]),
        y=rounded(rows["flops_per_second"] / 1e12),
        text=[f"{operation} {shape}" for operation, shape in zip(rows["operation"], rows["shape"], strict=True)],
        customdata=[
            [bound, f"{share:.0%}", f"{of_roof:.0%}"]
            for bound, share, of_roof in zip(rows["bound"], rows["share_of_pass"], rows["share_of_roof"], strict=True)
        ],
        mode="markers",
        name=name,
        marker={
            "color": colour,
            "symbol": [symbol + ("-open" if kind == "attention" else "") for kind in rows["kind"]],
            "size": rounded(7 + 26 * rows["share_of_pass"] ** 0.5),
            "opacity": 0.75,
            "line": {
                "width": [2 if kind == "attention" else 1 for kind in rows["kind"]],
                "color": [colour if kind == "attention" else "#ffffff" for kind in rows["kind"]],
            },
        },
        hovertemplate="%{text}<br>bound by %{customdata[0]}, %{customdata[1]} of the pass, %{customdata[2]} of the roof"
        f"<extra>{name}</extra>",
    )


def _roofs_title(table: pd.DataFrame) -> str:
    """What binds most of the time of each of the first passes."""
    shares = summarise(table).set_index("pass")[[f"{bound}_share" for bound in BOUNDS]].head(_IN_TITLE)
    parts, before = [], None
    for name, row in shares.iterrows():
        most = str(row.idxmax()).removesuffix("_share")
        bound = "" if most == before else ("fixed costs take " if most == "fixed" else f"{most} binds ")
        parts.append(f"{bound}{row.max():.0%} of {name}")
        before = most
    sentence = ", ".join(parts)
    return sentence[0].upper() + sentence[1:]


def verification_cost(study: Study) -> list[Figure | LeftOut]:
    """T_v over T_ar against K at several batches; none for dense targets, whose verification is almost free."""
    site = study.configuration.site
    if site is None or site.target.experts is None:
        return []
    table = _verification_table(site, study.seed)
    plot = new_plot("lookahead K (tokens)", "verification of K + 1 tokens / decoding one (×)", height=360)
    for number, batch in enumerate(sorted(set(table["b"].tolist()))):
        plot.add_traces(_verification_line(batch, table[table["b"] == batch], *colour_and_symbol(number)))
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


def _verification_table(site: Site, seed: int) -> pd.DataFrame:
    errors, rows = TimingErrors(DRAWS, seed), []
    for batch in sorted({*_BATCHES, site.batch}):
        here = replace(site, batch=batch)
        passes = [here.target_pass("verify", k + 1) for k in _LOOKAHEADS]
        one_s, one = passes[0].cost.seconds, passes[0].cost.sample(errors)
        for k, work in zip(_LOOKAHEADS, passes, strict=True):
            low, high = np.quantile(work.cost.sample(errors) / one, (0.025, 0.975))
            touched = next(op.touched for op, _ in work.forward.counted if isinstance(op, ExpertMlp))
            ratio = work.cost.seconds / one_s
            rows.append({"b": batch, "K": k, "T_v/T_ar": ratio, "low": low, "high": high, "experts touched": touched})
    return pd.DataFrame(rows)


def _verification_line(batch: int, rows: pd.DataFrame, colour: str, symbol: str) -> tuple[go.Scatter, go.Scatter]:
    ks, name = rows["K"].tolist(), f"batch {batch}"
    around = interval(ks, rows["low"].tolist(), rows["high"].tolist(), band(colour), name)
    hover, look = f"{name}: %{{y:.3f}}×<extra>K = %{{x}}</extra>", {"line": {"width": 2.5}, "legendgroup": name}
    marker = {"size": 7, "symbol": symbol}
    return around, curve(ks, rows["T_v/T_ar"], name, colour, hover, marker=marker, **look)
