"""What the timelines of real ranks tell: the mean round, what it is made of, and a picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ssdsim.engine.simulate import SimulatedRounds
from ssdsim.engine.trace import Trace
from ssdsim.executor.loops import Timeline
from ssdsim.rounds.estimate import PARTS

# The events that make up each part of an estimate. Draft steps are the first target rank's where SD is colocated.
_EVENTS = {
    "verify": ("verify", "decode"),
    "draft": ("draft step",),
    "fallback": ("fallback", "fallback step"),
}
_PARTS = {"ar": ("verify",), "sd": ("verify", "draft"), "ssd": ("verify", "fallback")}


def parts_of(
    strategy: str, repeats: Sequence[Sequence[Timeline | None]], simulated: Sequence[SimulatedRounds]
) -> dict[str, tuple[float, float]]:
    """Mean seconds a round of each part, measured and predicted; what is left of a round is ``communicate``."""
    parts: dict[str, tuple[float, float]] = {}
    rounds = simulated[0].rounds
    predicted = {part: float(np.mean([run.breakdown_s[part] for run in simulated])) for part in PARTS}
    for part in _PARTS[strategy]:
        spent = [_spent_s((ranks[0], ranks[-1]), _EVENTS[part]) / rounds for ranks in repeats]
        parts[part] = (float(np.mean(spent)), predicted[part])
    rounds_s = float(np.mean([mean_round_s(ranks[0]) for ranks in repeats if ranks[0] is not None]))
    left = (rounds_s, sum(predicted.values()))
    for measured, expected in parts.values():
        left = (left[0] - measured, left[1] - expected)
    return parts | {"communicate": left}


def _spent_s(timelines: Sequence[Timeline | None], names: Sequence[str]) -> float:
    """Seconds of the events called ``names`` on the first target rank and on the draft's."""
    events = [event for timeline in timelines if timeline for event in timeline.events]
    return sum(end - start for what, start, end in events if what in names)


def mean_round_s(timeline: Timeline) -> float:
    """The mean round of a run: from its first event to its last round's end."""
    return (timeline.ends_s[-1] - timeline.events[0][1]) / len(timeline.ends_s)


def draw(trace: Trace, strategy: str, timelines: Sequence[Timeline | None], devices: Sequence[str]) -> None:
    """A strategy's measured rounds on tracks of their own, from time zero."""
    present = [timeline for timeline in timelines if timeline is not None]
    start = min(timeline.events[0][1] for timeline in present)
    for rank, timeline in enumerate(timelines):
        role = "draft" if rank == len(timelines) - 1 else f"target {rank}"
        track = f"measured {strategy.upper()} {role} ({devices[rank]})"
        for what, begun, ended in timeline.events if timeline else ():
            if not what.startswith("wait"):
                trace.slice(track, what, begun - start, ended - start)
