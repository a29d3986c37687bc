"""A device of a node: its memory, its peaks of arithmetic, and how it reaches its neighbours."""

from typing import Annotated, Literal

from msgspec import Meta

from ssdsim.base.card import Card, Count, Positive
from ssdsim.transformer.operations import FOUR_BITS, Operation

PeerAccess = Literal["maybe", "no"] | None
LinkCount = Annotated[int, Meta(ge=0, le=1000)]


class Device(Card):
    """One of ``count`` equal devices of a node; ``peak_flops`` is by dtype.

    ``nvlinks`` holds the number of NVLinks between each two of them, where pairs differ: row and column are devices.
    """

    name: str
    kind: Literal["cuda", "cpu"]
    memory_bytes: Count
    memory_bandwidth: Positive
    peak_flops: Annotated[dict[str, Positive], Meta(min_length=1)]
    cache_bytes: Count | None = None
    """Of its last cache; where it is not known, any activations are taken to fit."""
    compute_units: Count | None = None
    count: Count
    topology: str
    peer_access: PeerAccess = None
    """Whether a device reaches another's memory over PCIe, which GeForce drivers refuse; None: the timings say it."""
    nvlinks: tuple[tuple[LinkCount, ...], ...] | None = None

    def __post_init__(self) -> None:
        rows = self.nvlinks or ()
        if rows and [len(row) for row in rows] != [self.count] * self.count:
            raise ValueError(f"nvlinks: must have {self.count} rows of {self.count} numbers, one for each device")
        if any(rows[a][b] != rows[b][a] for a in range(len(rows)) for b in range(a)):
            raise ValueError("nvlinks: two devices have as many links one way as the other")

    @property
    def lacks_flash_attention(self) -> bool:
        """Tell whether it is a GPU before Ampere, the first that libraries' decode attention is written for."""
        return self.kind == "cuda" and "bfloat16" not in self.peak_flops

    @property
    def is_switched(self) -> bool:
        """Say whether any two are as near as others, over a switch of NVLinks."""
        return self.topology.startswith("NVLink") and not self.nvlinks

    @property
    def multiplies_4_bits(self) -> bool:
        """Say whether its peak of 4-bit products is known: Blackwell and later."""
        return FOUR_BITS in self.peak_flops

    def multiplies_in(self, op: Operation) -> str | None:
        """The best dtype for ``op`` of which a peak is known."""
        for dtype in op.arithmetic:
            if dtype in self.peak_flops:
                return dtype
        return None

    def peak_of(self, op: Operation) -> float:
        """Flops/s in that dtype; the lowest peak of all where none is known."""
        return self.peak_flops.get(self.multiplies_in(op) or "", min(self.peak_flops.values()))

    def compute_s(self, op: Operation) -> float:
        """Seconds of its flops at the peak; 0 of an unknown one."""
        dtype = self.multiplies_in(op)
        return op.flops / self.peak_flops[dtype] if dtype else 0.0

    def memory_s(self, op: Operation) -> float:
        """Seconds of its bytes at the memory's bandwidth."""
        return op.memory_bytes / self.memory_bandwidth
