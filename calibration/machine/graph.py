"""A forward pass run for real: the same list of operations that the cost model prices, on one rank's device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as functional

from calibration.machine.experts import ExpertWeights, Routes, run_experts
from calibration.machine.graph_memory import cannot_run
from calibration.machine.timing import capture
from ssdsim.base.errors import InputError
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import ForwardPass, forward_pass
from ssdsim.transformer.operations import DTYPE_BYTES, Attention, Collective, Elementwise, ExpertMlp, Gemm, Operation

ROUTER = "router"
_ROUTES_SEED = 0  # the same on every rank: tensor-parallel ones have parts of the same experts
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def attend(
    op: Attention, qkv: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """Every query head of a group against its shared keys: (batch, kv heads, queries x group, head dim).

    ``qkv`` is the output of the projection, shape ``(batch x queries, at least heads x head_dim)``; the calibrator
    times this very function, so that the copies which the packing needs are in both.
    """
    rows, width = op.queries * op.heads // op.kv_heads, op.heads * op.head_dim
    query = qkv[:, :width].reshape(op.batch, op.kv_heads, rows, op.head_dim)
    attended = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
    return attended.reshape(op.batch * op.queries, width)


def branch_mask(rows: int, context: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A custom mask as a branch has it: the shared trunk, and of the last ``rows`` tokens only its own."""
    mask = torch.zeros(rows, context, dtype=dtype, device=device)
    own = min(rows, context - 1)
    if own > 0:
        mask[:, -own:] = -math.inf
        index = torch.arange(own, device=device)
        mask[index, context - own + index] = 0.0
    return mask


class Graph:
    """One rank's shard of a transformer with random weights and cache, allocated once.

    Operations run in their order, each on the output of the one before; a shard's shapes are those of
    :func:`ssdsim.transformer.forward.forward_pass`. Weights are scaled so that activations neither vanish nor overflow.
    Of experts in ``ep`` groups of the ``group``'s ranks it has those of its own.
    """

    def __init__(
        self,
        card: Transformer,
        *,
        device: torch.device,
        dtype: str,
        batch: int,
        context: int,
        tp: int = 1,
        ep: int = 1,
        group: dist.ProcessGroup | None = None,
        seed: int = 0,
    ) -> None:
        self.card = card
        self.device = device
        self.dtype = dtype
        self.tp = tp
        self._group = group
        self._random = torch.Generator(device=device).manual_seed(seed)
        shapes = forward_pass(card, batch=1, context=context, tp=tp, ep=ep, dtype=dtype, fused=1)
        place = dist.get_rank(group) if ep > 1 else 0
        self._first_expert = place * ep // tp * (card.experts.count // ep) if card.experts else 0
        self._routes = Routes(card.experts, device, _ROUTES_SEED) if card.experts else None
        self._layers = [self._weights(shapes.layer) for _ in range(shapes.layers)]
        self._outside = self._weights((*shapes.before, *shapes.after))
        self._cache = [self._key_values(shapes.attention, batch, context) for _ in range(shapes.layers)]
        self._buffers: dict[tuple[str, int], torch.Tensor] = {}

    def run(self, forward: ForwardPass) -> torch.Tensor:
        """Run every operation; returns the last activation (logits where there is a vocabulary)."""
        if forward.layers != len(self._layers):
            raise InputError("passes of no whole model (Medusa's heads) are priced only, they cannot be run here")
        flow = self._buffer("input", forward.tokens, self.card.hidden_size)
        asked = forward.attention
        for op in forward.before:
            flow = self._step(op, flow, self._outside, None, asked)
        for weights, cache in zip(self._layers, self._cache, strict=True):
            for op in forward.layer:
                flow = self._step(op, flow, weights, cache, asked)
        for op in forward.after:
            flow = self._step(op, flow, self._outside, None, asked)
        return flow

    def prepare(self, forward: ForwardPass) -> Callable[[], object]:
        """An action that runs ``forward``: a captured CUDA graph on a GPU, the operations one by one on a CPU.

        Experts are not captured: which of them run is known only when tokens have come.
        """
        if self.device.type == "cuda" and self._routes is None:
            return capture(lambda: self.run(forward))
        return lambda: self.run(forward)

    def single_operations(self, ops: Iterable[Operation], tokens: int) -> list[Callable[[], object]]:
        """An action for each of ``ops`` alone, on the input that it has in a pass over ``tokens``.

        ``ops`` are those of one layer, or those around the layers.
        """
        flow = self._buffer("input", tokens, self.card.hidden_size)
        weights, cache = self._layers[0] | self._outside, self._cache[0]
        asked = next((op for op in ops if isinstance(op, Attention)), None)
        actions: list[Callable[[], object]] = []
        for op in ops:
            actions.append(partial(self._step, op, flow, weights, cache, asked))
            flow = self._step(op, flow, weights, cache, asked)
        return actions

    def _step(
        self,
        op: Operation,
        flow: torch.Tensor,
        weights: dict[str, torch.Tensor],
        cache: tuple[torch.Tensor, torch.Tensor] | None,
        asked: Attention | None = None,
    ) -> torch.Tensor:
        """``asked`` is the attention of the pass, which knows its sequences and the tokens of each."""
        match op:
            case Gemm():
                out = self._buffer(op.name, op.m, op.n)
                torch.mm(self._input(op, flow), weights[op.name].t(), out=out)
                return flow if op.name == ROUTER else out  # experts work on what the router saw
            case Attention():
                assert cache is not None
                return self._attend(op, flow, *cache)
            case ExpertMlp():
                return self._visit_experts(op, flow, weights, asked)
            case Collective(kind="all_reduce" | "all_gather"):
                return self._communicate(op, flow)
            case Elementwise():
                return self._stream(op, flow)
            case _:
                raise cannot_run(op)

    def _input(self, op: Gemm, flow: torch.Tensor) -> torch.Tensor:
        """Input of an operation: what came before, or a buffer where it reads more (a head its target's states)."""
        if flow.shape[0] < op.m or flow.shape[1] < op.k:
            return self._buffer("beside " + op.name, op.m, op.k)
        return flow[: op.m, : op.k]

    def _attend(self, op: Attention, qkv: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        if qkv.shape[0] < op.batch * op.queries:  # sequences have different numbers of tokens
            qkv = self._buffer("ragged qkv", op.batch * op.queries, qkv.shape[1])
        keys, values = (kv[: op.batch, :, : op.context] for kv in (keys, values))
        mask = self._branch_mask(op.queries * op.heads // op.kv_heads, op.context) if op.masked else None
        return attend(op, qkv, keys, values, mask)

    def _visit_experts(
        self, op: ExpertMlp, flow: torch.Tensor, weights: dict[str, torch.Tensor], asked: Attention | None
    ) -> torch.Tensor:
        """The router's choice is computed; what random weights choose of random tokens is no text's, so it is drawn."""
        assert self._routes is not None
        assert self.card.experts is not None
        torch.topk(self._buffer(ROUTER, op.tokens, self.card.experts.count), op.per_token, dim=1)
        shape = (asked.batch, asked.queries) if asked else (op.tokens, 1)
        choices = self._routes.next(*shape)
        experts = ExpertWeights(weights[f"{op.name} gate_up"], weights[f"{op.name} down"])
        out = self._buffer(op.name, op.tokens, op.hidden)
        return run_experts(flow[: op.tokens], choices[: op.tokens], experts, out, self._first_expert)

    def _branch_mask(self, rows: int, context: int) -> torch.Tensor:
        key = ("mask", rows * (1 << 32) + context)
        if key not in self._buffers:
            self._buffers[key] = branch_mask(rows, context, DTYPES[self.dtype], self.device)
        return self._buffers[key]

    def _communicate(self, op: Collective, flow: torch.Tensor) -> torch.Tensor:
        if op.kind == "all_reduce":
            dist.all_reduce(flow, group=self._group)
            return flow
        gathered = self._buffer(op.name, flow.shape[0] * self.tp, flow.shape[1])
        dist.all_gather_into_tensor(gathered, flow, group=self._group)
        return gathered

    def _stream(self, op: Elementwise, flow: torch.Tensor) -> torch.Tensor:
        """Read and write ``moved_bytes`` in all, half each; the activation halves the flow's width for real.

        It multiplies the flow's first half by its second one, and not every row's: fused kernels of engines read rows
        in one piece, torch's product of two halves of a row takes a GPU up to four times as long.
        """
        if op.name == "activation" and self.card.gated_mlp:
            inner = flow.shape[1] // 2
            gate, up = flow.reshape(2, flow.shape[0], inner)
            return torch.mul(gate, up, out=self._buffer(op.name, flow.shape[0], inner))
        values = max(1, op.moved_bytes // (2 * DTYPE_BYTES[self.dtype]))
        source, target = (self._buffer(f"stream {i} {op.name}", 1, values) for i in range(2))
        torch.mul(source, 1.0, out=target)
        return flow

    def _weights(self, ops: Iterable[Operation]) -> dict[str, torch.Tensor]:
        made: dict[str, torch.Tensor] = {}
        for op in ops:
            if isinstance(op, Gemm):
                made[op.name] = self._tensor(op.n, op.k).div_(math.sqrt(op.k))
            elif isinstance(op, ExpertMlp):
                gate_up, down = (op.count, 2 * op.width, op.hidden), (op.count, op.hidden, op.width)
                made[f"{op.name} gate_up"] = self._tensor(op.count * 2 * op.width, op.hidden).reshape(gate_up)
                made[f"{op.name} gate_up"].div_(math.sqrt(op.hidden))
                made[f"{op.name} down"] = self._tensor(op.count * op.hidden, op.width).reshape(down)
                made[f"{op.name} down"].div_(math.sqrt(op.width))
        return made

    def _key_values(self, op: Attention, batch: int, context: int) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = (self._tensor(batch * op.kv_heads * context, op.head_dim) for _ in range(2))
        shape = (batch, op.kv_heads, context, op.head_dim)
        return keys.reshape(shape), values.reshape(shape)

    def _tensor(self, rows: int, columns: int) -> torch.Tensor:
        made = torch.randn(rows, columns, generator=self._random, device=self.device)
        return made.to(DTYPES[self.dtype])

    def _buffer(self, name: str, rows: int, columns: int) -> torch.Tensor:
        """An output buffer, allocated when a shape is first seen and kept."""
        key = (f"{name} {columns}", rows)
        if key not in self._buffers:
            self._buffers[key] = self._tensor(rows, columns)
        return self._buffers[key]
