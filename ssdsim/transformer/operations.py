"""The operations a forward pass is made of: what they compute and what they move.

An operation knows its shape and nothing about time; a law of :mod:`ssdsim.hardware` does. Four readers share it: the
cost model (seconds), the calibrator (what to time), the executor (what to run) and the roofline (flops against bytes).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

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

Rule = Literal["gated-delta", "kimi-delta", "mamba2"]
"""How a token changes the state of a recurrent layer."""

StateDtype = Literal["float32", "bfloat16", "float16"]

StateKeeping = Literal["each", "copied", "replayed"]
"""What is kept of a recurrent layer's states while tokens are verified: ``each`` token's, where it is used next;
``copied``, each token's aside, of which the accepted one is copied back; ``replayed``, one state and the tokens'
inputs, of which it is made again."""
KEEPINGS: tuple[StateKeeping, ...] = get_args(StateKeeping)

REPLAYED_TOKENS = 16
"""Whose inputs are kept beside a state that is replayed: the state is written once they are full."""


class Operation(ABC):
    """What every operation says of itself; a new one is a subclass here and a law in :mod:`ssdsim.hardware`."""

    __slots__ = ()
    attends: ClassVar[bool] = False
    """Whether it sees sequences and prompts one by one, not all tokens at once."""
    name: str

    @property
    def kernel(self) -> str:
        """What kind of operation it is, in tables."""
        return type(self).__name__.lower()

    @property
    def family(self) -> str | None:
        """Of kernels that an engine's own make faster or slower alike; None where nothing is known of them."""
        return None

    @property
    @abstractmethod
    def shape(self) -> str:
        """As tables show it."""

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """What is multiplied in, best first: a device that cannot do the first does the next. Empty of no products."""
        return ()

    @property
    def flops(self) -> float:
        return 0.0

    @property
    @abstractmethod
    def bytes(self) -> float:
        """Read and written."""

    @property
    def memory_bytes(self) -> float:
        """Of them those to and from the device's own memory."""
        return self.bytes

    @property
    def streamed_bytes(self) -> float:
        """Of them those that come from memory in every pass, since all of the model is read in between."""
        return 0.0

    @property
    def wire_bytes(self) -> float:
        """What each device sends to the next one at least."""
        return 0.0


class _OfWeights(Operation):
    """``dtype`` is the weights' format; inputs and outputs of quantised ones are of another."""

    __slots__ = ()
    dtype: str

    @property
    @abstractmethod
    def activations_dtype(self) -> str:
        """Of inputs and outputs."""

    @property
    def arithmetic(self) -> tuple[str, ...]:
        activations = self.activations_dtype
        return tuple(dict.fromkeys((WEIGHTS_ARITHMETIC.get(self.dtype, activations), activations)))

    @property
    def in_4_bits(self) -> bool:
        """Whether inputs are quantised to 4 bits, too, and multiplied as such."""
        return WEIGHTS_ARITHMETIC.get(self.dtype) == FOUR_BITS


@dataclass(frozen=True, slots=True)
class Gemm(_OfWeights):
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


class _Attends(Operation):
    """Attention, or what stands in its place: ``dtype`` is the arithmetic's."""

    __slots__ = ()
    attends: ClassVar[bool] = True
    dtype: str

    @property
    def arithmetic(self) -> tuple[str, ...]:
        return (self.dtype,)


class OverCache(_Attends):
    """Attention that reads a cache: ``dtype`` is the arithmetic's, ``kv_dtype`` the cache's where it is another."""

    __slots__ = ()
    family: ClassVar[str] = "attention"
    kv_dtype: str

    @property
    def cache_dtype(self) -> str:
        """Of what is cached."""
        return self.kv_dtype or self.dtype


@dataclass(frozen=True, slots=True)
class Attention(OverCache):
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


@dataclass(frozen=True, slots=True)
class PrefillAttention(_Attends):
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
        """That of the prompts from their beginning to the end of this part."""
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


@dataclass(frozen=True, slots=True)
class LatentAttention(OverCache):
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
        """Of one head of one token: scores over the whole latent, sums over what is no position."""
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


@dataclass(frozen=True, slots=True)
class RecurrentStep(_Attends):
    """A recurrent layer's step: each of ``batch`` sequences reads its state, ``queries`` new tokens change it in turn.

    ``heads`` have states of ``key_dim x value_dim`` in ``state_dtype``; queries and keys are those of ``key_heads``.
    ``keeping`` says which states are written, so that those after a rejected token can be dropped
    (:data:`StateKeeping`). ``dtype`` is that of inputs and outputs.
    """

    name: str
    batch: int
    queries: int
    heads: int
    key_heads: int
    key_dim: int
    value_dim: int
    rule: Rule
    dtype: str
    state_dtype: StateDtype = "float32"
    keeping: StateKeeping = "each"

    @property
    def kernel(self) -> str:
        return "recurrence"

    @property
    def shape(self) -> str:
        return f"{self.batch}x{self.queries}, {self.heads} states {self.key_dim}x{self.value_dim}"

    @property
    def state_bytes(self) -> int:
        """Of one sequence."""
        return self.heads * self.key_dim * self.value_dim * DTYPE_BYTES[self.state_dtype]

    @property
    def states_moved(self) -> float:
        """Read and written, of each sequence.

        An engine that copies reads and writes the accepted one once more. One that replays writes a state when the
        inputs kept beside it are full, of drafted tokens those that are accepted, taken to be half.
        """
        if self.keeping == "replayed":
            accepted = 1.0 + (self.queries - 1) / 2
            return 1.0 + min(1.0, accepted / REPLAYED_TOKENS)
        copied = 2 if self.keeping == "copied" and self.queries > 1 else 0
        return 1.0 + self.queries + copied

    @property
    def inputs_moved(self) -> float:
        """Tokens whose inputs are written, and read again, of each sequence; on average half of those kept are."""
        return self.queries + REPLAYED_TOKENS / 2 if self.keeping == "replayed" else 0.0

    @property
    def flops(self) -> float:
        """Decay, what the state says of the key, the outer product that is added, what it says of the query."""
        return 8.0 * self.batch * self.queries * self.heads * self.key_dim * self.value_dim

    @property
    def bytes(self) -> float:
        each = 2 * self.key_heads * self.key_dim + 2 * self.heads * self.value_dim
        return self.streamed_bytes + float(DTYPE_BYTES[self.dtype] * self.batch * self.queries * each)

    @property
    def streamed_bytes(self) -> float:
        """The states, which no cache holds from one pass to the next, and kept inputs."""
        inputs = DTYPE_BYTES[self.dtype] * (self.key_heads * self.key_dim + self.heads * self.value_dim)
        return self.batch * (self.states_moved * self.state_bytes + self.inputs_moved * inputs)


@dataclass(frozen=True, slots=True)
class PrefillRecurrence(Operation):
    """A recurrent layer over ``batch`` prompts of ``tokens`` tokens each, in chunks whose tokens are done at once.

    Unlike attention it takes as long for a token wherever in a prompt that is.
    """

    name: str
    batch: int
    tokens: int
    heads: int
    key_heads: int
    key_dim: int
    value_dim: int
    rule: Rule
    dtype: str
    state_dtype: StateDtype = "float32"

    CHUNK: ClassVar[int] = 64
    """Tokens, in the kernels that engines have."""

    @property
    def shape(self) -> str:
        return f"{self.batch}x{self.tokens} in chunks"

    @property
    def arithmetic(self) -> tuple[str, ...]:
        return (self.dtype,)

    @property
    def flops(self) -> float:
        """Of a token: what it reads of the state and adds to it, and of its chunk's tokens, with each other."""
        of_state = 4.0 * self.key_dim * self.value_dim
        of_chunk = 2.0 * self.CHUNK * (self.key_dim + self.value_dim)
        return self.batch * self.tokens * self.heads * (of_state + of_chunk)

    @property
    def bytes(self) -> float:
        each = 2 * self.key_heads * self.key_dim + 2 * self.heads * self.value_dim
        return self.state_bytes + float(self.batch * DTYPE_BYTES[self.dtype] * self.tokens * each)

    @property
    def state_bytes(self) -> float:
        """The states of all prompts, read and written."""
        return 2.0 * self.batch * self.heads * self.key_dim * self.value_dim * DTYPE_BYTES[self.state_dtype]


@dataclass(frozen=True, slots=True)
class Convolution(Operation):
    """A convolution over the last ``width`` tokens of ``channels``, of which those of before are read and written."""

    name: str
    batch: int
    queries: int
    channels: int
    width: int
    dtype: str

    @property
    def shape(self) -> str:
        return f"{self.batch}x{self.queries}, {self.channels} channels"

    @property
    def bytes(self) -> float:
        values = 2 * self.batch * self.queries * self.channels
        return self.streamed_bytes + float(DTYPE_BYTES[self.dtype] * values)

    @property
    def streamed_bytes(self) -> float:
        """The tokens of before."""
        return float(2 * DTYPE_BYTES[self.dtype] * self.batch * (self.width - 1) * self.channels)


@dataclass(frozen=True, slots=True)
class ExpertMlp(_OfWeights):
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
        """Of one expert's weights."""
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
    """Of a collective's message, how much each device of a ring sends on: an all-reduce goes around twice."""
    return (2 if kind == "all_reduce" else 1) * (ranks - 1) / ranks


@dataclass(frozen=True, slots=True)
class Collective(Operation):
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

    @property
    def memory_bytes(self) -> float:
        return 0.0

    @property
    def wire_bytes(self) -> float:
        """Around a ring."""
        return sent_around(self.kind, self.ranks) * self.message_bytes


@dataclass(frozen=True, slots=True)
class Elementwise(Operation):
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
