"""Sparse attention: an indexer scores what is cached, and a query attends to the tokens that it chose alone.

DeepSeek sparse attention (DSA; DeepSeek-V3.2, arXiv 2512.02556, and GLM-5): over a latent cache.
"""

from __future__ import annotations

from ssdsim.base.record import Record, replace
from ssdsim.transformer.operations import DTYPE_BYTES, Attends, OfCache, Operation

KEY_DTYPE = "float8"
"""Of cached index keys, and of the products with them."""

_SCALE_BYTES = 4
_SCALED = 128  # values of a latent of 8 bits that share a scale
_SCORE_BYTES = 4
_TILE_HEADS = 64  # of attention over prompts to chosen tokens: fewer take the time of so many


def key_bytes(dim: int) -> int:
    """Bytes that a token adds to a layer's index keys: 8 bits a value and a scale."""
    return dim * DTYPE_BYTES[KEY_DTYPE] + _SCALE_BYTES


def latent_bytes(rank: int, rope_dim: int, dtype: str) -> int:
    """Bytes of a token's latent; of 8 bits it has scales, and its positions stay in 16 bits (``fp8_ds_mla``)."""
    if DTYPE_BYTES[dtype] > 1:
        return DTYPE_BYTES[dtype] * (rank + rope_dim)
    return rank + _SCALE_BYTES * -(-rank // _SCALED) + 2 * rope_dim


class SparseStep(Attends):
    """A part of sparse attention: each query sees ``seen`` of the tokens that are cached.

    Over prompts a query sees what comes before it, of which it sees at most ``most`` (None: all).
    """

    __slots__ = ()
    batch: int
    queries: int
    context: int

    @property
    def seen(self) -> int:
        return self.context

    @property
    def most(self) -> int | None:
        return None

    @property
    def padding(self) -> float:
        """Times as much that its kernel over prompts multiplies."""
        return 1.0


class ToChosen(SparseStep, OfCache):
    """Attention of each query to what was chosen for it, at most ``most`` of the ``context`` tokens."""

    __slots__ = ()

    @property
    def shape(self) -> str:
        return f"{self.batch}x{self.queries} over {self.seen} of {self.context}"

    @property
    def seen(self) -> int:
        """Tokens that a query attends to."""
        return self.context if self.most is None else min(self.context, self.most)

    @property
    def gathered_bytes(self) -> float:
        """Bytes of all queries' tokens, each read for its query alone."""
        return self.queries * self.streamed_bytes


class Indexer(SparseStep, Record):
    """Scores of all ``context`` index keys for each query, and the choice of the ``chosen`` best.

    ``heads`` of a query score the one key of a token. The queries of a sequence read its keys together, and each has
    scores and a choice of its own. No choice is made where all are chosen.

    ``projections`` is the format of the block's weights, empty where it is ``dtype``.
    """

    name: str
    batch: int
    queries: int
    context: int
    heads: int
    dim: int
    chosen: int
    dtype: str
    projections: str = ""

    @property
    def shape(self) -> str:
        return f"{self.batch}x{self.queries} choose {self.chosen} of {self.context}"

    @property
    def arithmetic(self) -> tuple[str, ...]:
        return KEY_DTYPE, self.dtype

    @property
    def chooses(self) -> bool:
        return self.context > self.chosen

    @property
    def scores(self) -> float:
        """Scores of all queries."""
        return float(self.batch * self.queries * self.context)

    @property
    def flops(self) -> float:
        return 2.0 * self.scores * self.heads * self.dim

    @property
    def streamed_bytes(self) -> float:
        """The keys."""
        return float(self.batch * self.context * key_bytes(self.dim))

    @property
    def bytes(self) -> float:
        """Bytes of keys, of queries, and of scores that are written and read."""
        of_queries = self.batch * self.queries * self.heads * key_bytes(self.dim)
        return self.streamed_bytes + of_queries + 2 * _SCORE_BYTES * self.scores


class SparseAttention(ToChosen, Record):
    """Attention of each query to the ``chosen`` tokens that are its own, of ``context``, in a latent cache as of
    :class:`ssdsim.transformer.operations.LatentAttention`.
    """

    name: str
    batch: int
    queries: int
    context: int
    chosen: int
    heads: int
    rank: int
    rope_dim: int
    dtype: str
    kv_dtype: str = ""
    projections: str = ""

    @property
    def kernel(self) -> str:
        return "sparse_attention"

    @property
    def most(self) -> int | None:
        return self.chosen

    @property
    def padding(self) -> float:
        return max(_TILE_HEADS, self.heads) / self.heads

    @property
    def flops(self) -> float:
        each = 2.0 * (self.rank + self.rope_dim) + 2.0 * self.rank
        return each * self.batch * self.queries * self.heads * self.seen

    @property
    def streamed_bytes(self) -> float:
        """The least that comes from memory: queries of a sequence may choose the same tokens."""
        return float(self.batch * self.seen * latent_bytes(self.rank, self.rope_dim, self.cache_dtype))

    @property
    def bytes(self) -> float:
        io = float(self.batch * self.queries * self.heads * (2 * self.rank + self.rope_dim))
        return self.streamed_bytes + DTYPE_BYTES[self.dtype] * io


class PrefillSparse(Operation, Record):
    """A :class:`SparseStep` over ``tokens`` of each of ``batch`` prompts.

    ``prefix`` tokens before them are cached. ``flops_per_pair`` are of a query and a token that it sees, of which it
    sees at most ``most``; the kernel multiplies ``padding`` times as much.
    """

    name: str
    batch: int
    tokens: int
    prefix: int
    most: int
    flops_per_pair: float
    bytes_per_token: int
    arithmetic: tuple[str, ...]
    padding: float = 1.0

    @property
    def kernel(self) -> str:
        return f"prefill_{self.name}"

    @property
    def shape(self) -> str:
        return f"{self.batch}x{self.tokens} after {self.prefix}"

    @property
    def pairs(self) -> float:
        """Pairs of a query and a token that it sees, of one prompt."""
        last = self.prefix + self.tokens
        bounded = max(0, last - max(self.most, self.prefix))  # queries that see as many as they may
        rising = self.tokens - bounded
        return bounded * float(self.most) + rising * (self.prefix + (rising + 1) / 2)

    @property
    def flops(self) -> float:
        return self.batch * self.pairs * self.flops_per_pair

    @property
    def bytes(self) -> float:
        return float(self.batch * (self.prefix + self.tokens) * self.bytes_per_token)


def over_prompts(op: SparseStep, tokens: int, prefix: int) -> PrefillSparse:
    """The same over prompts of ``tokens`` after ``prefix``."""
    one = replace(op, batch=1, queries=1)  # type: ignore[type-var]
    most, each = op.most or prefix + tokens, (one.flops / op.seen, round(one.streamed_bytes / op.seen))
    return PrefillSparse(op.name, op.batch, tokens, prefix, most, *each, op.arithmetic, op.padding)
