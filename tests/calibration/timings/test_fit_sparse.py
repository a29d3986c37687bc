"""Blocks of sparse attention: the costs behind them are found again, with an indexer's beside blocks without one."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest

from calibration.importers.sparse import BLOCKS, KERNEL, block, import_sparse
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.sparse import IndexerCosts, SparseCosts
from ssdsim.transformer.sparse import Indexer, SparseAttention, key_bytes

INDEXER = IndexerCosts(
    launch_s=2e-5, per_token_s=5e-8, choose_s=8e-6, per_choice_s=3e-8, per_score_s=5e-12,
    bandwidth=0.94 * 3.35e12, peak_flops=0.45 * 1978e12, sharpness=2.0,
)  # fmt: skip
ATTENTION = SparseCosts(
    launch_s=5e-5, per_doubling_s=4e-6, per_token_s=2e-7, per_row_s=4e-9, per_seen_s=5e-9, bandwidth=3e12,
    peak_flops=6e14,
)  # fmt: skip
MODELS = {"deepseek-ai/DeepSeek-V3.2": "V3.2", "zai-org/GLM-5-FP8": "GLM-5"}
WEIGHTS = {"fp8_block": "float8-block", "bfloat16": "bfloat16"}


@cache
def bare() -> HardwareProfile:
    return find_hardware("h100-sxm").changed(indexer={}, sparse_attention={})


def own_s(op: Indexer | SparseAttention) -> float:
    tokens = op.batch * op.queries
    if isinstance(op, Indexer):
        return float(INDEXER.seconds(tokens, op.chooses, op.scores, op.streamed_bytes, op.flops))
    return float(ATTENTION.seconds(tokens, op.heads, op.seen, op.gathered_bytes, op.flops))


def tables(noise: float, skips: bool) -> dict[str, pd.DataFrame]:
    rng, rows = np.random.default_rng(0), []
    shapes = product(MODELS.items(), WEIGHTS.items(), (8, 32, 128), (1, 8, 64, 256), (2, 1024, 4096, 65536))
    for (model, short), (theirs, weights), heads, batch, context in shapes:
        for indexed in (True, False) if skips else (True,):
            ops = block(short, heads, batch, context, "bfloat16", weights, indexed)
            seconds = sum(
                own_s(op) if isinstance(op, Indexer | SparseAttention) else bare().seconds(op).seconds for op in ops
            )
            source = "dsa_indexer" if indexed else "dsa_skip_indexer"
            rows.append(
                (model, source, "bfloat16", theirs, heads, batch, 1, context, seconds * np.exp(noise * rng.normal()))
            )
    columns = [
        "model", "kernel_source", "kv_cache_dtype", "gemm_type", "num_heads", "batch_size", "isl", "step", "seconds",
    ]  # fmt: skip
    kernel = []
    for queries, batch, keys in product((1, 4, 8), (1, 16, 128), (64, 1024, 16384)):
        reading, multiplying = batch * keys * key_bytes(128) / 5e12, 2.0 * batch * queries * keys * 64 * 128 / 890.1e12
        seconds = 3e-6 + float(np.hypot(reading, multiplying))
        kernel.append((64, batch, queries, 4 * keys - queries, 4, seconds))
    of_kernel = ["num_heads", "batch_size", "isl", "step", "compress_ratio", "seconds"]
    return {BLOCKS: pd.DataFrame(rows, columns=columns), KERNEL: pd.DataFrame(kernel, columns=of_kernel)}


def test_the_costs_behind_blocks_are_found_beside_blocks_without_an_indexer() -> None:
    made = import_sparse(tables(0.0, skips=True), bare())
    for weights in WEIGHTS.values():
        indexer, attention = made["indexer"][weights], made["sparse_attention"]["bfloat16"][weights]
        assert indexer.costs.peak_flops == pytest.approx(INDEXER.peak_flops, rel=0.05)
        assert indexer.costs.sharpness == pytest.approx(2.0, rel=0.1)
        for name in ("launch_s", "choose_s"):
            assert getattr(indexer.costs, name) == pytest.approx(getattr(INDEXER, name), rel=0.1)
        for name in ("launch_s", "per_doubling_s", "per_token_s", "per_row_s", "bandwidth"):
            assert getattr(attention.costs, name) == pytest.approx(getattr(ATTENTION, name), rel=0.1)
        assert attention.report is not None
        assert attention.report.p95_error < 0.02


def test_without_them_whole_blocks_are_right_all_the_same() -> None:
    made = import_sparse(tables(0.04, skips=False), bare())
    profile = bare().changed(**made)
    for op_context in (1024, 65536):
        ops = block("GLM-5", 32, 64, op_context, "bfloat16", "float8-block")
        priced = sum(profile.seconds(op).seconds for op in ops)
        true = sum(own_s(op) if isinstance(op, Indexer | SparseAttention) else bare().seconds(op).seconds for op in ops)
        assert priced == pytest.approx(true, rel=0.05)
    report = made["sparse_attention"]["bfloat16"]["float8-block"].report
    assert report is not None
    assert 0.015 < report.median_error < 0.05
    assert import_sparse({}, bare()) == {}
