"""Slowdown of target and draft while both compute: shared memory bandwidth, power, links."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import torch.distributed as dist

from calibration.machine.devices import synchronised
from calibration.machine.timing import Action
from calibration.timings.benchmarks.bench import Bench, Result
from calibration.timings.benchmarks.passes import graph_and_pass
from calibration.timings.points import Shape

_ALONE_S, _TOGETHER_S = 0.1, 0.3
_FEWEST = 2
_CYCLES = 2  # of each visit

Span = tuple[float, float]


def measure(bench: Bench, *, target: str, draft: str, target_shape: Shape, draft_shape: Shape) -> Result:
    """The seconds of a target's pass and of a draft's, alone and while the other side works.

    Both sides run alone, then at the same time, and again; only runs that lie wholly within the other side's count. How
    often each side runs is agreed beforehand: ranks of one side that stopped by their own clocks would leave each
    other waiting in a collective.
    """
    names = {"target": target, "draft": draft}
    shapes = {"target": target_shape, "draft": draft_shape}
    actions = {role: _action(bench, role, shape) for role, shape in shapes.items()}
    alone_s: dict[str, list[float]] = {role: [] for role in names}
    together_s: dict[str, list[float]] = {role: [] for role in names}
    for _ in range(_CYCLES):
        for role in names:
            alone_s[role].append(_alone(bench, role, names[role], actions[role]))
        for role, seconds in _together(bench, actions, {role: alone_s[role][-1] for role in names}).items():
            together_s[role].append(seconds)
    alone, together = ({role: fmean(times[role]) for role in names} for times in (alone_s, together_s))
    figures = {f"{role}_alone_s": alone[role] for role in names} | {f"{role}_s": together[role] for role in names}
    return {"seconds": together["target"], "runs": _CYCLES, **figures}


def _together(bench: Bench, actions: Mapping[str, Action | None], alone_s: Mapping[str, float]) -> dict[str, float]:
    """Mean seconds of both passes while both sides work."""
    long_s = max(_TOGETHER_S, (_FEWEST + 1) * max(alone_s.values()))
    mine = "target" if bench.has_target else "draft"
    action = actions[mine]
    assert action is not None
    dist.barrier()
    spans = _spans(action, math.ceil(long_s / alone_s[mine]))
    everyone: list[Any] = [None] * bench.ranks
    dist.all_gather_object(everyone, spans)
    of = {"target": everyone[0], "draft": everyone[bench.draft_rank]}
    return {"target": _within(of["target"], of["draft"]), "draft": _within(of["draft"], of["target"])}


def _action(bench: Bench, role: str, shape: Shape) -> Action | None:
    """The pass of ``role`` where this rank holds it; each run ends before the next starts."""
    captured = graph_and_pass(bench, role, shape)
    if captured is None:
        return None
    action = captured[0].prepare(captured[1])
    return synchronised(action, bench.device)


def _alone(bench: Bench, role: str, name: str, action: Action | None) -> float:
    """Seconds of ``action`` with the other side idle, as the first rank of ``role`` times it."""
    if name not in bench.known_s:  # the first run also warms up
        bench.known_s[name] = _told(bench, role, _mean(_spans(action, 2)[1:]) if action is not None else 0.0)
    runs = max(_FEWEST, math.ceil(_ALONE_S / bench.known_s[name]))
    return _told(bench, role, _mean(_spans(action, runs)) if action is not None else 0.0)


def _told(bench: Bench, role: str, seconds: float) -> float:
    """Tell every rank the seconds that the first rank of ``role`` found."""
    numbers = [seconds]
    dist.broadcast_object_list(numbers, src=0 if role == "target" else bench.draft_rank, device=bench.message_device)
    return numbers[0]


def _spans(action: Action, runs: int) -> list[Span]:
    """Start and end of each run on the machine's monotonic clock."""
    spans = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        spans.append((start, time.perf_counter()))
    return spans


def _within(spans: list[Span], others: list[Span]) -> float:
    """The mean time of the runs while the other side was busy, or of the first where none lies wholly within."""
    start, end = others[0][0], others[-1][1]
    inside = [span for span in spans if start <= span[0] and span[1] <= end]
    return _mean(inside or spans[:1])


def _mean(spans: list[Span]) -> float:
    return fmean(end - start for start, end in spans)
