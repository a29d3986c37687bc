"""Transformer cards: the shape of a model, how many weights it has and what its cache takes."""

import math
from collections import defaultdict
from functools import cached_property, lru_cache
from typing import Literal

from msgspec.structs import asdict

from ssdsim.base.card import Card, OneLine
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.record import replace
from ssdsim.transformer.compressed import Compressed
from ssdsim.transformer.hyper_connections import mixing_parameters
from ssdsim.transformer.layers import (
    LARGEST,
    BlockSparse,
    Experts,
    Head,
    Latent,
    Recurrent,
    Size,
    SlidingWindow,
    Some,
    Sparse,
    loop_parameters,
)
from ssdsim.transformer.operations import DTYPE_BYTES, DTYPES, WEIGHT_BYTES
from ssdsim.transformer.precision import FORMATS, KV_DTYPES, DType, Format, KvDType, Precision
from ssdsim.transformer.sparse import latent_bytes

Architecture = Literal[
    "llama",
    "qwen2",
    "qwen3",
    "mistral",
    "mimo",
    "gemma4",
    "mixtral",
    "qwen2_moe",
    "qwen3_moe",
    "gpt_oss",
    "llama4",
    "glm4_moe",
    "minimax_m2",
    "minimax_m3",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "glm_moe_dsa",
    "deepseek_v4",
    "mimo_v2",
    "step3",
    "kimi_k2",
    "qwen3_next",
    "qwen3_5",
    "kimi_linear",
    "nemotron_h",
    "transformer-shaped",
]


class Weights(Card):
    """Formats of a checkpoint's weights by part; a part without one is in the card's plain dtype."""

    attention: Format | None = None
    attention_out: Format | None = None
    """The projection after the attention; None is as those before it."""
    recurrent: Format | None = None
    """The projections before and after a recurrence; None is as attention's."""
    mlp: Format | None = None
    experts: Format | None = None
    lm_head: Format | None = None


class Transformer(Card):
    """The shape of a decoder-only transformer, and the formats of its checkpoint.

    ``gated_mlp`` is the SwiGLU block (gate and up fused in one GEMM), ``intermediate_size`` the width of the dense one.
    ``all_reduces_per_layer`` is 2 for Megatron-style sharding (after attention and after the MLP) and 1 for the
    proposal's transformer-shaped graph, which also has no element-wise kernels and no vocabulary (``vocab_size = 0``).
    Layers may have ``experts``, a ``latent`` cache (to which attention may be ``sparse``), ``block_sparse`` attention,
    a ``window`` or a ``recurrent`` state in place of attention; ``keys_are_values`` has one projection for both (in
    layers without a window). ``attention_gate``: a gate as wide as the attention's output multiplies it. ``mlp_alone``
    of the ``layers`` are a feed-forward and no more, the others then a mixer (attention or a state) and no more
    (Nemotron-H); with 0 each layer is both. ``residual_block``: the hidden state is made of those after every so many
    layers, anew before each mixer and feed-forward (attention residuals). ``mtp_layers`` predict tokens beyond the
    next: they draft, and are not counted here; with ``mtp_plain`` they are not quantised.
    ``compressed``: attention of all layers is to a window and to entries, each of which stands for several tokens.
    ``streams`` of hidden states are mixed around each mixer and feed-forward (hyper-connections).
    A draft ``head`` reads another model's hidden states beside its tokens.
    ``family`` names its vocabulary: models of one family can draft for each other. ``checkpoint`` is what to serve, on
    the Hugging Face hub: the tuned model where people serve that, of the same shape.
    ``dtype`` is that of the activations and of all that ``weights`` and ``kv_dtype`` do not say to be quantised.
    """

    name: OneLine
    architecture: Architecture
    hidden_size: Size
    layers: Size
    heads: Size
    kv_heads: Size
    head_dim: Size
    intermediate_size: Size
    vocab_size: Some
    gated_mlp: bool = True
    tied_embeddings: bool = False
    qk_norm: bool = False
    attention_bias: bool = False
    all_reduces_per_layer: Literal[1, 2] = 2
    experts: Experts | None = None
    latent: Latent | None = None
    sparse: Sparse | None = None
    block_sparse: BlockSparse | None = None
    compressed: Compressed | None = None
    window: SlidingWindow | None = None
    recurrent: Recurrent | None = None
    mlp_alone: Some = 0
    attention_gate: bool = False
    residual_block: Size | None = None
    streams: Size = 1
    keys_are_values: bool = False
    mtp_layers: Some = 0
    mtp_plain: bool = False
    head: Head | None = None
    max_context: Size
    dtype: DType = "bfloat16"
    weights: Weights = Weights()
    kv_dtype: KvDType | None = None
    family: str = ""
    checkpoint: OneLine = ""
    source: str

    def __hash__(self) -> int:
        return hash(self.name)  # of all fields it takes longer than pricing a pass that is known

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")
        for part, given in asdict(self.weights).items():
            if given in DTYPES and given != self.dtype:
                raise ValueError(f"weights.{part} must be quantised or {self.dtype}, the card's dtype, got {given}")
        most = {
            "experts": self.mlps,
            "recurrent": self.mixers,
            "window": self.attention_layers,
            "sparse": self.attention_layers,
            "block_sparse": self.attention_layers,
        }
        for part, layers in most.items():
            own = getattr(self, part)
            if own is not None and own.layers > layers:
                raise ValueError(f"{own.layers} layers with {part} are more than {layers}")
        if self.latent and self.window:
            raise ValueError("a latent cache with windows is not described here")
        if self.sparse and not (self.latent and self.latent.query_rank):
            raise ValueError("sparse attention is described over a latent cache whose queries are compressed, too")
        if self.block_sparse and (self.latent or self.window):
            raise ValueError("block_sparse attention with a latent cache or windows is not described here")
        if self.compressed is not None:
            if self.latent or self.window or self.recurrent or self.mlp_alone or self.kv_heads > 1:
                raise ValueError("compressed attention is described in all layers, over one head of keys")
            if self.compressed.csa_layers + self.compressed.hca_layers > self.layers:
                raise ValueError(f"layers with entries are more than {self.layers}")

    @property
    def mixers(self) -> int:
        """Layers with attention or a state."""
        return self.layers - self.mlp_alone

    @property
    def mlps(self) -> int:
        """Layers with a feed-forward, dense or of experts."""
        return self.mlp_alone or self.layers

    @property
    def recurrent_layers(self) -> int:
        return self.recurrent.layers if self.recurrent else 0

    @property
    def attention_layers(self) -> int:
        """Layers with attention, over all tokens or in a window."""
        return self.mixers - self.recurrent_layers

    @property
    def rare_steps(self) -> frozenset[str]:
        """The kinds of operations of its layers that few models have: of choices, of latent or compressed caches."""
        kinds = (
            (self.sparse, ("indexer", "sparse_attention")),
            (self.block_sparse, ("block_choice", "block_attention")),
            (self.latent and not self.sparse, ("latent",)),
            (self.compressed, ("compressed",)),
            (self.streams > 1, ("hyper_connection",)),
        )
        return frozenset(name for there, names in kinds if there for name in names)

    @property
    def windowed_layers(self) -> int:
        return self.window.layers if self.window else 0

    @property
    def seen(self) -> int | None:
        """Tokens that all its layers see at most, where they see windows alone; None where some see more."""
        if self.compressed is not None:
            alone = not self.compressed.csa_layers and not self.compressed.hca_layers
            return self.compressed.window if alone else None
        return self.window.tokens if self.window is not None and self.window.layers == self.layers else None

    @property
    def expert_layers(self) -> int:
        return self.experts.layers if self.experts else 0

    @property
    def dense_layers(self) -> int:
        """Layers with the dense MLP."""
        return self.mlps if self.experts is None or self.experts.beside_mlp else self.mlps - self.expert_layers

    @property
    def window_heads(self) -> tuple[int, int]:
        """Key-value heads of a layer with a window, and the dimension of its heads."""
        assert self.window is not None
        return self.window.kv_heads or self.kv_heads, self.window.head_dim or self.head_dim

    @property
    def attention_input(self) -> int:
        """Width of what queries, keys and values are made of."""
        return 2 * self.hidden_size if self.head is not None and self.head.reads == "beside" else self.hidden_size

    @property
    def parameters(self) -> int:
        """Number of weights, embeddings included (tied ones once); of a draft head, those that are not its target's."""
        return sum(self.parameters_by_part.values())

    @property
    def active_parameters(self) -> int:
        """Weights that a token uses: all but the experts that it is not sent to. The embedding counts whole."""
        if self.experts is None:
            return self.parameters
        idle = self.experts.count - self.experts.per_token
        return self.parameters - idle * self.expert_layers * self.expert_parameters

    @property
    def expert_parameters(self) -> int:
        """Weights of one routed expert of one layer."""
        if self.experts is None:
            return 0
        return self.mlp_matrices * (self.experts.latent_width or self.hidden_size) * self.experts.width

    @property
    def whole_parameters(self) -> dict[str, int]:
        """Weights that every device has whole, by part: what makes latents, chooses tokens, narrows experts' input,
        joins a head's.
        """
        hidden, latent = self.hidden_size, self.latent
        made = 0 if latent is None else latent.cached + (latent.query_rank or 0)
        (indexers, beside), blocks = self._indexer_parameters, self.block_sparse
        indexers += blocks.layers * hidden * blocks.dim if blocks else 0
        joined = 0 if self.head is None else self.head.fused(hidden)
        narrowed = 0 if self.experts is None else 2 * self.expert_layers * (self.experts.latent_width or 0)
        attention = self.attention_layers * hidden * made + indexers
        if self.compressed is not None:
            weights = self.compressed.all_weights(self.layers, hidden, self.heads, self.head_dim)
            attention, beside = weights.whole, weights.small
        beside += self._mixing_parameters
        return {"attention": attention, "mlp": hidden * (narrowed + joined), "activations": beside}

    @property
    def _mixing_parameters(self) -> int:
        """Weights that mix streams, around each mixer and feed-forward and after the last."""
        if self.streams == 1:
            return 0
        around = (self.mixers + self.mlps) * mixing_parameters(self.hidden_size, self.streams)
        return around + self.streams**2 * self.hidden_size

    @property
    def mlp_matrices(self) -> int:
        """Matrices of a feed-forward: gate, up and down, or no gate."""
        return 3 if self.gated_mlp else 2

    @cached_property
    def parameters_by_part(self) -> dict[str, int]:
        """Weights of the parts of :class:`Precision`; ``activations`` stay in 16 bits: norms, routers, an embedding."""
        lm_head = embedding = self.vocab_size * self.hidden_size
        if self.head is not None:
            lm_head, embedding = lm_head if self.head.own_lm_head else 0, 0
        in_16_bits = self._small_parameters + (self.hidden_size if self.vocab_size else 0)
        projections, out = self._attention_parameters
        indexers, _ = self._indexer_parameters
        if (blocks := self.block_sparse) is not None:  # of a head's queries each, and of the keys
            indexers = blocks.layers * self.hidden_size * blocks.columns_on(1)
        dense = self.dense_layers * self.hidden_size * self.mlp_matrices * self.intermediate_size
        by_part = {
            "attention": projections + indexers,
            "attention_out": out,
            "mlp": dense + self.whole_parameters["mlp"],
            "lm_head": lm_head,
            "activations": in_16_bits
            + self.whole_parameters["activations"]
            + (0 if self.tied_embeddings else embedding),
        }
        if self.recurrent is not None:
            by_part["recurrent"] = self.recurrent.layers * self.recurrent.parameters(self.hidden_size)
            by_part["activations"] += self.recurrent.layers * self.recurrent.small_parameters(self.hidden_size)
        if self.head is not None:
            by_part["mlp"] += loop_parameters(self.head.loop, self.hidden_size, self.vocab_size)
        if self.experts is not None:
            shared = self.mlp_matrices * self.experts.shared_width
            by_part["mlp"] += self.expert_layers * self.hidden_size * shared
            by_part["experts"] = self.expert_layers * self.experts.count * self.expert_parameters
            small = self.experts.count + self.experts.shared_gate  # routers, and a shared expert's gate
            by_part["activations"] += self.expert_layers * small * self.hidden_size
        return by_part

    @property
    def _small_parameters(self) -> int:
        """Norms and biases of all layers."""
        norms = (
            (self.mixers + self.mlps) * self.hidden_size if self.vocab_size else 0
        )  # the shaped graph has GEMMs only
        of_attention = 2 * self.head_dim if self.qk_norm else 0
        of_attention += (self.heads + 2 * self.kv_heads) * self.head_dim if self.attention_bias else 0
        of_attention += self.hidden_size if self._crossed_layers else 0
        return norms + self.attention_layers * of_attention

    @property
    def _crossed_layers(self) -> int:
        """Layers that attend to the target's own cache, too."""
        return self.layers if self.head is not None and self.head.reads == "kept" else 0

    @property
    def _attention_parameters(self) -> tuple[int, int]:
        """Weights before attention (queries, keys, values, gates) and after it (outputs), in all layers."""
        hidden, heads, latent = self.hidden_size, self.heads, self.latent
        queries = 2 if self.attention_gate else 1  # each with its gate
        if latent is not None:
            query, out = heads * (latent.nope_dim + latent.rope_dim), hidden * heads * latent.value_dim
            made = (hidden + query) * latent.query_rank if latent.query_rank else hidden * query
            made += hidden * latent.cached + latent.rank * heads * (latent.nope_dim + latent.value_dim)
            return self.attention_layers * (made + (queries - 1) * out), self.attention_layers * out
        if self.compressed is not None:
            weights = self.compressed.all_weights(self.layers, hidden, heads, self.head_dim)
            return weights.whole + weights.shared, weights.out
        full, cached = self.attention_layers - self.windowed_layers, 1 if self.keys_are_values else 2
        made = full * self.head_dim * self.attention_input * (queries * heads + cached * self.kv_heads)
        out = full * self.head_dim * hidden * heads
        if self.window is not None:
            kv_heads, head_dim = self.window_heads
            made += self.windowed_layers * head_dim * hidden * (queries * heads + 2 * kv_heads)
            out += self.windowed_layers * head_dim * hidden * heads
        crossed = self._crossed_layers * self.head_dim * hidden * heads  # of queries, and of outputs
        return made + crossed, out + crossed

    @property
    def _indexer_parameters(self) -> tuple[int, int]:
        """Weights of all indexers: of their queries, and of keys and heads' weights, which stay in 16 bits."""
        if self.sparse is None or self.latent is None or self.latent.query_rank is None:
            return 0, 0
        queries = self.latent.query_rank * self.sparse.heads * self.sparse.dim
        return self.sparse.layers * queries, self.sparse.layers * self.hidden_size * self.sparse.small_columns

    def precision(self, dtype: str | None = None, kv_dtype: str | None = None) -> Precision:
        """The formats in which the model is kept and computed.

        Parameters
        ----------
        dtype : a plain one is that of the whole model; a quantised format is that of the blocks' weights, while LM
            head, embedding and activations stay in the card's 16 bits. The checkpoint's formats by default.
        kv_dtype : of the cache; the card's or the activations' by default (a plain ``dtype`` sets the cache's, too).
        """
        return _precision(self, dtype, kv_dtype)

    def computed_in(self, dtype: DType) -> "Transformer":
        """The model with activations of another dtype, and all that was kept in its own."""
        kept = {part: dtype for part, given in asdict(self.weights).items() if given == self.dtype}
        cache = None if self.kv_dtype == self.dtype else self.kv_dtype
        return self.changed(dtype=dtype, weights=self.weights.changed(**kept), kv_dtype=cache)

    def widest_values(self, tp: int = 1) -> int:
        """Activations of a token in the feed-forward of one of ``tp`` devices, with the hidden state before and after.

        Those of all its experts are there at once.
        """
        inside = self.intermediate_size
        if self.experts is not None:
            inside = max(inside, self.experts.per_token * self.experts.width + self.experts.shared_width)
        return self.mlp_matrices * inside // tp + 2 * self.hidden_size

    def kv_bytes_per_token(self, tp: int = 1, dtype: str | None = None) -> int:
        """Bytes that one token adds to the cache, kept in ``dtype``, of one of ``tp`` devices; windows are full."""
        if self.compressed is not None:
            return math.ceil(self.compressed.token_bytes(self.head_dim, dtype or self.precision().kv))
        full = self.attention_layers - self.windowed_layers
        if self.latent is not None and self.sparse is not None:
            latent = latent_bytes(self.latent.rank, self.latent.rope_dim, dtype or self.precision().kv)
            return full * latent + self.sparse.layers * self.sparse.cached_bytes
        if self.latent is not None:
            return full * self.latent.cached * self._value_bytes(dtype)  # of all heads, so every device holds it
        kept = full * 2 * max(1, self.kv_heads // tp) * self.head_dim * self._value_bytes(dtype)
        return kept + (self.block_sparse.layers * self.block_sparse.cached_bytes if self.block_sparse else 0)

    def cache_bytes(self, context: int, more: int = 0, tp: int = 1, dtype: str | None = None) -> int:
        """Bytes of a sequence's cache on one of ``tp`` devices, with room for ``more`` tokens beside its context."""
        if self.compressed is not None:
            dim, kept, of = self.head_dim, dtype or self.precision().kv, self.compressed
            own = of.sequence_bytes(min(context, of.window) + more, self.layers, dim, kept)
            return own + math.ceil((context + more) * of.token_bytes(dim, kept))
        full = (context + more) * self.kv_bytes_per_token(tp, dtype)
        if self.window is None:
            return full
        kv_heads, head_dim = self.window_heads
        token_bytes = self.windowed_layers * 2 * max(1, kv_heads // tp) * head_dim * self._value_bytes(dtype)
        return full + (min(context, self.window.tokens) + more) * token_bytes

    def state_bytes(self, tp: int = 1, dtype: str | None = None) -> int:
        """Bytes of the states of one sequence in all recurrent layers, on one of ``tp`` devices.

        With them the tokens that convolutions read again, in the activations' ``dtype``. The context does not matter.
        """
        if self.recurrent is None:
            return 0
        window = self.recurrent.window_bytes(tp, dtype or self.dtype)
        return self.recurrent.layers * (self.recurrent.state_bytes(tp) + window)

    def _value_bytes(self, dtype: str | None) -> int:
        return DTYPE_BYTES[dtype or self.precision().kv]

    def weight_bytes(self, tp: int = 1, precision: Precision | str | None = None, experts_on: int | None = None) -> int:
        """Bytes of weights on one of ``tp`` devices (norms are replicated, which is negligible).

        ``precision``, or a dtype as :meth:`precision` takes it. Experts lie on ``experts_on`` devices, by default the
        same.
        """
        formats = precision if isinstance(precision, Precision) else self.precision(precision)
        everywhere = self.whole_parameters
        by_format: dict[tuple[str, int], int] = defaultdict(int)
        for part, count in self.parameters_by_part.items():
            kept, whole = formats.of(part), everywhere.get(part, 0)
            by_format[kept, 1] += whole
            by_format[kept, experts_on or tp if part == "experts" else tp] += count - whole
        return math.ceil(sum(-(-count // devices) * WEIGHT_BYTES[kept] for (kept, devices), count in by_format.items()))


@lru_cache(maxsize=1024)  # asked at every point of a sweep
def _precision(card: Transformer, dtype: str | None, kv_dtype: str | None) -> Precision:
    if dtype is None:
        kept = {part: given for part, given in asdict(card.weights).items() if given}
        precision = replace(Precision.plain(card.dtype), kv=card.kv_dtype or card.dtype, **kept)
    elif dtype in DTYPES:
        precision = Precision.plain(dtype)
    elif dtype in FORMATS:
        activations = "bfloat16" if card.dtype == "float32" else card.dtype
        precision = Precision(activations, dtype, dtype, activations, card.kv_dtype or activations)
    else:
        raise InputError(f"unknown dtype '{dtype}'{nearest(dtype, FORMATS)} Allowed: {', '.join(FORMATS)}")
    if kv_dtype and kv_dtype not in DTYPE_BYTES:
        raise InputError(f"unknown dtype of the cache '{kv_dtype}'; allowed: {', '.join(KV_DTYPES)}")
    return replace(precision, kv=kv_dtype) if kv_dtype else precision


def transformer_shaped(hidden_size: int, layers: int, dtype: DType = "float16") -> Transformer:
    """The proposal's graph (§5.1): QKV ``Hx3H``, dense attention, ``HxH``, ``Hx4H``, ``4HxH``, one all-reduce.

    The dense attention ``QK^T`` over the whole hidden size costs the same flops and bytes however it is cut into
    heads; it is cut into heads of 128 (or the largest power of two below that divides H), so that heads can be sharded.
    """
    head_dim = next((d for d in (128, 64, 32, 16, 8) if hidden_size % d == 0), None)
    if head_dim is None or not (0 < 4 * hidden_size <= LARGEST and 0 < layers <= LARGEST):
        raise InputError(
            f"transformer-shaped-{hidden_size}x{layers}: H must be a positive multiple of 8, at most {LARGEST // 4}, "
            f"and L at least 1 and at most {LARGEST}"
        )
    heads = hidden_size // head_dim
    return Transformer(
        name=f"transformer-shaped-{hidden_size}x{layers}",
        architecture="transformer-shaped",
        hidden_size=hidden_size,
        layers=layers,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        intermediate_size=4 * hidden_size,
        vocab_size=0,
        gated_mlp=False,
        all_reduces_per_layer=1,
        max_context=1 << 20,
        dtype=dtype,
        source="proposal of Alenius and Chien, section 5.1",
    )
