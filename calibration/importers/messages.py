"""The unit in which a table counts messages, elements or bytes: decided by what the wires can carry."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.transformer.operations import sent_around

_TOLERANCE = 1.1  # in-switch reduction (NVLS) exceeds the ring's bound by a few percent
_LARGE = 4  # messages within this factor of the largest show the bandwidth


def wire_bytes(kind: str, message_bytes: Array, ranks: int) -> Array:
    """Bytes that each device sends, by the ring's bound.

    ``message_bytes`` is the full tensor, or what a rank sends to all, itself included.
    """
    return message_bytes * (1.0 if kind == "send_recv" else sent_around(kind, ranks))


def bytes_per_count(
    kind: str, by_ranks: Mapping[int, tuple[Array, Array]], element_bytes: int, peak_bandwidth: float
) -> int:
    """``element_bytes`` if the table can count elements, 1 if that would outrun the wires.

    ``by_ranks`` holds message sizes and seconds, each of shape ``(rows,)``, by number of devices;
    ``peak_bandwidth`` is of one device, one way.
    """
    for ranks, (counts, seconds) in by_ranks.items():
        large = counts >= counts.max() / _LARGE
        as_elements = wire_bytes(kind, element_bytes * counts[large], ranks) / seconds[large]
        if float(np.median(as_elements)) > _TOLERANCE * peak_bandwidth:
            return 1
    return element_bytes
