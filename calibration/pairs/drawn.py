"""Rounds drawn from the coupling: one course of rounds of each answer, for what depends on their order."""

from __future__ import annotations

import numpy as np

from calibration.pairs.coupling import FIRST
from calibration.pairs.table import Table
from ssdsim.tokens.request_spread import Course


def courses(table: Table, k: int, seed: int) -> list[Course]:
    """A course of every answer: coins are thrown for acceptance and for the place of the rejected token."""
    rng = np.random.default_rng(seed)
    return [_course(table, column, k, rng) for column in range(len(table.requests))]


def _course(table: Table, column: int, k: int, rng: np.random.Generator) -> Course:
    positions = table.requests[column].positions
    n = len(positions)
    taken = rng.random(n) < table.accept[:n, column]
    spared = (rng.random(n) < positions.above) & (positions.rank >= 1)
    accepted, needed, start = [], [], FIRST
    while start + k < n:
        run = taken[start : start + k]
        length = k if run.all() else int(run.argmin())
        end = start + length
        accepted.append(length)
        needed.append(int(positions.rank[end]) + 1 - int(length < k and spared[end]))
        start = end + 1
    return Course(np.array(accepted, dtype=np.int64), np.array(needed, dtype=np.int64))
