"""A configured strategy: what closed form, Monte Carlo, SimPy and real ranks all read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from ssdsim.base.display import Display, Displayable
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.occupancy import Devices, format_count
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.question.price import Priced, Repricer
from ssdsim.question.token_errors import KnownTokens
from ssdsim.rounds.kernel import Tokens
from ssdsim.rounds.round import Estimate, Round
from ssdsim.strategies.protocols.strategy import Strategy


class Scenario(Displayable, Record):
    """A batch decoded by a strategy.

    ``settings`` are all options, with what the strategy derived; ``reads`` those that shape it.
    ``place`` is None where durations are unit-free. ``same_rounds`` is there at other prices than those
    that its rounds are drawn by.
    """

    strategy: Strategy
    drafter: Drafter
    settings: Settings
    place: Site | None
    known: KnownTokens
    priced: Priced
    reads: frozenset[str] = frozenset()
    same_rounds: Tokens | None = None

    @property
    def display(self) -> Display:
        on = "without hardware" if self.place is None else f"on {self.place.profile.name}"
        return Display(f"{self.strategy.title} {on}: batch {self.batch}, {format_count(self.gpus)} GPUs")

    @property
    def title(self) -> str:
        """The strategy's name, or that of what drafts where it is SD with something else than a draft model."""
        is_told = self.strategy.name == "sd" and self.drafter.name != "model"
        return self.drafter.title if is_told else self.strategy.title

    @cached_property
    def site(self) -> Site | None:
        """The site on which it runs, with its settings."""
        return None if self.place is None else self.place.with_options(self.settings)

    @property
    def tokens(self) -> Tokens:
        """The effect of a round on a sequence."""
        return self.known.tokens

    @property
    def steps(self) -> Mapping[str, Step]:
        """The steps of a round and their costs, with all errors."""
        return self.priced.steps

    @property
    def devices(self) -> Devices:
        return self.priced.devices

    def with_steps(self, steps: Mapping[str, Step], again: Repricer | None = None) -> Scenario:
        """Copy the scenario with other steps; ``again`` reprices them where token inputs change."""
        priced = replace(self.priced, expected=steps, again=again)
        return replace(self, priced=priced, same_rounds=self.drawn_from)

    @property
    def drawn_from(self) -> Tokens:
        """The source of drawn rounds: the tokens, or a rule of which they are the mean."""
        return self.same_rounds or self.strategy.drawn_from(self.tokens, self.settings, self.steps, self.drafter)

    @property
    def batch(self) -> int:
        return int(self.settings["b"])

    @property
    def in_a_pass(self) -> int:
        """Sequences that go through a pass together: all, or the fullest microbatch."""
        return -(-self.batch // self.devices.microbatches)

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm of every duration."""
        return float(self.settings["spread"])

    @property
    def gpus(self) -> float:
        """The GPUs of a target, with its part of a draft's that it shares."""
        return self.devices.per_target

    @property
    def seconds(self) -> Mapping[str, float]:
        """Each step's duration; in units of T_v where it is unit-free."""
        return self.priced.seconds

    @property
    def round(self) -> Round:
        d = self.devices
        return Round(self.batch, self.gpus, self.seconds, self.tokens.averages, d.served, d.together, d.microbatches)

    @cached_property
    def estimate(self) -> Estimate:
        """The closed form's mean round."""
        return self.strategy.closed_form(self.round)

    @property
    def warnings(self) -> frozenset[str]:
        return frozenset().union(*(step.warnings for step in self.priced.expected.values()))
