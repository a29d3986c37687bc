"""A layer's routed experts whose weights stream from memory, on choices drawn as in a pass."""

from __future__ import annotations

import numpy as np
import torch

from calibration.machine.experts import ExpertWeights, routes, run_experts
from calibration.timings.benchmarks.bench import Bench, Result
from ssdsim.transformer.card import Transformer

_RUNS = 4  # of each visit, each on other choices


def measure(
    bench: Bench, *, role: str, batch: int, queries: int, masked: bool, width: int, after: tuple[int, int], dtype: str
) -> Result | None:
    """Seconds of the experts of the card of ``role``, ``width`` of each on a device; on the first rank.

    ``touched`` is how many of them were used, on average over the runs. ``after`` is n and k of the matrix before, the
    router.
    """
    if bench.rank != 0:
        return None
    card: Transformer = bench.workload.target if role == "target" else bench.workload.draft
    experts, tokens = card.experts, batch * queries
    assert experts is not None
    inputs = torch.randn(tokens, card.hidden_size, device=bench.device).to(bench.dtype)
    out = torch.empty_like(inputs)
    gate_up = bench.views(experts.count, 2 * width, card.hidden_size)
    down = bench.views(experts.count, card.hidden_size, width)
    rng = np.random.default_rng()  # visits are of other choices
    drawn = [torch.from_numpy(routes(experts, batch, queries, masked, rng)).to(bench.device) for _ in range(_RUNS)]
    touched = [len(torch.unique(choices)) for choices in drawn]
    turns = iter(drawn)

    def visit() -> None:
        run_experts(inputs, next(turns), ExpertWeights(next(gate_up), next(down)), out)

    timed = bench.time(visit, warm_ups=0, least_runs=_RUNS, most_runs=_RUNS, before=bench.gemm(tokens, *after))
    return timed.to_json() | {"touched": float(np.mean(touched))}
