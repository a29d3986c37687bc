"""The operations of a recurrent layer: its steps, its prefill, and the convolution before it."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

from ssdsim.base.record import Record
from ssdsim.transformer.operations import DTYPE_BYTES, Attends, Operation

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


class RecurrentStep(Attends, Record):
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
        """Bytes of one sequence's state."""
        return self.heads * self.key_dim * self.value_dim * DTYPE_BYTES[self.state_dtype]

    @property
    def states_moved(self) -> float:
        """States of each sequence that are read and written.

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
        """Flops of decay, what the state says of the key, the outer product added, what it says of the query."""
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


class PrefillRecurrence(Operation, Record):
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
        """Flops of reading a state and adding to it, a token, and of a chunk's tokens with each other."""
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


class Convolution(Operation, Record):
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
