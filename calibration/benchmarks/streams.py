"""Operations timed as in a pass: their weights stream from a pool of memory larger than any cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import count

import torch

from calibration.timing import Action, Timed, time_action
from ssdsim.executor.capture import capture

_POOL_BYTES = {"cpu": 256 << 20, "cuda": 1 << 30}  # beyond an L3 of a CPU, and many times the L2 of a GPU
_GRAPH_BYTES = 512 << 20  # streamed by the runs of one CUDA graph
_FEWEST_IN_GRAPH, _MOST_IN_GRAPH = 8, 256
_TOKENS_BEFORE = 8  # at most, of the GEMM before a timing: it is there to stream, not to compute


class Streams:
    """Tensors that stream on ``device``; ``largest`` is the ``(n, k)`` of the model's largest matrix."""

    def __init__(self, device: torch.device, dtype: torch.dtype, largest: tuple[int, int]) -> None:
        self.device = device
        self.dtype = dtype
        self._largest = largest

    @cached_property
    def pool(self) -> torch.Tensor:
        """Random values that views of any shape are cut from; walking through it streams from memory."""
        values = _POOL_BYTES[self.device.type] // self.dtype.itemsize
        block = torch.randn(1 << 20, device=self.device).to(self.dtype)  # random numbers are slow to make
        return block.repeat(values // block.numel())

    def views(self, *shape: int) -> Iterator[torch.Tensor]:
        """Endless views of ``shape``, each at the next place of the pool, so that none is still in a cache."""
        size = torch.Size(shape).numel()
        places = max(1, self.pool.numel() // size)
        if size > self.pool.numel():
            whole = self.pool.repeat(-(-size // self.pool.numel()))[:size].view(shape)
            return (whole for _ in count())
        return (self.pool[i % places * size : (i % places + 1) * size].view(shape) for i in count())

    def time_in_pass(self, action: Action, *, tokens: int, streamed_bytes: float) -> Timed:
        """Time an operation that streams ``streamed_bytes`` as it finds the device in a pass, among other operations.

        On a GPU that is within a CUDA graph. On a CPU an operation that is repeated back to back finds its code and
        buffers in the cache, and a few queries attend a fifth faster than after a GEMM; so the model's largest GEMM
        runs before each timing.
        """
        if self.device.type == "cuda":
            return self.time_captured(action, streamed_bytes)
        weights = self.views(*self._largest)
        inputs = torch.randn(min(tokens, _TOKENS_BEFORE), self._largest[1]).to(self.dtype)
        return time_action(
            action,
            self.device,
            least_runs=11,
            most_runs=41,
            at_least_s=0.1,
            before=lambda: torch.mm(inputs, next(weights).t()),
        )

    def time_captured(self, action: Action, streamed_bytes: float) -> Timed:
        """Seconds of one run among many in a CUDA graph: enough of them to stream past any L2."""
        wanted = _GRAPH_BYTES / max(streamed_bytes, 1.0)
        times = round(min(max(wanted, _FEWEST_IN_GRAPH), _MOST_IN_GRAPH))
        timed = time_action(capture(action, times), self.device)
        return replace(timed, seconds=timed.seconds / times)

    def time_gemm(self, m: int, n: int, k: int) -> Timed:
        """``(m, k) @ (k, n)`` with weights stored ``(n, k)``, as linear layers store them."""
        inputs = torch.randn(m, k, device=self.device).to(self.dtype)
        out = torch.empty(m, n, dtype=self.dtype, device=self.device)
        weights, streamed_bytes = self.views(n, k), n * k * self.dtype.itemsize
        return self.time_in_pass(
            lambda: torch.mm(inputs, next(weights).t(), out=out), tokens=m, streamed_bytes=streamed_bytes
        )
