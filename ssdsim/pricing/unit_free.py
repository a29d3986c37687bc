"""Durations in units of T_v, as the SSD paper counts them: a site without hardware."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.record import replace
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.site import Silent
from ssdsim.pricing.step import Piece, RowTable, Step, chances_at_once, mixed_rows


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

    def sharing_devices(self) -> UnitFree:
        return self

    def verify_step(self, name: str, tokens: float, masked: bool = False) -> Step:
        return Step("verify", (Piece(name, Cost.of_units(float(self._verified(self.batch * tokens)))),))

    def ragged_step(self, name: str, rows: Mapping[float, float], most: int) -> Step:
        return self._in_the_mean(name, [*rows], [*rows.values()], self.batch, most)

    def _mixed_step(self, name: str, tokens: tuple[float, float], share: float, masked: bool) -> Step:
        rows = mixed_rows(self.batch, tokens)
        return self._in_the_mean(name, rows, chances_at_once(self.batch, share), int(rows.min()), math.ceil(rows.max()))

    def _in_the_mean(self, name: str, rows: FloatOrArray, chances: FloatOrArray, least: int, most: int) -> Step:
        """Passes over so many rows at these chances, of ``least`` to ``most``."""
        knots = [float(each) for each, _ in self.options["t_v"] or () if least < each < most]
        table = RowTable(least, most, at := np.array(sorted({least, *knots, most}), dtype=float), self._verified(at))
        mean = float(np.dot(chances, self._verified(rows)))
        return Step("verify", (Piece(name, Cost.of_units(mean)),), by_rows=table)

    def _verified(self, rows: FloatOrArray) -> Array:
        """T_v of so many rows: linear between the table's points, flat below them, on the last slope beyond."""
        if self.options["t_v"] is None:
            return np.ones(np.shape(rows))
        known, times = np.transpose(self.options["t_v"])
        inside = np.interp(rows, known, times)
        if known.size == 1:
            return np.asarray(inside)
        slope = (times[-1] - times[-2]) / (known[-1] - known[-2])
        return np.asarray(inside + slope * np.maximum(0.0, np.asarray(rows) - known[-1]))

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
