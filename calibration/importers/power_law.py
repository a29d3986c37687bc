"""Experts touched by the uneven rows of aiconfigurator's ``moe_perf`` tables: their loads, drawn anew.

Its collector (``collector/helper.py``, ``power_law_<exponent>``) draws a load for each expert from a bounded power law,
rounds the loads to the visits that there are, and lets no expert be visited twice by one token. What was drawn is not
in the tables, so the mean over draws stands for it. A law fitted to balanced rows alone, whose experts are known,
predicts the uneven ones by it as well as others' balanced ones (the H100's: medians of 3 to 5 %).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_DRAWS = 20
_FEW = (0.01, 2.0)  # bounds of the loads where there are no more visits than experts
_LEAST, _SHARE = 1.0, 0.8  # and where there are: up to this share of the tokens


@lru_cache(maxsize=4096)
def touched(tokens: int, count: int, per_token: int, exponent: float) -> float:
    """Distinct experts of ``count``, ``per_token`` a token, whose loads follow a power law; the mean over draws."""
    rng = np.random.default_rng(0)
    return float(np.mean([np.count_nonzero(_loads(tokens, count, per_token, exponent, rng)) for _ in range(_DRAWS)]))


def _loads(tokens: int, count: int, per_token: int, exponent: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Visits of each expert, together ``tokens * per_token``."""
    visits = tokens * per_token
    low, high = (_LEAST, _SHARE * tokens) if visits > count else _FEW
    power = 1.0 - exponent
    drawn = (low**power + (high**power - low**power) * rng.random(count)) ** (1.0 / power)
    loads: NDArray[np.int64] = np.minimum(np.round(drawn / drawn.sum() * visits), tokens).astype(np.int64)
    missing = visits - int(loads.sum())
    for _ in range(abs(missing)):
        loads[loads.argmin() if missing > 0 else loads.argmax()] += np.sign(missing)
    return loads
