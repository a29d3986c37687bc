"""Devices that nobody timed: a profile scaled from a measured one, by factors or by the figures of a datasheet."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from typing import Any

from ssdsim.base.documents import as_record
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.record import Record, field, replace
from ssdsim.hardware.collectives import CollectiveLaw
from ssdsim.hardware.device import Device, PeerAccess
from ssdsim.hardware.laws import DATASHEET_LOG_SD, HYPOTHETICAL, Scaling
from ssdsim.hardware.links import LinkModel, links_of_ring
from ssdsim.hardware.profile import HardwareProfile, Provenance

SMALLEST, LARGEST = 1e-3, 1e3  # factors

# (latency in s, bytes/s one way): sixteen lanes at 80 % of the nominal rate; NVLink by generation
LINKS: Mapping[str, tuple[float, float]] = {
    "pcie3": (10e-6, 0.8 * 16e9),
    "pcie4": (10e-6, 0.8 * 32e9),
    "pcie5": (10e-6, 0.8 * 64e9),
    "nvlink2": (8e-6, 0.8 * 150e9),
    "nvlink3": (8e-6, 0.8 * 300e9),
    "nvlink4": (8e-6, 0.8 * 450e9),
}
NETWORKS: Mapping[str, tuple[float, float, str]] = {
    "rdma": (1.5e-6, 10.7e9, "ib_send_lat from host to host over 100 Gbit/s (D. Potter, master's thesis)"),
    "tcp": (26e-6, 0.83e9, "medians over 10 Gbit/s of RTI Perftest, Connext 6.1.1"),
}
"""Links between machines, and who published the half round trips that they are fitted to."""


def scale(
    profile: HardwareProfile, name: str, *, memory_bandwidth: float = 1.0, clock: float = 1.0, link: str | None = None
) -> HardwareProfile:
    """A hypothetical device: ``memory_bandwidth`` and ``clock`` are factors, ``link`` one of :data:`LINKS`.

    The clock scales arithmetic and launch floors, the memory bandwidth what streams; a link of other bandwidth scales
    the collectives by the ratio of the two and adds the difference of latencies. Shapes' efficiencies are taken over.
    Held-out errors are, with that of a datasheet besides: all of it a doubling away, less for a smaller factor. An H100
    of an H200's bandwidth (half a doubling) misses the H200's products by 4 % and its attention by 20 %. Collectives
    over another link have the error of a datasheet, and the sources say hypothetical.
    """
    for what, factor in (("--memory-bandwidth", memory_bandwidth), ("--clock", clock)):
        if not SMALLEST <= factor <= LARGEST:
            raise InputError(f"{what} must be a positive factor from {SMALLEST:g} to {LARGEST:g}, got {factor:g}")
    new_link = profile.link if link is None else named_link(link)
    timed = (profile.gemm, profile.attention, profile.attention_masked, profile.prefill_attention)
    arithmetic = dict.fromkeys([*profile.device.peak_flops, *(dtype for of in timed for dtype in of)], clock)
    scaling = Scaling(memory_bandwidth, arithmetic, 1.0 / clock, *link_change(profile.link, new_link))
    device = _scaled_device(profile.device, scaling, link)
    source = _provenance(profile, memory_bandwidth, clock, link)
    changed = hypothetical(profile, name, scaling, device, new_link, source)
    farther = DATASHEET_LOG_SD * min(1.0, max(abs(log2(factor)) for factor in (memory_bandwidth, clock)))
    linked = {} if link is None else dict.fromkeys(("collectives", "link", "links"))
    kept = {
        field: _judged(held, profile.timed[field], farther)
        for field, held in changed.timed.items()
        if field in profile.timed and field not in linked
    }
    return as_record(HardwareProfile, changed.changed(**kept).as_dict(), name, "profile")


def _judged(held: Any, before: Any, farther: float) -> Any:
    """A scaled model, or those of a mapping by their keys, with the errors that they had before, and more."""
    if isinstance(held, Mapping):
        return {key: _judged(each, before[key], farther) if key in before else each for key, each in held.items()}
    return held.judged_as(before, farther)


def hypothetical(
    profile: HardwareProfile, name: str, scaling: Scaling, device: Device, link: LinkModel | None, source: Provenance
) -> HardwareProfile:
    """``profile`` under a scaling, of ``device``; formats of GEMMs and caches that it does not know are left out."""
    old = profile.link
    same = link and old and (link.latency_s, link.bandwidth) == (old.latency_s, old.bandwidth)
    links = profile.links if same else None
    model = CollectiveLaw(profile).model
    over_rings = {kind: {n: model(kind, n) for n in of} for kind, of in profile.collectives.items()}
    rings = {} if links else {n: _replaced_links(profile, n) for of in over_rings.values() for n in of}
    there = profile.changed(link=link, links=links, collectives=over_rings)
    changes = {field: _scaled(held, replace(scaling, rings=rings)) for field, held in there.timed.items()}
    return there.changed(**changes, name=name, device=device, power=None, sources={HYPOTHETICAL: source})


def _scaled(held: Any, scaling: Scaling, *keys: Any) -> Any:
    """A model, or those of a mapping by their keys: what the device cannot do is left out."""
    if not isinstance(held, Mapping):
        return held.scaled(scaling, *keys)
    by_key = {key: _scaled(each, scaling, *keys, key) for key, each in held.items()}
    return {key: each for key, each in by_key.items() if each}


def link_change(old: LinkModel | None, new: LinkModel | None) -> tuple[float, float]:
    """The ratio of bandwidths and the difference of latencies (s), by which collectives change with the link."""
    if old is None or new is None:
        return 1.0, 0.0
    return new.bandwidth / old.bandwidth, new.of_message(0.0)[1] - old.of_message(0.0)[1]


def _replaced_links(profile: HardwareProfile, ranks: int) -> float:
    """The number of links that a collective ran over, which the new link replaces."""
    if not (profile.device.nvlinks and profile.links and profile.link):
        return 1.0
    return links_of_ring(profile.device.nvlinks, profile.links, profile.link, ranks)


def _scaled_device(old: Device, scaling: Scaling, link: str | None) -> Device:
    peak_flops = {dtype: flops * scaling.arithmetic[dtype] for dtype, flops in old.peak_flops.items()}
    bandwidth = old.memory_bandwidth * scaling.memory_bandwidth
    topology = f"{link}, instead of {old.topology}" if link else old.topology
    roofs = {"memory_bandwidth": bandwidth, "peak_flops": peak_flops, "peer_access": _peer_access(old, link)}
    return old.changed(name=f"{old.name} (hypothetical)", topology=topology, **roofs)


def _peer_access(old: Device, link: float | str | None) -> PeerAccess:
    """What is known of it over a link that may be another one: over NVLink timings say it, over PCIe nobody does."""
    if link is None or isinstance(link, float):
        return old.peer_access
    return "maybe" if link.startswith("pcie") else None


def named_link(name: str, also: str = "") -> LinkModel:
    """One of :data:`LINKS`; InputError of an unknown one, which may be ``also`` something else."""
    if name not in LINKS:
        raise InputError(f"unknown link '{name}'{nearest(name, LINKS)} Allowed: {', '.join(LINKS)}{also}")
    latency_s, bandwidth = LINKS[name]
    return LinkModel(source=HYPOTHETICAL, latency_s=latency_s, bandwidth=bandwidth)


def over_link(profile: HardwareProfile, name: str) -> HardwareProfile | None:
    """Copy a profile with one of :data:`LINKS` or :data:`NETWORKS`, and that as its name; None without such a link."""
    latency_s, bandwidth, source = NETWORKS.get(name, (*LINKS.get(name, (0.0, 0.0)), "80 % of the nominal rate"))
    if not bandwidth:
        return None
    link = LinkModel(source=HYPOTHETICAL, latency_s=latency_s, bandwidth=bandwidth)
    origin = Provenance(kind="datasheet", source=source)
    return profile.changed(name=name, link=link, links=None, sources={**profile.sources, HYPOTHETICAL: origin})


def _provenance(profile: HardwareProfile, memory_bandwidth: float, clock: float, link: str | None) -> Provenance:
    changed = [f"memory bandwidth x {memory_bandwidth:g}", f"clock x {clock:g}", f"link {link or 'as it was'}"]
    origins = "; ".join(dict.fromkeys(f"{source.kind} {source.source}" for source in profile.sources.values()))
    return Provenance(
        kind="hypothetical", source=f"scaled from {profile.name}", note=f"{', '.join(changed)}; {origins}"
    )


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
    made = made.changed(collectives=fitting)
    return as_record(HardwareProfile, made.as_dict(), name, "profile")


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
        peer_access=_peer_access(old, sheet.link),
    )


def _link(like: HardwareProfile, sheet: Datasheet) -> LinkModel | None:
    if sheet.link is None:
        return like.link
    if isinstance(sheet.link, str):
        return named_link(sheet.link, ", or GB/s one way")
    latency_s = like.link.of_message(0.0)[1] if like.link else LINKS["nvlink4"][0]
    return LinkModel(source=HYPOTHETICAL, latency_s=latency_s, bandwidth=LINK_EFFICIENCY * sheet.link)


def _note(like: HardwareProfile, device: Device) -> str:
    peaks = ", ".join(f"{dtype} {flops / 1e12:.4g} TFLOP/s" for dtype, flops in device.peak_flops.items())
    origins = "; ".join(dict.fromkeys(f"{source.kind} {source.source}" for source in like.sources.values()))
    figures = f"{device.memory_bandwidth / 1e9:.4g} GB/s, {peaks}, {device.topology}"
    return f"{figures}; launches as measured there; {origins}"
