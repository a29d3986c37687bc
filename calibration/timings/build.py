"""A hardware profile made of timed points, and its error on whole passes that it never saw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import TypeVar, get_args

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from calibration.machine.drivers import physical_bytes
from calibration.machine.inventory import gpus, topology
from calibration.timings.fit import FEWEST_ROWS, fit_collective, fit_elementwise, fit_link
from calibration.timings.fit_attention import ATTENTION_SHAPE
from calibration.timings.fit_experts import fit_experts
from calibration.timings.fit_few_points import fit_attention_to_few_points, fit_gemm_to_few_points
from calibration.timings.plan import CalibrationWorkload, TimingPoint, wanted
from calibration.timings.rows import FEWEST_TIMED, TimedPoint
from ssdsim import strategies
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.hardware.attention import AnyAttention
from ssdsim.hardware.device import Device
from ssdsim.hardware.experts import ExpertsModel
from ssdsim.hardware.laws import Interference, SlowDown
from ssdsim.hardware.profile import HardwareProfile, Provenance
from ssdsim.hardware.runtime_card import Evidence, Runtime
from ssdsim.hardware.runtime_numbers import CardErrors, Host
from ssdsim.pricing.passes import cost_of_pass, streaming_share
from ssdsim.transformer.forward import ForwardPass
from ssdsim.transformer.operations import DTYPE_BYTES, CollectiveKind

Model = TypeVar("Model")

_SOURCE = "calibration"
_GAP_LOG_SD = 0.5  # gaps are differences of small times
_DRAWN_TO_MEAN = 0.2  # weight of the mean slow-down beside a pair that was timed


def build_profile(
    name: str,
    workload: CalibrationWorkload,
    devices: Sequence[str],
    points: Sequence[TimingPoint],
    rows: Sequence[TimedPoint],
    on: str,
    note: str,
) -> HardwareProfile:
    """Fit the ``rows`` that were timed of the planned ``points`` on the device called ``on``.

    A profile from part of the plan says so in its provenance.
    """
    gemm = fit_gemm_to_few_points(_columns(_of(rows, "gemm"), ("m", "n", "k")), DTYPE_BYTES[workload.dtype], _SOURCE)
    timings = sum(len(row.visits) for row in rows)
    planned = sum(wanted(point, devices[0]) for point in points)
    partial = "" if timings >= planned else f"partial: {timings} of {planned} timings; "
    spreads = [row.spread for row in rows if row.point.benchmark in ("gemm", "attention")]
    outliers = sum(row.outliers for row in rows)
    titles = ", ".join(strategies.ALL.named(name).title for name in workload.strategies)
    provenance = Provenance(
        kind="measured",
        source=f"{on}, {', '.join(devices)}",
        date=date.today().isoformat(),
        note=f"{partial}{timings} timings of {len(points)} points for {titles}, {outliers} outlying; "
        f"{note}{_beside_messages(rows)}",
    )
    experts = _experts(_of(rows, "experts"), workload)
    profile = HardwareProfile(
        schema_=1,
        name=name,
        device=_device(_of(rows, "gemm"), workload, devices, on),
        gemm={workload.dtype: gemm},
        attention=_attention(rows, workload, masked=False),
        attention_masked=_attention(rows, workload, masked=True),
        experts={} if experts is None else {workload.dtype: experts},
        collectives={
            kind: {workload.tp: model}
            for kind in get_args(CollectiveKind)
            if (model := _line(_of(rows, kind), "message_bytes", fit_collective)) is not None
        },
        link=_line(_of(rows, "link"), "message_bytes", fit_link),
        elementwise=_line(_of(rows, "elementwise"), "moved_bytes", fit_elementwise),
        spread=float(f"{np.median(spreads):.3g}") if spreads else 0.0,
        sources={_SOURCE: provenance},
    )
    return profile.changed(interference=_interference(rows, workload, profile))


def _beside_messages(rows: Sequence[TimedPoint]) -> str:
    """Say how many times longer collectives take while a message passes to the draft; no model reads it.

    In a round messages follow the passes, so that it only tells how much a finer overlap would cost.
    """
    seconds = {row.point: row.seconds for row in rows}
    slower: dict[str, list[float]] = {}
    for beside, with_s in seconds.items():
        kind, _, what = beside.benchmark.partition(" with ")
        alone = TimingPoint.of(kind, **dict(beside.parameters))
        if what == "messages" and alone in seconds:
            slower.setdefault(kind, []).append(with_s / seconds[alone])
    return "".join(f"; {kind} beside a message {np.median(ratios):.2f}x" for kind, ratios in slower.items())


def _of(rows: Sequence[TimedPoint], benchmark: str) -> list[TimedPoint]:
    return [row for row in rows if row.point.benchmark == benchmark and row.point.fitted]


def _columns(rows: Sequence[TimedPoint], names: Sequence[str]) -> dict[str, Array]:
    columns = {name: np.array([float(dict(row.point.parameters)[name]) for row in rows]) for name in names}
    return columns | {"seconds": np.array([row.seconds for row in rows])}


def _attention(rows: Sequence[TimedPoint], workload: CalibrationWorkload, *, masked: bool) -> dict[str, AnyAttention]:
    timed = [row for row in _of(rows, "attention") if dict(row.point.parameters)["masked"] == masked]
    if len(timed) < FEWEST_TIMED:
        return {}
    model = fit_attention_to_few_points(_columns(timed, ATTENTION_SHAPE), DTYPE_BYTES[workload.dtype], _SOURCE)
    return {workload.dtype: model}


def _experts(rows: Sequence[TimedPoint], workload: CalibrationWorkload) -> ExpertsModel | None:
    """A model of the experts of either card; None where there are none, or too few were timed."""
    if len(rows) < FEWEST_TIMED:
        return None
    cards = {"target": workload.target, "draft": workload.draft}
    timed = []
    for row in rows:
        given = dict(row.point.parameters)
        card = cards[given["role"]]
        assert card.experts is not None
        shape = {"hidden": card.hidden_size, "per_token": card.experts.per_token, "count": card.experts.count}
        width, tokens = given["width"], given["batch"] * given["queries"]
        expert_bytes = 3.0 * card.hidden_size * width * DTYPE_BYTES[workload.dtype]
        measured = {"tokens": tokens, "touched": row.mean_of("touched"), "seconds": row.seconds}
        timed.append({**shape, "width": width, "width_of_all": width, "expert_bytes": expert_bytes, **measured})
    return fit_experts(pd.DataFrame(timed), _SOURCE, fewest=FEWEST_TIMED)


def _line(rows: Sequence[TimedPoint], size: str, fit: Callable[..., Model]) -> Model | None:
    """A model in one size; None where too few were timed."""
    return fit(*_columns(rows, (size,)).values(), source=_SOURCE) if len(rows) >= FEWEST_ROWS else None


def build_runtime(name: str, rows: Sequence[TimedPoint]) -> Runtime | None:
    """Make a runtime of what the executor adds to its kernels, the host's gaps; None where they were not timed."""
    gaps = {dict(row.point.parameters)["role"]: row for row in _of(rows, "host gap")}
    if "target" not in gaps:
        return None
    gap = gaps["target"]
    launch_s, per_pass_s = gap.median_of("per_launch_s"), float(f"{gap.median_of('per_pass_s'):.3g}")
    return Runtime(
        name=name,
        engine="ssdsim's executor",
        host=Host(
            per_layer_s=float(f"{gap.median_of('seconds'):.3g}"), per_pass_s=per_pass_s, per_draft_step_s=per_pass_s
        ),
        errors=CardErrors(host_log_sd=_GAP_LOG_SD, draft_step_log_sd=_GAP_LOG_SD),
        evidence=Evidence(
            source="gaps of a tiny model: a layer's time less its operations timed alone; no whole pass was fitted",
            rows=len(gaps),
            note=f"an eager launch takes {1e6 * launch_s:.1f} us more than one in a graph" if launch_s else "",
        ),
    )


def _interference(rows: Sequence[TimedPoint], workload: CalibrationWorkload, profile: HardwareProfile) -> Interference:
    """Slow-downs by how much both sides stream, from those of pairs of passes with known shares of streaming."""
    timed = _of(rows, "interference")
    passes = {"target": dict(workload.target_passes()), "draft": dict(workload.draft_passes())}
    slower: dict[str, list[float]] = {"target": [], "draft": []}
    shares: dict[str, list[tuple[float, ...]]] = {"target": [], "draft": []}
    for row in timed:
        names = dict(row.point.parameters)
        pair = {role: passes[role][names[role]] for role in passes}
        try:
            streams = {role: _streams(forward, profile) for role, forward in pair.items()}
        except InputError:  # a partial profile may not price them
            return Interference()
        shares["target"].append(SlowDown.shares(streams["target"], streams["draft"]))
        shares["draft"].append(SlowDown.shares(streams["draft"], streams["target"]))
        for role, slowdowns in slower.items():  # rounds add up to means, so means are compared
            slowdowns.append(max(0.0, row.mean_of(f"{role}_s") / row.mean_of(f"{role}_alone_s") - 1.0))
    if not timed:
        return Interference()
    return Interference(**{role: _slow_down(np.array(shares[role]), np.array(slower[role])) for role in shares})


def _streams(forward: ForwardPass, profile: HardwareProfile) -> float:
    return streaming_share(forward, cost_of_pass(forward, profile).seconds, profile)


def _slow_down(shares: Array, slower: Array) -> SlowDown:
    """Non-negative least squares over the pairs; ``shares`` has shape ``(pairs, 4)``.

    Drawn towards the mean slow-down: passes that all stream tell nothing of two that compute, and noise must not.
    """
    drawn = _DRAWN_TO_MEAN * np.eye(shares.shape[1])
    towards = np.full(shares.shape[1], _DRAWN_TO_MEAN * slower.mean())
    ways, _ = nnls(np.vstack([shares, drawn]), np.append(slower, towards))
    return SlowDown(**{name: float(f"{way:.4g}") for name, way in zip(SlowDown.__struct_fields__, ways, strict=True)})


def _device(gemms: Sequence[TimedPoint], workload: CalibrationWorkload, devices: Sequence[str], name: str) -> Device:
    """The device with the roofs that its GEMMs reached: a fit's asymptotes may lie far beyond what was seen."""
    columns = _columns(gemms, ("m", "n", "k"))
    m, n, k, seconds = (columns[name] for name in ("m", "n", "k", "seconds"))
    moved_bytes = DTYPE_BYTES[workload.dtype] * (m * k + k * n + m * n)
    gpu = gpus(devices).get(devices[0])
    memory_bytes = gpu.memory_bytes if gpu else physical_bytes()
    return Device(
        name=name,
        kind="cuda" if gpu else "cpu",
        memory_bytes=memory_bytes,
        memory_bandwidth=float((moved_bytes / seconds).max()),
        peak_flops={workload.dtype: float((2.0 * m * n * k / seconds).max())},
        compute_units=gpu.compute_units if gpu else 1,
        count=len(devices),
        topology=topology(devices),
    )
