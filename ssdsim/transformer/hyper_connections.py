"""Hyper-connections (mHC, DeepSeek-V4): a hidden state of several streams, mixed around each mixer and feed-forward."""

from __future__ import annotations

from typing import Literal

from ssdsim.base.record import Record
from ssdsim.transformer.operations import DTYPE_BYTES, Operation

Way = Literal["pre", "post"]
_WEIGHT_BYTES = 4


def mixing_parameters(hidden_size: int, streams: int) -> int:
    """Weights that say of a token how its streams are mixed, before and after one mixer or feed-forward."""
    return (2 * streams + streams**2) * streams * hidden_size


class HyperConnection(Operation, Record):
    """Mixing the ``streams`` of each token: into what a layer reads (``pre``), or with what it made (``post``).

    Before, they are read twice: how they are mixed is made of them. Both ways of mixing come of the first.
    """

    name: str
    way: Way
    tokens: int
    streams: int
    hidden_size: int
    dtype: str

    @property
    def kernel(self) -> str:
        return "hyper_connection"

    @property
    def shape(self) -> str:
        return f"{self.tokens}x{self.streams}x{self.hidden_size}"

    @property
    def bytes(self) -> float:
        values = (2 * self.streams + 1) * self.tokens * self.hidden_size
        return float(DTYPE_BYTES[self.dtype] * values) + self.streamed_bytes

    @property
    def streamed_bytes(self) -> float:
        """The weights, which are in 32 bits."""
        return float(_WEIGHT_BYTES * mixing_parameters(self.hidden_size, self.streams)) if self.way == "pre" else 0.0
