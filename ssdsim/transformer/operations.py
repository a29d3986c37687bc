"""The operations a forward pass is made of: what they compute and what they move.

An operation knows its shape and nothing about time; a law of :mod:`ssdsim.hardware` does. Four readers share it: the
cost model (seconds), the calibrator (what to time), the executor (what to run) and the roofline (flops against bytes).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from ssdsim.base.record import Record, replace

DTYPES = ("float32", "bfloat16", "float16")  # plain ones: of weights, activations and cache alike
DTYPE_BYTES: dict[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1, "int8": 1}

QUANTISED_BYTES: dict[str, float] = {
    "float8": 1.0,  # a scale a matrix or a row is nothing
    "float8-block": 1.0 + 4 / (128 * 128),  # a 32-bit scale each 128 x 128 weights
    "nvfp4": 0.5 + 1 / 16,  # an 8-bit scale each 16 weights
    "mxfp4": 0.5 + 1 / 32,  # an 8-bit scale each 32 weights
    "int4": 0.5 + 2 / 128,  # a 16-bit scale each 128 weights, as AWQ and GPTQ write by default
    "int8": 1.0,
}
"""Of a weight in each quantised format, its share of the scales included."""

WEIGHT_BYTES: dict[str, float] = {dtype: DTYPE_BYTES[dtype] for dtype in DTYPES} | QUANTISED_BYTES
"""Of a weight in each format, plain or quantised."""

WEIGHTS_ARITHMETIC = {"float8": "float8", "float8-block": "float8", "nvfp4": "nvfp4", "int8": "int8"}
"""What quantised weights are multiplied in where the device can; the other formats are turned back into 16 bits."""

FOUR_BITS = "nvfp4"
"""Products of two operands of 4 bits."""

CollectiveKind = Literal["all_reduce", "all_gather", "all_to_all"]


class Operation:
    """The base of operations; a new one is a subclass here and a law in :mod:`ssdsim.hardware`."""

    __slots__ = ()
    attends: ClassVar[bool] = False
    """Whether it sees sequences and prompts one by one, not all tokens at once."""
    name: str

    @property
    def kernel(self) -> str:
        """The kind of operation, in tables."""
        return type(self).__name__.lower()

    @property
    def family(self) -> str | None:
        """The kernels that an engine's own make faster or slower alike; None where nothing is known of them."""
        return None

    @property
    def shape(self) -> str:
        """The sizes, as tables show them."""
        raise NotImplementedError

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """Dtypes to multiply in, best first: a device that cannot do the first does the next. Empty of no products."""
        return ()

    @property
    def flops(self) -> float:
        return 0.0

    @property
    def bytes(self) -> float:
        """Bytes that are read and written."""
        raise NotImplementedError

    @property
    def memory_bytes(self) -> float:
        """Bytes to and from the device's own memory."""
        return self.bytes

    @property
    def streamed_bytes(self) -> float:
        """Bytes that come from memory in every pass, since all of the model is read in between."""
        return 0.0

    @property
    def wire_bytes(self) -> float:
        """Bytes that each device sends to the next one at least."""
        return 0.0


class _OfWeights(Operation):
    """A product with weights in the format ``dtype``; inputs and outputs of quantised ones are of another."""

    __slots__ = ()
    dtype: str

    @property
    def activations_dtype(self) -> str:
        """The dtype of inputs and outputs."""
        raise NotImplementedError

    @property
    def arithmetic(self) -> tuple[str, ...]:
        activations = self.activations_dtype
        return tuple(dict.fromkeys((WEIGHTS_ARITHMETIC.get(self.dtype, activations), activations)))

    @property
    def in_4_bits(self) -> bool:
        """Tell whether inputs are quantised to 4 bits, too, and multiplied as such."""
        return WEIGHTS_ARITHMETIC.get(self.dtype) == FOUR_BITS


class Gemm(_OfWeights, Record):
    """``(m, k) @ (k, n)`` with the weights ``(k, n)`` streamed from memory; ``m`` is the tokens in flight.

    ``dtype`` is the weights' format. Inputs and outputs of plain weights are of the same one, those of quantised
    weights in ``activations``.
    """

    family: ClassVar[str] = "gemm"

    name: str
    m: int
    n: int
    k: int
    dtype: str
    activations: str = "bfloat16"

    @property
    def shape(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def activations_dtype(self) -> str:
        return self.dtype if self.dtype in DTYPES else self.activations

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    @property
    def bytes(self) -> float:
        values = self.m * self.k + self.m * self.n
        return float(DTYPE_BYTES[self.activations_dtype] * values + self.streamed_bytes)

    @property
    def streamed_bytes(self) -> float:
        """The weights."""
        return WEIGHT_BYTES[self.dtype] * (self.k * self.n)


class Attends(Operation):
    """Attention, or what stands in its place: ``dtype`` is the arithmetic's."""

    __slots__ = ()
    attends: ClassVar[bool] = True
    dtype: str

    @property
    def arithmetic(self) -> tuple[str, ...]:
        return (self.dtype,)


class OfCache(Attends):
    """Attention that reads a cache: ``dtype`` is the arithmetic's, ``kv_dtype`` the cache's where it is another."""

    __slots__ = ()
    kv_dtype: str

    @property
    def cache_dtype(self) -> str:
        """The dtype of what is cached."""
        return self.kv_dtype or self.dtype


class OverCache(OfCache):
    """Attention to all that is cached."""

    __slots__ = ()
    family: ClassVar[str] = "attention"
    masked: bool

    @property
    def sharing(self) -> float:
        """Query heads of a head of keys and values, which kernels may read once for each; 1 where all see one."""
        return 1.0


class Attention(OverCache, Record):
    """Decode attention: ``batch`` sequences, each with ``queries`` new tokens over ``context`` cached tokens.

    ``masked`` marks a branch mask: the queries of a sequence are not a causal chain but tips of branches, each
    attending to the shared trunk and to its own path (SSD paper, figure 8). ``windowed``: by a kernel that skips what
    lies before a window, of which ``context`` is what is left.

    ``dtype`` is the arithmetic's, and that of queries and outputs; ``kv_dtype`` that of the cached keys and values,
    empty where it is the same.
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
    kv_dtype: str = ""
    windowed: bool = False

    @property
    def shape(self) -> str:
        return f"{self.batch}x{self.queries} over {self.context}{' masked' if self.masked else ''}"

    @property
    def sharing(self) -> float:
        return self.heads / self.kv_heads

    @property
    def flops(self) -> float:
        return 4.0 * self.batch * self.queries * self.heads * self.head_dim * self.context

    @property
    def bytes(self) -> float:
        io = 2.0 * self.batch * self.queries * self.heads * self.head_dim
        return self.streamed_bytes + DTYPE_BYTES[self.dtype] * io

    @property
    def streamed_bytes(self) -> float:
        """The keys and values."""
        return DTYPE_BYTES[self.cache_dtype] * (2.0 * self.batch * self.context * self.kv_heads * self.head_dim)


class PrefillAttention(Attends, Record):
    """Causal attention of ``batch`` prompts of ``tokens`` tokens each over themselves (prefill).

    Where they are the rest of prompts, or a chunk of them, ``prefix`` tokens that are cached come before them.
    """

    name: str
    batch: int
    tokens: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    prefix: int = 0

    @property
    def shape(self) -> str:
        return f"{self.batch}x{self.tokens} causal"

    @property
    def whole(self) -> PrefillAttention:
        """The attention of the prompts from their beginning to the end of this part."""
        return replace(self, tokens=self.prefix + self.tokens, prefix=0)

    @property
    def flops(self) -> float:
        pairs = self.tokens * (self.tokens + 1) / 2 + self.tokens * self.prefix  # of a query and a key that it may see
        return 4.0 * self.batch * self.heads * self.head_dim * pairs

    @property
    def bytes(self) -> float:
        values = 2.0 * self.batch * self.tokens * (self.heads + self.kv_heads) * self.head_dim
        cached = 2.0 * self.batch * self.prefix * self.kv_heads * self.head_dim
        return DTYPE_BYTES[self.dtype] * (values + cached)


class LatentAttention(OverCache, Record):
    """Decode attention over a latent cache (DeepSeek-V2): all heads read one vector of ``rank + rope_dim`` a token.

    ``projections`` is the format of the block's weights, empty where it is ``dtype``. The rest is as of
    :class:`Attention`.
    """

    name: str
    batch: int
    queries: int
    context: int
    heads: int
    rank: int
    rope_dim: int
    dtype: str
    masked: bool = False
    kv_dtype: str = ""
    projections: str = ""

    @property
    def shape(self) -> str:
        return f"{self.batch}x{self.queries} over {self.context} latent"

    @property
    def row_flops(self) -> float:
        """Flops of one head of one token: scores over the whole latent, sums over what is no position."""
        return (2.0 * (self.rank + self.rope_dim) + 2.0 * self.rank) * self.context

    @property
    def flops(self) -> float:
        return self.row_flops * self.batch * self.queries * self.heads

    @property
    def streamed_bytes(self) -> float:
        """The latents."""
        return float(DTYPE_BYTES[self.cache_dtype] * self.batch * self.context * (self.rank + self.rope_dim))

    @property
    def bytes(self) -> float:
        io = float(self.batch * self.queries * self.heads * (2 * self.rank + self.rope_dim))
        return self.streamed_bytes + DTYPE_BYTES[self.dtype] * io


class ExpertMlp(_OfWeights, Record):
    """MLPs ``hidden -> width -> hidden``, of which each token uses ``per_token``; ``count`` are on the device.

    They have three ``matrices`` (gate, up and down) or two.

    ``touched`` of them are used by some token (:func:`ssdsim.transformer.routing.distinct_experts`) and read from
    memory. Where experts are spread over devices, ``share`` of all tokens' choices are of this one's. ``dtype`` is the
    weights' format, ``activations`` as of :class:`Gemm`.
    """

    name: str
    tokens: int
    hidden: int
    width: int
    count: int
    per_token: int
    touched: float
    dtype: str
    activations: str = ""
    share: float = 1.0
    matrices: int = 3

    @property
    def family(self) -> str:
        """Other kernels unpack 4 bits, others multiply them, and others again multiply 8 bits than 16."""
        if self.in_4_bits:
            return "experts_nvfp4"
        weight_bytes = WEIGHT_BYTES[self.dtype]
        if weight_bytes < 1.0:
            return "experts_4_bit"
        return "experts" if weight_bytes < 2.0 else "experts_16_bit"

    @property
    def shape(self) -> str:
        return f"{self.tokens}x{self.width}x{self.hidden}, {self.touched:.1f} of {self.count}"

    @property
    def activations_dtype(self) -> str:
        return self.activations or self.dtype

    @property
    def visits(self) -> float:
        """Pairs of a token and an expert of this device that it uses."""
        return self.tokens * self.per_token * self.share

    @property
    def flops(self) -> float:
        return 2.0 * self.matrices * self.visits * self.hidden * self.width

    @property
    def expert_bytes(self) -> float:
        """Bytes of one expert's weights."""
        return float(self.matrices) * self.hidden * self.width * WEIGHT_BYTES[self.dtype]

    @property
    def bytes(self) -> float:
        values = self.visits * (2 * self.hidden + self.matrices * self.width)
        return self.streamed_bytes + DTYPE_BYTES[self.activations_dtype] * values

    @property
    def streamed_bytes(self) -> float:
        """The weights of those that are touched."""
        return self.touched * self.expert_bytes


def sent_around(kind: str, ranks: int) -> float:
    """The share of a collective's message that each device of a ring sends on: an all-reduce goes around twice."""
    return (2 if kind == "all_reduce" else 1) * (ranks - 1) / ranks


class Collective(Operation, Record):
    """An all-reduce, all-gather or all-to-all over ``ranks`` devices.

    ``message_bytes`` is the full (gathered) tensor, of an all-to-all what a device sends to all, itself included.
    """

    family: ClassVar[str] = "communication"

    name: str
    kind: CollectiveKind
    message_bytes: int
    ranks: int

    @property
    def kernel(self) -> str:
        return self.kind

    @property
    def shape(self) -> str:
        return f"{self.message_bytes / 1024:.0f} KiB x{self.ranks}"

    @property
    def bytes(self) -> float:
        return float(self.message_bytes)

    memory_bytes: ClassVar[float] = 0.0

    @property
    def wire_bytes(self) -> float:
        """Bytes that each device sends on around a ring."""
        return sent_around(self.kind, self.ranks) * self.message_bytes


class Elementwise(Operation, Record):
    """A memory-bound kernel (norm, rotary embedding, activation, residual): ``moved_bytes`` read and written."""

    family: ClassVar[str] = "elementwise"

    name: str
    moved_bytes: int

    @property
    def shape(self) -> str:
        return f"{self.moved_bytes / 1024:.0f} KiB"

    @property
    def bytes(self) -> float:
        return float(self.moved_bytes)
