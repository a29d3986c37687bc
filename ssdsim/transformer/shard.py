"""The operations of one device's share of a model."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ssdsim.base.record import Record
from ssdsim.transformer.block_sparse import BlockAttention, BlockChoice
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.compressed import (
    RATIOS,
    Branch,
    Compressed,
    CompressedAttention,
    CompressedIndexer,
    CompressedProjections,
)
from ssdsim.transformer.context_parallel import shared_attention
from ssdsim.transformer.hyper_connections import HyperConnection, Way
from ssdsim.transformer.layers import BlockSparse, Experts, Head, Latent, Recurrent, Sparse, loop_operations
from ssdsim.transformer.operations import (
    DTYPE_BYTES,
    Attention,
    Collective,
    Elementwise,
    ExpertMlp,
    Gemm,
    LatentAttention,
    Operation,
)
from ssdsim.transformer.precision import Precision
from ssdsim.transformer.recurrences import Convolution, RecurrentStep, StateKeeping
from ssdsim.transformer.routing import busiest_over_mean, devices_of_a_token, distinct_experts
from ssdsim.transformer.sparse import Indexer, SparseAttention


class Block(Record):
    """Operations that a pass runs ``times`` in a row: a layer, or the part of a layer that so many layers have."""

    operations: tuple[Operation, ...]
    times: int


class Shard(Record):
    """One device's share of a pass."""

    card: Transformer
    batch: int
    queries: int
    context: int
    tp: int
    precision: Precision
    masked: bool
    ep: int
    fused: int
    logits: int
    all_sequences: int
    """The sequences of all devices, which have their own or all the same."""
    drafts: int = 1
    states: StateKeeping = "each"
    rows: int = 0
    """Tokens of all devices' sequences, where these differ; 0 where they are alike."""
    dcp: int = 1
    """Devices that share each sequence's cache."""

    @property
    def tokens(self) -> int:
        if self.rows:
            return -(-self.rows * self.batch // self.all_sequences)
        return self.batch * self.queries

    @property
    def data_parallel(self) -> bool:
        """Tell whether experts lie apart on devices that share nothing else."""
        return self.ep > self.tp

    def embedding(self) -> tuple[Operation, ...]:
        if not self.card.vocab_size:
            return ()
        gather = self._elementwise("embedding", 2 * self.card.hidden_size)
        fusion = () if self.card.head is None else self._fusion(self.card.head)
        return (gather, *self._all_reduce("embedding_all_reduce"), *fusion)

    def _fusion(self, head: Head) -> tuple[Operation, ...]:
        """The target's hidden states made one with, or for, a head's tokens; every device does it whole."""
        card = self.card
        width = head.fused(card.hidden_size)
        if head.reads == "joined":
            joined = self._elementwise("feature_norm", 4 * width)
            return joined, self._gemm("fc", card.hidden_size, width, self.precision.mlp)
        if not self.fused or not width:
            return ()
        return (self._gemm("fc", card.hidden_size, width, self.precision.mlp, self.batch * self.fused),)

    def blocks(self) -> tuple[Block, ...]:
        """A layer where all are alike, else their parts."""
        card, parts = self.card, [*self._attention_parts()]
        if card.dense_layers:
            norm = self._norm("post_norm", card.hidden_size) if card.vocab_size else []
            mlp = self._mlp(card.intermediate_size // self.tp, "")
            parts.append(((*norm, *mlp, *self._all_reduce("mlp_all_reduce")), card.dense_layers))
        if card.experts is not None:
            parts.append((self._experts(card.experts), card.experts.layers))
        parts = [((*ops, *self._mixing("post")), times) for ops, times in parts]
        if {times for _, times in parts} == {card.layers}:
            return (Block(tuple([op for ops, _ in parts for op in ops]), card.layers),)
        return tuple([Block(ops, times) for ops, times in parts])

    def head(self) -> tuple[Operation, ...]:
        card = self.card
        if not card.vocab_size:
            return ()
        vocab_shard = -(-card.vocab_size // self.tp)  # engines pad the vocabulary to a multiple of tp
        rows = self.tokens if self.rows else self.batch * self.logits
        ops: list[Operation] = [
            *([self._elementwise("streams_sum", (card.streams + 1) * card.hidden_size)] if card.streams > 1 else []),
            self._elementwise("final_norm", 4 * card.hidden_size),
            self._gemm("lm_head", vocab_shard, card.hidden_size, self.precision.lm_head, rows),
        ]
        if self.tp > 1:
            logits_bytes = rows * vocab_shard * self.tp * self._value_bytes
            ops.append(Collective("logits_all_gather", "all_gather", logits_bytes, self.tp))
        if card.head is not None:
            blocks, dtype = self.batch * self.drafts, self.precision.activations
            tokens = self.logits // self.drafts
            ops += loop_operations(card.head.loop, blocks, tokens, card.hidden_size, vocab_shard, self.tp, dtype)
        return tuple(ops)

    def _attention_parts(self) -> Iterator[tuple[tuple[Operation, ...], int]]:
        """Attention of each kind of layer, and the recurrence that is in its place, with the number of them."""
        card, full = self.card, self.card.attention_layers - self.card.windowed_layers
        if card.recurrent is not None:
            yield self._recurrence(card.recurrent), card.recurrent.layers
        if card.latent is not None:
            indexed = card.sparse.layers if card.sparse else full
            yield self._latent_attention(card.latent, card.sparse), indexed
            if indexed < full:
                yield self._latent_attention(card.latent, card.sparse, reuses=True), full - indexed
            return
        if card.compressed is not None:
            for branch, layers in card.compressed.branches(card.layers):
                yield self._compressed_attention(card.compressed, branch), layers
            return
        if (blocks := card.block_sparse) is not None:
            full -= blocks.layers
            yield self._attention(card.kv_heads, card.head_dim, self.context, 2, blocks=blocks), blocks.layers
        if full:
            projected = 1 if card.keys_are_values else 2
            yield self._attention(card.kv_heads, card.head_dim, self.context, projected), full
        if card.window is not None:
            seen = min(self.context, card.window.tokens)
            windowed = not card.window.gathered
            yield self._attention(*card.window_heads, seen, 2, windowed), card.windowed_layers

    def _attention(
        self,
        all_kv_heads: int,
        head_dim: int,
        context: int,
        projected: int,
        windowed: bool = False,
        blocks: BlockSparse | None = None,
    ) -> tuple[Operation, ...]:
        """Attention by heads; ``projected`` of keys and values have a projection of their own."""
        card, shaped = self.card, self.card.vocab_size == 0
        heads, kv_heads = card.heads // self.tp, max(1, all_kv_heads // self.tp)
        q_out, kv_out, weights = heads * head_dim, kv_heads * head_dim, self.precision.attention
        queries_out = 2 * q_out if card.attention_gate else q_out
        made = queries_out + projected * kv_out + (blocks.columns_on(self.tp) if blocks else 0)
        ops: list[Operation] = [self._gemm("qkv", made, card.attention_input, weights)]
        if card.head is not None and card.head.reads == "cached" and self.fused:
            rows = self.batch * self.fused
            ops.insert(0, self._gemm("context_kv", projected * kv_out, card.hidden_size, weights, rows))
        if not shaped:
            ops[:0] = self._norm("input_norm", card.attention_input)
            if card.qk_norm:
                ops.append(self._elementwise("qk_norm", 2 * (q_out + kv_out)))
            # rotary embedding of q and k in place, then k and v written to the cache (as wide as the activations here)
            ops.append(self._elementwise("rotary", 2 * (q_out + kv_out) + 4 * kv_out))
        seen = (self.batch, self.queries, context, heads, kv_heads, head_dim, self.precision.activations)
        if blocks is None:
            attention = Attention("attention", *seen, self.masked, self._kv_dtype, windowed)
            ops += shared_attention(attention, self.dcp)
        else:
            ops += self._to_blocks(blocks, heads, kv_heads)
        if card.attention_gate:
            ops.append(self._elementwise("attention_gate", 3 * q_out))
        ops.append(self._gemm("attention_out", card.hidden_size, q_out, self.precision.of("attention_out")))
        if card.all_reduces_per_layer == 2:
            ops.extend(self._all_reduce("attention_all_reduce"))
        if card.head is not None and card.head.reads == "kept":
            ops += self._cross_attention()
        return tuple(ops)

    def _cross_attention(self) -> list[Operation]:
        """Attention to what a layer of the target keeps of the context: queries alone are made, nothing is written.

        All of it is verified, so that the tokens of a tree need no mask.
        """
        card, heads = self.card, self.card.heads // self.tp
        kv_heads, q_out = max(1, card.kv_heads // self.tp), heads * card.head_dim
        seen = (self.batch, self.queries, self.context, heads, kv_heads, card.head_dim, self.precision.activations)
        return [
            self._elementwise("cross_norm", 4 * card.hidden_size),
            self._gemm("cross_q", q_out, card.hidden_size, self.precision.attention),
            self._elementwise("cross_rotary", 2 * q_out),
            Attention("cross_attention", *seen, False, self._kv_dtype),
            self._gemm("cross_out", card.hidden_size, q_out, self.precision.of("attention_out")),
            *self._all_reduce("cross_all_reduce"),
        ]

    def _latent_attention(
        self, latent: Latent, sparse: Sparse | None = None, reuses: bool = False
    ) -> tuple[Operation, ...]:
        """Attention over a latent, which decoding reads: heads' own projections are part of queries and outputs.

        Where it is ``sparse``, an indexer chooses of it, or a layer ``reuses`` what another one chose.
        """
        hidden, heads = self.card.hidden_size, self.card.heads // self.tp
        weights, dtype = self.precision.attention, self.precision.activations
        q_out = heads * (latent.nope_dim + latent.rope_dim)
        small = latent.cached + (latent.query_rank or 0)
        ops: list[Operation] = self._norm("input_norm", hidden)
        if self.card.attention_gate:
            ops.append(self._gemm("gate", heads * latent.value_dim, hidden, weights))
        if latent.query_rank:
            ops.append(self._gemm("qkv_down", small, hidden, weights))
            ops.append(self._gemm("q_up", q_out, latent.query_rank, weights))
        else:
            ops.append(self._gemm("qkv_down", q_out + latent.cached, hidden, weights))
        ops += [
            self._elementwise("latent_norm", 4 * small),
            self._elementwise("rotary", 2 * heads * latent.rope_dim + 4 * latent.cached),
            self._gemm("kv_up", heads * (latent.nope_dim + latent.value_dim), latent.rank, weights),
        ]
        if sparse is not None and not reuses:
            ops += self._indexer(sparse, latent.query_rank or hidden)
        projections = "" if weights == dtype else weights
        if sparse is not None:
            attention: Operation = SparseAttention(
                "sparse_attention", self.batch, self.queries, self.context, sparse.chosen, heads, latent.rank,
                latent.rope_dim, dtype, self._kv_dtype, projections,
            )  # fmt: skip
        else:
            attention = LatentAttention(
                "attention", self.batch, self.queries, self.context, heads, latent.rank, latent.rope_dim, dtype,
                self.masked, self._kv_dtype, projections,
            )  # fmt: skip
        ops += shared_attention(attention, self.dcp)
        if self.card.attention_gate:
            ops.append(self._elementwise("attention_gate", 3 * heads * latent.value_dim))
        ops += [
            self._gemm("attention_out", hidden, heads * latent.value_dim, self.precision.of("attention_out")),
            *self._all_reduce("attention_all_reduce"),
        ]
        return tuple(ops)

    def _indexer(self, sparse: Sparse, query_rank: int) -> list[Operation]:
        """Scores and a choice; every device makes them whole."""
        weights, dtype = self.precision.attention, self.precision.activations
        seen = self.batch, self.queries, self.context, sparse.heads, sparse.dim, sparse.chosen
        return [
            self._gemm("index_queries", sparse.heads * sparse.dim, query_rank, weights),
            self._gemm("index_keys", sparse.small_columns, self.card.hidden_size, dtype),
            Indexer("indexer", *seen, dtype, "" if weights == dtype else weights),
        ]

    def _to_blocks(self, blocks: BlockSparse, heads: int, kv_heads: int) -> list[Operation]:
        """A choice of blocks, and attention to them."""
        weights, dtype = self.precision.attention, self.precision.activations
        beside, of = "" if weights == dtype else weights, (blocks.block, blocks.chosen)
        seen = self.batch, self.queries, self.context
        return [
            BlockChoice("block_choice", *seen, blocks.heads_on(self.tp), blocks.dim, *of, dtype, beside),
            BlockAttention(
                "block_attention", *seen, *of, heads, kv_heads, self.card.head_dim, dtype, self._kv_dtype, beside
            ),
        ]

    def _compressed_attention(self, of: Compressed, branch: Branch) -> tuple[Operation, ...]:
        """Attention to a window and entries; every device makes these, and an indexer's choice of them, whole."""
        card, weights, dtype = self.card, self.precision.attention, self.precision.activations
        hidden, dim, ratio = card.hidden_size, card.head_dim, RATIOS[branch]
        of_block, projections = of.weights(branch, hidden, card.heads, dim), "" if weights == dtype else weights
        mine = of_block.whole + (of_block.shared + of_block.out) // self.tp
        ops: list[Operation] = self._norm("input_norm", hidden)
        if card.head is not None and card.head.reads == "cached" and self.fused:
            ops.append(self._gemm("context_kv", dim, hidden, weights, self.batch * self.fused))
        ops.append(CompressedProjections("projections", self.tokens, mine, of_block.small, weights, dtype))
        if branch == "csa":
            seen = self.batch, self.queries, max(1, self.context // ratio), of.index_heads, of.index_dim, of.chosen
            ops.append(CompressedIndexer("indexer", *seen, dtype, projections))
        ops += [
            CompressedAttention(
                "compressed_attention", self.batch, self.queries, self.context, of.window, ratio,
                of.chosen if branch == "csa" else 0, card.heads // self.tp, dim, of.rope_dim, dtype, self._kv_dtype,
                projections,
            ),
            *self._all_reduce("attention_all_reduce"),
        ]  # fmt: skip
        return tuple(ops)

    def _mixing(self, way: Way) -> tuple[Operation, ...]:
        """Hyper-connections, where the hidden state has several streams; every device has all of them."""
        card = self.card
        if card.streams == 1:
            return ()
        shape = self.tokens, card.streams, card.hidden_size, self.precision.activations
        return (HyperConnection(f"streams_{way}", way, *shape),)

    def _recurrence(self, whole: Recurrent) -> tuple[Operation, ...]:
        """A recurrence; branches of a tree have states of their own, which begin as their parents': a sequence each."""
        hidden, dtype, mine = self.card.hidden_size, self.precision.activations, whole.shard(self.tp)
        sequences, each = (self.tokens, 1) if self.masked else (self.batch, self.queries)
        weights = self.precision.of("recurrent")
        ops = [*self._norm("input_norm", hidden), self._gemm("recurrent_in", mine.projected, hidden, weights)]
        if mine.small_columns:
            ops.append(self._gemm("recurrent_beside", mine.small_columns, hidden, dtype))
        ops += [self._gemm("recurrent_gates", columns, rows, dtype) for rows, columns in mine.second]
        ops += [
            Convolution("convolution", sequences, each, mine.channels, mine.conv_width, dtype),
            RecurrentStep(
                "recurrence", sequences, each, mine.heads, mine.key_heads, mine.key_dim, mine.value_dim,
                mine.rule, dtype, mine.state_dtype, self.states,
            ),
            self._elementwise("gated_norm", 3 * mine.values),
            self._gemm("recurrent_out", hidden, mine.values, weights),
            *self._all_reduce("recurrent_all_reduce"),
        ]  # fmt: skip
        return tuple(ops)

    def _norm(self, name: str, width: int) -> list[Operation]:
        """The norm before a mixer or a feed-forward.

        Before it the states after each block of layers so far, of which half are there on average, are made one, or
        the streams of the hidden state are.
        """
        norm = self._elementwise(name, 4 * width)
        if self.card.residual_block is None:
            return [*self._mixing("pre"), norm]
        states = math.ceil(self.card.layers / self.card.residual_block) / 2
        return [self._elementwise("attention_residual", math.ceil((states + 1) * self.card.hidden_size)), norm]

    def _mlp(self, inner: int, whose: str) -> list[Operation]:
        card = self.card
        up_out = 2 * inner if card.gated_mlp else inner
        ops: list[Operation] = [
            self._gemm(f"{whose}{'gate_up' if card.gated_mlp else 'up'}", up_out, card.hidden_size, self.precision.mlp)
        ]
        if card.vocab_size:
            ops.append(self._elementwise(f"{whose}activation", up_out + inner))
        ops.append(self._gemm(f"{whose}down", card.hidden_size, inner, self.precision.mlp))
        return ops

    def _experts(self, experts: Experts) -> tuple[Operation, ...]:
        card, dtype = self.card, self.precision.activations
        width = experts.latent_width or card.hidden_size
        ops = self._norm("post_norm", card.hidden_size)
        ops += [self._gemm("router", experts.count, card.hidden_size, dtype)]
        if experts.shared_width:
            ops += self._mlp(experts.shared_width // self.tp, "shared_")
        if experts.shared_gate:
            ops += [self._gemm("shared_gate", 1, card.hidden_size, dtype)]
            ops += [self._elementwise("shared_gating", 3 * card.hidden_size)]
        kept, everyone = self.precision.of("experts"), self.all_sequences
        routing = (everyone, self.queries, experts.overlap, experts.skew)
        touched = distinct_experts(experts.count, experts.per_token, *routing)
        busiest = busiest_over_mean(experts.count, touched, self.ep)
        share = busiest / self.ep
        visited = ExpertMlp(
            "experts", self.rows or everyone * self.queries, width, experts.width // max(1, self.tp // self.ep),
            experts.count // self.ep, experts.per_token, share * touched, kept, "" if kept == dtype else dtype,
            share, card.mlp_matrices,
        )  # fmt: skip
        before, after = self._to_latent(experts)
        if self.data_parallel:
            dispatch, combine = (self._exchange(name, experts, width, busiest) for name in ("dispatch", "combine"))
            return (*ops, *before, dispatch, visited, combine, *after)
        return (*ops, *before, visited, *after, *self._all_reduce("experts_all_reduce"))

    def _to_latent(self, experts: Experts) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
        """The way to the values that routed experts work on, and back; every device does both whole."""
        hidden, width = self.card.hidden_size, experts.latent_width
        if width is None:
            return (), ()
        kept = self.precision.mlp
        norm = (self._elementwise("latent_norm", 2 * width),) if experts.latent_norm else ()
        return (self._gemm("latent_down", width, hidden, kept),), (*norm, self._gemm("latent_up", hidden, width, kept))

    def _exchange(self, name: str, experts: Experts, width: int, busiest: float) -> Collective:
        """Each token to the devices of its experts, once to each, or back; the busiest of them has the most to take."""
        sent = self.tokens * width * self._value_bytes
        copies = devices_of_a_token(experts.count, experts.per_token, self.ep)
        return Collective(name, "all_to_all", math.ceil(busiest * copies * sent), self.ep)

    @property
    def _kv_dtype(self) -> str:
        """The cache's dtype, as operations have it: empty where it is the activations'."""
        return "" if self.precision.kv == self.precision.activations else self.precision.kv

    @property
    def _value_bytes(self) -> int:
        return DTYPE_BYTES[self.precision.activations]

    def _gemm(self, name: str, n: int, k: int, weights: str, rows: int | None = None) -> Gemm:
        """The product over all tokens in flight, or over ``rows`` of them."""
        m = self.tokens if rows is None else rows
        if weights == self.precision.activations:
            return Gemm(name, m, n, k, weights)
        return Gemm(name, m, n, k, weights, self.precision.activations)

    def _elementwise(self, name: str, values_per_token: int) -> Elementwise:
        return Elementwise(name, self.tokens * values_per_token * self._value_bytes)

    def _all_reduce(self, name: str) -> tuple[Operation, ...]:
        if self.tp == 1:
            return ()
        message = self.tokens * self.card.hidden_size * self._value_bytes
        return (Collective(name, "all_reduce", message, self.tp),)
