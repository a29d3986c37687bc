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
from ssdsim.rounds.kernel import Tokens
from ssdsim.rounds.round import Round, Seconds
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
        """The round with its durations under each draw of the timings' errors."""
        return self._round({name: step.sample(errors) for name, step in self.steps.items()})

    def _round(self, seconds: Mapping[str, Seconds]) -> Round:
        return Round(self.batch, self.gpus, seconds, self.tokens.averages)

    @cached_property
    def estimate(self) -> Estimate:
        """The closed form's mean round."""
        return self.strategy.closed_form(self.round)

    @property
    def warnings(self) -> frozenset[str]:
        return frozenset().union(*(step.warnings for step in self.steps.values()))
