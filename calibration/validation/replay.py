"""Replay of what a paper or an engine's benchmark published."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibration.validation.paper import (
    DemoReplay,
    FamilyReplay,
    PublishedSpeeds,
    PublishedTrees,
    SweepReplay,
    TreeReplay,
    load_paper,
    replay_demo,
    replay_families,
    replay_sweep,
    replay_trees,
)
from calibration.validation.published_drafters import PublishedRows, Replayed
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record

HARDWARE = "h100-sxm"
MAX_ERROR = 0.06
"""Of eight SSD rows with one number fitted to them, and of sweeps' means.

Just above the worst that is found: 4.7 % of an SSD row, and 4.8 % of a sweep, whose fit ends at its bound.
"""


class PaperReplay(Record):
    """The SSD rows of a paper, and its engines' sweeps over K."""

    paper: PublishedSpeeds
    hardware: str
    families: Sequence[FamilyReplay]
    sweeps: Sequence[SweepReplay]

    @property
    def worst(self) -> float:
        return max(float(np.abs(family.errors).max()) for family in self.families)

    @property
    def worst_sweep(self) -> float:
        """The largest mean error of a sweep."""
        return max((float(np.abs(sweep.errors).mean()) for sweep in self.sweeps), default=0.0)

    def holds(self, max_error: float | None) -> bool:
        """Say whether every row, and every sweep's mean, is within ``max_error``."""
        return max(self.worst, self.worst_sweep) <= (MAX_ERROR if max_error is None else max_error)


class TreesReplay(Record):
    """The trees of a paper, and its repository's demo."""

    paper: PublishedTrees
    trees: Sequence[TreeReplay]
    demo: DemoReplay | None

    @property
    def worst(self) -> float:
        return max(float(np.abs(each.errors).max()) for each in self.trees)

    def holds(self, max_error: float | None) -> bool:
        """Say whether every speed-up is within ``max_error``, and the demo's tree is the one shipped."""
        return self._demo_is_shipped and self.worst <= (MAX_ERROR if max_error is None else max_error)

    @property
    def _demo_is_shipped(self) -> bool:
        found, shipped = self.demo, self.paper.demo
        if found is None or shipped is None:
            return True
        return (found.nodes, found.levels) == (shipped.shipped_nodes, shipped.shipped_levels)


class RowsReplay(Record):
    """Rows of drafters."""

    paper: PublishedRows
    rows: Sequence[Replayed]

    @property
    def worst(self) -> float:
        return max(each.worst for each in self.rows)

    def holds(self, max_error: float | None) -> bool:
        """Say whether each row is within ``max_error``, or within the error that its card expects."""
        return all(each.worst <= (each.within if max_error is None else max_error) for each in self.rows)


def validate_paper(paper: str, *, hardware: str | None = None) -> PaperReplay | TreesReplay | RowsReplay:
    """Replay published results; nothing is run.

    Rows of drafters and trees say themselves on which hardware they were measured.

    Parameters
    ----------
    paper : ``kumar2026``, ``sequoia``, ``vllm-eagle``, ..., or a card's path.
    hardware : the profile that kernels are priced on, by default h100-sxm.

    Raises
    ------
    InputError : no such card, or hardware of rows that say their own.
    """
    published = load_paper(paper)
    if not isinstance(published, PublishedSpeeds) and hardware is not None:
        raise InputError(f"--hardware has no effect with {paper}: its rows say where they were measured")
    match published:
        case PublishedRows():
            return RowsReplay(published, [rows.replay() for rows in published.rows])
        case PublishedTrees():
            demo = None if published.demo is None else replay_demo(published.demo)
            return TreesReplay(published, [replay_trees(published, rows) for rows in published.trees], demo)
    hardware = hardware or HARDWARE
    sweeps = [replay_sweep(published, each, hardware) for each in published.sweeps]
    return PaperReplay(published, hardware, replay_families(published, hardware), sweeps)
