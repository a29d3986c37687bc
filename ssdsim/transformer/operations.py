"""The operations a forward pass is made of: what they compute and what they move.

An operation knows its shape and nothing about time. Four readers share it: the cost model (seconds), the
calibrator (what to time), the executor (what to run) and the roofline (flops against bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DTYPES = ("float32", "bfloat16", "float16")  # of weights and cache
DTYPE_BYTES: dict[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1, "int8": 1}

CollectiveKind = Literal["all_reduce", "all_gather"]


@dataclass(frozen=True, slots=True)
class Gemm:
    """``(m, k) @ (k, n)`` with the weights ``(k, n)`` streamed from memory; ``m`` is the tokens in flight."""

    name: str
    m: int
    n: int
    k: int
    dtype: str

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    @property
    def bytes(self) -> float:
        return float(DTYPE_BYTES[self.dtype]) * (self.m * self.k + self.k * self.n + self.m * self.n)


@dataclass(frozen=True, slots=True)
class Attention:
    """Decode attention: ``batch`` sequences, each with ``queries`` new tokens over ``context`` cached tokens.

    ``masked`` marks a branch mask: the queries of a sequence are not a causal chain but tips of branches, each
    attending to the shared trunk and to its own path (SSD paper, figure 8).
    """

    name: str
    batch: int
    queries: int
    context: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    masked: bool = False

    @property
    def flops(self) -> float:
        return 4.0 * self.batch * self.queries * self.heads * self.head_dim * self.context

    @property
    def bytes(self) -> float:
        kv = 2.0 * self.batch * self.context * self.kv_heads * self.head_dim
        io = 2.0 * self.batch * self.queries * self.heads * self.head_dim
        return DTYPE_BYTES[self.dtype] * (kv + io)


@dataclass(frozen=True, slots=True)
class PrefillAttention:
    """Causal attention of ``batch`` prompts of ``tokens`` tokens each over themselves (prefill)."""

    name: str
    batch: int
    tokens: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str

    @property
    def flops(self) -> float:
        pairs = self.tokens * (self.tokens + 1) / 2  # of a query and a key that it may see
        return 4.0 * self.batch * self.heads * self.head_dim * pairs

    @property
    def bytes(self) -> float:
        values = 2.0 * self.batch * self.tokens * (self.heads + self.kv_heads) * self.head_dim
        return DTYPE_BYTES[self.dtype] * values


@dataclass(frozen=True, slots=True)
class Collective:
    """An all-reduce or all-gather over ``ranks`` devices; ``message_bytes`` is the full (gathered) tensor."""

    name: str
    kind: CollectiveKind
    message_bytes: int
    ranks: int

    @property
    def flops(self) -> float:
        return 0.0

    @property
    def bytes(self) -> float:
        return float(self.message_bytes)


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A memory-bound kernel (norm, rotary embedding, activation, residual): ``moved_bytes`` read and written."""

    name: str
    moved_bytes: int

    @property
    def flops(self) -> float:
        return 0.0

    @property
    def bytes(self) -> float:
        return float(self.moved_bytes)


Operation = Gemm | Attention | PrefillAttention | Collective | Elementwise
