"""Devices that do not exist: a profile derived from a measured one by scaling its bandwidth, clock and link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ssdsim.documents import as_record
from ssdsim.errors import InputError, nearest
from ssdsim.hardware.attention import AnyAttention, AttentionLaw, AttentionModel
from ssdsim.hardware.laws import CollectiveModel, ElementwiseModel, GemmModel, LinkModel, Roofline
from ssdsim.hardware.prefill_attention import PrefillAttentionModel
from ssdsim.hardware.profile import Device, HardwareProfile, Provenance

SMALLEST, LARGEST = 1e-3, 1e3  # factors
_SOURCE = "hypothetical"
_UNFITTED = {"source": _SOURCE, "report": None}

# (latency in s, bytes/s one way): sixteen lanes at 80 % of the nominal rate; NVLink by generation
LINKS: Mapping[str, tuple[float, float]] = {
    "pcie3": (10e-6, 0.8 * 16e9),
    "pcie4": (10e-6, 0.8 * 32e9),
    "pcie5": (10e-6, 0.8 * 64e9),
    "nvlink2": (8e-6, 0.8 * 150e9),
    "nvlink3": (8e-6, 0.8 * 300e9),
    "nvlink4": (8e-6, 0.8 * 450e9),
}


def scale(
    profile: HardwareProfile, name: str, *, memory_bandwidth: float = 1.0, clock: float = 1.0, link: str | None = None
) -> HardwareProfile:
    """A hypothetical device: ``memory_bandwidth`` and ``clock`` are factors, ``link`` one of :data:`LINKS`.

    The clock scales arithmetic and launch floors, the memory bandwidth what streams; a link of other bandwidth scales
    the collectives by the ratio of the two and adds the difference of latencies. Shapes' efficiencies are taken over.
    Held-out errors are not: they say nothing of a device that was never timed, so its models carry the wider error of
    a datasheet and its sources say hypothetical.

    Raises
    ------
    InputError : a factor beyond a thousand or its inverse, an unknown link, or a device that no profile describes.
    """
    for what, factor in (("--memory-bandwidth", memory_bandwidth), ("--clock", clock)):
        if not SMALLEST <= factor <= LARGEST:
            raise InputError(f"{what} must be a positive factor from {SMALLEST:g} to {LARGEST:g}, got {factor:g}")
    old_link, new_link = profile.link, _link(profile.link, link)
    scaling = _Scaling(memory_bandwidth, clock, link=link)
    if old_link is not None and new_link is not None:
        ratio, delay_s = new_link.bandwidth / old_link.bandwidth, new_link.latency_s - old_link.latency_s
        scaling = _Scaling(memory_bandwidth, clock, ratio, delay_s, link)
    attention, masked, collectives = profile.attention, profile.attention_masked, profile.collectives
    changes = {
        "name": name,
        "device": scaling.device(profile.device),
        "gemm": {dtype: scaling.gemm(model) for dtype, model in profile.gemm.items()},
        "attention": {dtype: scaling.attention(model) for dtype, model in attention.items()},
        "attention_masked": {dtype: scaling.attention(model) for dtype, model in masked.items()},
        "prefill_attention": {dtype: scaling.prefill(model) for dtype, model in profile.prefill_attention.items()},
        "collectives": {kind: {n: scaling.collective(m) for n, m in of.items()} for kind, of in collectives.items()},
        "link": new_link,
        "elementwise": scaling.elementwise(profile.elementwise) if profile.elementwise else None,
        "sources": {_SOURCE: _provenance(profile, memory_bandwidth, clock, link)},
    }
    scaled = profile.model_copy(update=changes)
    return as_record(HardwareProfile, scaled.model_dump(by_alias=True), name, "profile")


@dataclass(frozen=True)
class _Scaling:
    """The factors, and each kind of model under them."""

    memory_bandwidth: float
    clock: float
    link_bandwidth: float = 1.0
    link_delay_s: float = 0.0
    link: str | None = None

    def device(self, old: Device) -> Device:
        peak_flops = {dtype: flops * self.clock for dtype, flops in old.peak_flops.items()}
        bandwidth = old.memory_bandwidth * self.memory_bandwidth
        name = f"{old.name} (hypothetical)"
        topology = f"{self.link}, instead of {old.topology}" if self.link else old.topology
        roofs = {"memory_bandwidth": bandwidth, "peak_flops": peak_flops}
        return old.model_copy(update={"name": name, "topology": topology, **roofs})

    def roofline(self, old: Roofline) -> Roofline:
        peak_flops, bandwidth = old.peak_flops * self.clock, old.bandwidth * self.memory_bandwidth
        launch_s = old.launch_s / self.clock
        return old.model_copy(update={"launch_s": launch_s, "bandwidth": bandwidth, "peak_flops": peak_flops})

    def gemm(self, old: GemmModel) -> GemmModel:
        segments = tuple(
            segment.model_copy(update={"roofline": self.roofline(segment.roofline), "report": None})
            for segment in old.segments
        )
        return old.model_copy(update={**_UNFITTED, "segments": segments})

    def attention(self, old: AnyAttention) -> AnyAttention:
        if isinstance(old, AttentionModel):
            return old.model_copy(update={**_UNFITTED, "roofline": self.roofline(old.roofline)})
        return old.model_copy(update={**_UNFITTED, "laws": tuple(self._attention_law(law) for law in old.laws)})

    def prefill(self, old: PrefillAttentionModel) -> PrefillAttentionModel:
        return old.model_copy(update={**_UNFITTED, "roofline": self.roofline(old.roofline)})

    def _attention_law(self, old: AttentionLaw) -> AttentionLaw:
        slower = {name: getattr(old, name) / self.clock for name in ("launch_s", "head_s", "block_s")}
        bandwidth = old.bandwidth * self.memory_bandwidth
        return old.model_copy(update={**slower, "bandwidth": bandwidth, "uncertainty": ()})

    def collective(self, old: CollectiveModel) -> CollectiveModel:
        regimes = tuple(
            regime.model_copy(
                update={
                    "latency_s": max(0.0, regime.latency_s + self.link_delay_s),
                    "bandwidth": regime.bandwidth * self.link_bandwidth,
                    "uncertainty": (),
                }
            )
            for regime in old.regimes
        )
        return old.model_copy(update={**_UNFITTED, "regimes": regimes})

    def elementwise(self, old: ElementwiseModel) -> ElementwiseModel:
        launch_s, bandwidth = old.launch_s / self.clock, old.bandwidth * self.memory_bandwidth
        return old.model_copy(update={**_UNFITTED, "launch_s": launch_s, "bandwidth": bandwidth, "uncertainty": ()})


def _link(old: LinkModel | None, name: str | None) -> LinkModel | None:
    if name is None:
        return old.model_copy(update=_UNFITTED) if old else None
    if name not in LINKS:
        raise InputError(f"unknown link '{name}'{nearest(name, LINKS)} Allowed: {', '.join(LINKS)}")
    latency_s, bandwidth = LINKS[name]
    return LinkModel(source=_SOURCE, latency_s=latency_s, bandwidth=bandwidth)


def _provenance(profile: HardwareProfile, memory_bandwidth: float, clock: float, link: str | None) -> Provenance:
    changed = [f"memory bandwidth x {memory_bandwidth:g}", f"clock x {clock:g}", f"link {link or 'as it was'}"]
    origins = "; ".join(f"{source.kind} {source.source}" for source in profile.sources.values())
    return Provenance(
        kind="hypothetical", source=f"scaled from {profile.name}", note=f"{', '.join(changed)}; {origins}"
    )
