"""Fit compressed attention, in decoding and over prompts, and hyper-connections."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import least_squares

from calibration.timings.fit import LARGE, NEVER_FELT, fit_sum, hold_out, rate_of, report, significant
from calibration.timings.fit_roofline import domain_of, those
from ssdsim.base.checks import Array
from ssdsim.hardware.compressed import CompressedModel, PartCosts
from ssdsim.hardware.hyper_connections import MixingCosts, MixingModel
from ssdsim.transformer.compressed import Work

Rows = Mapping[str, Array]
_MIXING_START = (5e-6, 5e-10, 1.0, 2.0)  # a floor, its part by size, bandwidth as a share of the device's, sharpness
_MIXING_LEAST = (1e-7, 1e-12, 0.05, 1.0)
_MIXING_MOST = (1e-4, 1e-8, 2.0, 12.0)
PARTS = ("attention", "indexer")
_RATES = {"bandwidth": "moved", "peak_flops": "flops"}


def of_work(part: str, name: str) -> str:
    """The column of rows that holds this of a part's work."""
    return f"{part} {name}"


def fit_blocks(
    rows: Rows, free: Mapping[str, tuple[str, ...]], known: Mapping[str, Mapping[str, float]], source: str
) -> dict[str, CompressedModel]:
    """Models of attention and of the indexer, from whole blocks less their ``products_s``; some have no indexer.

    ``free`` are the numbers of each part's costs that are fitted, ``known`` those that are given; the others are none.
    Errors are those of whole held-out blocks: parts are not timed apart, and nobody waits for one alone.
    """
    held = hold_out(len(rows["seconds"]))
    trained, whole = _solved(those(rows, ~held), free, known), _solved(rows, free, known)
    unseen = those(rows, held)
    predicted = unseen["products_s"] + sum(_part_s(unseen, part, trained[part]) for part in PARTS)
    judged = report(unseen["seconds"], predicted, int(np.sum(~held)), sum(map(len, free.values())))
    models = {}
    for part in PARTS:
        there = those(rows, rows[part] > 0)
        domain = {name: there[of_work(part, name)] for name in ("tokens", "heads")} | {"seen": there[f"{part} domain"]}
        models[part] = CompressedModel(source=source, domain=domain_of(domain), report=judged, costs=whole[part])
    return models


def _part_s(rows: Rows, part: str, costs: PartCosts) -> Array:
    return np.asarray(rows[part] * costs.seconds(*(rows[of_work(part, name)] for name in Work._fields)))


def _column(rows: Rows, part: str, name: str) -> Array:
    """What a number of a part's costs is multiplied by; of a rate, what it divides."""
    work = {each: rows[of_work(part, each)] for each in Work._fields}
    of = {
        "launch_s": np.ones_like(rows["seconds"]),
        "per_token_s": work["tokens"],
        "per_row_s": work["tokens"] * work["heads"],
        "per_seen_s": work["seen"],
        "choose_s": np.asarray(work["choosing"] > 0, float),
        "per_choice_s": work["choosing"],
        "per_score_s": work["scores"],
        "bandwidth": work["moved"],
        "peak_flops": work["flops"],
    }
    return np.asarray(rows[part] * of[name])


def _solved(
    rows: Rows, free: Mapping[str, tuple[str, ...]], known: Mapping[str, Mapping[str, float]]
) -> dict[str, PartCosts]:
    """Costs of least relative errors, none below nothing; large errors weigh less (a robust fit, weighed anew)."""
    seconds, none = rows["seconds"], dict.fromkeys(PartCosts.__struct_fields__, 0.0) | dict.fromkeys(_RATES, NEVER_FELT)
    given = {part: PartCosts(**{**none, **known[part]}) for part in PARTS}
    target = seconds - rows["products_s"] - sum(_part_s(rows, part, given[part]) for part in PARTS)
    fitted = [(part, name) for part in PARTS for name in free[part]]
    columns = np.stack([_column(rows, *each) for each in fitted], axis=1)
    found: dict[str, dict[str, float]] = {part: {} for part in PARTS}
    for (part, name), value in zip(fitted, fit_sum(columns, target, seconds).tolist(), strict=True):
        found[part][name] = rate_of(value) if name in _RATES else significant(value)
    return {part: given[part].changed(**found[part]) for part in PARTS}


def fit_mixing(rows: Rows, bandwidth: float, source: str) -> MixingModel:
    """The model of one way of mixing streams, from times over tokens and sizes of the hidden state."""
    held = hold_out(len(rows["seconds"]))
    unseen, trained = those(rows, held), _mixing(those(rows, ~held), bandwidth)
    predicted = trained.seconds(unseen["hidden_size"], unseen["bytes"])
    return MixingModel(
        source=source,
        domain=domain_of({name: rows[name] for name in MixingModel.dimensions}),
        report=report(unseen["seconds"], predicted, int(np.sum(~held)), len(_MIXING_START)),
        costs=_mixing(rows, bandwidth),
    )


def _mixing(rows: Rows, bandwidth: float) -> MixingCosts:
    def of(logs: Array) -> MixingCosts:
        launch_s, value_s, share, sharpness = np.exp(logs).tolist()
        return MixingCosts(launch_s=launch_s, per_value_s=value_s, bandwidth=share * bandwidth, sharpness=sharpness)

    def residuals(logs: Array) -> Array:
        return np.asarray(np.log(of(logs).seconds(rows["hidden_size"], rows["bytes"]) / rows["seconds"]))

    start, least, most = map(np.log, (_MIXING_START, _MIXING_LEAST, _MIXING_MOST))
    found = of(least_squares(residuals, start, loss="soft_l1", f_scale=LARGE, bounds=(least, most)).x)
    return found.changed(**{name: significant(getattr(found, name)) for name in MixingCosts.__struct_fields__})
