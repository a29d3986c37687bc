"""CUDA graphs: kernels launched once and replayed, so that the host's launches do not add to them."""

from __future__ import annotations

from collections.abc import Callable

import torch


def capture(action: Callable[[], object], times: int = 1) -> Callable[[], object]:
    """An action that replays ``times`` runs of ``action`` in one CUDA graph.

    Captured after three eager runs on a side stream, as torch asks; collectives of NCCL are captured with it, whose
    watchdog thread may not disturb the capture (hence ``thread_local``).
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
