"""Compressed attention (DeepSeek-V4): what its layers hold, and its operations in decoding and over prompts.

Every layer attends to a window of the latest tokens, and most to entries besides, each of which stands for several
tokens: in compressed sparse attention (CSA) an entry is made every 4 tokens, and an indexer chooses some of them for
each query; in heavily compressed attention (HCA) one is made every 128, and all are seen. One head of keys, which are
the values, too, serves all heads, and every device holds it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

from ssdsim.base.card import Card
from ssdsim.base.record import Record, replace
from ssdsim.transformer.layers import Size, Some
from ssdsim.transformer.operations import DTYPE_BYTES, WEIGHT_BYTES, WEIGHTS_ARITHMETIC, OfCache, Operation
from ssdsim.transformer.sparse import Indexer, PrefillSparse, key_bytes

Part = Literal["attention", "indexer", "prefill_attention", "prefill_indexer"]
"""What is timed of a layer beside its projections: in decoding, and over prompts."""
Branch = Literal["window", "csa", "hca"]
RATIOS: Mapping[Branch, int] = {"window": 0, "csa": 4, "hca": 128}
"""Tokens that an entry stands for; none where there are no entries."""

_PIECES: Mapping[Branch, int] = {"window": 0, "csa": 2, "hca": 1}  # entries that a token is a part of
_SCALED, _STATE_BYTES = 64, 4  # values of 8 bits that share a scale of 8 bits; compressors work in 32 bits


class BlockWeights(Record):
    """Numbers of weights: ``whole`` on every device, ``shared`` by heads, after attention (``out``, shared too).

    ``small`` ones, of compressors and of the weights of an indexer's heads, are whole and stay in 16 bits.
    """

    whole: int
    shared: int
    out: int
    small: int


_PARTS = BlockWeights.__struct_fields__


class Compressed(Card):
    """Attention to a ``window`` of tokens, with entries before it in ``csa_layers`` and ``hca_layers`` of the layers.

    Keys are as wide as a head, ``rope_dim`` of which are its position. Queries come from ``query_rank`` values. Outputs
    of heads go through ``out_rank`` values for each of ``out_groups`` groups of them. The indexer of a CSA layer has
    ``index_heads`` of ``index_dim`` values, and chooses ``chosen`` entries for a query.
    """

    rope_dim: Size
    query_rank: Size
    out_groups: Size
    out_rank: Size
    window: Size
    csa_layers: Some
    hca_layers: Some
    index_heads: Size
    index_dim: Size
    chosen: Size

    def branches(self, layers: int) -> list[tuple[Branch, int]]:
        """The kinds of layers that there are, of so many in all, with the number of each."""
        counts: dict[Branch, int] = {"csa": self.csa_layers, "hca": self.hca_layers}
        alone: list[tuple[Branch, int]] = [("window", layers - sum(counts.values()))]
        return [(branch, count) for branch, count in (*alone, *counts.items()) if count]

    def compressor_columns(self, branch: Branch, dim: int) -> int:
        """Values of a token that become parts of entries, and their weights; of an indexer's entries likewise."""
        own = 2 * _PIECES[branch]
        return own * (dim + (self.index_dim if branch == "csa" else 0))

    def small_columns(self, branch: Branch, dim: int) -> int:
        """Columns of the matrices of compressors and of the weights of an indexer's heads, which stay in 16 bits."""
        return self.compressor_columns(branch, dim) + (self.index_heads if branch == "csa" else 0)

    def weights(self, branch: Branch, hidden_size: int, heads: int, dim: int) -> BlockWeights:
        """Weights of one layer."""
        queries = self.query_rank * self.index_heads * self.index_dim if branch == "csa" else 0
        return BlockWeights(
            whole=hidden_size * (self.query_rank + dim) + queries,
            shared=self.query_rank * heads * dim,
            out=self.out_rank * (heads * dim + self.out_groups * hidden_size),
            small=hidden_size * self.small_columns(branch, dim),
        )

    def all_weights(self, layers: int, hidden_size: int, heads: int, dim: int) -> BlockWeights:
        """Weights of so many layers, of each kind as many as there are."""
        of = [(self.weights(branch, hidden_size, heads, dim), count) for branch, count in self.branches(layers)]
        return BlockWeights(*(sum(count * getattr(each, part) for each, count in of) for part in _PARTS))

    def token_bytes(self, dim: int, dtype: str) -> float:
        """Bytes that a token adds to the cache on average: its parts of entries, and of an indexer's."""
        entry = entry_bytes(dim, self.rope_dim, dtype)
        csa = self.csa_layers * (entry + key_bytes(self.index_dim)) / RATIOS["csa"]
        return csa + self.hca_layers * entry / RATIOS["hca"]

    def sequence_bytes(self, tokens: int, layers: int, dim: int, dtype: str) -> int:
        """Bytes that a sequence takes besides: windows of ``tokens`` at most, and parts of entries to be made."""
        windows = layers * tokens * entry_bytes(dim, self.rope_dim, dtype)
        kept = (
            count * _PIECES[branch] * RATIOS[branch] * self.compressor_columns(branch, dim)
            for branch, count in self.branches(layers)
        )
        return windows + _STATE_BYTES * sum(kept)


def entry_bytes(dim: int, rope_dim: int, dtype: str) -> int:
    """Bytes of a token or an entry; in 8 bits it has scales, and its position stays in 16 bits."""
    if DTYPE_BYTES[dtype] > 1:
        return DTYPE_BYTES[dtype] * dim
    return dim - rope_dim + 2 * rope_dim + math.ceil(dim / _SCALED)


class Work(NamedTuple):
    """What a law needs to know of an operation: queries, heads, what each sees, queries that choose, scores, bytes."""

    tokens: float
    heads: float
    seen: float
    choosing: float
    scores: float
    moved: float
    flops: float


class CompressedProjections(Operation, Record):
    """All matrices of a layer's attention on one device: ``weights`` in ``dtype``, ``small`` ones in 16 bits.

    They are one operation since no time of one alone says what it takes in such a block.
    """

    name: str
    tokens: int
    weights: int
    small: int
    dtype: str
    activations: str

    @property
    def kernel(self) -> str:
        return "compressed_projections"

    @property
    def shape(self) -> str:
        return f"{self.tokens} by {self.weights + self.small} weights"

    @property
    def arithmetic(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((WEIGHTS_ARITHMETIC.get(self.dtype, self.activations), self.activations)))

    @property
    def flops(self) -> float:
        return 2.0 * self.tokens * (self.weights + self.small)

    @property
    def bytes(self) -> float:
        return self.streamed_bytes

    @property
    def streamed_bytes(self) -> float:
        return WEIGHT_BYTES[self.dtype] * self.weights + DTYPE_BYTES[self.activations] * float(self.small)


class CompressedIndexer(Indexer):
    """An :class:`ssdsim.transformer.sparse.Indexer` whose ``context`` are entries of four tokens each."""

    part: ClassVar[Part] = "indexer"

    @property
    def kernel(self) -> str:
        return "compressed_indexer"

    @property
    def work(self) -> Work:
        """``seen`` are the entries that are chosen."""
        tokens, scores = self.batch * self.queries, self.scores if self.chooses else 0.0
        seen = min(self.context, self.chosen)
        return Work(tokens, self.heads, seen, tokens * self.chooses, scores, self.streamed_bytes, self.flops)


class CompressedAttention(OfCache, Record):
    """Attention to the last ``window`` of ``context`` tokens, and to entries of ``ratio`` of them (0: to none).

    A query attends to ``chosen`` entries of its own, or to all where that is 0. A key has ``rank`` values, of which
    ``rope_dim`` are its position.
    """

    part: ClassVar[Part] = "attention"

    name: str
    batch: int
    queries: int
    context: int
    window: int
    ratio: int
    chosen: int
    heads: int
    rank: int
    rope_dim: int
    dtype: str
    kv_dtype: str = ""
    projections: str = ""

    @property
    def kernel(self) -> str:
        return "compressed_attention"

    @property
    def shape(self) -> str:
        return f"{self.batch}x{self.queries} over {self.seen} of {self.context}"

    @property
    def seen(self) -> int:
        """Tokens and entries that a query attends to."""
        entries = self.context // self.ratio if self.ratio else 0
        return min(self.context, self.window) + (min(entries, self.chosen) if self.chosen else entries)

    @property
    def work(self) -> Work:
        """Each query's tokens and entries are gathered for it alone."""
        gathered = self.queries * self.streamed_bytes
        return Work(self.batch * self.queries, self.heads, self.seen, 0.0, 0.0, gathered, self.flops)

    @property
    def flops(self) -> float:
        return 4.0 * self.rank * self.batch * self.queries * self.heads * self.seen

    @property
    def streamed_bytes(self) -> float:
        """The least that comes from memory: queries of a sequence may see the same entries."""
        return float(self.batch * self.seen * entry_bytes(self.rank, self.rope_dim, self.cache_dtype))

    @property
    def bytes(self) -> float:
        io = 2.0 * self.batch * self.queries * self.heads * self.rank
        return self.streamed_bytes + DTYPE_BYTES[self.dtype] * io


class PrefillCompressed(Operation, Record):
    """A :class:`CompressedIndexer` or :class:`CompressedAttention` over ``tokens`` of each of ``batch`` prompts.

    ``prefix`` tokens before them are cached. ``pairs`` are of a query and a token or an entry that it sees, in one
    prompt; ``choosing``, its queries for which an indexer sees more entries than are chosen. ``projections`` is as of
    what it is made of.
    """

    name: str
    part: Part
    batch: int
    tokens: int
    prefix: int
    heads: int
    pairs: float
    choosing: int
    flops_per_pair: float
    bytes_per_pair: float
    arithmetic: tuple[str, ...]
    dtype: str
    projections: str = ""

    @property
    def kernel(self) -> str:
        return f"prefill_{self.name}"

    @property
    def shape(self) -> str:
        return f"{self.batch}x{self.tokens} after {self.prefix}"

    @property
    def flops(self) -> float:
        return self.batch * self.pairs * self.flops_per_pair

    @property
    def work(self) -> Work:
        return Work(self.batch * self.tokens, self.heads, 0.0, self.batch * self.choosing, 0.0, 0.0, self.flops)

    @property
    def bytes(self) -> float:
        """What the last token of each prompt sees, read once for all of them."""
        return self.batch * self.pairs / self.tokens * self.bytes_per_pair


def over_prompts(op: CompressedIndexer | CompressedAttention, tokens: int, prefix: int) -> PrefillCompressed:
    """The same over prompts of ``tokens`` after ``prefix``."""
    one = replace(op, batch=1, queries=1)
    last = prefix + tokens
    part: Part = "prefill_indexer" if isinstance(op, CompressedIndexer) else "prefill_attention"

    def visible(most: int) -> float:
        """Pairs of a query and a token that it sees, ``most`` at most."""
        return PrefillSparse(op.name, 1, tokens, prefix, most, 0.0, 0, op.arithmetic).pairs

    if isinstance(op, CompressedIndexer):
        pairs, seen = visible(last) / RATIOS["csa"], op.context
        choosing = max(0, last - max(prefix, op.chosen * RATIOS["csa"]))
    else:
        pairs, seen, choosing = visible(op.window), op.seen, 0
        if op.ratio:
            most = min(last, op.chosen * op.ratio) if op.chosen else last
            pairs += visible(most) / op.ratio
    of_pair = one.flops / seen, one.streamed_bytes / seen
    return PrefillCompressed(
        op.name,
        part,
        op.batch,
        tokens,
        prefix,
        op.heads,
        pairs,
        choosing,
        *of_pair,
        op.arithmetic,
        op.dtype,
        op.projections,
    )
