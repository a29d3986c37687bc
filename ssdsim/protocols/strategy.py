"""A strategy of decoding: what its round does to a sequence, what it costs where, and who does what when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ssdsim.checks import FloatOrArray
from ssdsim.option import Option
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.occupancy import Occupancy
from ssdsim.pricing.room import Devices
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.protocols.axes import Axis
from ssdsim.rounds.actor import Program
from ssdsim.rounds.block import RoundBlock
from ssdsim.rounds.estimate import Estimate
from ssdsim.rounds.kernel import Tokens
from ssdsim.rounds.round import Round, Seconds
from ssdsim.rounds.states import States
from ssdsim.settings import Settings

if TYPE_CHECKING:
    from ssdsim.rounds.outcomes import OutcomeBlock


class Strategy(Protocol):
    """Everything that closed form, Monte Carlo, SimPy, real ranks, prices, memory, searches and reports ask.

    They ask for data, never which strategy it is. :class:`ssdsim.protocols.lockstep.Lockstep` answers most of it for
    strategies whose round is a fixed order of steps.
    """

    @property
    def name(self) -> str:
        """Key of options, JSON and columns."""
        ...

    @property
    def title(self) -> str:
        """What a person reads."""
        ...

    @property
    def called(self) -> str:
        """What a sentence calls it where it wins."""
        ...

    @property
    def source(self) -> str:
        """Paper and section."""
        ...

    @property
    def rival(self) -> str | None:
        """Name of what it is held against first."""
        ...

    @property
    def miss(self) -> str | None:
        """The state that an outcome which was not foreseen leads to; None where nothing is cached."""
        ...

    @property
    def options(self) -> tuple[Option, ...]:
        """Its own options; the shared ones are in :mod:`ssdsim.scenario.options`."""
        ...

    @property
    def searched(self) -> tuple[Axis, ...]:
        """What a search for the best deployment may turn, beside the target's degrees of parallelism."""
        ...

    @property
    def deployed(self) -> tuple[str, ...]:
        """Settings without which nobody can deploy it: those of a schedule."""
        ...

    @property
    def told(self) -> tuple[str, ...]:
        """Settings that tables of predictions show as columns."""
        ...

    @property
    def drafts(self) -> bool:
        """It needs a drafter."""
        ...

    @property
    def drafts_ahead(self) -> bool:
        """It drafts on from tokens that were not verified, and takes what follows to be accepted as a fresh draft."""
        ...

    @property
    def most_sequences(self) -> int | None:
        """The largest batch that it decodes; None where any."""
        ...

    @property
    def free_running(self) -> bool:
        """Its sides do not wait for each other, so a round's tokens depend on durations: programs find them out."""
        ...

    # from options to what they mean

    def alternatives(self, settings: Settings) -> Iterable[Settings]:
        """Settings to choose the faster of, where a word such as ``auto`` leaves a choice; else ``settings``."""
        ...

    def settle(self, settings: Settings, site: Site | None, drafter: Drafter) -> None:
        """Derive what follows from the given options; ``site`` is None where durations are unit-free."""
        ...

    def unused(self, settings: Settings) -> set[str]:
        """Options that shaped nothing in these settings."""
        ...

    def lookahead(self, options: Mapping[str, Any]) -> int:
        """Drafted tokens a sequence in flight; 0 without drafting."""
        ...

    # tokens

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        """What a round does to a sequence."""
        ...

    def guesses(self, settings: Mapping[str, Any]) -> tuple[int, ...] | None:
        """How many bonus tokens are cached for each of the K+1 accepted lengths; None where nothing is cached."""
        ...

    # costs

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        """Devices that it occupies with a target on ``tp`` of them."""
        ...

    def occupancies(self, site: Site, drafter: Drafter) -> Iterable[Occupancy]:
        """What lies in the memory of which devices."""
        ...

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        """The round's steps by name, messages among them, priced."""
        ...

    def unit_free_steps(self, settings: Settings) -> Mapping[str, Step]:
        """The same steps in units of T_v, as the SSD paper counts."""
        ...

    # the round

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        """How the steps make a round: seconds of each part; ``t`` are the steps' durations.

        With constant durations a round is linear in what ``states`` tells, so its mean is these parts at the mean.
        """
        ...

    def closed_form(self, round: Round) -> Estimate:
        """The mean round in the long run."""
        ...

    def monte_carlo(self, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray]) -> RoundBlock:
        """Drawn rounds without a clock."""
        ...

    def clocked(
        self, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray], round_s: NDArray[np.float64]
    ) -> RoundBlock:
        """Rounds that a clock has timed, with what their time went to."""
        ...

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        """Who does what when: a program a role (``target`` first, ``draft``), for SimPy's clock and for real ranks."""
        ...

    def cannot_run(self, options: Mapping[str, Any]) -> str | None:
        """Why real ranks cannot run it; None where they can."""
        ...
