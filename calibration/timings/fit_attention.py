"""Fit the models of attention: of decoding, as a corrected roofline or as a sum of parts, and of whole prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from calibration.timings.fit import checked_rows, directions, hold_out, judged, report, significant
from calibration.timings.fit_roofline import ROOFLINE_COEFFICIENTS, SEGMENT_ROWS, domain_of, fit_corrected, those
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.hardware.attention import AdditiveAttentionModel, AttentionModel, GroupLaw
from ssdsim.hardware.laws import FitReport
from ssdsim.hardware.prefill import PrefillAttentionModel

_ATTENTION_KNOTS = {"kv": 20, "context": 8, "batch": 8, "blocks": 8, "group": 6}
ATTENTION_SHAPE = ("batch", "queries", "context", "heads", "kv_heads", "head_dim")
PREFILL_SHAPE = ("batch", "tokens", "heads", "kv_heads", "head_dim")
_UNLIKE = 0.9  # of the error of one law for all, below which kernels of single query rows have a law of their own
_TILE_ROWS = 64.0  # the fewest of FlashAttention 2
_ATTENTION_TERMS = 56
_PREFILL_KNOTS = {"flops": 16, "tokens": 12, "batch": 8, "blocks": 8, "group": 6}
_PREFILL_TERMS = 56
_FEWEST_ROWS = 6  # of a law, which has four coefficients
_FREE_BANDWIDTH = 1e15  # where time does not grow with what is read


def fit_attention(
    timed: Mapping[str, ArrayLike],
    element_bytes: float,
    source: str,
    packed: bool = True,
    most_cached: float = np.inf,
) -> AttentionModel:
    """The model of timed decode attention; ``timed`` holds ``seconds`` by :data:`ATTENTION_SHAPE`, shapes ``(rows,)``.

    ``packed`` is as the model has it. Keys and values of more than ``most_cached`` bytes come from memory each time.
    """
    rows = checked_rows("attention", {name: timed[name] for name in (*ATTENTION_SHAPE, "seconds")})
    held = hold_out(len(rows["seconds"]))
    # heads apart read what they share from the cache, whatever memory does
    streaming = _streaming(rows, element_bytes, most_cached) if packed else None
    kinds = {"source": source, "packed": packed, "streaming": streaming}
    trained, final = _fit_attention(rows, held, element_bytes, kinds)
    report = _judged_attention(trained, rows, held, element_bytes)
    one = rows["queries"] * rows["heads"] == rows["kv_heads"]
    if packed and min(np.sum(one), np.sum(~one)) >= SEGMENT_ROWS:
        parts = [_fit_attention(those(rows, of), held[of], element_bytes, kinds) for of in (~one, one)]
        trained, apart = (_with_single(several, single) for several, single in zip(*parts, strict=True))
        of_apart = _judged_attention(trained, rows, held, element_bytes)
        if of_apart.log_sd < _UNLIKE * report.log_sd:
            final, report = apart, of_apart
    shape = [rows[name] for name in ATTENTION_SHAPE]
    return judged(final, report, *shape, element_bytes)


def _with_single(several: AttentionModel, single: AttentionModel) -> AttentionModel:
    """One model of both, whose domain holds the timings of either."""
    ends = {name: np.array([several.domain[name], single.domain[name]]) for name in several.domain}
    domain = {name: (float(of.min()), float(of.max())) for name, of in ends.items()}
    most_rows = max(several.most_rows or 1, single.most_rows or 1)
    return several.changed(domain=domain, most_rows=most_rows, single=single)


def _fit_attention(
    rows: Mapping[str, Array], held: NDArray[np.bool_], element_bytes: float, kinds: Mapping[str, Any]
) -> tuple[AttentionModel, AttentionModel]:
    """The fits without the rows ``held`` out, and with them."""
    shape = {name: rows[name] for name in ATTENTION_SHAPE}
    values = AttentionModel.variables(**shape, element_bytes=element_bytes, packed=kinds["packed"])
    knots, work = _with_head_dims(_ATTENTION_KNOTS, rows["head_dim"]), AttentionModel.work(values, element_bytes)
    fit = fit_corrected(*work, values, rows["seconds"], held, knots, _ATTENTION_TERMS)
    domain = domain_of(values)
    if not kinds["packed"]:  # a head's tile is as long for one query of a sequence as for all that fit into it
        domain["group"] = (domain["group"][0], max(_TILE_ROWS, domain["group"][1]))
    known: dict[str, Any] = {**kinds, "domain": domain, "roofline": fit.roofline}
    known["most_rows"] = int((rows["queries"] * rows["heads"]).max())
    return AttentionModel(**known, correction=fit.trained), AttentionModel(**known, correction=fit.final)


def _streaming(rows: Mapping[str, Array], element_bytes: float, most_cached: float) -> float | None:
    """The best rate of rows whose keys and values no cache holds; None where there are none."""
    cached = 2 * element_bytes * rows["batch"] * rows["kv_heads"] * rows["context"] * rows["head_dim"]
    rates = (cached / rows["seconds"])[cached > most_cached]
    return significant(float(rates.max())) if len(rates) else None


def _judged_attention(
    trained: AttentionModel, rows: Mapping[str, Array], held: NDArray[np.bool_], element_bytes: float
) -> FitReport:
    unseen = those(rows, held)
    predicted = trained.seconds(*(unseen[name] for name in ATTENTION_SHAPE), element_bytes)
    return report(unseen["seconds"], predicted, int(np.sum(~held)), trained.coefficients)


def fit_prefill_attention(timed: Mapping[str, ArrayLike], element_bytes: float, source: str) -> PrefillAttentionModel:
    """The model of timed prefill attention; ``timed`` holds ``seconds`` by :data:`PREFILL_SHAPE`, shapes ``(rows,)``.

    Raises
    ------
    InputError : fewer than eight rows, sizes or times that are not positive, or a single shape.
    """
    rows = checked_rows("prefill attention", {name: timed[name] for name in (*PREFILL_SHAPE, "seconds")})
    measured = rows.pop("seconds")
    values = PrefillAttentionModel.variables(**rows)
    knots = _with_head_dims(_PREFILL_KNOTS, rows["head_dim"])
    work, held = PrefillAttentionModel.work(values, element_bytes), hold_out(len(measured))
    fit = fit_corrected(*work, values, measured, held, knots, _PREFILL_TERMS)
    predicted = fit.roofline.seconds(*work) * np.exp(fit.trained.log_factor(values))
    coefficients = ROOFLINE_COEFFICIENTS + 1 + len(fit.final.terms)
    held_out = report(measured[held], predicted[held], int(np.sum(~held)), coefficients)
    model = PrefillAttentionModel(source=source, domain=domain_of(values), roofline=fit.roofline, correction=fit.final)
    return judged(model, held_out, *rows.values(), element_bytes)


def _with_head_dims(knots: Mapping[str, int], head_dims: Array) -> dict[str, int]:
    """A knot between any two of the few head dimensions that were timed."""
    return {**knots, "head_dim": max(1, len(np.unique(head_dims)) - 1)}


def fit_additive_attention(rows: Mapping[str, Array], element_bytes: int, source: str) -> AdditiveAttentionModel:
    """``rows`` holds ``batch, queries, context, heads, kv_heads, head_dim, seconds``, each of shape ``(rows,)``."""
    shape = {name: column for name, column in rows.items() if name != "seconds"}
    values = AdditiveAttentionModel.variables(**shape, element_bytes=element_bytes, packed=True)
    groups, counts = np.unique(values["group"], return_counts=True)
    often = groups[counts >= _FEWEST_ROWS]
    if not len(often):
        raise InputError(f"attention timings: at most {counts.max()} shapes of a group; a law needs {_FEWEST_ROWS}")
    laws = tuple(_law(float(group), values, rows["seconds"]) for group in often)
    served = np.isin(values["group"], often)
    domain = domain_of({name: column[served] for name, column in values.items()})
    return AdditiveAttentionModel(source=source, domain=domain, laws=laws)


def _law(group: float, values: Mapping[str, Array], seconds: Array) -> GroupLaw:
    """Coefficients, none negative, of least squared relative error."""
    inside = values["group"] == group
    seconds = seconds[inside]
    shares = (GroupLaw.counts({name: column[inside] for name, column in values.items()}) / seconds).T
    scale = shares.max(axis=0)  # bytes count in millions, launches one by one
    wanted = np.ones(len(seconds))
    launch_s, head_s, block_s, byte_s = nnls(shares / scale, wanted)[0] / scale
    return GroupLaw(
        group=group,
        launch_s=significant(launch_s),
        head_s=significant(head_s),
        block_s=significant(block_s),
        bandwidth=significant(1.0 / max(byte_s, 1.0 / _FREE_BANDWIDTH)),
        uncertainty=directions(lambda drawn: nnls(shares[drawn] / scale, wanted)[0] / scale, shares, fewest=3),
    )
