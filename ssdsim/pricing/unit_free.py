"""Durations in units of T_v, as the SSD paper counts them: a site without hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ssdsim.base.record import replace
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.site import Silent
from ssdsim.pricing.step import Piece, RowTable, Step


class UnitFree(Silent):
    """A pass of the target takes 1, or what a table says of its rows. A pass of the draft takes T_SD / K, whatever
    drafts. All else takes no time.

    It has no models and no devices: a strategy may ask it only for what is here.
    """

    unit_free = True

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> UnitFree:
        """The site of a call with these options."""
        none: Any = None
        return cls(none, none, none, none, none, options["b"], none, none, None, options)

    def with_batch(self, batch: int) -> UnitFree:
        return replace(self, batch=batch)

    def verify_step(self, name: str, tokens: float, masked: bool = False) -> Step:
        table = self.options["t_v"]
        return Step("verify", (Piece(name, Cost.of_units(1.0 if table is None else _at(table, self.batch * tokens))),))

    def ragged_step(self, name: str, rows: Mapping[float, float], most: int) -> Step:
        each = np.arange(self.batch, most + 1, dtype=float)
        seconds = np.array([self.verify_step(name, many / self.batch).seconds for many in each])
        seconds_of = (chance * self.verify_step(name, many / self.batch).seconds for many, chance in rows.items())
        mean = Step("verify", (Piece(name, Cost.of_units(sum(seconds_of))),))
        return replace(mean, by_rows=RowTable(self.batch, most, each, seconds))

    @property
    def pass_of_draft(self) -> Cost:
        return Cost.of_units(self.options["t_sd"] / self.options["k"])

    def override(self, option: str, step: Step, name: str | None = None) -> Step:
        """T_p and T_b are times of whole steps: each pass takes an equal share, the glue pass as any other."""
        whole = step.seconds if self.options[option] is None else self.options[option]
        if name is not None:
            return Step(step.part, (Piece(name, Cost.of_units(whole)),))
        share = Cost.of_units(whole / sum(piece.times for piece in step.pieces))
        return replace(step, pieces=tuple(replace(piece, cost=share) for piece in step.pieces))

    def sampling_step(self, speculates: bool = True) -> Step:
        return Step("host")


def _at(table: Sequence[Sequence[float]], rows: float) -> float:
    """Linear between the table's points, on the last ones' slope beyond them, and no less than the first below."""
    known, times = np.transpose(table)
    if rows <= known[-1] or known.size == 1:
        return float(np.interp(rows, known, times))
    slope = (times[-1] - times[-2]) / (known[-1] - known[-2])
    return float(times[-1] + slope * (rows - known[-1]))
