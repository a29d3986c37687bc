"""The attention blocks of aiconfigurator's ``mla_generation_module_perf`` tables as timing models.

A row is a whole block of DeepSeek-V3 without norm and all-reduce, on ``num_heads`` heads, over ``step`` cached tokens:
its projections are in it. The model is of what is left once the profile's own timings of these are taken off, so that
a priced block adds up to the timed one; block-scaled products take less in a block than alone, so each format of the
weights has a model. ``generation_mla_perf``, which times the kernel alone, is not read: its times are the host's up to
long contexts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pandas as pd

from calibration.timings.fit import FEWEST_ROWS
from calibration.timings.fit_costs import fit_latent
from ssdsim.base.checks import Array
from ssdsim.hardware.latent import LatentModel
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.layers import Latent
from ssdsim.transformer.operations import LatentAttention, Operation

COLUMNS = ("kv_cache_dtype", "gemm_type", "num_heads", "batch_size", "isl", "step")
CACHES = {"bfloat16": "bfloat16", "fp8": "float8"}
WEIGHTS = {"bfloat16": "bfloat16", "fp8_block": "float8-block"}
_LATENT = Latent(rank=512, rope_dim=64, nope_dim=128, value_dim=128, query_rank=1536)
_HIDDEN = 7168


def import_latent(table: pd.DataFrame, profile: HardwareProfile, source: str) -> dict[str, dict[str, LatentModel]]:
    """A model for each dtype of the cache and format of the projections that ``profile`` can price."""
    latent_models: dict[str, dict[str, LatentModel]] = {}
    rows = table[(table["isl"] == 1) & (table["step"] > 0)]
    for (cache_theirs, weights_theirs), some in rows.groupby(["kv_cache_dtype", "gemm_type"]):
        kept, weights = CACHES.get(str(cache_theirs)), WEIGHTS.get(str(weights_theirs))
        if kept is None or weights not in profile.gemm or profile.elementwise is None or len(some) < 2 * FEWEST_ROWS:
            continue
        latent_models.setdefault(kept, {})[weights] = fit_latent(
            _columns(some, kept, weights, profile), source, profile.device.memory_bandwidth
        )
    return latent_models


def _columns(rows: pd.DataFrame, kept: str, weights: str, profile: HardwareProfile) -> Mapping[str, Array]:
    @cache
    def products_s(heads: int, batch: int) -> float:
        ops = (op for op in _block(heads, batch, 1, kept, weights) if not isinstance(op, LatentAttention))
        return sum(profile.seconds(op).seconds for op in ops)

    shapes = list(rows[["num_heads", "batch_size", "step"]].astype(int).itertuples(index=False, name=None))
    blocks = (_block(heads, batch, context, kept, weights) for heads, batch, context in shapes)
    attention = [op for block in blocks for op in block if isinstance(op, LatentAttention)]
    products = np.array([products_s(heads, batch) for heads, batch, _ in shapes])
    return timed_blocks(attention, products, rows["seconds"].to_numpy(float))


def timed_blocks(attention: Sequence[LatentAttention], products_s: Array, seconds: Array) -> Mapping[str, Array]:
    """The columns that the fit takes: seconds of blocks, and of the products with weights in them."""
    return {
        "batch": np.array([op.batch for op in attention], float),
        "rows": np.array([op.heads for op in attention], float),
        "context": np.array([op.context for op in attention], float),
        "cached": np.array([op.rank + op.rope_dim for op in attention], float),
        "cache_bytes": np.array([op.streamed_bytes for op in attention]),
        "row_flops": np.array([op.row_flops for op in attention]),
        "products_s": products_s,
        "seconds": seconds,
    }


def _block(heads: int, batch: int, context: int, kept: str, weights: str) -> list[Operation]:
    """The attention block as a pass has it, less the norm before it."""
    card = Transformer(
        name=f"block of {heads} heads", architecture="deepseek_v3", hidden_size=_HIDDEN, layers=1, heads=heads,
        kv_heads=heads, head_dim=128, intermediate_size=_HIDDEN, vocab_size=128, latent=_LATENT, max_context=10**6,
        source="the tables' model, DeepSeek-V3",
    )  # fmt: skip
    forward = forward_pass(card, batch=batch, context=context, dtype=weights, kv_dtype=kept)
    names = [op.name for op in forward.layer]
    return list(forward.layer[1 : names.index("attention_out") + 1])
