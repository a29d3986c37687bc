"""Formats of a model's weights, activations and cache."""

from __future__ import annotations

from typing import Literal

from ssdsim.base.record import Record
from ssdsim.transformer.operations import DTYPES, QUANTISED_BYTES

DType = Literal["float32", "bfloat16", "float16"]
Format = Literal[
    "float32", "bfloat16", "float16", "float8", "float8-block", "nvfp4", "mxfp4", "int4", "int8"
]  # of weights
KvDType = Literal["float32", "bfloat16", "float16", "float8"]

BESIDE_QUANTISED: tuple[DType, ...] = ("bfloat16", "float16")
"""Of activations beside quantised weights."""

FORMATS = (*DTYPES, *QUANTISED_BYTES)
"""Of weights."""
KV_DTYPES = ("bfloat16", "float16", "float8")
"""Of a cache that is not kept as the activations are."""

SPELLINGS = {
    "fp32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp8": "float8",
    "fp8_block": "float8-block",
    "fp8-block": "float8-block",
    "float8_block": "float8-block",
}
"""What engines and checkpoints call some of them."""


class Precision(Record):
    """Formats of the weights by part, of the activations (and collectives, logits, norms), and of the cache.

    ``attention`` are the projections before and after the attention itself, ``mlp`` the matrices of the dense MLP and
    of a shared expert, ``experts`` those of routed ones (empty: as the MLP's), ``attention_out`` the projection after
    the attention (empty: as those before it), ``recurrent`` those around a recurrence (empty: as the attention's).
    """

    activations: str
    attention: str
    mlp: str
    lm_head: str
    kv: str
    experts: str = ""
    attention_out: str = ""
    recurrent: str = ""

    def of(self, part: str) -> str:
        """The format of a part's weights, by the name that cards have for it."""
        own: str = getattr(self, part)
        return own or {"experts": self.mlp}.get(part, self.attention)

    @classmethod
    def plain(cls, dtype: str) -> Precision:
        """Everything in one dtype."""
        return cls(dtype, dtype, dtype, dtype, dtype)

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats of all its parts, each once."""
        return tuple(dict.fromkeys((self.activations, *self.formats_of_blocks, self.lm_head, self.kv)))

    @property
    def formats_of_blocks(self) -> tuple[str, ...]:
        """The formats of the blocks' weights, each once."""
        return tuple(dict.fromkeys(self._of_blocks.values()))

    @property
    def _of_blocks(self) -> dict[str, str]:
        return {part: self.of(part) for part in ("attention", "attention_out", "recurrent", "mlp", "experts")}

    @property
    def weights(self) -> str:
        """The format of the blocks' weights, in words where there are several."""
        if len(self.formats_of_blocks) == 1:
            return self.mlp
        return ", ".join(f"{part} {kept}" for part, kept in self._of_blocks.items() if getattr(self, part))
