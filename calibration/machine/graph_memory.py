"""Memory that a :class:`.graph.Graph` and the pool of streamed weights will allocate; needs no torch."""

from __future__ import annotations

from collections.abc import Sequence

from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.transformer.forward import ForwardPass
from ssdsim.transformer.operations import DTYPE_BYTES, Attention, Collective, Elementwise, ExpertMlp, Gemm, Operation

POOL_BYTES = {"cpu": 256 << 20, "cuda": 1 << 30}  # beyond an L3 of a CPU, and many times the L2 of a GPU
FLOAT32_BYTES = 4  # random numbers are drawn as float32


class GraphMemory(Record):
    """Bytes that a graph holds, and its largest temporary allocation."""

    held_bytes: int
    passing_bytes: int


def graph_memory(passes: Sequence[ForwardPass], batch: int, context: int, dtype: str) -> GraphMemory:
    """The memory of one rank's graph that holds ``batch`` sequences of ``context`` tokens and runs ``passes``."""
    one, value = passes[0], DTYPE_BYTES[dtype]
    gemms = [op for op in one.operations() if isinstance(op, Gemm)]
    experts = [op for op in one.operations() if isinstance(op, ExpertMlp)]
    weights, hidden_size = [op.n * op.k for op in gemms], gemms[0].k
    weights += [op.count * part * op.width * op.hidden for op in experts for part in (2, 1)]
    cache = [batch * context * one.attention.kv_heads * one.attention.head_dim] * (2 * one.layers)
    ops = {op for forward in passes for op, _ in forward.counted}
    inputs = [value * tokens * hidden_size for tokens in {forward.tokens for forward in passes}]
    buffers = [*inputs, *(_buffer_bytes(op, value) for op in ops)]
    largest = max(*weights, *cache, *(size // value for size in buffers))
    drawn = FLOAT32_BYTES * largest if dtype != "float32" else 0  # and then converted
    return GraphMemory(
        held_bytes=value * (sum(weights) + sum(cache)) + sum(buffers),
        passing_bytes=max(drawn, *(attention_bytes(op) for op in ops if isinstance(op, Attention))),
    )


def _buffer_bytes(op: Operation, value: int) -> int:
    """Bytes that an operation writes to and keeps; a mask with attention under one."""
    match op:
        case Gemm():
            return value * op.m * op.n
        case Attention():
            return value * op.queries * op.heads // op.kv_heads * op.context if op.masked else 0
        case ExpertMlp():
            return value * op.tokens * op.hidden
        case Collective(kind="all_reduce"):
            return 0
        case Collective(kind="all_gather"):
            return op.message_bytes
        case Elementwise():
            return op.moved_bytes
        case _:
            raise cannot_run(op)


def cannot_run(op: Operation) -> InputError:
    """The error for an operation that ranks have no kernel for."""
    return InputError(
        f"{op.name} of this model are priced only: real ranks run layers that are alike, with attention by heads that "
        "they share (tensor-parallel)"
    )


def attention_bytes(op: Attention) -> int:
    """The packed queries, the fused kernel's output, and the output in the order of tokens."""
    return 3 * DTYPE_BYTES[op.dtype] * op.batch * op.queries * op.heads * op.head_dim
