"""Effort of an answer of serving: how it is worked out."""

from __future__ import annotations

from typing import Literal, get_args

from ssdsim.base.checks import whole
from ssdsim.base.kinds import Number, OneOf
from ssdsim.base.option import Section
from ssdsim.base.option_record import OptionRecord, option_field

ServeEngine = Literal["auto", "closed", "loop"]


class Effort(OptionRecord):
    """``closed`` is the closed form alone; ``loop`` and ``auto`` also run every round. Runs get more requests until the
    95 % interval of the mean time per token is as small a share of it as ``precision``.
    """

    section, prominence = Section.REQUESTS, 0

    engine: ServeEngine = option_field(OneOf(get_args(ServeEngine)), "closed: the closed form alone", "auto")
    precision: float | None = option_field(
        Number(1.0, 0.001), "more requests until the mean TPOT is known to it at 95 %: 0.02"
    )
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("--seed", self.seed, 0)

    @property
    def runs(self) -> bool:
        """Say whether anything is run."""
        return self.engine != "closed"
