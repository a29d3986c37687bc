"""Metrics of a run: latencies, throughput, goodput, cost, and their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.intervals import Measured
from ssdsim.base.record import Record
from ssdsim.serving.journal import Run
from ssdsim.serving.options import Slo

if TYPE_CHECKING:
    import pyarrow as pa

_BATCHES = 20
_T = 2.093024  # the 95 % quantile of Student's t with 19 degrees of freedom, which takes longer to load than to read
_SORTED, _BINS = 20_000, 1000  # values that are sorted rather than counted, and bins to count them in
_FEW = 1000  # requests below which a p99 rests on fewer than ten of them


def warm_up(values: Array, group: int = 5) -> int:
    """The number of initial values to drop as warm-up: MSER-5 (White, 1997), at most half.

    The cut that leaves the mean of the rest, in groups of five, with the smallest standard error.
    """
    means = values[: values.size // group * group].reshape(-1, group).mean(axis=1)
    if means.size < 4:
        return 0
    rest = means.size - np.arange(means.size)
    tails = (np.cumsum(each[::-1])[::-1] for each in (means, means**2))
    sums, squares = tails
    errors = (squares - sums**2 / rest) / rest**2
    return int(np.argmin(errors[: means.size // 2 + 1])) * group


def mean(values: Array) -> Measured:
    """Mean, with its interval by batch means of consecutive values."""
    middle = float(values.mean())
    if values.size < 2 * _BATCHES:
        return Measured(middle, np.nan, np.nan)
    means = np.array([part.mean() for part in np.array_split(values, _BATCHES)])
    half = _T * float(means.std(ddof=1)) / np.sqrt(_BATCHES)
    return Measured(middle, middle - half, middle + half)


def percentile(values: Array, percent: float) -> Measured:
    """Percentile, with its interval by order statistics.

    Neighbours are alike, so a share of values below the percentile varies more than that of independent ones: by how
    much, batches of values in their order tell.
    """
    share = percent / 100.0
    quantile = float(np.percentile(values, percent))
    if values.size < 2 * _BATCHES:
        return Measured(quantile, np.nan, np.nan)
    below = np.array([part.mean() for part in np.array_split((values <= quantile).astype(float), _BATCHES)])
    error = max(float(below.std(ddof=1)) / np.sqrt(_BATCHES), np.sqrt(share * (1.0 - share) / values.size))
    half = _T * error
    low, high = np.percentile(values, np.clip([100.0 * (share - half), 100.0 * (share + half)], 0.0, 100.0))
    return Measured(quantile, float(low), float(high))


class Summary(Record):
    """Mean and percentiles of one metric over requests; ``few`` where a p99 rests on too few of them."""

    mean: Measured
    percentiles: dict[int, Measured]
    count: int

    @property
    def few(self) -> bool:
        return self.count < _FEW


def summary(values: Array, percents: tuple[int, ...] = (50, 90, 99)) -> Summary | None:
    """Summarise the values that are not NaN; None if there are none."""
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    return Summary(mean(values), {percent: percentile(values, percent) for percent in percents}, int(values.size))


def weighted_percentiles(values: Array, weights: Array, percents: Sequence[int]) -> dict[int, float]:
    """Percentiles of values that stand for ``weights`` each."""
    total = weights.sum()
    return {percent: _weighted(values, weights, percent / 100.0 * total) for percent in percents}


def _weighted(values: Array, weights: Array, wanted: float) -> float:
    """The smallest value at which the cumulative weight reaches ``wanted``."""
    while values.size > _SORTED and np.ptp(values) > 2 * _BINS * np.spacing(np.abs(values).max()):  # room for bins
        in_bins, edges = np.histogram(values, _BINS, weights=weights)
        share = np.cumsum(in_bins)
        at = min(int(np.searchsorted(share, wanted)), _BINS - 1)
        inside = values >= edges[at]
        if at < _BINS - 1:
            inside &= values < edges[at + 1]
        wanted -= share[at - 1] if at else 0.0
        values, weights = values[inside], weights[inside]
    order = np.argsort(values)
    at = min(int(np.searchsorted(np.cumsum(weights[order]), wanted)), values.size - 1)  # sums round
    return float(values[order[at]])


_SHOWN = 300  # rounds of a minute
_WAITS_LONGER = 1.5
_KEPT_UP = 0.97  # of those who come, that must go while a queue is stable


class Metrics(Record):
    """A run in numbers. Times in milliseconds; vLLM's names and definitions:

    * ``ttft``: from arrival to the end of the pass that ends the prompt
    * ``tpot``: (e2el - ttft) / (output - 1), of answers longer than a token
    * ``e2el``: from arrival to the last token
    * ``queue``: from arrival to where it is first scheduled
    * ``request_throughput``: all that were answered a second of the whole run, its start and its end included, while
      ``requests_per_s`` is after the start, and of a stable queue the rate at which they come
    * ``itl``: between two chunks that a client gets, which are rounds: percentiles over all chunks

    ``minute`` is one minute of the run, by its rounds. ``goodput`` are good requests a second and ``attainment`` their
    share, of those that were offered after the start; None without an SLO.
    """

    offered: int
    completed: int
    rejected: int
    dropped: int
    saturated: bool
    requests_per_s: float
    request_throughput: float
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    tokens_per_s_per_user: float | None
    of_requests: dict[str, Summary | None]
    itl_ms: dict[int, float] | None
    goodput: float | None
    attainment: Measured | None
    running: float
    most_held: int
    preemptions: int
    wasted_tokens: int
    clean_share: float | None
    hit_share: float | None
    forced_share: float | None
    gpu_hours_per_million_tokens: float
    gpu_hours_per_thousand_good: float | None
    rounds: int
    batch_histogram: dict[int, float]
    variant_share: list[float]
    minute: dict[str, list[float]]


def metrics_of_requests(run: Run) -> dict[str, Array]:
    """Each request's milliseconds by metric; NaN where a metric is undefined."""
    requests = run.requests
    after = run.workload.output_tokens - 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(after > 0, (requests.last_s - requests.first_s) / after, np.nan)
    return {
        "ttft": 1e3 * (requests.first_s - requests.arrival_s),
        "tpot": 1e3 * tpot,
        "e2el": 1e3 * (requests.last_s - requests.arrival_s),
        "queue": 1e3 * (requests.scheduled_s - requests.arrival_s),
    }


def measure(run: Run, slo: Slo | None) -> Metrics:
    """The metrics of a run after its start (MSER-5 of the time of whole requests)."""
    requests, workload = run.requests, run.workload
    order = np.argsort(requests.arrival_s, kind="stable")
    answered = order[run.completed[order]]
    each = metrics_of_requests(run)
    closed = workload.concurrency is not None
    dropped = warm_up(each["e2el"][answered]) if answered.size else 0
    kept = answered[dropped:]
    start_s = float(requests.arrival_s[kept[0]]) if kept.size else 0.0
    window = order[requests.arrival_s[order] >= start_s]
    span_s = max(run.end_s - start_s, 1e-12)
    if not closed and np.isfinite(workload.rate) and kept.size > 1:
        # of a stable queue the requests that come after the start go at the rate at which they come
        span_s = max(float(requests.arrival_s[window[-1]]) - start_s, 1e-12) * window.size / max(1, window.size - 1)
    saturated = is_saturated(run)
    if saturated or closed or not np.isfinite(workload.rate):
        span_s = max(run.end_s - start_s, 1e-12)
    tokens = float(workload.output_tokens[kept].sum())
    good = None if slo is None else slo.good({name: each[name][kept] for name in each})
    goodput = None if good is None else float(good.sum() / span_s)
    attainment = None
    if good is not None and window.size:
        shares = np.zeros(window.size)
        shares[np.isin(window, kept[good])] = 1.0
        attainment = mean(shares).of_a_share
    tokens_per_s = tokens / span_s
    paces = each["tpot"][kept]
    paces = paces[np.isfinite(paces) & (paces > 0.0)]
    decoding, round_s = run.decoding, run.round_s
    after = run.columns[0] >= start_s
    busy = after & (decoding > 0)
    itl = weighted_percentiles(1e3 * run.gap_s[busy], decoding[busy], (50, 90, 99)) if busy.any() else None
    gpu_hours = run.gpus / 3600.0
    return Metrics(
        offered=workload.requests,
        completed=int(run.completed.sum()),
        rejected=int(requests.rejected.sum()),
        dropped=dropped,
        saturated=saturated,
        requests_per_s=kept.size / span_s,
        request_throughput=float(run.completed.sum()) / max(run.end_s, 1e-12),
        tokens_per_s=tokens_per_s,
        tokens_per_s_per_gpu=tokens_per_s / run.gpus,
        tokens_per_s_per_user=float((1e3 / paces).mean()) if paces.size else None,
        of_requests={name: summary(values[kept]) for name, values in each.items()},
        itl_ms=itl,
        goodput=goodput,
        attainment=attainment,
        running=float((decoding * round_s)[after].sum() / max(1e-12, run.end_s - start_s)) / max(1, len(run.rounds)),
        most_held=int(run.columns[3].max()) if run.columns.shape[1] else 0,
        preemptions=int(requests.preemptions.sum()),
        wasted_tokens=run.wasted_tokens,
        clean_share=run.clean_share,
        hit_share=1.0 - run.misses / run.lookups if run.lookups else None,
        forced_share=float(run.requests.forced_misses.sum()) / run.lookups if run.lookups else None,
        gpu_hours_per_million_tokens=gpu_hours / tokens_per_s * 1e6 if tokens_per_s else np.inf,
        gpu_hours_per_thousand_good=gpu_hours / goodput * 1e3 if goodput else None,
        rounds=int(run.columns.shape[1]),
        batch_histogram=_histogram(decoding[after], round_s[after]),
        variant_share=_variants(run, after),
        minute=_minute(run, start_s),
    )


def is_saturated(run: Run) -> bool:
    """Whether load exceeds capacity: late in a run fewer requests finish than arrive, and the last wait far longer.

    Of an open queue only. The second condition spares runs that are short beside a request's own time.
    """
    requests, workload = run.requests, run.workload
    count = workload.requests
    if workload.concurrency is not None or count < 40:
        return False
    if not np.isfinite(workload.rate):
        return True
    arrivals = np.sort(requests.arrival_s)
    start, end = arrivals[count // 2], arrivals[-1]
    came = count - count // 2
    gone = int(((requests.last_s > start) & (requests.last_s <= end)).sum() + requests.rejected[count // 2 :].sum())
    waits = (np.fmax(requests.first_s, requests.scheduled_s) - requests.arrival_s)[np.argsort(requests.arrival_s)]
    waits = waits[np.isfinite(waits)]  # who was rejected waited for nothing
    if waits.size < 4:
        return False
    _, second, _, last = (float(part.mean()) for part in np.array_split(waits, 4))
    return bool(gone < _KEPT_UP * came - 2.0 * np.sqrt(came) and last > _WAITS_LONGER * second)


def _histogram(decoding: Array, round_s: Array) -> dict[int, float]:
    """Share of the time in rounds by how many requests decode."""
    if not decoding.size:
        return {}
    numbers = decoding.astype(int)
    shares = np.bincount(numbers, weights=round_s) / round_s.sum()
    return {int(n): float(shares[n]) for n in np.flatnonzero(shares)}


def _variants(run: Run, after: NDArray[np.bool_]) -> list[float]:
    """Share of the time in rounds by variant."""
    seconds = np.bincount(run.columns[5][after].astype(int), weights=run.round_s[after], minlength=len(run.miss_bits))
    return list((seconds / max(1e-12, seconds.sum())).tolist())


def _minute(run: Run, start_s: float) -> dict[str, list[float]]:
    """A minute of the first replica after the start, by its rounds, at most a few hundred of them.

    ``at_s`` when each begins, ``running`` what decodes, ``held`` what is decoded or processed, ``variant`` which runs.
    """
    rounds = run.rounds[0].T
    shown = rounds[:, (rounds[0] >= start_s) & (rounds[0] < start_s + 60.0)]
    shown = shown[:, :: max(1, shown.shape[1] // _SHOWN)]
    columns = {"at_s": shown[0] - start_s, "running": shown[2] + shown[7], "held": shown[3], "variant": shown[5]}
    return {name: column.tolist() for name, column in columns.items()}


def request_rows(run: Run) -> pa.Table:
    """Rows of requests: when each came, what it asked, its replica, its times (ms; null where it has none), its
    rounds, look-ups that could not hit, and how often it was preempted.
    """
    import pyarrow as pa

    requests, workload = run.requests, run.workload
    whole = {
        "input_tokens": workload.input_tokens,
        "output_tokens": workload.output_tokens,
        "replica": requests.replica,
        "rounds": requests.rounds,
        "forced_misses": requests.forced_misses,
        "preemptions": requests.preemptions,
    }
    times = {f"{name}_ms": values for name, values in metrics_of_requests(run).items()}
    return pa.table(
        {
            "arrival_s": pa.array(requests.arrival_s),
            **{name: pa.array(column) for name, column in whole.items()},
            **{name: pa.array(np.where(np.isfinite(v), v, np.nan), from_pandas=True) for name, v in times.items()},
            "rejected": pa.array(requests.rejected),
        }
    )
