"""Operations timed as in a pass: their weights stream from a pool of memory larger than any cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count

import torch

from calibration.machine.capture import capture
from calibration.machine.graph_memory import POOL_BYTES
from calibration.machine.timing import Action, Timed, time_action, time_once
from ssdsim.base.record import replace

_GRAPH_BYTES = 512 << 20  # streamed by the runs of one CUDA graph
_FEWEST_IN_GRAPH, _MOST_IN_GRAPH = 8, 256
_MOST_RUNS, _AT_LEAST_S = 4, 0.002  # of each visit: short operations more often
_SMALL_GEMM = (1, 1024, 1024)  # a few microseconds
_ALIGNED = 64  # values: views start at a cache line


class Streams:
    """Tensors that stream on ``device``."""

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

        All views walk through the pool together: what one of them touched the others do not find there.
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

    def time_in_pass(self, action: Action, *, before: tuple[int, int, int], streamed_bytes: float) -> Timed:
        """Time an operation that streams ``streamed_bytes`` as it finds the device in a pass, after another operation.

        On a GPU that is within a CUDA graph. On a CPU a GEMM of the shape ``before`` runs before each timing, which
        should be the one before it in a pass: a matrix takes some percent longer after one of another shape than after
        its like, a small one a quarter longer after a large one, and a few queries attend a fifth faster repeated.
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

    def time_captured(self, action: Action, streamed_bytes: float) -> Timed:
        """Seconds of one run among many in a CUDA graph: enough of them to stream past any L2."""
        wanted = _GRAPH_BYTES / max(streamed_bytes, 1.0)
        times = round(min(max(wanted, _FEWEST_IN_GRAPH), _MOST_IN_GRAPH))
        timed = time_action(capture(action, times), self.device)
        return replace(timed, seconds=timed.seconds / times)

    def time_between_gemms(self, action: Action) -> Timed:
        """Seconds that a small kernel adds to a CUDA graph in which another one comes before and after it.

        Alone it follows its like, which has just been fetched and ends at once: on an H100 it takes a quarter less.
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

    def time_gemm(self, m: int, n: int, k: int, after: tuple[int, int]) -> Timed:
        """``(m, k) @ (k, n)``, weights stored ``(n, k)`` as linear layers store them, after one with other weights."""
        streamed_bytes = n * k * self.dtype.itemsize
        return self.time_in_pass(self.gemm(m, n, k), before=(m, *after), streamed_bytes=streamed_bytes)

    def gemm(self, m: int, n: int, k: int) -> Action:
        """``(m, k) @ (k, n)``, each run with the next weights."""
        inputs = torch.randn(m, k, device=self.device).to(self.dtype)
        out = torch.empty(m, n, dtype=self.dtype, device=self.device)
        weights = self.views(n, k)
        return lambda: torch.mm(inputs, next(weights).t(), out=out)
