"""The operations of the strategies' passes against the roofs of their devices."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import plotly.graph_objects as go

from ssdsim.answers.roofline import BOUNDS, of_steps, summarise
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.pricing.site import Site
from ssdsim.reports.figure import Figure, LeftOut, rounded
from ssdsim.reports.study import Study
from ssdsim.reports.style import PALETTE, curve, new_plot
from ssdsim.transformer.operations import Gemm
from ssdsim.transformer.precision import Precision

_PASS_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
_COLOURS = tuple(PALETTE[place] for place in (3, 1, 4, 2, 5, 0))
_TOLD = 3  # passes in the title


def roofs(study: Study) -> list[Figure | LeftOut]:
    """Intensity against achieved FLOP/s of every operation with arithmetic, one marker each."""
    site = study.configuration.site
    if site is None:
        return [LeftOut("roofline", "unit-free: no hardware, so no roofs")]
    table = _table(study)
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
    return [
        Figure(
            key="roofline",
            section="Roofline",
            title=_title(table),
            about="Filled markers are matrix products, open ones attention; larger ones take more of their pass. What "
            f"has no arithmetic (messages, element-wise kernels, host gaps) takes {others} and is in the table only. "
            f"At {study.setting('alpha', 'p_hit', 'backup')}.",
            plot=plot,
            table=_shown_table(table),
            provenance=f"Roofs: the profile's (of a datasheet, or what a calibration reached). Times: {study.timings}.",
            interval="No interval drawn: the held-out errors of the timings are under Provenance.",
            wide=True,
        )
    ]


def _table(study: Study) -> pd.DataFrame:
    """The passes of all rounds, the subject's first; one that differs from another's of its name says whose it is."""
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
    """Lines of what memory and arithmetic allow, one a device and dtype."""
    sides = ((site.profile, site.precision_of("target")), (site.draft_profile, site.precision_of("draft")))
    roofs = {
        (profile.name, dtype): profile for profile, precision in sides for dtype in _arithmetic(precision, profile)
    }
    smallest, largest = arithmetic["intensity"].min() / 2, arithmetic["intensity"].max() * 4
    for (name, dtype), profile in roofs.items():
        yield _roof_line(profile, dtype, f"roofs of {name}, {dtype}", smallest, largest)


def _arithmetic(precision: Precision, profile: HardwareProfile) -> Iterator[str]:
    """The dtypes in which a model's operations are computed on a device."""
    weights = (precision.attention, precision.of_attention_out, precision.mlp, precision.lm_head)
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


def _title(table: pd.DataFrame) -> str:
    """The title: what binds most of each pass's time, of those that come first."""
    shares = summarise(table).set_index("pass")[[f"{bound}_share" for bound in BOUNDS]].head(_TOLD)
    parts, before = [], None
    for name, row in shares.iterrows():
        most = str(row.idxmax()).removesuffix("_share")
        bound = "" if most == before else ("fixed costs take " if most == "fixed" else f"{most} binds ")
        parts.append(f"{bound}{row.max():.0%} of {name}")
        before = most
    sentence = ", ".join(parts)
    return sentence[0].upper() + sentence[1:]


def _shown_table(table: pd.DataFrame) -> pd.DataFrame:
    shown = table[["pass", "operation", "shape", "count", "bound", "intensity"]].copy()
    shown["TFLOP/s"], shown["us a run"] = table["flops_per_second"] / 1e12, 1e6 * table["seconds"]
    return shown.assign(**{"share of roof": table["share_of_roof"], "share of pass": table["share_of_pass"]})
