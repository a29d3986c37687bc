"""Durations in units of T_v, as the SSD paper counts them: a site without hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ssdsim.pricing.cost import Cost
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.site import Silent
from ssdsim.pricing.step import Piece, Step


class UnitFree(Silent):
    """A pass of the target takes 1. A pass of the draft takes T_SD / K, whatever drafts. All else takes no time.

    It has no models and no devices: a strategy may ask it only for what is here.
    """

    unit_free = True

    def __init__(self, options: Mapping[str, Any]) -> None:
        object.__setattr__(self, "options", options)

    def verify_step(self, name: str, tokens: float, masked: bool = False) -> Step:
        return Step("verify", (Piece(name, Cost.of_units(1.0)),))

    def speculate(self, drafter: Drafter, tokens: int, beside: bool) -> tuple[Piece, ...]:
        return (Piece("draft step", self._draft_pass, tokens),)

    def expand(self, drafter: Drafter, rows: Sequence[int], beside: bool) -> tuple[Piece, ...]:
        return self.speculate(drafter, len(rows), beside)

    def prespeculate(self, drafter: Drafter, tokens: int, branches: int) -> tuple[Piece, ...]:
        return Piece("glue", self._draft_pass), Piece("branch step", self._draft_pass, tokens)

    def preexpand(self, drafter: Drafter, rows: Sequence[int], nodes: int, branches: int) -> tuple[Piece, ...]:
        return (Piece("pre-speculation", self._draft_pass * len(rows)),)

    @property
    def _draft_pass(self) -> Cost:
        return Cost.of_units(self.options["t_sd"] / self.options["k"])

    def given(self, option: str, step: Step, called: str | None = None) -> Step:
        """T_p and T_b are times of whole steps: each pass takes an equal share, the glue pass as any other."""
        whole = step.seconds if self.options[option] is None else self.options[option]
        if called is not None:
            return Step(step.part, (Piece(called, Cost.of_units(whole)),))
        share = Cost.of_units(whole / sum(piece.times for piece in step.pieces))
        return replace(step, pieces=tuple(replace(piece, cost=share) for piece in step.pieces))

    def sampling_step(self, speculates: bool = True) -> Step:
        return Step("host")
