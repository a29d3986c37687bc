"""Blocks of compressed attention and mixed streams: the costs behind them are found again."""

from __future__ import annotations

from functools import cache
from itertools import product

import pandas as pd
import pytest

from calibration.importers.compressed import BRANCHES, DECODING, MIXING, PROMPTS, block, import_compressed
from calibration.timings.fit_compressed import NEVER_FELT
from ssdsim.base.card import in_order
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.compressed import PartCosts
from ssdsim.hardware.hyper_connections import MixingCosts
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.transformer.compressed import (
    Branch,
    CompressedAttention,
    CompressedIndexer,
    CompressedProjections,
    over_prompts,
)
from ssdsim.transformer.hyper_connections import HyperConnection

COSTS = {
    "attention": in_order(PartCosts, (5e-5, 1e-7, 1e-9, 1.5e-8, 0.0, 0.0, 0.0, 2e12, NEVER_FELT)),
    "indexer": in_order(PartCosts, (2e-5, 3e-8, 0.0, 0.0, 5e-6, 0.0, 5e-11, 0.94 * 3.35e12, 0.45 * 1978e12)),
    "prefill_attention": in_order(PartCosts, (5e-5, 1.5e-7, 1e-9, 0.0, 0.0, 0.0, 0.0, NEVER_FELT, 6e14)),
    "prefill_indexer": in_order(PartCosts, (1e-5, 3e-8, 0.0, 0.0, 5e-5, 3e-7, 0.0, NEVER_FELT, 1e15)),
}
STREAMS = {
    "pre": in_order(MixingCosts, (7e-6, 5e-10, 2.9e12, 1.5)),
    "post": in_order(MixingCosts, (2e-6, 4e-10, 2.8e12, 4.0)),
}
COLUMNS = ["model", "kv_cache_dtype", "gemm_type", "num_heads", "batch_size", "isl", "step", "seconds"]
NAMES = {"V4-Pro": "deepseek-ai/DeepSeek-V4-Pro", "V4-Flash": "sgl-project/DeepSeek-V4-Flash-FP8"}


@cache
def bare() -> HardwareProfile:
    return find_hardware("h100-sxm").changed(compressed={}, hyper_connection={})


def block_s(model: str, heads: int, batch: int, tokens: int, prefix: int, branch: Branch) -> float:
    """Seconds of a block: in decoding, or over prompts of so many ``tokens``."""
    kinds = branch, "float8", "float8-block"
    (projections,) = (
        op for op in block(model, heads, batch * tokens, 1, *kinds) if isinstance(op, CompressedProjections)
    )
    taken_s = bare().seconds(projections).seconds
    for op in block(model, heads, batch, prefix + tokens, *kinds):
        if isinstance(op, CompressedIndexer | CompressedAttention):
            timed = op if tokens == 1 else over_prompts(op, tokens, prefix)
            taken_s += float(COSTS[timed.part].seconds(*timed.work))
    return taken_s


def tables() -> dict[str, pd.DataFrame]:
    made: dict[str, pd.DataFrame] = {}
    decoding = list(product(NAMES, (16, 32, 64), (1, 16, 64, 256), (1,), (63, 1023, 8191, 65535)))
    prompts = list(product(NAMES, (16, 64), (1, 4), (128, 2048, 8192, 16384), (0, 4096)))
    for (stem, shapes), branch in product(((DECODING, decoding), (PROMPTS, prompts)), BRANCHES):
        rows = [(NAMES[name], "fp8", "fp8_block", *sizes, block_s(name, *sizes, branch)) for name, *sizes in shapes]
        made[stem.format(branch)] = pd.DataFrame(rows, columns=COLUMNS)
    mixed = []
    for way, tokens, hidden in product(STREAMS, [2**n for n in range(16)], (4096, 7168)):
        op = HyperConnection("streams", way, tokens, 4, hidden, "bfloat16")  # type: ignore[arg-type]
        mixed.append((way, tokens, 2, 4, hidden, 2 * float(STREAMS[way].seconds(hidden, op.bytes))))
    of_mixed = ["op_name", "num_tokens", "num_sites", "hc_mult", "hidden_size", "seconds"]
    return made | {MIXING: pd.DataFrame(mixed, columns=of_mixed)}


def test_the_costs_behind_blocks_are_found() -> None:
    made = import_compressed(tables(), bare())["compressed"]["vllm"]
    for part, felt in (
        ("attention", ("launch_s", "per_row_s", "per_seen_s", "bandwidth")),
        ("indexer", ("launch_s", "per_score_s", "bandwidth")),
        ("prefill_attention", ("launch_s", "per_token_s", "peak_flops")),
        ("prefill_indexer", ("per_choice_s", "peak_flops")),
    ):
        model = made[part]["float8-block"]
        for name in felt:
            assert getattr(model.costs, name) == pytest.approx(getattr(COSTS[part], name), rel=0.1), (part, name)
        assert model.report is not None
        assert model.report.p95_error < 0.02
    assert import_compressed({}, bare()) == {}


def test_each_engine_has_blocks_of_its_own() -> None:
    """Their caches are called otherwise, and one of them has no rows over prompts."""
    vllm = {name: table.assign(framework="VLLM") for name, table in tables().items() if name != MIXING}
    theirs = {"framework": "SGLang", "kv_cache_dtype": "fp8_e4m3"}
    slower = {
        name: pd.concat([table, table.assign(seconds=1.5 * table["seconds"], **theirs)])
        for name, table in vllm.items()
        if name in [DECODING.format(branch) for branch in BRANCHES]
    }
    made = import_compressed(vllm | slower, bare())["compressed"]
    assert {engine: set(parts) for engine, parts in made.items()} == {
        "sglang": {"attention", "indexer"},
        "vllm": {"attention", "indexer", "prefill_attention", "prefill_indexer"},
    }
    launches = [made[engine]["attention"]["float8-block"].costs.launch_s for engine in ("sglang", "vllm")]
    assert launches[0] > 1.3 * launches[1]


def test_the_costs_of_streams_are_found() -> None:
    made = import_compressed({MIXING: tables()[MIXING]}, bare())["hyper_connection"]
    for way, streams in STREAMS.items():
        assert made[way].costs.bandwidth == pytest.approx(streams.bandwidth, rel=0.05)
        assert made[way].costs.seconds(7168, 0.0) == pytest.approx(float(streams.seconds(7168, 0.0)), rel=0.05)
