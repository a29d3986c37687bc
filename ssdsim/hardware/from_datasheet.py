"""Devices that nobody timed: a profile from a datasheet's figures and the efficiencies of a device that was timed."""

from __future__ import annotations

from collections.abc import Mapping

from ssdsim.base.documents import as_record
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.record import Record, field
from ssdsim.hardware.laws import HYPOTHETICAL, Scaling
from ssdsim.hardware.link import LinkModel
from ssdsim.hardware.profile import Device, HardwareProfile, Provenance
from ssdsim.hardware.what_if import LINKS, hypothetical, link_change, named_link

LINK_EFFICIENCY = 0.8
"""Of a datasheet's rate, one way: what messages reach."""


class Datasheet(Record):
    """The figures of a device's datasheet; what it leaves out is as on the device that it is likened to.

    ``peak_flops`` is by dtype, in flop/s without sparsity; those named are all that are kept, unless only ``""`` is,
    the rate of 16-bit floats, with which the others change in proportion. ``link`` is bytes/s one way, or a name of
    :data:`ssdsim.hardware.what_if.LINKS`.
    """

    name: str
    memory_bytes: int | None = None
    memory_bandwidth: float | None = None
    peak_flops: Mapping[str, float] = field(default_factory=dict)
    link: float | str | None = None
    count: int | None = None
    compute_units: int | None = None


def from_datasheet(like: HardwareProfile, sheet: Datasheet, name: str) -> HardwareProfile:
    """The profile called ``name``: the timings of ``like``, scaled by what the datasheets of both say.

    Streaming scales with the memory's bandwidth, arithmetic with its dtype's peak, collectives with the link; launches
    and latencies stay. No error of ``like`` is kept: its models carry a datasheet's.
    """
    arithmetic = _arithmetic(like, sheet)
    new_link = _link(like, sheet)
    link_ratio, delay_s = link_change(like.link, new_link)
    bandwidth = sheet.memory_bandwidth or like.device.memory_bandwidth
    scaling = Scaling(
        memory_bandwidth=bandwidth / like.device.memory_bandwidth,
        arithmetic=arithmetic,
        link_bandwidth=link_ratio,
        link_delay_s=delay_s,
    )
    device = _device(like.device, sheet, arithmetic, bandwidth)
    source = Provenance(
        kind="hypothetical", source=f"datasheet of {sheet.name}, shapes as of {like.name}", note=_note(like, device)
    )
    made = hypothetical(like, name, scaling, device, new_link, source)
    fitting = {kind: {n: m for n, m in of.items() if n <= device.count} for kind, of in made.collectives.items()}
    made = made.model_copy(update={"collectives": fitting})
    return as_record(HardwareProfile, made.model_dump(by_alias=True), name, "profile")


def _arithmetic(like: HardwareProfile, sheet: Datasheet) -> dict[str, float]:
    """Factors by which each kept dtype's peak changes."""
    peaks, wide = like.device.peak_flops, ("bfloat16", "float16")
    if not sheet.peak_flops:
        return dict.fromkeys(peaks, 1.0)
    for dtype in sheet.peak_flops:
        if dtype and dtype not in peaks:
            raise InputError(
                f"--flops: {like.name} has no peak of '{dtype}'{nearest(dtype, peaks)} It has {', '.join(peaks)}"
            )
    if set(sheet.peak_flops) == {""}:
        base = next((peaks[dtype] for dtype in wide if dtype in peaks), max(peaks.values()))
        return dict.fromkeys(peaks, sheet.peak_flops[""] / base)
    named = {dtype: flops for dtype, flops in sheet.peak_flops.items() if dtype}
    if "" in sheet.peak_flops:
        named = {dtype: sheet.peak_flops[""] for dtype in wide if dtype in peaks} | named
    return {dtype: flops / peaks[dtype] for dtype, flops in named.items()}


def _device(old: Device, sheet: Datasheet, arithmetic: Mapping[str, float], bandwidth: float) -> Device:
    link = sheet.link if isinstance(sheet.link, str | None) else f"{sheet.link / 1e9:g} GB/s each way per device"
    return Device(
        name=f"{sheet.name} (hypothetical)",
        kind=old.kind,
        memory_bytes=sheet.memory_bytes or old.memory_bytes,
        memory_bandwidth=bandwidth,
        peak_flops={dtype: old.peak_flops[dtype] * factor for dtype, factor in arithmetic.items()},
        compute_units=sheet.compute_units or old.compute_units,
        count=sheet.count or old.count,
        topology=old.topology if link is None else link,
    )


def _link(like: HardwareProfile, sheet: Datasheet) -> LinkModel | None:
    if sheet.link is None:
        return like.link
    if isinstance(sheet.link, str):
        return named_link(sheet.link, ", or GB/s one way")
    latency_s = like.link.latency_s if like.link else LINKS["nvlink4"][0]
    return LinkModel(source=HYPOTHETICAL, latency_s=latency_s, bandwidth=LINK_EFFICIENCY * sheet.link)


def _note(like: HardwareProfile, device: Device) -> str:
    peaks = ", ".join(f"{dtype} {flops / 1e12:.4g} TFLOP/s" for dtype, flops in device.peak_flops.items())
    origins = "; ".join(dict.fromkeys(f"{source.kind} {source.source}" for source in like.sources.values()))
    figures = f"{device.memory_bandwidth / 1e9:.4g} GB/s, {peaks}, {device.topology}"
    return f"{figures}; launches as measured there; {origins}"
