"""Saguaro's C from one pass: the draft's top F tokens scaled by C change its probabilities, not the models."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibration.pairs.coupling import AnswerTable, Starts, each_position
from calibration.pairs.records import SCALES, Positions
from ssdsim.base.checks import Floats
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record

Width = Literal["F", "F+1"]
"""How many tokens are scaled: the paper's F (Definition 14), or the F + 1 of its engine's sampler."""


class Rescaled(Record):
    """Effect of C at lookahead ``k``: acceptance, tokens a round and hit rates by fan-out F = 1, 2, ..., shape (F,)."""

    k: int
    alpha: Floats
    tokens: Floats
    hit_rejected: Floats
    hit_all: Floats
    p_hit: Floats


def rescaled_acceptance(positions: Positions, c: float, fan_outs: NDArray[np.int64], width: Width = "F") -> Floats:
    """``min(1, q'/p)`` of the token that came, q' having its top tokens scaled by ``c``, shape ``(N, F)``."""
    top = _scaled(fan_outs, width)
    scale = _scale(positions, c, top)
    q = positions.q[:, None] * np.where(positions.rank[:, None] < top, np.float32(c), np.float32(1.0)) * scale
    p = positions.p[:, None]
    return np.asarray(np.minimum(1.0, np.divide(q, p, out=np.ones_like(q), where=p > 0)))


def rescaled_above(positions: Positions, c: float, width: Width = "F") -> NDArray[np.float32]:
    """The share of the rejected token's mass above the token that came, where F (its rank) just misses it.

    With other fan-outs the rejected token decides nothing. 0 where the rank is 0 or beyond the tops that were kept,
    since no fan-out that can be asked for is as large.
    """
    n, kept = positions.top_q.shape
    rank = positions.rank.astype(np.int64)
    usable = (rank >= 1) & (rank <= kept)
    fan_out = np.where(usable, rank, 1)
    top = _scaled(fan_out, width)
    scale = np.take_along_axis(_scale(positions, c, np.arange(1, kept + 1)), np.minimum(top, kept)[:, None] - 1, 1)
    column = np.arange(kept)
    q = positions.top_q * np.where(column < top[:, None], c, 1.0) * scale
    excess = np.maximum(q - positions.top_p, 0.0)
    above = (excess * (column < fan_out[:, None])).sum(axis=1)
    overlap = np.minimum(q, positions.top_p).sum(axis=1) + _tail(positions, scale[:, 0])
    total = np.maximum(1.0 - overlap, 0.0)
    share = np.divide(above, total, out=np.zeros(n), where=total > 1e-9)
    return np.where(usable, np.minimum(share, 1.0), 0.0).astype(np.float32)


def rescaled(
    table: AnswerTable, c: float, ks: NDArray[np.int64], most: int, width: Width = "F", starts: Starts = "first"
) -> list[Rescaled]:
    """Work out the effect of C at every lookahead of ``ks`` and fan-out from 1 to ``most``, the same for all outcomes.

    Raises
    ------
    InputError : temperature 0, where no draft is rescaled, or more guesses than tops were kept.
    """
    flat, fan_outs = table.flat, np.arange(1, most + 1)
    if table.temperature == 0.0:
        raise InputError("Saguaro's C scales what a draft samples from: at temperature 0 nothing is sampled")
    if most > flat.top_ids.shape[1]:
        raise InputError(f"--f {most} with --c needs as many tops: measured with --top {flat.top_ids.shape[1]}")
    if c == 1.0:  # nothing is scaled: one column serves every fan-out
        above = flat.above
        accept: Floats = table.accept[..., None].astype(np.float32)
    else:
        accept = table.scatter(rescaled_acceptance(flat, c, fan_outs, width).astype(np.float32))
        above = rescaled_above(flat, c, width)
    hit_rejected = table.scatter(_hits(flat, fan_outs, above))
    hit_all = table.scatter((flat.rank[:, None] < fan_outs).astype(np.float32))
    return [_summed(table, int(k), starts, accept, hit_rejected, hit_all) for k in ks]


def _summed(
    table: AnswerTable, k: int, starts: Starts, accept: Floats, hit_rejected: Floats, hit_all: Floats
) -> Rescaled:
    """Sums over positions and requests; every round ends with a rejection or with all accepted."""
    sums = np.zeros((5, *hit_all.shape[1:]), dtype=np.float32)
    for t, _, tested, bonus in each_position(table, k, starts, accept):
        rejected = tested * (1.0 - accept[t])
        for total, each in zip(
            sums, (tested, rejected, bonus, rejected * hit_rejected[t], bonus * hit_all[t]), strict=True
        ):
            total += each
    tested, missed, all_, hits, hits_all = sums.sum(axis=1, dtype=np.float64)
    return Rescaled(
        k,
        (tested - missed) / tested,
        (tested + all_) / (missed + all_),
        _share(hits, missed),
        _share(hits_all, all_),
        (hits + hits_all) / (missed + all_),
    )


def _share(hits: Floats, trials: Floats) -> Floats:
    return np.asarray(np.divide(hits, trials, out=np.full(hits.shape, np.nan), where=trials > 0))


def _hits(flat: Positions, fan_outs: NDArray[np.int64], above: NDArray[np.float32]) -> NDArray[np.float32]:
    """P(the token that came is among F guesses without the rejected one), shape ``(N, F)``."""
    rank = flat.rank[:, None]
    return np.where(rank < fan_outs, np.float32(1.0), np.where(rank == fan_outs, above[:, None], np.float32(0.0)))


def _scaled(fan_outs: NDArray[np.int64], width: Width) -> NDArray[np.int64]:
    return fan_outs + (1 if width == "F+1" else 0)


def _scale(positions: Positions, c: float, top: NDArray[np.int64]) -> NDArray[np.float32]:
    """1 / Z by how many tokens are scaled, ``Z = 1 - (1 - C) mass``, shape ``(N, len(top))``."""
    mass = np.cumsum(positions.top_q, axis=1)
    at = np.minimum(top, mass.shape[1]) - 1
    return np.asarray(1.0 / np.maximum(1.0 - (1.0 - c) * mass[:, at], 1e-12), dtype=np.float32)


def _tail(positions: Positions, scale: Floats) -> Floats:
    """The sum of min(p, scale q) over tokens beyond the tops, by a straight line between the scales that were kept.

    The sum is concave in the scale, and bounded by what the target has there.
    """
    kept = np.clip(np.searchsorted(SCALES, scale, side="right") - 1, 0, SCALES.size - 2)
    rows = np.arange(len(scale))
    low, high = positions.tail_overlap[rows, kept], positions.tail_overlap[rows, kept + 1]
    share = (scale - SCALES[kept]) / (SCALES[kept + 1] - SCALES[kept])
    ceiling = np.maximum(0.0, 1.0 - positions.top_p.sum(axis=1))
    return np.asarray(np.minimum(low + share * (high - low), ceiling))
