"""The sparse attention blocks of aiconfigurator's tables as timing models, for each engine that has its own kernels.

A row of ``dsa_generation_module_perf`` is a whole block of DeepSeek-V3.2 or GLM-5 without norm and all-reduce, on
``num_heads`` heads, over ``step`` cached tokens: projections, indexer, choice and attention are in it. One of
``msa_generation_module_perf`` is one of MiniMax-M3. As with a latent cache, the models are of what is left once the
projections are taken off, at the price that the profile and the engine's own card give them, so that a priced block
adds up to the timed one. How an indexer's queries share the reading of keys is told by
``dsv4_paged_mqa_logits_module_perf``, the kernel alone with several queries a sequence. A block without an indexer
(``skip_indexer``), where a table has it beside one with, tells what the indexer's own launches take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from calibration.importers.latent import CACHES, WEIGHTS
from calibration.importers.silicon import engines
from calibration.timings.fit import FEWEST_ROWS
from calibration.timings.fit_sparse import Kind, fit_indexer_kernel, fit_sparse
from ssdsim.base.checks import Array
from ssdsim.base.record import replace
from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import KERNELS
from ssdsim.hardware.runtime_catalog import find_runtime, runtime_names
from ssdsim.hardware.runtime_numbers import Kernels
from ssdsim.pricing.passes import kernel_factor
from ssdsim.transformer.card import Transformer, Weights
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.operations import Operation
from ssdsim.transformer.sparse import SparseStep, key_bytes

TOKENS, BLOCKS = "dsa_generation_module_perf", "msa_generation_module_perf"
KERNEL = "dsv4_paged_mqa_logits_module_perf"
OF_BLOCKS = ("model", "kv_cache_dtype", "gemm_type", "num_heads", "batch_size", "isl", "step")
COLUMNS: Mapping[str, tuple[str, ...]] = {
    TOKENS: (*OF_BLOCKS, "kernel_source"),
    BLOCKS: (*OF_BLOCKS, "kernel_source"),
    KERNEL: ("num_heads", "batch_size", "isl", "step", "compress_ratio"),
}
_SKIPS = "skip_indexer"
_FIELDS: Mapping[str, tuple[str, str, Kind]] = {
    TOKENS: ("indexer", "sparse_attention", "tokens"),
    BLOCKS: ("block_choice", "block_attention", "blocks"),
}
"""Of each table the fields of a profile that it gives, and what is chosen."""

_CARDS: Mapping[str, str] = {"V3.2": "deepseek-v3.2", "GLM-5": "glm-5.2", "M3": "minimax-m3"}
"""The card whose layers a table's model has, by a part of its name."""

_ENGINES: Mapping[str, str] = {"trtllm": "tensorrt-llm"}  # others are called as their cards call them
_WHOLE_LENGTHS = (("vllm", TOKENS),)  # whose steps count the token that is decoded
MOST_QUERIES = 8  # of a sequence that is decoded
_GROWTH = 1.2  # of what a larger batch may take at most, which is as much more as it has sequences


class _Block(NamedTuple):
    """A shape of a table: a model's name in :data:`_CARDS`, heads on a device, and whether the layer chooses itself."""

    model: str
    heads: int
    indexed: bool


def import_sparse(tables: Mapping[str, pd.DataFrame], profile: HardwareProfile) -> dict[str, Any]:
    """The fields of a profile that can price the projections: of what is chosen, and of attention to it."""
    made: dict[str, Any] = {}
    if profile.elementwise is None:
        return made
    for table, (choice, attention, kind) in _FIELDS.items():
        if table not in tables:
            continue
        for engine, rows in by_engines(tables[table]):
            rows = rows[(rows["isl"] == 1) & (rows["step"] > 0)]
            rows = rows.assign(context=rows["step"] + ((engine, table) not in _WHOLE_LENGTHS))
            kernel = _of_kernel(tables, engine, profile) if kind == "tokens" else None
            fit = partial(fit_sparse, kernel=kernel, source=table, device=profile.device, kind=kind)
            for weights, by_cache in _by_format(_captured(rows), profile, _kernels(engine, profile)):
                chosen, by_kept = fit(by_cache)
                made.setdefault(choice, {}).setdefault(engine, {})[weights] = chosen
                of_engine = made.setdefault(attention, {}).setdefault(engine, {})
                for kept, model in by_kept.items():
                    of_engine.setdefault(kept, {})[weights] = model
    return made


def by_engines(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each engine, under the name that its cards have."""
    for theirs, rows in table.groupby(engines(table).str.lower()):
        yield _ENGINES.get(str(theirs), str(theirs) or "vllm"), rows


def _kernels(engine: str, profile: HardwareProfile) -> Kernels:
    """The factors of the engine's newest card; of an engine without one, none."""
    own = next((name for name in runtime_names() if find_runtime(name).engine == engine), None)
    return KERNELS.kernels if own is None else find_runtime(own).on(profile.device).kernels


def _captured(rows: pd.DataFrame) -> pd.DataFrame:
    """The batches for which a graph was captured: others wait for the host, however little they do."""
    least = rows.groupby("batch_size")["seconds"].min()
    for smaller, larger in pairwise(least.index):
        if least[larger] > _GROWTH * larger / smaller * least[smaller]:
            rows = rows[rows["batch_size"] < larger]
            break
    return rows


def _of_kernel(tables: Mapping[str, pd.DataFrame], engine: str, profile: HardwareProfile) -> tuple[float, float] | None:
    """What the engine's kernel of scores shares among queries; where it was not timed, what another's does."""
    by_engine = dict(by_engines(tables[KERNEL])) if KERNEL in tables else {}
    rows = by_engine.get(engine, next(iter(by_engine.values()), None))
    return None if rows is None else fit_indexer_kernel(_kernel_columns(rows), profile.device)


def _kernel_columns(rows: pd.DataFrame) -> dict[str, Array]:
    """Scores of the kernel alone: queries, keys and their bytes, from a table of contexts before compression."""
    of_model = find_transformer(_CARDS["V3.2"]).sparse
    assert of_model is not None
    each = ((rows["step"] + rows["isl"]) // rows["compress_ratio"]).to_numpy(float)
    some = (rows["isl"] <= MOST_QUERIES).to_numpy(bool) & (each > 0)
    rows, keys = rows[some], each[some]
    batch, queries = rows["batch_size"].to_numpy(float), rows["isl"].to_numpy(float)
    return {
        "tokens": batch * queries,
        "key_bytes": batch * keys * key_bytes(of_model.dim),
        "flops": 2.0 * batch * queries * keys * of_model.heads * of_model.dim,
        "seconds": rows["seconds"].to_numpy(float),
    }


def _by_format(
    rows: pd.DataFrame, profile: HardwareProfile, kernels: Kernels
) -> Iterator[tuple[str, dict[str, dict[str, Array]]]]:
    """Columns of each format of the projections, by the dtype of the cache."""
    for theirs, some in rows.groupby("gemm_type"):
        weights = WEIGHTS.get(str(theirs))
        if weights is None or not profile.device.peak_flops.get(weights):
            continue
        by_cache = {
            kept: _columns(of_cache, kept, weights, profile, kernels)
            for cached, of_cache in some.groupby("kv_cache_dtype")
            if (kept := CACHES.get(str(cached))) and len(of_cache) >= 2 * FEWEST_ROWS
        }
        if by_cache:
            yield weights, by_cache


def _columns(
    rows: pd.DataFrame, kept: str, weights: str, profile: HardwareProfile, kernels: Kernels
) -> dict[str, Array]:
    @cache
    def products_s(block: _Block, batch: int) -> float:
        ops = operations(*block[:2], batch, 1, kept, weights, block.indexed)
        alone = ((op, profile.seconds(op).seconds) for op in ops if not isinstance(op, SparseStep))
        return sum(seconds * kernel_factor(op, seconds, profile, kernels) for op, seconds in alone)

    @cache
    def steps(block: _Block) -> list[Any]:
        ops = operations(*block[:2], 1, 1, kept, weights)
        return [op for op in ops if isinstance(op, SparseStep)]

    named = [next(name for name in _CARDS if name in model) for model in rows["model"]]
    rows, named = _possible(rows, named)
    blocks = [
        _Block(name, int(heads), _SKIPS not in source)
        for name, heads, source in zip(named, rows["num_heads"], rows["kernel_source"], strict=True)
    ]
    batches, contexts = rows["batch_size"].astype(int), rows["context"].astype(int)
    shapes = list(zip(blocks, batches, contexts, strict=True))
    choices, attended = (
        [replace(steps(block)[n], batch=batch, context=context) for block, batch, context in shapes] for n in (0, 1)
    )

    def each(of: list[Any], name: str) -> Array:
        return np.array([getattr(op, name) for op in of], float)

    return {
        "tokens": batches.to_numpy(float),
        "context": contexts.to_numpy(float),
        "indexed": np.array([block.indexed for block in blocks], float),
        "indexer_heads": each(choices, "heads"),
        "chooses": each(choices, "chooses"),
        "scores": each(choices, "scores"),
        "key_bytes": each(choices, "streamed_bytes"),
        "index_flops": each(choices, "flops"),
        "heads": each(attended, "heads"),
        "seen": each(attended, "seen"),
        "gathered_bytes": each(attended, "gathered_bytes"),
        "flops": each(attended, "flops"),
        "products_s": np.array([products_s(block, batch) for block, batch, _ in shapes]),
        "seconds": rows["seconds"].to_numpy(float),
    }


def _possible(rows: pd.DataFrame, named: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """The rows of a device's share of the heads: of more than the model has, nobody knows the keys and values."""
    shared = [find_transformer(_CARDS[name]).latent is None for name in named]
    most = [find_transformer(_CARDS[name]).heads for name in named]
    some = ~np.array(shared) | (rows["num_heads"].to_numpy() <= np.array(most))
    return rows[some], [name for name, is_one in zip(named, some, strict=True) if is_one]


def operations(
    model: str, heads: int, batch: int, context: int, kept: str, weights: str, indexed: bool = True
) -> list[Operation]:
    """The attention block of a model's card on so many heads as a pass has it, less the norm before it."""
    forward = forward_pass(
        _one_layer(find_transformer(_CARDS[model]), heads), batch=batch, context=context, dtype=weights, kv_dtype=kept
    )
    names = [op.name for op in forward.layer]
    ops = forward.layer[1 : names.index("attention_out") + 1]
    return [op for op in ops if indexed or not op.name.startswith("index")]


@cache
def _one_layer(card: Transformer, heads: int) -> Transformer:
    """A layer of a model whose other heads are on other devices, with a dense feed-forward."""
    alone: dict[str, Any] = {"experts": None, "weights": Weights(), "mtp_layers": 0, "layers": 1, "heads": heads}
    alone["name"] = f"{heads} heads of {card.name}"
    if card.sparse is not None:
        return card.changed(**alone, kv_heads=heads, sparse=card.sparse.changed(layers=1))
    assert card.block_sparse is not None
    groups = max(1, card.kv_heads * heads // card.heads)
    blocks = card.block_sparse.changed(layers=1, heads=card.block_sparse.heads_on(card.kv_heads // groups))
    return card.changed(**alone, kv_heads=groups, block_sparse=blocks)
