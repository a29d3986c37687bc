"""The backup for a cache miss: the slow, accurate one, or from a critical batch size on the fast one."""

from __future__ import annotations

import math
from collections.abc import Callable

from ssdsim.base.checks import whole, within


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
