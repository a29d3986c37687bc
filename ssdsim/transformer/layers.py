"""Layers beyond a plain dense transformer: experts, a latent cache, windows, states, draft heads and their loops."""

from typing import Annotated, Literal

from msgspec import Meta

from ssdsim.base.card import Card
from ssdsim.transformer.block_sparse import KEY_BYTES
from ssdsim.transformer.operations import DTYPE_BYTES, Collective, Elementwise, Gemm, Operation
from ssdsim.transformer.recurrences import Rule, StateDtype
from ssdsim.transformer.routing import OVERLAP, SKEW
from ssdsim.transformer.sparse import key_bytes

Loop = Literal["none", "markov", "selector", "gru"]
"""``none``: each position's likeliest token (DFlash). ``markov``: a row of W1 for the token before, times W2 (r x V),
is added to the logits, once a token (DSpark; its confidence, a dot product, is left out). ``selector``: 16 guesses a
position, scores of all neighbouring pairs, a walk over them, in one launch (DFlash2). ``gru``: a GRU over the token
before, and an MLP of its state and the position's that makes a bias of all logits, once a token after the first
(Domino)."""

MARKOV_RANK = 256
SELECTOR_RANK = 32  # inferred: two tables of V rows make most of the 16.5 million parameters that vLLM PR 52816 adds
_CONVOLUTIONS = 2_000_000  # parameters of DFlash2's two-tap convolutions
_GUESSES = 16
GRU_STATE, GRU_WIDTH = 256, 64
"""Of Domino's loop. Its sizes are not published: these are ours, of the 2.8 % of a round that it is said to take."""


def loop_parameters(loop: Loop, hidden_size: int, vocab_size: int) -> int:
    """Weights of a loop."""
    if loop == "markov":
        return 2 * MARKOV_RANK * vocab_size + hidden_size + MARKOV_RANK
    if loop == "gru":
        return (hidden_size + GRU_STATE) * (3 * GRU_STATE + GRU_WIDTH) + GRU_WIDTH * vocab_size
    return 2 * SELECTOR_RANK * vocab_size + SELECTOR_RANK * hidden_size + _CONVOLUTIONS if loop == "selector" else 0


def loop_operations(
    loop: Loop, blocks: int, tokens: int, hidden_size: int, vocab_shard: int, tp: int, dtype: str
) -> tuple[Operation, ...]:
    """The operations after the LM head of ``blocks`` blocks of ``tokens`` proposals each, on one of ``tp`` devices.

    W2 is shared by the devices as the LM head is (settled here).
    """
    value_bytes = DTYPE_BYTES[dtype]
    if loop == "markov":
        step: tuple[Operation, ...] = (
            Elementwise("markov_gather", 2 * blocks * MARKOV_RANK * value_bytes),
            Gemm("markov_bias", blocks, vocab_shard, MARKOV_RANK, dtype),
            Elementwise("markov_add", 2 * blocks * vocab_shard * value_bytes),
        )
        if tp > 1:
            step += (Collective("markov_all_gather", "all_gather", blocks * vocab_shard * tp * value_bytes, tp),)
        return step * tokens
    if loop == "gru":
        joined = hidden_size + GRU_STATE
        step = (
            Gemm("gru", blocks, 3 * GRU_STATE, joined, dtype),
            Gemm("gru_mlp", blocks, GRU_WIDTH, joined, dtype),
            Gemm("gru_bias", blocks, vocab_shard, GRU_WIDTH, dtype),
            Elementwise("gru_add", 2 * blocks * vocab_shard * value_bytes),
        )
        if tp > 1:
            step += (Collective("gru_all_gather", "all_gather", blocks * vocab_shard * tp * value_bytes, tp),)
        return step * (tokens - 1)
    if loop == "selector":
        rows = blocks * tokens
        return (
            Elementwise("likeliest", rows * vocab_shard * tp * value_bytes),
            Gemm("selector", rows, SELECTOR_RANK, hidden_size, dtype),
            Elementwise("scores", rows * (2 * _GUESSES * SELECTOR_RANK + _GUESSES**2) * value_bytes),
        )
    return ()


LARGEST = 10**9
"""The bound on any size of a transformer; the largest that exist have a context of 10 million tokens."""
Size = Annotated[int, Meta(gt=0, le=LARGEST)]
Some = Annotated[int, Meta(ge=0, le=LARGEST)]


class Experts(Card):
    """Routed experts, in ``layers`` of the model's layers; the others have its dense MLP.

    Each token uses ``per_token`` of ``count`` gated MLPs of ``width``, and an expert of ``shared_width`` (0: none) that
    all tokens use. ``beside_mlp``: layers with experts have the dense MLP as well. ``latent_width``: routed experts
    work on so many values, to which and from which the hidden state is projected (None: on the hidden state itself),
    with a norm after them where it is a ``latent_norm``. ``shared_gate``: a gate, a value a token, multiplies what the
    shared expert says.
    ``overlap``: the share of a token's experts that the next token of its sequence uses too; ``skew``: of their
    popularity, 0 where it is balanced (both of :mod:`ssdsim.transformer.routing`).
    """

    count: Size
    per_token: Size
    width: Size
    layers: Size
    shared_width: Some = 0
    shared_gate: bool = False
    beside_mlp: bool = False
    latent_width: Size | None = None
    latent_norm: bool = False
    overlap: Annotated[float, Meta(ge=0.0, le=1.0)] = OVERLAP
    skew: Annotated[float, Meta(ge=0.0, le=3.0)] = SKEW

    def __post_init__(self) -> None:
        if self.per_token > self.count:
            raise ValueError(f"per_token ({self.per_token}) must be at most count ({self.count})")


class Latent(Card):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): one compressed vector a token stands for all heads.

    The cache holds ``rank + rope_dim`` values a token and layer, on every device. Queries and keys have
    ``nope_dim + rope_dim`` values a head, values ``value_dim``; queries come from ``query_rank`` values (None: from the
    hidden state itself).
    """

    rank: Size
    rope_dim: Size
    nope_dim: Size
    value_dim: Size
    query_rank: Size | None = None

    @property
    def cached(self) -> int:
        """Values that a token adds to a layer's cache."""
        return self.rank + self.rope_dim


class Sparse(Card):
    """DeepSeek sparse attention over a latent cache: each query attends to the ``chosen`` tokens that score best.

    An indexer of ``heads`` of ``dim`` values scores all tokens, in ``layers`` of the model's layers; the others attend
    to what the last one of these chose. Its keys are cached, and every device holds all of it.
    """

    heads: Size
    dim: Size
    chosen: Size
    layers: Size

    @property
    def cached_bytes(self) -> int:
        """Bytes of keys that a token adds to a layer's cache."""
        return key_bytes(self.dim)

    @property
    def small_columns(self) -> int:
        """Columns of the matrices that make keys and the heads' weights, which stay in 16 bits."""
        return self.dim + self.heads


class BlockSparse(Card):
    """MiniMax sparse attention: each query attends to the ``chosen`` blocks of ``block`` tokens that score best.

    Each of ``heads`` of ``dim`` values scores and chooses for a group of heads that share keys and values, in
    ``layers`` of the model's layers; the others attend to all tokens. A token's index key, one for all groups, is
    cached on every device.
    """

    heads: Size
    dim: Size
    block: Size
    chosen: Size
    layers: Size

    @property
    def cached_bytes(self) -> int:
        """Bytes of keys that a token adds to a layer's cache."""
        return self.dim * KEY_BYTES

    def heads_on(self, tp: int) -> int:
        """Heads on each of ``tp`` devices; where these are more, each has one."""
        return max(1, self.heads // tp)

    def columns_on(self, tp: int) -> int:
        """Columns of the matrices that make its queries and its key there, which run as one with attention's."""
        return (self.heads_on(tp) + 1) * self.dim


class SlidingWindow(Card):
    """``layers`` of the model's layers see the last ``tokens`` only; heads of their own where they differ.

    Chunked attention, which sees what came in its chunk, is taken for a window as wide: it is one at its end.
    ``gathered``: what they see lies in a cache of its own, so that ordinary attention reads it whole (MagicDec).
    """

    tokens: Size
    layers: Size
    kv_heads: Size | None = None
    head_dim: Size | None = None
    gathered: bool = False


class Recurrent(Card):
    """Layers whose memory of a sequence is one state of a fixed size, in ``layers`` of the model's layers.

    ``rule`` is how a token changes the state: ``gated-delta`` (Gated DeltaNet, Qwen3-Next and 3.5), ``kimi-delta``
    (KDA, a decay for every channel) or ``mamba2`` (Nemotron). Each of ``heads`` has a state of ``key_dim x value_dim``
    values in ``state_dtype``; ``key_heads`` are those of queries and keys, which groups of heads share (Mamba2: its
    groups B and C). Before it a convolution goes over the last ``conv_width`` tokens of queries, keys and values.
    ``gate_rank``: of KDA, the width between the two matrices of its output gate (None: one full matrix).
    """

    rule: Rule
    layers: Size
    heads: Size
    key_heads: Size
    key_dim: Size
    value_dim: Size
    conv_width: Size = 4
    state_dtype: StateDtype = "float32"
    gate_rank: Size | None = None

    def __post_init__(self) -> None:
        if self.heads % self.key_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of key_heads ({self.key_heads})")

    @property
    def values(self) -> int:
        """The values of a token, in all heads."""
        return self.heads * self.value_dim

    @property
    def keys(self) -> int:
        """The keys of a token, in all heads that have keys of their own; as many as queries."""
        return self.key_heads * self.key_dim

    @property
    def channels(self) -> int:
        """Channels that the convolution goes over."""
        return 2 * self.keys + self.values

    @property
    def decay_rank(self) -> int | None:
        """The size between the two matrices of a decay of every channel; None where decays are a value a head."""
        return self.key_dim if self.rule == "kimi-delta" else None

    @property
    def projected(self) -> int:
        """Columns of the matrix, or of those that run as one, before the convolution: with them the output's gate."""
        if self.rule == "kimi-delta":
            return self.channels + (0 if self.gate_rank else self.values)
        decays = self.heads if self.rule == "mamba2" else 0  # the delta rule's are apart, in 16 bits
        return self.channels + self.values + decays

    @property
    def small_columns(self) -> int:
        """Columns of the small matrices beside it: of a value a head, and the first ones of decay and gate."""
        if self.rule == "mamba2":
            return 0
        if self.rule == "gated-delta":
            return 2 * self.heads
        return self.heads + (self.decay_rank or 0) + (self.gate_rank or 0)

    @property
    def second(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of the second matrices of decay and gate."""
        second = [(self.decay_rank, self.heads * self.key_dim)] if self.decay_rank else []
        second += [(self.gate_rank, self.values)] if self.gate_rank else []
        return tuple(second)

    def parameters(self, hidden_size: int) -> int:
        """Weights of the projections of one layer, before and after the recurrence."""
        return hidden_size * (self.projected + self.values)

    def small_parameters(self, hidden_size: int) -> int:
        """The weights of the matrices beside them, which checkpoints leave in 16 bits."""
        return hidden_size * self.small_columns + sum(rows * columns for rows, columns in self.second)

    def shard(self, tp: int) -> "Recurrent":
        """The part of one of ``tp`` devices, which share the heads; where key heads are fewer, each has one."""
        heads = {"heads": -(-self.heads // tp), "key_heads": max(1, self.key_heads // tp)}
        return self if tp == 1 else self.changed(**heads)

    def state_bytes(self, tp: int = 1) -> int:
        """The state of one sequence in one layer, on one of ``tp`` devices."""
        return self.shard(tp).values * self.key_dim * DTYPE_BYTES[self.state_dtype]

    def window_bytes(self, tp: int, dtype: str) -> int:
        """The tokens before the present one that the convolution reads again, likewise."""
        return (self.conv_width - 1) * self.shard(tp).channels * DTYPE_BYTES[dtype]

    def input_bytes(self, tp: int, dtype: str) -> int:
        """Keys and values of one token, of which a state can be made again, likewise."""
        mine = self.shard(tp)
        return (mine.keys + mine.values) * DTYPE_BYTES[dtype]


class Head(Card):
    """Layers that read their target's hidden states (EAGLE, MTP, DFlash), or its cache (GliDe, LongSpec).

    ``features`` hidden states of the target, each ``feature_size`` wide, become one of the head's own by ``fc``.
    ``reads`` says how: ``joined`` (EAGLE-1, MTP), ``fc`` joins the token's embedding and the state, of every token;
    ``beside`` (EAGLE-3), queries, keys and values read both side by side, twice as wide, and ``fc`` runs only where
    states are the target's own; ``cached`` (DFlash), keys and values of the context are made of the states, in the
    head's cache, and ``fc`` runs once a verified token; ``kept`` (GliDe), no state at all: each layer attends, after
    its own tokens, to the keys and values that a layer of the target keeps (its two features). The embedding is the
    target's, and so is the LM head but where the head has its ``own_lm_head``. A block drafter has a ``loop`` after it.
    ``vocabulary`` is its target's number of tokens, where a checkpoint says it.
    """

    features: Size
    feature_size: Size
    reads: Literal["joined", "beside", "cached", "kept"] = "joined"
    own_lm_head: bool = False
    loop: Loop = "none"
    vocabulary: Some = 0

    def fused(self, hidden_size: int) -> int:
        """Values that ``fc`` reads of a token; none where there is no ``fc``."""
        if self.reads == "kept":
            return 0
        return self.features * self.feature_size + (hidden_size if self.reads == "joined" else 0)
