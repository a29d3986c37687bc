"""Block-sparse attention: blocks of tokens are scored by their best one, and a query attends to whole blocks.

MiniMax sparse attention (MSA; MiniMax-M3, arXiv 2606.13392): over keys and values that groups of heads share. Each
group chooses blocks of its own.
"""

from __future__ import annotations

import math

from ssdsim.base.record import Record
from ssdsim.transformer.operations import DTYPE_BYTES
from ssdsim.transformer.sparse import SparseStep, ToChosen

KEY_BYTES = 2
"""Of a value of a cached index key, whatever the cache beside it has."""

_SCORE_BYTES = 4


class BlockChoice(SparseStep, Record):
    """Scores of all ``context`` index keys for each query, the best one of each block, and the ``chosen`` best blocks.

    A token has one index key of ``dim`` values, which the ``heads`` of a query score, each for the heads of its group.
    The queries of a sequence read its keys together, and each has scores and a choice of its own.
    """

    name: str
    batch: int
    queries: int
    context: int
    heads: int
    dim: int
    block: int
    chosen: int
    dtype: str
    projections: str = ""

    @property
    def kernel(self) -> str:
        return "block_choice"

    @property
    def shape(self) -> str:
        return f"{self.batch}x{self.queries} choose {self.chosen} of {math.ceil(self.context / self.block)} blocks"

    @property
    def chooses(self) -> bool:
        return self.context > self.chosen * self.block

    @property
    def scores(self) -> float:
        """Of blocks: those of their tokens stay in registers."""
        return float(self.batch * self.queries * self.heads * math.ceil(self.context / self.block))

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.queries * self.context * self.heads * self.dim

    @property
    def streamed_bytes(self) -> float:
        """The keys."""
        return float(self.batch * self.context * self.dim * KEY_BYTES)

    @property
    def bytes(self) -> float:
        """Bytes of keys, of queries, and of blocks' scores that are written and read."""
        of_queries = self.batch * self.queries * self.heads * self.dim * DTYPE_BYTES[self.dtype]
        return self.streamed_bytes + of_queries + 2 * _SCORE_BYTES * self.scores


class BlockAttention(ToChosen, Record):
    """Attention of each query to the ``chosen`` blocks of ``block`` tokens that are its own, in each group of heads."""

    name: str
    batch: int
    queries: int
    context: int
    block: int
    chosen: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    kv_dtype: str = ""
    projections: str = ""

    @property
    def kernel(self) -> str:
        return "block_attention"

    @property
    def most(self) -> int:
        return self.chosen * self.block

    @property
    def flops(self) -> float:
        return 4.0 * self.batch * self.queries * self.heads * self.head_dim * self.seen

    @property
    def streamed_bytes(self) -> float:
        """The least that comes from memory: queries of a sequence may choose the same blocks."""
        return 2.0 * self.batch * self.seen * self.kv_heads * self.head_dim * DTYPE_BYTES[self.cache_dtype]

    @property
    def bytes(self) -> float:
        io = 2.0 * self.batch * self.queries * self.heads * self.head_dim
        return self.streamed_bytes + DTYPE_BYTES[self.dtype] * io
