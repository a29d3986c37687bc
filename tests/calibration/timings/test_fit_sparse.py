"""Blocks of sparse attention: the costs behind them are found again, of each engine and whatever is chosen."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from calibration.importers.sparse import BLOCKS, KERNEL, TOKENS, import_sparse, operations
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.profile import OF_ENGINES, HardwareProfile
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.hardware.sparse import IndexerCosts, SparseCosts
from ssdsim.pricing.passes import kernel_factor
from ssdsim.transformer.block_sparse import BlockChoice
from ssdsim.transformer.operations import Operation
from ssdsim.transformer.sparse import Indexer, SparseStep, key_bytes

INDEXER = IndexerCosts(
    launch_s=2e-5, per_token_s=5e-8, choose_s=8e-6, per_choice_s=3e-8, per_score_s=5e-12, per_key_s=2e-10,
    at_once=132.0, bandwidth=0.94 * 3.35e12, peak_flops=0.45 * 1978e12, sharpness=2.0,
)  # fmt: skip
ATTENTION = SparseCosts(
    launch_s=5e-5, per_head_s=3e-8, per_doubling_s=4e-6, per_token_s=2e-7, per_row_s=4e-9, per_seen_s=5e-9,
    bandwidth=3e12, peak_flops=6e14,
)  # fmt: skip
BLOCK_CHOICE = INDEXER.changed(launch_s=0.0, per_token_s=0.0, peak_flops=0.45 * 989e12, sharpness=1.6)
MODELS = {"deepseek-ai/DeepSeek-V3.2": "V3.2", "zai-org/GLM-5-FP8": "GLM-5"}
WEIGHTS = {"fp8_block": "float8-block", "bfloat16": "bfloat16"}
_COLUMNS = [
    "model", "framework", "kernel_source", "kv_cache_dtype", "gemm_type", "num_heads", "batch_size", "isl", "step",
    "seconds",
]  # fmt: skip


@cache
def bare() -> HardwareProfile:
    return find_hardware("h100-sxm").changed(**{field: {} for field in OF_ENGINES})


def own_s(op: Any) -> float:
    tokens = op.batch * op.queries
    if isinstance(op, Indexer | BlockChoice):
        costs = INDEXER if isinstance(op, Indexer) else BLOCK_CHOICE
        of_choice = (op.chooses, op.scores, op.context)
        return float(costs.seconds(tokens, *of_choice, op.streamed_bytes, op.flops))
    return float(ATTENTION.seconds(tokens, op.heads, op.seen, op.gathered_bytes, op.flops))


def block_s(ops: list[Operation], engine: str = "vllm", faster: float = 1.0) -> float:
    """What was laid into the tables: an engine's products, and steps that are so much faster there."""
    profile, kernels = bare(), find_runtime(engine).on(bare().device).kernels
    steps = sum(own_s(op) for op in ops if isinstance(op, SparseStep))
    alone = ((op, profile.seconds(op).seconds) for op in ops if not isinstance(op, SparseStep))
    return steps / faster + sum(seconds * kernel_factor(op, seconds, profile, kernels) for op, seconds in alone)


def rows_of(models: dict[str, str], heads: tuple[int, ...], noise: float, skips: bool, engine: str) -> pd.DataFrame:
    rng, rows, faster = np.random.default_rng(0), [], 2.0 if engine == "sglang" else 1.0
    shapes = product(models.items(), WEIGHTS.items(), heads, (1, 8, 64, 256), (2, 1024, 4096, 65536))
    for (model, short), (theirs, weights), of, batch, context in shapes:
        for indexed in (True, False) if skips else (True,):
            ops = operations(short, of, batch, context, "bfloat16", weights, indexed)
            seconds = block_s(ops, engine, faster) * np.exp(noise * rng.normal())
            source = "dsa_indexer" if indexed else "dsa_skip_indexer"
            step = context - (short == "M3" or engine == "sglang")
            rows.append((model, engine.upper(), source, "bfloat16", theirs, of, batch, 1, step, seconds))
    return pd.DataFrame(rows, columns=_COLUMNS)


def tables(noise: float, skips: bool, *engines: str) -> dict[str, pd.DataFrame]:
    kernel = []
    for queries, batch, keys in product((1, 4, 8), (1, 16, 128), (64, 1024, 16384)):
        reading, multiplying = batch * keys * key_bytes(128) / 5e12, 2.0 * batch * queries * keys * 64 * 128 / 890.1e12
        seconds = 3e-6 + float(np.hypot(reading, multiplying))
        kernel.append((64, batch, queries, 4 * keys - queries, 4, seconds))
    of_kernel = ["num_heads", "batch_size", "isl", "step", "compress_ratio", "seconds"]
    rows = [rows_of(MODELS, (8, 32, 128), noise, skips, engine) for engine in engines or ("vllm",)]
    return {TOKENS: pd.concat(rows), KERNEL: pd.DataFrame(kernel, columns=of_kernel)}


def test_the_costs_behind_blocks_are_found_beside_blocks_without_an_indexer() -> None:
    made = import_sparse(tables(0.0, skips=True), bare())
    assert list(made["indexer"]) == list(made["sparse_attention"]) == ["vllm"]
    for weights in WEIGHTS.values():
        indexer, attention = made["indexer"]["vllm"][weights], made["sparse_attention"]["vllm"]["bfloat16"][weights]
        assert indexer.costs.peak_flops == pytest.approx(INDEXER.peak_flops, rel=0.05)
        assert indexer.costs.sharpness == pytest.approx(2.0, rel=0.1)
        for name in ("launch_s", "choose_s", "per_score_s", "per_key_s"):
            assert getattr(indexer.costs, name) == pytest.approx(getattr(INDEXER, name), rel=0.1)
        for name in ("launch_s", "per_doubling_s", "per_token_s", "per_row_s", "bandwidth"):
            assert getattr(attention.costs, name) == pytest.approx(getattr(ATTENTION, name), rel=0.1)
        assert attention.report is not None
        assert attention.report.p95_error < 0.02


def test_without_them_whole_blocks_are_right_all_the_same() -> None:
    made = import_sparse(tables(0.04, skips=False), bare())
    profile = bare().changed(**made)
    for op_context in (1024, 65536):
        ops = operations("GLM-5", 32, 64, op_context, "bfloat16", "float8-block")
        assert sum(profile.seconds(op).seconds for op in ops) == pytest.approx(block_s(ops), rel=0.05)
    report = made["sparse_attention"]["vllm"]["bfloat16"]["float8-block"].report
    assert report is not None
    assert 0.015 < report.median_error < 0.05
    assert import_sparse({}, bare()) == {}


def test_each_engine_has_its_own_and_its_cards_products_are_taken_off() -> None:
    made = import_sparse(tables(0.0, True, "vllm", "sglang"), bare())
    profile = bare().changed(**made)
    ops = operations("V3.2", 32, 8, 4096, "bfloat16", "bfloat16")
    steps = [op for op in ops if isinstance(op, SparseStep)]
    vllm, sglang = (sum(profile.of_engine(e).seconds(op).seconds for op in steps) for e in ("vllm", "sglang"))
    assert vllm == pytest.approx(sum(map(own_s, steps)), rel=0.05)
    assert sglang == pytest.approx(vllm / 2, rel=0.1)


def test_batches_that_wait_for_the_host_are_left_out() -> None:
    """SGLang captures no graph of 512 sequences: a block of them took 1.3 ms, whatever its context."""
    told = tables(0.0, True)
    rows = told[TOKENS]
    waiting = rows[rows["batch_size"] == 256].assign(batch_size=512, seconds=1.3e-3)
    made = import_sparse({**told, TOKENS: pd.concat([rows, waiting])}, bare())
    assert made == import_sparse(told, bare())


def test_blocks_of_keys_and_values_are_found_too() -> None:
    rows = rows_of({"MiniMaxAI/MiniMax-M3": "M3"}, (8, 16, 64), 0.0, False, "vllm")
    more = rows[rows["num_heads"] == 64].assign(num_heads=128, seconds=1.0)  # of more heads than there are
    made = import_sparse({BLOCKS: pd.concat([rows, more])}, bare())
    assert set(made) == {"block_choice", "block_attention"}
    profile = bare().changed(**made)
    for heads, context in ((8, 1024), (16, 65536), (64, 4096)):
        ops = operations("M3", heads, 8, context, "bfloat16", "bfloat16")
        assert sum(profile.seconds(op).seconds for op in ops) == pytest.approx(block_s(ops), rel=0.05)
    attention = made["block_attention"]["vllm"]["bfloat16"]["bfloat16"]
    assert attention.report is not None
    assert attention.report.p95_error < 0.03
