"""Closed forms of SD and SSD in the paper's units.

Times are relative to one verification, speedups over autoregressive decoding. Every function broadcasts over
numpy arrays and returns a float where all of its inputs are scalars.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ssdsim.base.checks import FloatOrArray, float_or_array, whole, within
from ssdsim.base.errors import InputError
from ssdsim.tokens.acceptance import expected_tokens

Round = Literal["paper", "event"]


def sd_speedup(alpha: ArrayLike, k: ArrayLike, t_sd: ArrayLike) -> FloatOrArray:
    """``E(alpha, K) / (1 + T_SD)``, with ``T_SD = K T_d / T_v`` (in the proof of the SSD paper's Corollary 8)."""
    return float_or_array(np.asarray(expected_tokens(alpha, k)) / (1 + within("t_sd", t_sd, 0)))


def stationary_hit_rate(p_hit_primary: ArrayLike, p_hit_backup: ArrayLike) -> FloatOrArray:
    """``p = p_b / (1 + p_b - p_p)``: the stationary state of the two-state chain in Theorem 7.

    ``p_p`` and ``p_b`` are the hit rates after a speculation of the primary and of the backup. ``p_p = 1, p_b
    = 0`` has no unique stationary state: decoding starts in the primary and never leaves it, so 1.
    """
    primary = within("p_hit_primary", p_hit_primary, 0, 1)
    backup = within("p_hit_backup", p_hit_backup, 0, 1)
    to_and_fro = backup + (1 - primary)  # in this order both small terms keep their digits
    return float_or_array(np.where(to_and_fro == 0, 1.0, backup / np.where(to_and_fro == 0, 1.0, to_and_fro)))


def ssd_round(
    p_hit: ArrayLike, t_p: ArrayLike, t_b: ArrayLike, b: ArrayLike = 1, round: Round = "paper"
) -> FloatOrArray:
    """Mean time of an SSD round of ``b`` sequences, relative to one verification (Corollary 16).

    ``paper``: ``p^b max(1,T_p) + (1-p^b)(1+T_b)``. ``event``: ``max(1,T_p) + (1-p^b) T_b``, because
    pre-speculation is not pre-emptible and a miss waits for it too. They are equal for ``T_p <= 1``.
    """
    all_hit = within("p_hit", p_hit, 0, 1) ** within("b", b, 1)
    verify = np.maximum(1, within("t_p", t_p, 0))
    t_b = within("t_b", t_b, 0)
    if round == "event":
        return float_or_array(verify + (1 - all_hit) * t_b)
    if round == "paper":
        return float_or_array(all_hit * verify + (1 - all_hit) * (1 + t_b))
    raise InputError(f"round must be 'paper' or 'event', got '{round}'")


def ssd_speedup(
    p_hit: ArrayLike,
    e_hit: ArrayLike,
    e_miss: ArrayLike,
    t_p: ArrayLike,
    t_b: ArrayLike,
    b: ArrayLike = 1,
    round: Round = "paper",
) -> FloatOrArray:
    """``[p E_hit + (1-p) E_miss] / ssd_round`` (Theorem 7; Corollary 16 for a batch of ``b``).

    ``p_hit`` is the stationary hit rate, ``e_hit`` and ``e_miss`` the tokens of a round after a hit and after
    a miss.
    """
    p_hit = within("p_hit", p_hit, 0, 1)
    tokens = p_hit * within("e_hit", e_hit, 1) + (1 - p_hit) * within("e_miss", e_miss, 1)
    return float_or_array(tokens / ssd_round(p_hit, t_p, t_b, b, round))


def sandwich_bounds(
    p_hit: ArrayLike, e_hit: ArrayLike, e_sd: ArrayLike, t_sd: ArrayLike
) -> tuple[FloatOrArray, FloatOrArray]:
    """Lower and upper bound of the speedup of SSD over SD (Corollary 9).

    For ``T_p <= 1``, ``T_b = 0``, ``E_miss <= E_hit``: ``(1+T_SD) E_hit/E_SD p_hit <= SSD/SD <= (1+T_SD)
    E_hit/E_SD``. (The paper asks ``T_p < 1``; equality will do.)
    """
    upper = (1 + within("t_sd", t_sd, 0)) * within("e_hit", e_hit, 1) / within("e_sd", e_sd, 1)
    return float_or_array(upper * within("p_hit", p_hit, 0, 1)), float_or_array(upper)


def critical_batch_size(p_hit: float, t_p: float, e_hit: float, e_miss: float) -> float:
    """``b*`` of SSD paper Theorem 17: just-in-time fallback wins below it, a backup with ``T_b = 0`` above.

    ``p_hit`` is the hit rate under both; ``t_p`` the primary's time relative to one verification; ``e_hit``
    and ``e_miss`` tokens a round from the primary and the fast backup. With ``E = p E_hit + (1-p) E_miss``,
    ``b* = ln x / ln p`` for ``x = 1 - (E_hit/E - 1) max(1,T_p)/T_p``. For ``T_p <= 1``, all that the theorem
    covers, that is its ``x``; for ``T_p > 1`` it is the crossing under ``theory.ssd_round``'s event round.

    Returns ``inf`` where the slow backup always wins (``x <= 0``) and 0 where the fast one is never worse
    (``x >= 1``: ``e_miss >= e_hit``, or ``p_hit = 1``, which has no misses and so no difference).
    """
    within("p_hit", p_hit, 0, 1)
    within("t_p", t_p, 0)
    within("e_hit", e_hit, 1)
    within("e_miss", e_miss, 1)
    if p_hit == 1 or e_miss >= e_hit:
        return 0.0
    tokens_lost = (1 - p_hit) * (e_hit - e_miss)  # E_hit - E, without its cancellation
    time_saved = t_p / max(1.0, t_p)
    one_minus_x = tokens_lost / (e_hit - tokens_lost)
    if one_minus_x >= time_saved:
        return math.inf
    if p_hit == 0:
        return 0.0
    return abs(math.log1p(-one_minus_x / time_saved) / math.log(p_hit))


def crossing_batch_size(slow: Callable[[int], float], fast: Callable[[int], float], max_batch: int) -> float:
    """Smallest batch size from 1 to ``max_batch`` at which ``fast(b) >= slow(b)``; ``inf`` if there is none.

    For full predictions (speedups or tokens/s), each with its own hit rate and with costs that grow with the
    batch. These need not be monotone, so every batch size is tried.
    """
    batches = range(1, whole("max_batch", max_batch, 1) + 1)
    return next((b for b in batches if fast(b) >= slow(b)), math.inf)
