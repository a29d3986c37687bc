"""A call, understood: its options completed, whom it compares, what drafts, where; and the scenarios that follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ssdsim import drafters, strategies
from ssdsim.base.errors import InputError
from ssdsim.base.option import Group
from ssdsim.base.settings import GIVEN, Settings, Watched
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.site import Site
from ssdsim.protocols.strategy import Strategy
from ssdsim.scenario.drafting import (
    ahead_warnings,
    check_vocabularies,
    published_warnings,
    settle_draft,
    vocabulary_warnings,
)
from ssdsim.scenario.measured_pair import settle_pair, token_warnings
from ssdsim.scenario.options import checked, defaults, members
from ssdsim.scenario.place import settle_spread, site_of
from ssdsim.scenario.price import Priced, price
from ssdsim.scenario.remembered import Remembered
from ssdsim.scenario.scenario import Scenario
from ssdsim.scenario.token_errors import KnownTokens


class Steps:
    """The costly steps from options to a scenario."""

    def copied(self, settings: Settings) -> Settings:
        """A copy for a step to write into, which notes what is read of it."""
        return Watched(settings)

    def site(self, settings: Settings) -> Site | None:
        return site_of(settings)

    def priced(self, settings: Settings, strategy: Strategy, site: Site | None, drafter: Drafter) -> Priced:
        return price(settings, strategy, site, drafter)

    def tokens(self, settings: Settings, strategy: Strategy, drafter: Drafter) -> KnownTokens:
        return KnownTokens(settings, strategy, drafter)


class RememberedSteps(Steps):
    """Each is run once for all options that it reads alike; what it made is then the same object."""

    def __init__(self) -> None:
        self._site, self._price, self._tokens = Remembered(site_of), Remembered(price), Remembered(KnownTokens)

    def copied(self, settings: Settings) -> Settings:
        """A plain copy: what was read is noted where a step is new."""
        return settings.copy()

    def site(self, settings: Settings) -> Site | None:
        return self._site(settings)

    def priced(self, settings: Settings, strategy: Strategy, site: Site | None, drafter: Drafter) -> Priced:
        return self._price(settings, strategy, site, drafter, key=(strategy.name, id(site), drafter.name))

    def tokens(self, settings: Settings, strategy: Strategy, drafter: Drafter) -> KnownTokens:
        return self._tokens(settings, strategy, drafter, key=(strategy.name, drafter.name))


@dataclass(frozen=True)
class Asked:
    """A call's strategies and site, with every option's value.

    ``subject`` is the strategy that answers are about; ``site`` is None where durations are unit-free. ``reads`` are
    the options that this rests on, None where nobody noted.
    """

    settings: Settings
    names: tuple[str, ...]
    subject: str
    drafter: Drafter
    site: Site | None
    reads: frozenset[str] | None
    steps: Steps

    @classmethod
    def of(cls, given: Mapping[str, Any], steps: Steps | None = None) -> Asked:
        """What the options ask; ``steps`` are how its scenarios are made.

        Raises
        ------
        InputError : an unknown option, a value out of range, options that exclude each other, an unknown card, a pair
            that engines refuse.
        """
        steps = steps or Steps()
        settings = steps.copied(effective(given))
        names, subject = settings["strategies"], subject_among(settings["strategies"], settings["subject"])
        drafter = drafters.ALL.named(settings["drafter"])
        site = steps.site(settings)
        check_vocabularies(settings, names, site)
        settle_spread(settings, site)
        return cls(settings.plain, names, subject, drafter, site, settings.read, steps)

    def scenarios(self, name: str) -> Iterator[Scenario]:
        """A strategy's scenario with each of its alternatives, where a word such as ``auto`` leaves a choice.

        Raises
        ------
        NoRoom : it does not fit there.
        """
        strategy, choosing = strategies.ALL.named(name), self.steps.copied(self.settings)
        for choice in strategy.alternatives(choosing):
            settings = self.steps.copied(choice)
            priced = self.steps.priced(settings, strategy, self.site, self.drafter)
            tokens = self.steps.tokens(settings, strategy, self.drafter)
            own = settings.plain
            reads = _with_pair(own, choosing.read, settings.read)
            yield Scenario(strategy, self.drafter, own, self.site, tokens, priced, reads)

    def warnings(self, names: Iterable[str], settings: Settings) -> tuple[str, ...]:
        """About acceptance and hits of these strategies."""
        of_drafts = (*vocabulary_warnings(names, self.site), *ahead_warnings(names, self.drafter))
        return (*token_warnings(settings), *published_warnings(settings), *of_drafts)


def effective(given: Mapping[str, Any]) -> Settings:
    """Every option's value, those given (None is not given) checked, with where it came from.

    What a measured pair knows takes the place of defaults.

    Raises
    ------
    InputError : an unknown option, a value out of its range, or a pair that does not have what is asked of it.
    """
    values = checked({name: value for name, value in given.items() if value is not None})
    settings = Settings(values, dict.fromkeys(values, GIVEN), defaults())
    settle_pair(settings)
    settle_draft(settings)
    return settings


def subject_among(names: Sequence[str], asked: str | None) -> str:
    """The strategy that an answer is about: the one asked for, else the default one if among ``names``, else the last.

    Raises
    ------
    InputError : the one asked for is not among them.
    """
    if asked is not None:
        strategies.ALL.named(asked)
        if asked not in names:
            raise InputError(f"--subject {asked} is not among --strategies {','.join(names)}")
        return asked
    return strategies.SUBJECT if strategies.SUBJECT in names else names[-1]


def _with_pair(
    settings: Settings, choosing: frozenset[str] | None, made: frozenset[str] | None
) -> frozenset[str] | None:
    """All that was read; a measured pair by who reads what it says."""
    if choosing is None or made is None:
        return None
    reads = choosing | made
    if settings["pair"] is None or "alpha" not in reads:
        return reads
    backup = {"pair_backup"} if reads & set(members(Group.BACKUP_QUALITY)) else set()
    return reads | backup | {"pair", "pair_set", "temperature", "extrapolate"}
