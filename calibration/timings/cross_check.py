"""Hold one source's timings against another's: by how much a profile is off, and where."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ssdsim.base.record import Record
from ssdsim.hardware.gemm import GemmModel

_BANDS = ((1, 8), (9, 64), (65, 512), (513, 4096))


class Band(Record):
    """GEMMs of ``smallest <= m <= largest``: median of predicted over measured less 1, and of its absolute value.

    ``extra_s`` is the median of measured less predicted seconds: a launch floor of the other source would show as the
    same few microseconds in every band, another clock or library as a share.
    """

    smallest: int
    largest: int
    rows: int
    bias: float
    error: float
    extra_s: float


def cross_check(model: GemmModel, rows: pd.DataFrame) -> list[Band]:
    """Predict another source's GEMMs (columns ``m, n, k, seconds``) and compare, by bands of ``m``."""
    m, n, k, seconds = (rows[name].to_numpy(float) for name in ("m", "n", "k", "seconds"))
    predicted = model.seconds(m, n, k)
    ratio, extra = predicted / seconds - 1.0, seconds - predicted
    bands = []
    for smallest, largest in _BANDS:
        inside = (m >= smallest) & (m <= largest)
        if inside.any():
            medians = (float(np.median(x[inside])) for x in (ratio, np.abs(ratio), extra))
            bands.append(Band(smallest, largest, int(inside.sum()), *medians))
    return bands
