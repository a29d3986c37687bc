"""The sparse attention blocks of aiconfigurator's ``dsa_generation_module_perf`` tables as timing models.

A row is a whole block of DeepSeek-V3.2 or GLM-5 without norm and all-reduce, on ``num_heads`` heads, over ``step``
cached tokens: projections, indexer, choice and attention are in it. As with a latent cache, the models are of what is
left once the profile's own timings of the projections are taken off. How its queries share the reading of keys is told
by ``dsv4_paged_mqa_logits_module_perf``, the kernel alone with several queries a sequence. A block without an indexer
(``skip_indexer``), where a table has it beside one with, tells what the indexer's own launches take; without,
:data:`ssdsim.hardware.sparse.INDEXER_SHARES` do. Of several engines in a table the first one's rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from calibration.importers.latent import CACHES, WEIGHTS
from calibration.importers.silicon import engines
from calibration.timings.fit import FEWEST_ROWS
from calibration.timings.fit_sparse import fit_indexer_kernel, fit_sparse
from ssdsim.base.checks import Array
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.layers import Latent, Sparse
from ssdsim.transformer.operations import Operation
from ssdsim.transformer.sparse import Indexer, SparseAttention, key_bytes

BLOCKS, KERNEL = "dsa_generation_module_perf", "dsv4_paged_mqa_logits_module_perf"
COLUMNS: Mapping[str, tuple[str, ...]] = {
    BLOCKS: ("model", "kernel_source", "kv_cache_dtype", "gemm_type", "num_heads", "batch_size", "isl", "step"),
    KERNEL: ("num_heads", "batch_size", "isl", "step", "compress_ratio"),
}
_SKIPS = "skip_indexer"
_DEEPSEEK = Latent(rank=512, rope_dim=64, nope_dim=128, value_dim=128, query_rank=1536)
_GLM = Latent(rank=512, rope_dim=64, nope_dim=192, value_dim=256, query_rank=2048)
_MODELS: Mapping[str, tuple[int, Latent, int]] = {"V3.2": (7168, _DEEPSEEK, 64), "GLM-5": (6144, _GLM, 32)}
"""Hidden size, latent and the indexer's heads, by a part of the model's name."""
_DIM, _CHOSEN, _KERNEL_HEADS = 128, 2048, 64
_MOST_QUERIES = 8


def import_sparse(tables: Mapping[str, pd.DataFrame], profile: HardwareProfile) -> dict[str, Any]:
    """The fields ``indexer`` and ``sparse_attention`` of a profile that can price the projections."""
    if BLOCKS not in tables or profile.elementwise is None:
        return {}
    rows, engine_of = tables[BLOCKS], engines(tables[BLOCKS])
    rows = rows[(rows["isl"] == 1) & (rows["step"] > 0) & (engine_of == engine_of.iloc[0])]
    kernel = fit_indexer_kernel(_kernel_columns(tables[KERNEL]), profile.device) if KERNEL in tables else None
    indexers: dict[str, Any] = {}
    attention: dict[str, dict[str, Any]] = {}
    for weights_theirs, some in rows.groupby("gemm_type"):
        weights = WEIGHTS.get(str(weights_theirs))
        if weights is None or not profile.device.peak_flops.get(weights):
            continue
        by_cache = {
            kept: _columns(of_cache, kept, weights, profile)
            for theirs, of_cache in some.groupby("kv_cache_dtype")
            if (kept := CACHES.get(str(theirs))) and len(of_cache) >= 2 * FEWEST_ROWS
        }
        if not by_cache:
            continue
        indexers[weights], by_kept = fit_sparse(by_cache, kernel, BLOCKS, profile.device)
        for kept, model in by_kept.items():
            attention.setdefault(kept, {})[weights] = model
    return {"indexer": indexers, "sparse_attention": attention}


def _kernel_columns(rows: pd.DataFrame) -> dict[str, Array]:
    """Scores of the kernel alone: queries, keys and their bytes, from a table of contexts before compression."""
    each = ((rows["step"] + rows["isl"]) // rows["compress_ratio"]).to_numpy(float)
    some = (rows["isl"] <= _MOST_QUERIES).to_numpy(bool) & (each > 0)
    rows, keys = rows[some], each[some]
    batch, queries = rows["batch_size"].to_numpy(float), rows["isl"].to_numpy(float)
    return {
        "tokens": batch * queries,
        "key_bytes": batch * keys * key_bytes(_DIM),
        "flops": 2.0 * batch * queries * keys * _KERNEL_HEADS * _DIM,
        "seconds": rows["seconds"].to_numpy(float),
    }


def _columns(rows: pd.DataFrame, kept: str, weights: str, profile: HardwareProfile) -> dict[str, Array]:
    @cache
    def products_s(model: str, heads: int, batch: int, indexed: bool) -> float:
        ops = block(model, heads, batch, 1, kept, weights, indexed)
        return sum(profile.seconds(op).seconds for op in ops if not isinstance(op, Indexer | SparseAttention))

    named = [next(name for name in _MODELS if name in model) for model in rows["model"]]
    indexed = ~rows["kernel_source"].str.contains(_SKIPS).to_numpy(bool)
    shapes = list(
        zip(named, *(rows[each].astype(int) for each in ("num_heads", "batch_size", "step")), indexed, strict=True)
    )
    heads, batch, context = (np.array([shape[n] for shape in shapes], float) for n in (1, 2, 3))
    of_indexer = np.array([_MODELS[name][2] for name in named], float)
    latent = next(op for op in block("V3.2", 8, 1, _CHOSEN, kept, weights) if isinstance(op, SparseAttention))
    seen = np.minimum(context, _CHOSEN)
    return {
        "tokens": batch,
        "heads": heads,
        "context": context,
        "seen": seen,
        "indexed": indexed.astype(float),
        "indexer_heads": of_indexer,
        "scores": batch * context,
        "key_bytes": batch * context * key_bytes(_DIM),
        "index_flops": 2.0 * batch * context * of_indexer * _DIM,
        "gathered_bytes": batch * seen * latent.gathered_bytes / _CHOSEN,
        "flops": batch * seen * heads * latent.flops / (8 * _CHOSEN),
        "products_s": np.array([products_s(*shape[:3], shape[4]) for shape in shapes]),
        "seconds": rows["seconds"].to_numpy(float),
    }


def block(
    model: str, heads: int, batch: int, context: int, kept: str, weights: str, indexed: bool = True
) -> list[Operation]:
    """The attention block as a pass has it, less the norm before it."""
    hidden, latent, index_heads = _MODELS[model]
    sparse = Sparse(heads=index_heads, dim=_DIM, chosen=_CHOSEN, layers=1)
    card = Transformer(
        name=f"block of {heads} heads of {model}", architecture="deepseek_v32", hidden_size=hidden, layers=1,
        heads=heads, kv_heads=heads, head_dim=128, intermediate_size=hidden, vocab_size=128, latent=latent,
        sparse=sparse, max_context=10**7, source="the tables' model",
    )  # fmt: skip
    forward = forward_pass(card, batch=batch, context=context, dtype=weights, kv_dtype=kept)
    names = [op.name for op in forward.layer]
    ops = forward.layer[1 : names.index("attention_out") + 1]
    return [op for op in ops if indexed or not op.name.startswith("index")]
