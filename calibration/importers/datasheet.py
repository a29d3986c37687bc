"""Timing models from a datasheet's figures alone, for operations that nobody timed on a device.

Kernels reach some 80 % of a datasheet's bandwidth (``EFFICIENCY``); launches and steps take the times below, of
the order that measured devices of later years show. A model from here carries no fit report.
"""

from __future__ import annotations

from ssdsim.hardware.attention import AttentionModel
from ssdsim.hardware.collectives import CollectiveModel, Regime
from ssdsim.hardware.elementwise import ElementwiseModel
from ssdsim.hardware.laws import Roofline
from ssdsim.hardware.link import LinkModel
from ssdsim.transformer.operations import CollectiveKind, sent_around

SOURCE = "datasheet"
EFFICIENCY = 0.8
KERNEL_LAUNCH_S = 3e-6
ATTENTION_LAUNCH_S = 10e-6  # splitting the context over the device and joining the parts
COLLECTIVE_LAUNCH_S = 5e-6
COLLECTIVE_STEP_S = 1.5e-6  # one hop of a ring
MESSAGE_LATENCY_S = 10e-6

_ANY_SIZE = 1e15


def ring(kind: CollectiveKind, ranks: int, bandwidth: float) -> CollectiveModel:
    """A ring over ``ranks`` devices that each send ``bandwidth`` bytes/s to the next.

    It takes a step to each other rank for each time that the message goes around.
    """
    sent = sent_around(kind, ranks)
    regime = Regime(
        latency_s=COLLECTIVE_LAUNCH_S + ranks * sent * COLLECTIVE_STEP_S,
        bandwidth=EFFICIENCY * bandwidth / sent,
        from_bytes=0.0,
        to_bytes=_ANY_SIZE,
    )
    return CollectiveModel(source=SOURCE, regimes=(regime,))


def attention(memory_bandwidth: float, peak_flops: float) -> AttentionModel:
    """Attention that streams the cache and computes at the datasheet's rates after a launch, without overlap."""
    roofline = Roofline(
        launch_s=ATTENTION_LAUNCH_S,
        bandwidth=EFFICIENCY * memory_bandwidth,
        peak_flops=EFFICIENCY * peak_flops,
        sharpness=1.0,
    )
    return AttentionModel(source=SOURCE, roofline=roofline)


def elementwise(memory_bandwidth: float) -> ElementwiseModel:
    """A kernel that reads and writes memory at the datasheet's bandwidth."""
    return ElementwiseModel(source=SOURCE, launch_s=KERNEL_LAUNCH_S, bandwidth=EFFICIENCY * memory_bandwidth)


def link(bandwidth: float) -> LinkModel:
    """A message over a link of ``bandwidth`` bytes/s one way."""
    return LinkModel(source=SOURCE, latency_s=MESSAGE_LATENCY_S, bandwidth=EFFICIENCY * bandwidth)
