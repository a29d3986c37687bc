"""The highest rate at which enough requests are good ones."""

from __future__ import annotations

from collections.abc import Callable

from ssdsim.base.record import Record
from ssdsim.serving.batching import Batching
from ssdsim.serving.closed_form import Sharing
from ssdsim.serving.loop import simulate
from ssdsim.serving.metrics import Metrics, measure
from ssdsim.serving.options import Slo
from ssdsim.serving.policy import Policy
from ssdsim.serving.workload import Workload

MOST_RUNS = 15
"""Of a search, about."""
_WIDTH = 0.01  # of the rate: where bisection ends
_SLOWEST_SHARE = 0.02  # of the closed form's capacity, below which a service is taken to be without any


class Capacity(Record):
    """``rate`` requests a second a replica keep the attainment, ``too_much`` do not; ``rate`` is 0 where none does.

    ``low`` and ``high`` are the rates at which the 95 % interval of the attainment leaves the one asked for.
    ``metrics`` are those at ``rate``; ``runs`` is how many it took.
    """

    rate: float
    too_much: float
    low: float
    high: float
    metrics: Metrics | None
    runs: int


def capacity(
    policy: Policy, sharing: Sharing, workload: Workload, batching: Batching, slo: Slo, attainment: float, seed: int = 0
) -> Capacity:
    """Bisection below the closed form's capacity. All rates see the same requests, so attainment falls steadily."""
    known: dict[float, Metrics] = {}

    def at(rate: float) -> Metrics:
        if rate not in known:
            known[rate] = measure(simulate(policy, workload.at_rate(rate), batching, seed), slo)
        return known[rate]

    most = float(sharing.capacity)

    def highest(keeps: Callable[[Metrics], bool]) -> tuple[float, float]:
        low, high = _SLOWEST_SHARE * most, 1.05 * most
        if not keeps(at(low)):
            return 0.0, low
        if keeps(at(high)):
            return high, high
        while high - low > _WIDTH * high:
            middle = (low + high) / 2.0
            low, high = (middle, high) if keeps(at(middle)) else (low, middle)
        return low, high

    rate, too_much = highest(lambda m: _attained(m) >= attainment)
    pessimist = highest(lambda m: m.attainment is not None and m.attainment.low >= attainment)[0]
    optimist = highest(lambda m: m.attainment is not None and m.attainment.high >= attainment)[0]
    return Capacity(rate, too_much, pessimist, optimist, known.get(rate), len(known))


def _attained(metrics: Metrics) -> float:
    return 0.0 if metrics.attainment is None else metrics.attainment.value
