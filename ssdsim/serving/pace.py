"""Pace of requests: to the last token, and from one token to the next."""

from __future__ import annotations

import numpy as np

from ssdsim.base.intervals import Measured
from ssdsim.base.record import Record
from ssdsim.serving.closed_form import Served
from ssdsim.serving.metrics import Metrics

_SATURATED = Measured(np.inf, np.nan, np.nan)


class Pace(Record):
    """Means over requests, in ms: from arrival to the last token, and per output token; infinite where saturated.

    A pass that verifies more has less room for prompts. So a larger K may have the shorter time per token and, since
    first tokens come later, the longer time to the last one. The latter judges.
    """

    e2el: Measured
    tpot: Measured

    @staticmethod
    def of_run(metrics: Metrics) -> Pace:
        e2el, tpot = (metrics.of_requests[name] for name in ("e2el", "tpot"))
        if metrics.saturated or e2el is None or tpot is None:
            return Pace(_SATURATED, _SATURATED)
        return Pace(e2el.mean, tpot.mean)

    @staticmethod
    def of_closed_form(served: Served) -> Pace:
        e2el, tpot = (Measured(1e3 * float(seconds), np.nan, np.nan) for seconds in (served.e2e_s, served.tpot_s))
        return Pace(e2el, tpot)
