"""Time actions: warmed up, repeated for a median, and with weights that stream from memory as in a pass.

On a CPU a rank computes in one thread on one core, and the clock is the thread's time on its core: time that other
programs take is not counted. An action that waits for other ranks is timed by the wall clock.

On a GPU the clock is the time between two events in its stream, or the wall clock from launch to end, as in a round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import count
from typing import Literal

import numpy as np
import torch
from msgspec.structs import asdict

from calibration.machine.devices import synchronised
from calibration.machine.graph_memory import POOL_BYTES
from ssdsim.base.record import Record, replace

Action = Callable[[], object]
Clock = Literal["core", "wall"]

_STABLE = 0.05  # warm-up ends when three runs in a row agree this well
_MOST_WARM_UPS = 20
_OUTLIER = 1.5  # a run this many times the median is counted as one
_GRAPH_BYTES = 512 << 20  # streamed by the runs of one CUDA graph
_FEWEST_IN_GRAPH, _MOST_IN_GRAPH = 8, 256
_MOST_RUNS, _AT_LEAST_S = 4, 0.002  # of each visit: short operations more often
_SMALL_GEMM = (1, 1024, 1024)  # a few microseconds
_ALIGNED = 64  # values: views start at a cache line


def capture(action: Callable[[], object], times: int = 1) -> Callable[[], object]:
    """An action that replays ``times`` runs of ``action`` in one CUDA graph.

    Torch asks for some eager runs on a side stream first. NCCL collectives are captured, too; ``thread_local`` keeps
    NCCL's watchdog thread from disturbing the capture.
    """
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            action()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(times):
            action()
    return graph.replay


class TimedRuns(Record):
    """Median of the runs in seconds, their spread (robust standard deviation over the median), and the outliers.

    ``off_core`` is the share of the wall-clock time that other programs took (0 if ``clock`` was the wall clock).
    """

    seconds: float
    spread: float
    runs: int
    outliers: int
    off_core: float = 0.0

    def to_json(self) -> dict[str, float | int]:
        return asdict(self)


def time_action(
    action: Action,
    device: torch.device,
    *,
    warm_ups: int | None = None,
    least_runs: int = 7,
    most_runs: int = 300,
    at_least_s: float = 0.06,
    clock: Clock = "core",
    before: Action | None = None,
) -> TimedRuns:
    """Time ``action`` until ``at_least_s`` seconds were measured by ``clock``.

    Warms up until stable, or ``warm_ups`` times, as ranks that act together must. ``before`` runs untimed before each
    run.
    """
    if warm_ups is None:
        _warm_up(action, device, clock)
    else:
        for _ in range(warm_ups):
            action()
    runs: list[float] = []
    wall_s, core_s = time.perf_counter(), time.thread_time()
    while len(runs) < least_runs or (sum(runs) < at_least_s and len(runs) < most_runs):
        if before is not None:
            before()
        runs.append(time_once(action, device, clock))
    wall_s, core_s = time.perf_counter() - wall_s, time.thread_time() - core_s
    computes = device.type == "cpu" and clock == "core"
    return summarise(runs, off_core=max(0.0, 1.0 - core_s / wall_s) if computes else 0.0)


def time_once(action: Action, device: torch.device, clock: Clock = "core") -> float:
    """Seconds of one run."""
    if device.type == "cuda":
        return _once_on_cuda(action) if clock == "core" else _once_by(time.perf_counter, synchronised(action, device))
    return _once_by(time.thread_time if clock == "core" else time.perf_counter, action)


def summarise(runs: list[float], off_core: float = 0.0) -> TimedRuns:
    """The median and the spread of single runs in seconds."""
    times = np.array(runs)
    median = float(np.median(times))
    low, high = np.percentile(times, (25, 75))
    outliers = int(np.count_nonzero(times > _OUTLIER * median))
    spread = float((high - low) / 1.349 / median) if median > 0.0 else 0.0  # a gap may be zero
    return TimedRuns(median, spread, len(runs), outliers, off_core)


def _warm_up(action: Action, device: torch.device, clock: Clock) -> None:
    last: list[float] = []
    for _ in range(_MOST_WARM_UPS):
        last = [*last[-2:], time_once(action, device, clock)]
        if len(last) == 3 and max(last) <= (1.0 + _STABLE) * min(last):
            return


def _once_by(now: Callable[[], float], action: Action) -> float:
    start = now()
    action()
    return now() - start


def _once_on_cuda(action: Action) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    action()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


class Streams:
    """Operations on ``device`` whose weights stream from a pool of memory larger than any cache."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device = device
        self.dtype = dtype
        self._place = 0

    @cached_property
    def pool(self) -> torch.Tensor:
        """Random values that views of any shape are cut from; walking through it streams from memory."""
        values = POOL_BYTES[self.device.type] // self.dtype.itemsize
        block = torch.randn(1 << 20, device=self.device).to(self.dtype)  # random numbers are slow to make
        return block.repeat(values // block.numel())

    def views(self, *shape: int) -> Iterator[torch.Tensor]:
        """Endless views of ``shape``, each at the next place of the pool, so that none is still in a cache.

        All views share one position in the pool, so none reads what another has just read.
        """
        size = torch.Size(shape).numel()
        if size > self.pool.numel():
            whole = self.pool.repeat(-(-size // self.pool.numel()))[:size].view(shape)
            return (whole for _ in count())
        return (self._next(size).view(shape) for _ in count())

    def _next(self, size: int) -> torch.Tensor:
        start = self._place if self._place + size <= self.pool.numel() else 0
        self._place = -(-(start + size) // _ALIGNED) * _ALIGNED
        return self.pool[start : start + size]

    def time_in_pass(self, action: Action, *, before: tuple[int, int, int], streamed_bytes: float) -> TimedRuns:
        """Time an operation that streams ``streamed_bytes`` as it finds the device in a pass, after another operation.

        On a GPU it runs within a CUDA graph. On a CPU a GEMM of the shape ``before`` runs before each timing: the one
        before it in a pass. After a GEMM of another shape a matrix takes some percent longer than after its like, and a
        small matrix a quarter longer after a large one; repeated attention of a few queries is a fifth faster.
        """
        if self.device.type == "cuda":
            return self.time_captured(action, streamed_bytes)
        return time_action(
            action,
            self.device,
            warm_ups=0,
            least_runs=1,
            most_runs=_MOST_RUNS,
            at_least_s=_AT_LEAST_S,
            before=self.gemm(*before),
        )

    def time_captured(self, action: Action, streamed_bytes: float) -> TimedRuns:
        """Seconds of one run among many in a CUDA graph: enough of them to stream past any L2."""
        wanted = _GRAPH_BYTES / max(streamed_bytes, 1.0)
        times = round(min(max(wanted, _FEWEST_IN_GRAPH), _MOST_IN_GRAPH))
        timed = time_action(capture(action, times), self.device)
        return replace(timed, seconds=timed.seconds / times)

    def time_between_gemms(self, action: Action) -> TimedRuns:
        """Seconds that a small kernel adds to a CUDA graph in which another one comes before and after it.

        Alone it would follow its like, and take a quarter less on an H100.
        """
        gemm = self.gemm(*_SMALL_GEMM)

        def both() -> None:
            gemm()
            action()

        with_it, without = self.time_captured(both, 0.0), self.time_captured(gemm, 0.0)
        return replace(with_it, seconds=max(0.0, with_it.seconds - without.seconds))

    def time_gemms(self, shapes: Sequence[tuple[int, int, int]], runs: int) -> float:
        """Mean seconds of GEMMs ``(m, n, k)`` one after the other, as a layer runs them."""
        gemms = [self.gemm(*shape) for shape in shapes]

        def row() -> None:
            for gemm in gemms:
                gemm()

        if self.device.type == "cuda":
            return self.time_captured(row, sum(n * k * self.dtype.itemsize for _, n, k in shapes)).seconds
        row()
        return sum(time_once(row, self.device, "wall") for _ in range(runs)) / runs

    def time_gemm(self, m: int, n: int, k: int, after: tuple[int, int]) -> TimedRuns:
        """``(m, k) @ (k, n)``, weights stored ``(n, k)`` as linear layers store them, after one with other weights."""
        streamed_bytes = n * k * self.dtype.itemsize
        return self.time_in_pass(self.gemm(m, n, k), before=(m, *after), streamed_bytes=streamed_bytes)

    def gemm(self, m: int, n: int, k: int) -> Action:
        """``(m, k) @ (k, n)``, each run with the next weights."""
        inputs = torch.randn(m, k, device=self.device).to(self.dtype)
        out = torch.empty(m, n, dtype=self.dtype, device=self.device)
        weights = self.views(n, k)
        return lambda: torch.mm(inputs, next(weights).t(), out=out)
