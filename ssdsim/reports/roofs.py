"""The operations of a round against the roofs of their devices."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import plotly.graph_objects as go

from ssdsim.answers.roofline import of_placement, summarise
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.pricing.placement import Placement
from ssdsim.reports.figure import Figure, LeftOut, rounded
from ssdsim.reports.study import Study
from ssdsim.reports.style import STRATEGY_COLOUR, WORK_COLOUR, new_plot

_PASSES = {
    "verify": ("verification", WORK_COLOUR["verify"]),
    "draft_step": ("draft step", STRATEGY_COLOUR["sd"]),
    "branch_step": ("branch step", WORK_COLOUR["draft"]),
}
_SYMBOLS = {"gemm": "circle", "attention": "diamond-tall"}
_BOUNDS = ("memory", "compute", "latency", "communication", "fixed")


def roofs(study: Study) -> list[Figure | LeftOut]:
    """Intensity against achieved FLOP/s of every operation with arithmetic, one marker each."""
    placement = study.configuration.placement
    if placement is None:
        return [LeftOut("roofline", "unit-free: no hardware, so no roofs")]
    table = of_placement(placement)
    table = table[table["pass"].isin(_PASSES)]
    arithmetic = table[table["flops"] > 0]
    plot = new_plot("intensity (FLOP/byte; log scale)", "achieved TFLOP/s of a device (log scale)", height=440)
    for line in _roof_lines(placement, arithmetic):
        plot.add_trace(line)
    for name in _PASSES:
        plot.add_trace(_markers(arithmetic[arithmetic["pass"] == name], name))
    plot.update_xaxes(type="log", dtick=1)
    plot.update_yaxes(type="log", dtick=1)
    without = 1.0 - arithmetic.groupby("pass")["share_of_pass"].sum()
    others = ", ".join(f"{without[name]:.0%} of a {label}" for name, (label, _) in _PASSES.items())
    return [
        Figure(
            key="roofline",
            section="Roofline",
            title=_title(summarise(table)),
            about=f"Circles are matrix products, diamonds attention; larger ones take more of their pass. What has no "
            f"arithmetic (messages, element-wise kernels, host gaps) takes {others} and is in the table only. "
            f"At {study.setting('alpha', 'p_hit', 'backup')}.",
            plot=plot,
            table=_shown_table(table),
            provenance=f"Roofs: the profile's (of a datasheet, or what a calibration reached). Times: {study.timings}.",
            interval="No interval drawn: the held-out errors of the timings are under Provenance.",
            wide=True,
        )
    ]


def _roof_lines(placement: Placement, arithmetic: pd.DataFrame) -> Iterator[go.Scatter]:
    """What memory and arithmetic allow, a line a device and dtype."""
    sides = ((placement.profile, placement.target), (placement.draft_profile, placement.draft))
    roofs = {(profile.name, placement.dtype or card.dtype): profile for profile, card in sides}
    smallest, largest = arithmetic["intensity"].min() / 2, arithmetic["intensity"].max() * 4
    for (name, dtype), profile in roofs.items():
        yield _roof_line(profile, dtype, f"roofs of {name}, {dtype}", smallest, largest)


def _roof_line(profile: HardwareProfile, dtype: str, name: str, smallest: float, largest: float) -> go.Scatter:
    bandwidth, peak = profile.device.memory_bandwidth, profile.device.peak_flops.get(dtype, float("inf"))
    ridge = peak / bandwidth
    corners = sorted({smallest, min(max(smallest, ridge), 4 * largest), max(largest, min(4 * largest, 2 * ridge))})
    return go.Scatter(
        x=rounded(corners),
        y=rounded(min(peak, bandwidth * x) / 1e12 for x in corners),
        mode="lines",
        name=name,
        line={"color": "#808080", "width": 2},
        hovertemplate=f"{name}<br>%{{y:.3g}} TFLOP/s at %{{x:.3g}} FLOP/byte<extra></extra>",
    )


def _markers(rows: pd.DataFrame, name: str) -> go.Scatter:
    label, colour = _PASSES[name]
    return go.Scatter(
        x=rounded(rows["intensity"]),
        y=rounded(rows["flops_per_second"] / 1e12),
        text=[f"{name} {shape}" for name, shape in zip(rows["operation"], rows["shape"], strict=True)],
        customdata=[
            [bound, f"{share:.0%}", f"{of_roof:.0%}"]
            for bound, share, of_roof in zip(rows["bound"], rows["share_of_pass"], rows["share_of_roof"], strict=True)
        ],
        mode="markers",
        name=label,
        marker={
            "color": colour,
            "symbol": [_SYMBOLS.get(kind, "square") for kind in rows["kind"]],
            "size": rounded(7 + 26 * rows["share_of_pass"] ** 0.5),
            "opacity": 0.75,
            "line": {"width": 1, "color": "#ffffff"},
        },
        hovertemplate="%{text}<br>bound by %{customdata[0]}, %{customdata[1]} of the pass, %{customdata[2]} of the roof"
        f"<extra>{label}</extra>",
    )


def _title(summary: pd.DataFrame) -> str:
    """What binds most of each pass's time."""
    shares = summary.set_index("pass")[[f"{bound}_share" for bound in _BOUNDS]]
    most = {name: str(shares.loc[name].idxmax()).removesuffix("_share") for name in _PASSES}
    parts = []
    for before, (name, (label, _)) in zip([None, *_PASSES], _PASSES.items(), strict=False):
        again = before is not None and most[before] == most[name]
        bound = "" if again else ("fixed costs take " if most[name] == "fixed" else f"{most[name]} binds ")
        parts.append(f"{bound}{shares.loc[name].max():.0%} of a {label}")
    sentence = ", ".join(parts)
    return sentence[0].upper() + sentence[1:]


def _shown_table(table: pd.DataFrame) -> pd.DataFrame:
    shown = table[["pass", "operation", "shape", "count", "bound", "intensity"]].copy()
    shown["TFLOP/s"], shown["us a run"] = table["flops_per_second"] / 1e12, 1e6 * table["seconds"]
    return shown.assign(**{"share of roof": table["share_of_roof"], "share of pass": table["share_of_pass"]})
