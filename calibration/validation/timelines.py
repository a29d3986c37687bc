"""Readings of real ranks' timelines: seconds of each part of a round, and tracks of a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from calibration.machine.executor.timeline import Event, Timeline
from ssdsim.answers.simulation.simulate import SimulatedRounds
from ssdsim.answers.simulation.trace import Trace
from ssdsim.base.checks import Array
from ssdsim.pricing.step import Step
from ssdsim.rounds.estimate import PARTS

_LEFT = "communicate"


def parts_of(
    steps: Mapping[str, Step], repeats: Sequence[Sequence[Timeline]], simulated: Sequence[SimulatedRounds]
) -> dict[str, tuple[float, float]]:
    """Mean seconds a round of each part that there is, measured and predicted; what is left is ``communicate``.

    Each of ``repeats`` holds the timeline of the leading role's first rank, then those of other roles.
    """
    part_of = {name: step.part for name, step in steps.items()}
    spent = [spent_s(part_of, leader, others) for leader, *others in repeats]
    measured = {part: float(np.mean([one[part] for one in spent])) for part in PARTS}
    predicted = {part: float(np.mean([run.breakdown_s[part] for run in simulated])) for part in PARTS}
    parts = {
        part: (measured[part], predicted[part])
        for part in PARTS
        if part != _LEFT and (measured[part] or predicted[part])
    }
    round_s = float(np.mean([leader.mean_round_s for leader, *_ in repeats]))
    left = (round_s - sum(m for m, _ in parts.values()), predicted[_LEFT])
    return parts | {_LEFT: left}


def spent_s(part_of: Mapping[str, str], leader: Timeline, others: Sequence[Timeline]) -> dict[str, float]:
    """Seconds a round of each part: what the leader does itself, and what others do while it waits for them."""
    waits = _Waits(leader.events)
    spent = dict.fromkeys(PARTS, 0.0)
    for event in leader.events:
        if not event.waits and event.step in part_of:
            spent[part_of[event.step]] += event.end_s - event.start_s
    for event in (event for other in others for event in other.events):
        if not event.waits and event.step in part_of:
            spent[part_of[event.step]] += waits.within_s(event)
    return {part: seconds / len(leader.ends_s) for part, seconds in spent.items()}


class _Waits:
    """Waits of a rank; they follow one another."""

    def __init__(self, events: Sequence[Event]) -> None:
        waits = np.array([(event.start_s, event.end_s) for event in events if event.waits] or [(0.0, 0.0)])
        self._edges: Array = waits.ravel()
        self._waited_s = np.concatenate([[0.0], np.repeat(np.cumsum(waits[:, 1] - waits[:, 0]), 2)[:-1]])

    def within_s(self, event: Event) -> float:
        """Seconds of ``event`` in which the rank waited."""
        before, after = np.interp([event.start_s, event.end_s], self._edges, self._waited_s)
        return float(after - before)


def draw(
    trace: Trace, title: str, timelines: Sequence[Timeline | None], target_ranks: int, devices: Sequence[str]
) -> None:
    """A strategy's measured rounds on tracks of their own, from time zero."""
    start = min(timeline.start_s for timeline in timelines if timeline is not None)
    for rank, timeline in enumerate(timelines):
        role = f"target {rank}" if rank < target_ranks else "draft"
        track = f"measured {title} {role} ({devices[rank]})"
        for event in timeline.events if timeline else ():
            if not event.waits:
                trace.slice(track, event.what, event.start_s - start, event.end_s - start)
