"""One strategy, configured: what closed form, Monte Carlo, SimPy and real ranks all read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.room import Devices
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.protocols.strategy import Strategy
from ssdsim.rounds.estimate import Estimate
from ssdsim.rounds.kernel import Averages, Tokens
from ssdsim.rounds.round import Round, Seconds
from ssdsim.scenario.token_errors import Moves, drawn, moves
from ssdsim.settings import Settings


@dataclass(frozen=True)
class Scenario:
    """A batch decoded by a strategy.

    ``settings`` are those that the strategy read, with what it derived; ``site`` is None where durations are unit-free.
    ``tokens`` is what a round does to a sequence, ``steps`` what it costs.
    """

    strategy: Strategy
    drafter: Drafter
    settings: Settings
    site: Site | None
    tokens: Tokens
    steps: Mapping[str, Step]
    devices: Devices

    @property
    def batch(self) -> int:
        return int(self.settings["b"])

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm of every duration."""
        return float(self.settings["spread"])

    @property
    def gpus(self) -> int:
        return self.devices.total

    @cached_property
    def seconds(self) -> Mapping[str, float]:
        """Each step's duration; in units of T_v where it is unit-free."""
        return {name: step.seconds for name, step in self.steps.items()}

    @property
    def round(self) -> Round:
        return self._round(self.seconds)

    def sampled(self, errors: TimingErrors) -> Round:
        """The round under each draw of the errors: of timings, and of rates that were measured."""
        seconds = {name: step.sample(errors) for name, step in self.steps.items()}
        return self._round(seconds, drawn(self.tokens.averages, self.moves, errors))

    @cached_property
    def moves(self) -> Moves:
        """How the averages of rounds move with what is uncertain of acceptance and hits."""
        return moves(self.strategy, self.settings, self.drafter)

    def _round(self, seconds: Mapping[str, Seconds], averages: Averages | None = None) -> Round:
        return Round(self.batch, self.gpus, seconds, averages or self.tokens.averages)

    @cached_property
    def estimate(self) -> Estimate:
        """The closed form's mean round."""
        return self.strategy.closed_form(self.round)

    @property
    def warnings(self) -> frozenset[str]:
        return frozenset().union(*(step.warnings for step in self.steps.values()))
