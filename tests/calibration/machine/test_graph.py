"""The graph runs what it is given: every operation, at its shape, sharded so that the shards add up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from calibration.machine.graph import Graph
from calibration.machine.graph_memory import graph_memory
from calibration.machine.ranks import Ranks
from ssdsim.hardware.catalog import find_transformer
from ssdsim.transformer.card import Transformer, transformer_shaped
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.layers import Experts
from ssdsim.transformer.operations import Attention, Gemm


class Recorded(TorchDispatchMode):
    """Counts the matrix products that torch really runs, by shape."""

    def __init__(self) -> None:
        super().__init__()
        self.gemms: Counter[tuple[int, int, int]] = Counter()
        self.attentions = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name == "mm":
            (m, k), n = args[0].shape, args[1].shape[1]
            self.gemms[m, n, k] += 1
        if "scaled_dot_product" in name:
            self.attentions += 1
        return func(*args, **(kwargs or {}))


def tiny_llama() -> Transformer:
    small = {"hidden_size": 64, "layers": 3, "heads": 4, "kv_heads": 2, "head_dim": 16, "intermediate_size": 96}
    return find_transformer("llama-3.2-1b").changed(**small, vocab_size=128, dtype="float32")


def tiny_mixture() -> Transformer:
    """Five experts, of which a token uses two, in every layer."""
    experts = Experts(count=5, per_token=2, width=48, layers=3)
    small = {"name": "tiny-mixture", "architecture": "qwen3_moe", "experts": experts}
    return tiny_llama().changed(**small)


@pytest.mark.parametrize("card", [tiny_llama(), transformer_shaped(64, 2, "float32")], ids=["llama", "shaped"])
@pytest.mark.parametrize("masked", [False, True])
def test_every_operation_of_the_list_is_run_at_its_shape(card: Transformer, masked: bool) -> None:
    graph = Graph(card, device=torch.device("cpu"), dtype="float32", batch=2, context=16)
    forward = forward_pass(card, batch=2, queries=3, context=16, dtype="float32", masked=masked)
    with Recorded() as seen:
        out = graph.run(forward)
    listed = Counter((op.m, op.n, op.k) for op in forward.operations() if isinstance(op, Gemm))
    assert seen.gemms == listed
    assert seen.attentions == sum(isinstance(op, Attention) for op in forward.operations())
    assert out.shape[0] == 6
    assert torch.isfinite(out).all()


@pytest.mark.parametrize(("queries", "masked"), [(1, False), (4, False), (5, True)])
def test_a_mixture_runs_the_products_of_every_expert_that_is_chosen(queries: int, masked: bool) -> None:
    card = tiny_mixture()
    assert card.experts is not None
    graph = Graph(card, device=torch.device("cpu"), dtype="float32", batch=2, context=16)
    forward = forward_pass(card, batch=2, queries=queries, context=16, dtype="float32", masked=masked)
    with Recorded() as seen:
        out = graph.run(forward)
    dense = Counter((op.m, op.n, op.k) for op in forward.operations() if isinstance(op, Gemm))
    width, hidden, visits = card.experts.width, card.hidden_size, 2 * queries * card.experts.per_token
    up = {shape: count for shape, count in (seen.gemms - dense).items() if shape[1:] == (2 * width, hidden)}
    down = {shape: count for shape, count in (seen.gemms - dense).items() if shape[1:] == (hidden, width)}
    assert sum(m * count for (m, _, _), count in up.items()) == card.layers * visits
    assert sum(m * count for (m, _, _), count in down.items()) == card.layers * visits
    assert sum(up.values()) <= card.layers * min(card.experts.count, visits)
    assert torch.isfinite(out).all()


def test_operations_around_the_layers_run_alone_too() -> None:
    card = tiny_llama()
    graph = Graph(card, device=torch.device("cpu"), dtype="float32", batch=2, context=16)
    forward = forward_pass(card, batch=2, queries=3, context=16, dtype="float32")
    around = (*forward.before, *forward.after)
    actions = graph.single_operations(around, forward.tokens)
    with Recorded() as seen:
        for action in actions:
            action()
    assert len(actions) == len(around) == 3  # embedding, norm, head
    assert seen.gemms == {(6, card.vocab_size, card.hidden_size): 1}


CARDS = [tiny_llama(), transformer_shaped(64, 2, "float32"), tiny_mixture()]


@pytest.mark.parametrize("card", CARDS, ids=["llama", "shaped", "mixture"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_a_graph_allocates_is_known_before(card: Transformer, dtype: str) -> None:
    shapes = [(1, 1, False), (2, 3, False), (2, 5, True)]
    passes = [forward_pass(card, batch=b, queries=q, context=16, dtype=dtype, masked=masked) for b, q, masked in shapes]
    known = graph_memory(passes, batch=2, context=16, dtype=dtype)
    graph = Graph(card, device=torch.device("cpu"), dtype=dtype, batch=2, context=16)
    for forward in passes:
        graph.run(forward)
    weights = [tensor for layer in (*graph._layers, graph._outside) for tensor in layer.values()]
    made = [*weights, *(tensor for pair in graph._cache for tensor in pair), *graph._buffers.values()]
    held = sum(tensor.numel() * tensor.itemsize for tensor in made)
    assert held <= known.held_bytes <= 1.1 * held  # the activation keeps less than it moves
    if dtype == "bfloat16":  # drawn as float32, then converted
        assert known.passing_bytes >= 4 * max(tensor.numel() for tensor in made)


def test_a_branch_sees_the_trunk_and_itself_alone() -> None:
    card = transformer_shaped(64, 1, "float32")
    graph = Graph(card, device=torch.device("cpu"), dtype="float32", batch=1, context=10)
    mask = graph._branch_mask(4, 10)
    assert (mask[:, :6] == 0).all()
    assert torch.equal(mask[:, 6:] == 0, torch.eye(4, dtype=torch.bool))


def make_sharded_mlp(rank: int, device: torch.device, options: dict[str, Any]) -> Any:
    """Each rank's share of an up and a down projection, all-reduced: the whole product on every rank."""

    def handle(request: dict[str, Any]) -> float:
        tp = dist.get_world_size()
        card = transformer_shaped(256, 1, "float32")
        graph = Graph(card, device=device, dtype="float32", batch=1, context=8, tp=tp, seed=0)
        whole = Graph(card, device=device, dtype="float32", batch=1, context=8, tp=1, seed=0)
        weights, shard = whole._layers[0], graph._layers[0]
        up, down = weights["up"].chunk(tp, dim=0)[rank], weights["down"].chunk(tp, dim=1)[rank]
        shard["up"], shard["down"] = up.contiguous(), down.contiguous()
        flow = torch.ones(1, 256)
        sharded_ops = {op.name: op for op in forward_pass(card, batch=1, context=8, tp=tp, dtype="float32").layer}
        whole_ops = {op.name: op for op in forward_pass(card, batch=1, context=8, dtype="float32").layer}
        cache = whole._cache[0]
        expected = flow
        for name in ("up", "down"):
            expected = whole._step(whole_ops[name], expected, weights, cache)
        found = flow
        for name in ("up", "down", "mlp_all_reduce"):
            found = graph._step(sharded_ops[name], found, shard, cache)
        return float((found - expected).abs().max())

    return handle


@pytest.mark.ranks
def test_shards_of_a_layer_all_reduce_to_the_whole() -> None:
    with Ranks(["cpu:0", "cpu:1"], "tests.calibration.machine.test_graph:make_sharded_mlp", {}) as ranks:
        assert max(ranks.ask({})) < 1e-5


MIXTURE = Transformer(
    name="mixture", architecture="qwen3_moe", hidden_size=64, layers=2, heads=12, kv_heads=12, head_dim=8,
    intermediate_size=64, vocab_size=128, max_context=512, source="a test",
    experts=Experts(count=12, per_token=2, width=24, layers=2, shared_width=0),
)  # fmt: skip


def make_spread_experts(rank: int, device: torch.device, options: dict[str, Any]) -> Any:
    """Each rank's experts of a layer, and a share of their widths where several have the same; all-reduced."""

    def handle(request: dict[str, int]) -> tuple[float, float]:
        tp, ep = dist.get_world_size(), request["ep"]
        shared: dict[str, Any] = {"device": device, "dtype": "float32", "batch": 2, "context": 16, "seed": 0}
        whole = Graph(MIXTURE, tp=1, **shared)
        graph = Graph(MIXTURE, tp=tp, ep=ep, group=dist.group.WORLD, **shared)
        group, place = divmod(rank, tp // ep)
        own = slice(group * 12 // ep, (group + 1) * 12 // ep)
        weights, shard = whole._layers[0], graph._layers[0]
        gates = [part.chunk(tp // ep, dim=1)[place] for part in weights["experts gate_up"][own].chunk(2, dim=1)]
        down = weights["experts down"][own].chunk(tp // ep, dim=2)[place].contiguous()
        made = {"experts gate_up": torch.cat(gates, dim=1).contiguous(), "experts down": down}
        assert {name: tensor.shape for name, tensor in made.items()} == {name: shard[name].shape for name in made}
        shard |= made
        flow, spread, errors, sizes = torch.randn(8, 64, generator=torch.Generator().manual_seed(2)), {}, [], []
        for queries in (4, 1):  # choices are drawn on every rank alike, and differ from layer to layer
            for degrees, of in (((1, 1), whole), ((tp, ep), graph)):
                forward = forward_pass(
                    MIXTURE, batch=2, queries=queries, context=16, tp=degrees[0], ep=degrees[1], dtype="float32"
                )
                ops = {op.name: op for op in forward.layer}
                asked = next(op for op in forward.layer if isinstance(op, Attention))
                found = flow[: 2 * queries]
                for name in ("experts", "experts_all_reduce"):
                    if name in ops:
                        found = of._step(ops[name], found, of._layers[0], None, asked)
                spread[of] = found.clone()
            errors.append(float((spread[whole] - spread[graph]).abs().max()))
            sizes.append(float(spread[whole].abs().max()))
        return max(errors), min(sizes)

    return handle


@pytest.mark.ranks
@pytest.mark.parametrize(("ranks", "eps"), [(2, (1, 2)), (3, (3,))])
def test_experts_spread_over_ranks_give_what_one_rank_gives(ranks: int, eps: tuple[int, ...]) -> None:
    devices = [f"cpu:{rank % 2}" for rank in range(ranks)]
    with Ranks(devices, "tests.calibration.machine.test_graph:make_spread_experts", {}) as found:
        for ep in eps:
            answers = found.ask({"ep": ep})
            assert max(error for error, _ in answers) < 1e-5 < 1e-2 < min(size for _, size in answers)
