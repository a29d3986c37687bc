"""Fit decode attention as a sum of its parts, a law for each number of query rows that was timed often enough."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import nnls

from calibration.timings.bootstrap import directions, significant
from calibration.timings.hinges import domain_of
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.hardware.attention import AdditiveAttentionModel, GroupLaw

_FEWEST_ROWS = 6  # of a law, which has four coefficients
_FREE_BANDWIDTH = 1e15  # where time does not grow with what is read


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
