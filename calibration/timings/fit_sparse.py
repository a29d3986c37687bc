"""Fit sparse attention: the kernel of an indexer's scores, and whole blocks of a choice and attention to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from scipy.optimize import least_squares

from calibration.timings.fit import LARGE, fit_sum, hold_out, rate_of, report, significant
from calibration.timings.fit_roofline import domain_of, those
from ssdsim.base.checks import Array
from ssdsim.hardware.device import Device
from ssdsim.hardware.latent import smooth_maximum
from ssdsim.hardware.profile import REACHED
from ssdsim.hardware.sparse import BlockChoiceModel, IndexerCosts, IndexerModel, SparseCosts, SparseModel
from ssdsim.transformer.sparse import KEY_DTYPE

Rows = Mapping[str, Array]
_MANY_SCORES = 2e6
"""A table that has no more says nothing of what each score takes beside what a query's do in turn."""
_UNITS = 132  # of a device that does not say how many queries it goes through at once
Kind = Literal["tokens", "blocks"]
"""What is chosen: tokens of a latent cache (DSA), or blocks of keys and values (MSA)."""

_LAUNCH_S, _PER_TOKEN_S = 1.6e-5, 4e-8
"""Of an indexer where a table has no blocks without one: what SGLang 0.5.14 takes longer for a GLM-5 block with one, on
an H100 and a B200. A choice of blocks is in every block, so its launches are told from no others."""
_PEAK_SHARE, _SHARPNESS = 0.45, 1.6
"""Of the kernel of scores on an H100 (vLLM 0.24.0), where it was not timed alone."""

# the kernel of scores: a launch, a token's, bandwidth and peak as shares of the device's, sharpness
_KERNEL_START = (3e-6, 1e-8, 1.0, 0.5, 2.0)
_KERNEL_LEAST = (1e-7, 1e-12, 0.05, 0.02, 1.0)
_KERNEL_MOST = (1e-4, 1e-6, 10.0, 1.0, 12.0)


def fit_indexer_kernel(rows: Rows, device: Device) -> tuple[float, float]:
    """The share of the peak that the kernel of scores multiplies at, and the sharpness of its maximum with reading.

    A table repeats it on one buffer, so the bandwidth that it has is a cache's, and is not kept.
    """
    most = device.memory_bandwidth, device.peak_flops[KEY_DTYPE]

    def residuals(logs: Array) -> Array:
        launch_s, token_s, bandwidth, peak, sharpness = np.exp(logs)
        reading, multiplying = rows["key_bytes"] / (bandwidth * most[0]), rows["flops"] / (peak * most[1])
        own = launch_s + token_s * rows["tokens"] + smooth_maximum(reading, multiplying, sharpness)
        return np.asarray(np.log(own / rows["seconds"]))

    start, least, bound = map(np.log, (_KERNEL_START, _KERNEL_LEAST, _KERNEL_MOST))
    fitted = least_squares(residuals, start, loss="soft_l1", f_scale=LARGE, bounds=(least, bound))
    return float(np.exp(fitted.x[3])), float(np.exp(fitted.x[4]))


_INDEXER = ("launch_s", "per_token_s", "choose_s", "per_choice_s", "per_score_s", "per_key_s")
_ATTENTION = (
    "launch_s",
    "per_head_s",
    "per_doubling_s",
    "per_token_s",
    "per_row_s",
    "per_seen_s",
    "of_gathered",
    "of_flops",
)


def fit_sparse(
    by_cache: Mapping[str, Rows],
    kernel: tuple[float, float] | None,
    source: str,
    device: Device,
    kind: Kind = "tokens",
) -> tuple[IndexerModel, dict[str, SparseModel]]:
    """The model of a choice, and of attention for each dtype of the cache, from whole blocks beside one format.

    Errors are those of whole held-out blocks: parts are not timed apart, and nobody waits for one alone.
    """
    rates = _rates(kernel, device, kind)
    held = {kept: hold_out(len(rows["seconds"])) for kept, rows in by_cache.items()}
    seen = {kept: those(rows, ~held[kept]) for kept, rows in by_cache.items()}
    trained, whole = _solved(seen, rates), _solved(by_cache, rates)
    reports = {}
    for kept, rows in by_cache.items():
        unseen = those(rows, held[kept])
        predicted = _predicted(unseen, trained[0], trained[1][kept])
        count = len(_INDEXER) + len(_ATTENTION)
        reports[kept] = report(unseen["seconds"], predicted, int(np.sum(~held[kept])), count)
    worst = max(reports.values(), key=lambda each: each.log_sd)
    rows = {name: np.concatenate([each[name] for each in by_cache.values()]) for name in next(iter(by_cache.values()))}
    indexed = those({**rows, "index": rows["indexed"]}, rows["indexed"] > 0)
    variables = {"tokens": indexed["tokens"], "context": indexed["context"], "heads": indexed["indexer_heads"]}
    model_of = IndexerModel if kind == "tokens" else BlockChoiceModel
    indexer = model_of(source=source, domain=domain_of(variables), report=worst, costs=whole[0])
    return indexer, {
        kept: SparseModel(
            source=source,
            domain=domain_of({name: by_cache[kept][name] for name in SparseModel.dimensions}),
            report=reports[kept],
            costs=costs,
        )
        for kept, costs in whole[1].items()
    }


def _rates(kernel: tuple[float, float] | None, device: Device, kind: Kind) -> IndexerCosts:
    """The rates of a choice: keys that no cache holds are read as fast as memory gives them."""
    share, sharpness = kernel or (_PEAK_SHARE, _SHARPNESS)
    of_tokens = kind == "tokens"
    return IndexerCosts(
        launch_s=_LAUNCH_S * of_tokens,
        per_token_s=_PER_TOKEN_S * of_tokens,
        choose_s=0.0,
        per_choice_s=0.0,
        per_score_s=0.0,
        per_key_s=0.0,
        at_once=float(device.compute_units or _UNITS),
        bandwidth=significant(REACHED * device.memory_bandwidth),
        peak_flops=significant(share * device.peak_flops[KEY_DTYPE if of_tokens else "bfloat16"]),
        sharpness=significant(sharpness),
    )


def _predicted(rows: Rows, indexer: IndexerCosts, attention: SparseCosts) -> Array:
    of_choice = (rows[name] for name in ("tokens", "chooses", "scores", "context", "key_bytes", "index_flops"))
    of_indexer = indexer.seconds(*of_choice)
    of_attention = attention.seconds(rows["tokens"], rows["heads"], rows["seen"], rows["gathered_bytes"], rows["flops"])
    return np.asarray(rows["products_s"] + rows["indexed"] * of_indexer + of_attention)


def _solved(by_cache: Mapping[str, Rows], rates: IndexerCosts) -> tuple[IndexerCosts, dict[str, SparseCosts]]:
    """Costs of least relative errors, none below nothing; large errors weigh less (a robust fit, weighed anew)."""
    caches, known, own_count = list(by_cache), len(_INDEXER), len(_ATTENTION)
    all_columns, all_targets, all_seconds = [], [], []
    told = any(np.any(rows["indexed"] == 0.0) for rows in by_cache.values())
    for place, rows in enumerate(by_cache.values()):
        tokens, indexed = rows["tokens"], rows["indexed"]
        of_scores = smooth_maximum(
            rows["key_bytes"] / rates.bandwidth, rows["index_flops"] / rates.peak_flops, rates.sharpness
        )
        target = rows["seconds"] - rows["products_s"] - indexed * of_scores
        launch = indexed if told else 0.0 * indexed
        of_choice = indexed * rows["chooses"]
        indexer = [launch, launch * tokens, of_choice, of_choice * tokens]
        many = np.max(indexed * tokens * rows["context"]) > _MANY_SCORES
        indexer += [many * of_choice * rows["scores"]]
        indexer += [of_choice * rows["context"] * np.maximum(1.0, tokens / rates.at_once)]
        if not told:
            target = target - indexed * (rates.launch_s + rates.per_token_s * tokens)
        own = [np.ones_like(tokens), rows["heads"], np.log2(tokens), tokens, tokens * rows["heads"]]
        own += [rows["seen"], rows["gathered_bytes"], rows["flops"]]
        others = [np.zeros_like(tokens)] * len(own)
        blocks = [own if place == n else others for n in range(len(caches))]
        all_columns.append(np.stack([*indexer, *(column for each in blocks for column in each)], axis=1))
        all_targets.append(target)
        all_seconds.append(rows["seconds"])
    columns, target, seconds = map(np.concatenate, (all_columns, all_targets, all_seconds))
    numbers = [significant(value) for value in fit_sum(columns, target, seconds)]
    of_indexer = dict(zip(_INDEXER, numbers[:known], strict=True))
    if not told:
        of_indexer |= {"launch_s": rates.launch_s, "per_token_s": rates.per_token_s}
    attention = {}
    for place, kept in enumerate(caches):
        *floor, of_gathered, of_flops = numbers[known + own_count * place : known + own_count * (place + 1)]
        named = dict(zip(_ATTENTION, floor, strict=False))
        attention[kept] = SparseCosts(**named, bandwidth=rate_of(of_gathered), peak_flops=rate_of(of_flops))
    return rates.changed(**of_indexer), attention
