"""Devices that do not exist: a profile derived from a measured one by scaling its bandwidth, clock and link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ssdsim.documents import as_record
from ssdsim.errors import InputError, nearest
from ssdsim.hardware.attention import AnyAttention, AttentionLaw, AttentionModel
from ssdsim.hardware.experts import ExpertCosts, ExpertsModel
from ssdsim.hardware.latent import LatentModel
from ssdsim.hardware.laws import CollectiveModel, ElementwiseModel, GemmModel, LinkModel, Roofline
from ssdsim.hardware.prefill_attention import PrefillAttentionModel
from ssdsim.hardware.profile import Device, HardwareProfile, Provenance
from ssdsim.hardware.rings import links_of_ring
from ssdsim.transformer.operations import WEIGHTS_ARITHMETIC, CollectiveKind

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
    new_link = _link(profile.link, link)
    timed = (profile.gemm, profile.attention, profile.attention_masked, profile.prefill_attention)
    arithmetic = dict.fromkeys([*profile.device.peak_flops, *(dtype for of in timed for dtype in of)], clock)
    scaling = Scaling(memory_bandwidth, arithmetic, 1.0 / clock, *link_change(profile.link, new_link))
    device = _scaled_device(profile.device, scaling, link)
    source = _provenance(profile, memory_bandwidth, clock, link)
    scaled = hypothetical(profile, name, scaling, device, new_link, source)
    return as_record(HardwareProfile, scaled.model_dump(by_alias=True), name, "profile")


def hypothetical(
    profile: HardwareProfile, name: str, scaling: Scaling, device: Device, link: LinkModel | None, source: Provenance
) -> HardwareProfile:
    """``profile`` under a scaling, of ``device``; formats of GEMMs and caches that it does not know are left out."""
    attention, masked, windowed = profile.attention, profile.attention_masked, profile.attention_windowed
    links = _links(profile, link)

    def collective(kind: CollectiveKind, ranks: int) -> CollectiveModel:
        return scaling.collective(profile.collective_model(kind, ranks), 1.0 if links else _given_up(profile, ranks))

    changes = {
        "name": name,
        "device": device,
        "gemm": {d: scaling.gemm(model, d) for d, model in profile.gemm.items() if scaling.knows(d)},
        "attention": {d: scaling.attention(model) for d, model in attention.items() if scaling.knows(d)},
        "attention_masked": {d: scaling.attention(model) for d, model in masked.items() if scaling.knows(d)},
        "attention_windowed": {d: scaling.attention(model) for d, model in windowed.items() if scaling.knows(d)},
        "prefill_attention": {
            d: scaling.prefill(model) for d, model in profile.prefill_attention.items() if scaling.knows(d)
        },
        "experts": {d: scaling.experts(model, d) for d, model in profile.experts.items() if scaling.multiplies(d)},
        "latent": {
            d: {weights: scaling.latent(model) for weights, model in of.items() if scaling.multiplies(weights)}
            for d, of in profile.latent.items()
            if scaling.knows(d)
        },
        "collectives": {kind: {n: collective(kind, n) for n in of} for kind, of in profile.collectives.items()},
        "link": link.model_copy(update=_UNFITTED) if link else None,
        "links": links,
        "elementwise": scaling.elementwise(profile.elementwise) if profile.elementwise else None,
        "sources": {_SOURCE: source},
    }
    return profile.model_copy(update=changes)


@dataclass(frozen=True)
class Scaling:
    """Factors, and each kind of model under them: memory bandwidth, peaks by dtype, launches, collectives."""

    memory_bandwidth: float
    arithmetic: Mapping[str, float]
    launches: float = 1.0
    link_bandwidth: float = 1.0
    link_delay_s: float = 0.0

    def knows(self, dtype: str) -> bool:
        """Whether the device has arithmetic of it."""
        return dtype in self.arithmetic

    def multiplies(self, weights: str) -> bool:
        """Whether weights of this format are multiplied: as they are, or turned back into 16 bits first."""
        return self.knows(weights) or WEIGHTS_ARITHMETIC.get(weights) is None

    def _wide(self) -> float:
        """Of attention, whose queries have 16 bits whatever the cache has."""
        return next((self.arithmetic[d] for d in ("bfloat16", "float16") if d in self.arithmetic), self._any())

    def _any(self) -> float:
        return max(self.arithmetic.values())

    def roofline(self, old: Roofline, arithmetic: float) -> Roofline:
        peak_flops, bandwidth = old.peak_flops * arithmetic, old.bandwidth * self.memory_bandwidth
        launch_s = old.launch_s * self.launches
        return old.model_copy(update={"launch_s": launch_s, "bandwidth": bandwidth, "peak_flops": peak_flops})

    def gemm(self, old: GemmModel, dtype: str) -> GemmModel:
        arithmetic = self.arithmetic[dtype]
        segments = tuple(
            segment.model_copy(update={"roofline": self.roofline(segment.roofline, arithmetic), "report": None})
            for segment in old.segments
        )
        return old.model_copy(update={**_UNFITTED, "segments": segments})

    def experts(self, old: ExpertsModel, weights: str) -> ExpertsModel:
        arithmetic = self.arithmetic.get(weights, self._wide())

        def scaled(costs: ExpertCosts) -> ExpertCosts:
            floors = ("launch_s", "per_hidden_s", "per_width_s", "per_expert_s")
            update = {name: getattr(costs, name) * self.launches for name in floors}
            update["bandwidth"] = costs.bandwidth * self.memory_bandwidth
            update["per_value_s"] = costs.per_value_s / self.memory_bandwidth
            if costs.flops_per_s is not None:
                update["flops_per_s"] = costs.flops_per_s * arithmetic
            return costs.model_copy(update=update)

        return old.model_copy(update={**_UNFITTED, "few": scaled(old.few), "many": scaled(old.many)})

    def latent(self, old: LatentModel) -> LatentModel:
        floors = ("launch_s", "per_doubling_s", "per_row_doubling_s")
        streams = ("per_token_s", "per_row_s", "per_unfilled_row_s")
        update = {name: getattr(old.costs, name) * self.launches for name in floors}
        update |= {name: getattr(old.costs, name) / self.memory_bandwidth for name in streams}
        update["bandwidth"] = old.costs.bandwidth * self.memory_bandwidth
        update["peak_flops"] = old.costs.peak_flops * self._wide()
        return old.model_copy(update={**_UNFITTED, "costs": old.costs.model_copy(update=update)})

    def attention(self, old: AnyAttention) -> AnyAttention:
        if isinstance(old, AttentionModel):
            return old.model_copy(update={**_UNFITTED, "roofline": self.roofline(old.roofline, self._wide())})
        return old.model_copy(update={**_UNFITTED, "laws": tuple(self._attention_law(law) for law in old.laws)})

    def prefill(self, old: PrefillAttentionModel) -> PrefillAttentionModel:
        return old.model_copy(update={**_UNFITTED, "roofline": self.roofline(old.roofline, self._wide())})

    def _attention_law(self, old: AttentionLaw) -> AttentionLaw:
        slower = {name: getattr(old, name) * self.launches for name in ("launch_s", "head_s", "block_s")}
        bandwidth = old.bandwidth * self.memory_bandwidth
        return old.model_copy(update={**slower, "bandwidth": bandwidth, "uncertainty": ()})

    def collective(self, old: CollectiveModel, rings: float = 1.0) -> CollectiveModel:
        """``rings``: how many of the old links it ran over, where the new one is a device's only one."""
        regimes = tuple(
            regime.model_copy(
                update={
                    "latency_s": max(0.0, regime.latency_s + self.link_delay_s),
                    "bandwidth": regime.bandwidth * self.link_bandwidth / rings,
                    "uncertainty": (),
                }
            )
            for regime in old.regimes
        )
        return old.model_copy(update={**_UNFITTED, "regimes": regimes})

    def elementwise(self, old: ElementwiseModel) -> ElementwiseModel:
        launch_s, bandwidth = old.launch_s * self.launches, old.bandwidth * self.memory_bandwidth
        return old.model_copy(update={**_UNFITTED, "launch_s": launch_s, "bandwidth": bandwidth, "uncertainty": ()})


def link_change(old: LinkModel | None, new: LinkModel | None) -> tuple[float, float]:
    """The ratio of bandwidths and the difference of latencies (s), by which collectives change with the link."""
    if old is None or new is None:
        return 1.0, 0.0
    return new.bandwidth / old.bandwidth, new.latency_s - old.latency_s


def _links(profile: HardwareProfile, link: LinkModel | None) -> dict[int, LinkModel] | None:
    """Those by number of NVLinks, as they were; none beside another link."""
    old = profile.link
    if profile.links is None or not (
        link and old and (link.latency_s, link.bandwidth) == (old.latency_s, old.bandwidth)
    ):
        return None
    return {count: each.model_copy(update=_UNFITTED) for count, each in profile.links.items()}


def _given_up(profile: HardwareProfile, ranks: int) -> float:
    """How many links between pairs of devices a collective ran over, which another link takes the place of."""
    if not (profile.device.nvlinks and profile.links and profile.link):
        return 1.0
    return links_of_ring(profile.device.nvlinks, profile.links, profile.link, ranks)


def _scaled_device(old: Device, scaling: Scaling, link: str | None) -> Device:
    peak_flops = {dtype: flops * scaling.arithmetic[dtype] for dtype, flops in old.peak_flops.items()}
    bandwidth = old.memory_bandwidth * scaling.memory_bandwidth
    topology = f"{link}, instead of {old.topology}" if link else old.topology
    roofs = {"memory_bandwidth": bandwidth, "peak_flops": peak_flops}
    return old.model_copy(update={"name": f"{old.name} (hypothetical)", "topology": topology, **roofs})


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
