"""DeepSeek-V4's blocks in aiconfigurator's tables as timing models: compressed attention and hyper-connections.

A row of ``dsv4_csa_*`` and ``dsv4_hca_*_module_perf`` is a whole attention block without norm and all-reduce, on
``num_heads`` heads, with ``step`` cached tokens: decoding (``generation``) and prompts of ``isl`` tokens (``context``).
The models are of what is left once the projections are taken off, as memory and arithmetic give them. An HCA block has
no indexer, so it tells what is the attention's. How fast scores are multiplied is told by
``dsv4_paged_mqa_logits_module_perf``, their kernel alone with several queries a sequence. A row of ``mhc_module_perf``
mixes the streams around both halves of a layer. Blocks are by engine; of several
the first one's streams are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from calibration.importers.latent import CACHES, WEIGHTS
from calibration.importers.silicon import engines
from calibration.importers.sparse import KERNEL, MOST_QUERIES, OF_BLOCKS, by_engines
from calibration.timings.fit import FEWEST_ROWS, significant
from calibration.timings.fit_compressed import fit_blocks, fit_mixing, of_work
from ssdsim.base.checks import Array
from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.compressed import REACHED, SCORES_REACHED
from ssdsim.hardware.device import Device
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.compressed import (
    RATIOS,
    Branch,
    CompressedAttention,
    CompressedIndexer,
    CompressedProjections,
    PrefillCompressed,
    Work,
    over_prompts,
)
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.hyper_connections import HyperConnection, Way
from ssdsim.transformer.operations import Operation
from ssdsim.transformer.sparse import KEY_DTYPE

BRANCHES: tuple[Branch, ...] = ("csa", "hca")
DECODING, PROMPTS, MIXING = "dsv4_{}_generation_module_perf", "dsv4_{}_context_module_perf", "mhc_module_perf"
COLUMNS: Mapping[str, tuple[str, ...]] = {
    **{stem.format(branch): OF_BLOCKS for stem in (DECODING, PROMPTS) for branch in BRANCHES},
    MIXING: ("op_name", "num_tokens", "num_sites", "hc_mult", "hidden_size"),
}
_CARDS: Mapping[str, str] = {"V4-Pro": "deepseek-v4-pro", "V4-Flash": "deepseek-v4-flash"}
"""The card whose layers a table's model has, by a part of its name."""
_CACHES = {**CACHES, "fp8_e4m3": "float8"}
_WAYS: tuple[Way, ...] = ("pre", "post")
_FEWEST_CACHED = 64
"""With fewer tokens cached a block takes less than its law says with any."""
_FEWEST_PROMPT_TOKENS, _MOST_PROMPT_TOKENS = 64, 65536
"""Fewer take a prompt's kernels where engines decode; of more the projections were not timed."""
_OF_DECODING = {
    "attention": ("launch_s", "per_token_s", "per_row_s", "per_seen_s", "bandwidth", "peak_flops"),
    "indexer": ("launch_s", "per_token_s", "per_seen_s", "choose_s", "per_choice_s", "per_score_s"),
}
_OF_PROMPTS = {
    "attention": ("launch_s", "per_token_s", "per_row_s", "peak_flops"),
    "indexer": ("launch_s", "per_token_s", "choose_s", "per_choice_s", "peak_flops"),
}
"""What is fitted of each part; an indexer that decodes reads and multiplies at known rates."""

Special = CompressedIndexer | CompressedAttention


def import_compressed(tables: Mapping[str, pd.DataFrame], profile: HardwareProfile) -> dict[str, Any]:
    """The fields of compressed attention and hyper-connections."""
    made: dict[str, Any] = {}
    by_engine: dict[str, dict[str, dict[str, Any]]] = {}
    for stem in (DECODING, PROMPTS):
        if all(stem.format(branch) in tables for branch in BRANCHES):
            for engine, rows in by_engines(pd.concat([tables[stem.format(b)].assign(branch=b) for b in BRANCHES])):
                kernel = dict(by_engines(tables[KERNEL])).get(engine) if KERNEL in tables else None
                _fit_parts(by_engine.setdefault(engine, {}), rows, kernel, stem, profile)
    if any(by_engine.values()):
        made["compressed"] = {engine: parts for engine, parts in by_engine.items() if parts}
    if MIXING in tables:
        made["hyper_connection"] = _mixing(_of_first(tables[MIXING]), profile)
    return made


def _of_first(table: pd.DataFrame) -> pd.DataFrame:
    engine_of = engines(table)
    first: pd.DataFrame = table[engine_of == engine_of.iloc[0]]
    return first


def _fit_parts(
    parts: dict[str, dict[str, Any]],
    rows: pd.DataFrame,
    kernel: pd.DataFrame | None,
    stem: str,
    profile: HardwareProfile,
) -> None:
    """Add an engine's models of decoding, or of prompts, by part and format of the projections."""
    kept, weights = rows["kv_cache_dtype"].map(_CACHES.get), rows["gemm_type"].map(WEIGHTS.get)
    rows = rows.assign(kept=kept, weights=weights).dropna(subset=["kept", "weights"])
    tokens, decodes = rows["batch_size"] * rows["isl"], stem == DECODING
    asked = (rows["isl"] > 1) & tokens.between(_FEWEST_PROMPT_TOKENS, _MOST_PROMPT_TOKENS)
    rows = rows[(rows["isl"] == 1) & (rows["step"] >= _FEWEST_CACHED) if decodes else asked]
    device = profile.device
    known: dict[str, dict[str, float]] = {"attention": {}, "indexer": {}}
    if decodes:
        known["indexer"] = {"bandwidth": significant(REACHED * device.memory_bandwidth)}
        known["indexer"]["peak_flops"] = _rate_of_scores(kernel, device)
    for of_weights, some in rows.groupby("weights"):
        if len(some) < 2 * FEWEST_ROWS or not {of_weights, KEY_DTYPE} <= device.peak_flops.keys():
            continue
        free = _OF_DECODING if decodes else _OF_PROMPTS
        for part, model in fit_blocks(_columns(some, decodes, profile), free, known, stem.format("csa")).items():
            parts.setdefault(part if decodes else f"prefill_{part}", {})[str(of_weights)] = model


def _rate_of_scores(rows: pd.DataFrame | None, device: Device) -> float:
    """Flops/s of scores at the best, once their keys are read; a share of the device's where they were not timed."""
    if rows is None:
        return significant(SCORES_REACHED * device.peak_flops.get(KEY_DTYPE, min(device.peak_flops.values())))
    some = list(map(_scores_of, *(rows[each].astype(int) for each in ("batch_size", "isl", "step"))))
    read_s = np.array([op.streamed_bytes for op in some]) / (REACHED * device.memory_bandwidth)
    left_s = rows["seconds"].to_numpy(float) - read_s
    told = (rows["isl"] <= MOST_QUERIES).to_numpy(bool) & (left_s > 0.5 * rows["seconds"].to_numpy(float))
    return significant(float(np.max(np.array([op.flops for op in some])[told] / left_s[told])))


def _scores_of(batch: int, queries: int, step: int) -> CompressedIndexer:
    entries, of = max(1, (step + queries) // RATIOS["csa"]), find_transformer(_CARDS["V4-Pro"]).compressed
    assert of is not None
    return CompressedIndexer("scores", batch, queries, entries, of.index_heads, of.index_dim, 1, "bfloat16")


def _columns(rows: pd.DataFrame, decodes: bool, profile: HardwareProfile) -> dict[str, Array]:
    """Each row's work in attention and in an indexer, whether there is one, and what is known of its time."""
    columns: dict[str, Array] = {}
    shapes = _shapes(rows)
    ops = [_special(*shape, decodes) for shape in shapes]
    some = next(indexer for indexer, _ in ops if indexer is not None)  # in place of what a block lacks
    for part, of in (("attention", [op for _, op in ops]), ("indexer", [op or some for op, _ in ops])):
        works = [op.work for op in of]
        columns |= {of_work(part, name): np.array([getattr(w, name) for w in works], float) for name in Work._fields}
        columns[f"{part} domain"] = np.array([_seen(op) for op in of], float)
    columns["attention"] = np.ones(len(rows))
    columns["indexer"] = np.array([indexer is not None for indexer, _ in ops], float)
    columns["products_s"] = _products_s(shapes, profile)
    return columns | {"seconds": rows["seconds"].to_numpy(float)}


def _seen(op: Special | PrefillCompressed) -> int:
    if isinstance(op, PrefillCompressed):
        return op.tokens
    return op.seen if isinstance(op, CompressedAttention) else op.context


Shape = tuple[str, int, int, int, int, Branch, str, str]


def _shapes(rows: pd.DataFrame) -> list[Shape]:
    """Model, heads, sequences, tokens of each, cached ones, branch, cache and weights of each row."""
    models = [next(name for name in _CARDS if name in model) for model in rows["model"]]
    sizes = (rows[each].astype(int) for each in ("num_heads", "batch_size", "isl", "step"))
    return list(zip(models, *sizes, rows["branch"], rows["kept"], rows["weights"], strict=True))


def _special(
    model: str, heads: int, batch: int, tokens: int, prefix: int, branch: Branch, kept: str, weights: str, decodes: bool
) -> tuple[Any, Any]:
    """The indexer, None where there is none, and attention of a row: in decoding, or over prompts."""
    ops = block(model, heads, batch, prefix + tokens, branch, kept, weights)
    special = [op if decodes else over_prompts(op, tokens, prefix) for op in ops if isinstance(op, Special)]
    return (special[0] if len(special) > 1 else None), special[-1]


def _products_s(shapes: list[Shape], profile: HardwareProfile) -> Array:
    """Seconds of each block's projections, as the profile has them."""

    @cache
    def of_block(model: str, heads: int, tokens: int, branch: Branch, kept: str, weights: str) -> float:
        ops = block(model, heads, tokens, 1, branch, kept, weights)
        return sum(profile.seconds(op).seconds for op in ops if isinstance(op, CompressedProjections))

    return np.array([of_block(*shape[:2], shape[2] * shape[3], *shape[5:]) for shape in shapes])


def block(model: str, heads: int, batch: int, context: int, branch: Branch, kept: str, weights: str) -> list[Operation]:
    """The attention block of a pass on so many of the model's heads."""
    whole = find_transformer(_CARDS[model])
    hidden, attention = whole.hidden_size, whole.compressed
    assert attention is not None
    layers = {"csa_layers": int(branch == "csa"), "hca_layers": int(branch == "hca")}
    card = Transformer(
        name=f"{branch} block of {heads} heads of {model}", architecture="deepseek_v4", hidden_size=hidden, layers=1,
        heads=heads, kv_heads=1, head_dim=whole.head_dim, intermediate_size=hidden, vocab_size=128,
        compressed=attention.changed(out_groups=attention.out_groups * heads // whole.heads, **layers),
        max_context=10**7, source="the tables' model",
    )  # fmt: skip
    forward = forward_pass(card, batch=batch, context=context, dtype=weights, kv_dtype=kept)
    return [op for op in forward.layer if isinstance(op, Special | CompressedProjections)]


def _mixing(rows: pd.DataFrame, profile: HardwareProfile) -> dict[Way, Any]:
    models: dict[Way, Any] = {}
    for way in _WAYS:
        some = rows[rows["op_name"] == way]
        if len(some) < 2 * FEWEST_ROWS:
            continue
        shapes = zip(*(some[each].astype(int) for each in ("num_tokens", "hc_mult", "hidden_size")), strict=True)
        ops = [HyperConnection("streams", way, tokens, streams, size, "bfloat16") for tokens, streams, size in shapes]
        columns = {
            "tokens": np.array([op.tokens for op in ops], float),
            "hidden_size": np.array([op.hidden_size for op in ops], float),
            "bytes": np.array([op.bytes for op in ops]),
            "seconds": (some["seconds"] / some["num_sites"]).to_numpy(float),
        }
        models[way] = fit_mixing(columns, profile.device.memory_bandwidth, MIXING)
    return models
