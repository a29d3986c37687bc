"""What strategies share whose round is a fixed order of steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.checks import FloatOrArray
from ssdsim.option import Option
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.site import Site
from ssdsim.protocols.axes import Axis
from ssdsim.rounds.block import RoundBlock, total
from ssdsim.rounds.estimate import PARTS, Estimate
from ssdsim.rounds.round import Round, Seconds
from ssdsim.rounds.states import States, Stationary
from ssdsim.settings import Settings

if TYPE_CHECKING:
    from ssdsim.rounds.outcomes import OutcomeBlock


class Lockstep:
    """Engines and answers that follow from a strategy's kernel and the parts of its round.

    A strategy derives from it and overrides what is its own; ``parts`` it must have.
    """

    name: str
    title: str
    source: str
    rival: str | None = None
    miss: str | None = None
    options: tuple[Option, ...] = ()
    searched: tuple[Axis, ...] = ()
    told: tuple[str, ...] = ()
    drafts: bool = True
    drafts_ahead: bool = False
    most_sequences: int | None = None
    free_running: bool = False

    @property
    def called(self) -> str:
        return self.title

    @property
    def deployed(self) -> tuple[str, ...]:
        return tuple(axis.option for axis in self.searched if not axis.placing)

    def alternatives(self, settings: Settings) -> Iterable[Settings]:
        return (settings,)

    def settle(self, settings: Settings, site: Site | None, drafter: Drafter) -> None:
        """Nothing is derived."""

    def unused(self, settings: Settings) -> set[str]:
        return set()

    def guesses(self, settings: Mapping[str, Any]) -> tuple[int, ...] | None:
        return None

    def cannot_run(self, options: Mapping[str, Any]) -> str | None:
        return None

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        raise NotImplementedError

    def closed_form(self, round: Round) -> Estimate:
        """Exact for constant durations: a round is linear in what its parts ask of the states."""
        states = Stationary(round.batch, round.averages)
        return Estimate(
            strategy=self.name,
            batch=round.batch,
            gpus=round.gpus,
            tokens_per_round=round.averages.tokens_per_round,
            breakdown_s=_all_parts(self.parts(round.seconds, states)),
            p_hit=None if self.miss is None else states.one_not_to(self.miss),
            p_all_hit=None if self.miss is None else states.none_to(self.miss),
            paper_round_s=self.paper_round_s(round.seconds, states),
        )

    def paper_round_s(self, t: Mapping[str, Seconds], states: Stationary) -> Seconds | None:
        """The round by the paper's own formula, where it differs from ours."""
        return None

    def monte_carlo(self, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray]) -> RoundBlock:
        """The closed form's round, with drawn outcomes and durations."""
        parts = _all_parts(self.parts(t, outcomes))
        return RoundBlock(outcomes, parts, total(parts, outcomes.rounds))

    def clocked(
        self, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray], round_s: NDArray[np.float64]
    ) -> RoundBlock:
        """Its parts follow from the steps' durations."""
        return RoundBlock(outcomes, self.monte_carlo(outcomes, t).parts_s, round_s)


def _all_parts(parts: Mapping[str, FloatOrArray]) -> dict[str, FloatOrArray]:
    """Every part in its order, 0 where a strategy has none of it."""
    if not parts.keys() <= set(PARTS):
        raise ValueError(f"a round's parts are {', '.join(PARTS)}, not {', '.join(parts)}")
    return {name: parts.get(name, 0.0) for name in PARTS}


def late(seconds: FloatOrArray, hidden_behind: FloatOrArray) -> FloatOrArray:
    """What of ``seconds`` is left when ``hidden_behind`` is over."""
    return np.maximum(0.0, seconds - hidden_behind)
