"""The question that options ask: who is compared, what drafts, and at which site; and the scenarios that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from ssdsim import strategies
from ssdsim.base.option import Group
from ssdsim.base.record import Record
from ssdsim.base.settings import GIVEN, Entry, Settings, TrackedSettings
from ssdsim.hardware.runtime_catalog import older_than_all
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.site import Site
from ssdsim.question.acceptance_rule import rule_warnings, settle_rule
from ssdsim.question.checked_options import checked
from ssdsim.question.drafting import (
    ahead_warnings,
    check_vocabularies,
    published_warnings,
    settle_draft,
    settle_drafter,
    vocabulary_warnings,
)
from ssdsim.question.engines import settle_engine, subject_among
from ssdsim.question.formats import format_warnings
from ssdsim.question.measured_pair import settle_pair, token_warnings
from ssdsim.question.options import DEFAULTS, members
from ssdsim.question.place import (
    drafting_of,
    placeholder_warnings,
    settle_calibrated,
    settle_place_of_draft,
    settle_spread,
    site_of,
)
from ssdsim.question.point_table import Result, result_of
from ssdsim.question.price import Priced, price
from ssdsim.question.scenario import Scenario
from ssdsim.question.supposed import PRIOR, PUBLISHED
from ssdsim.question.token_errors import KnownTokens
from ssdsim.strategies import drafters
from ssdsim.strategies.protocols.strategy import Strategy

T = TypeVar("T")
OWN_BEST = "each strategy's own best"
"""The source of a value that a search found."""


class Contestants(Record):
    """The strategies that are compared, the one that the answer is about, what drafts, and whether they ``draft``."""

    names: tuple[str, ...]
    subject: str
    drafter: Drafter
    draft: bool


class Question(Record):
    """A call's strategies and site, with every option's value.

    ``site`` is None where durations are unit-free. ``reads`` are
    the options that this rests on, ``idle`` those that were derived for a draft where nobody drafts.
    """

    settings: Settings
    contestants: Contestants
    site: Site | None
    reads: frozenset[str]
    idle: frozenset[str]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Question:
        """The question that options ask."""
        settings = given_settings(given)
        completed = _step(settings, complete)
        contestants = _step(settings, contestants_of)
        drafting = _step(settings, drafting_of)
        site = _step(settings, site_of, drafting.value)
        placed = _step(settings, place, contestants.value, site.value)
        reads, idle = contestants.reads | site.reads | placed.reads, frozenset[str]()
        if contestants.value.draft:
            reads |= drafting.reads
        else:
            idle = frozenset(completed.writes.keys() | drafting.writes.keys())
        return cls(settings, contestants.value, site.value, reads, idle)

    def scenarios(self, name: str, turned: Mapping[str, Any] = MappingProxyType({})) -> Iterator[Scenario]:
        """A strategy's scenario with each of its alternatives, where a word such as ``auto`` leaves a choice.

        ``turned`` are options that nobody gave, with the values that a search tries.

        Raises
        ------
        DoesNotFit : it does not fit there.
        """
        strategy, drafter, asked = strategies.ALL.named(name), self.contestants.drafter, self.settings.copy()
        asked.settle_all({option: (value, OWN_BEST) for option, value in turned.items()})
        chosen = result_of(alternatives, asked, strategy)
        for alternative in chosen.value:
            settings = asked.copy()
            settings.settle_all(alternative)
            priced = _step(settings, price, strategy, self.site, drafter)
            known = _step(settings, KnownTokens, strategy, drafter)
            yield scenario_of(strategy, drafter, settings, self.site, chosen.reads, priced, known)


def _step(settings: Settings, run: Callable[..., T], *arguments: Any) -> Result[T]:
    """Run a step, and settle what it derives."""
    result = result_of(run, settings, *arguments)
    settings.settle_all(result.writes)
    return result


def given_settings(given: Mapping[str, Any]) -> Settings:
    """Every option's value, those given (None is not given) checked, with where it came from."""
    values = checked(given)
    return Settings(values, dict.fromkeys(values, GIVEN), dict(DEFAULTS))


def effective(given: Mapping[str, Any]) -> Settings:
    """:func:`given_settings`, with what a measured pair knows in the place of defaults."""
    settings = given_settings(given)
    complete(settings)
    return settings


# the steps from options to a scenario, in their order


def complete(settings: Settings) -> None:
    """Derive what the profile, the engine, a measured pair and a published draft know in the place of defaults."""
    settle_calibrated(settings)
    settle_engine(settings)
    settle_place_of_draft(settings)
    settle_pair(settings)
    settle_drafter(settings)
    settle_draft(settings)
    settle_rule(settings)


def contestants_of(settings: Settings) -> Contestants:
    """Whom the options name; where nothing drafts, no drafter is asked for."""
    names = settings["strategies"]
    drafts = any(strategies.ALL.named(name).drafts for name in names)
    drafter = drafters.ALL.named(settings["drafter"] if drafts else DEFAULTS["drafter"])
    return Contestants(names, subject_among(names, settings["subject"]), drafter, drafts)


def place(settings: Settings, contestants: Contestants, site: Site | None) -> None:
    """Settle what follows from a site and from who is compared there."""
    check_vocabularies(settings, contestants.names, site)
    settle_spread(settings, site)


def alternatives(settings: TrackedSettings, strategy: Strategy) -> list[Mapping[str, Entry]]:
    """What each of a strategy's alternatives settles."""
    return [each.writes for each in strategy.alternatives(settings) if isinstance(each, TrackedSettings)]


def scenario_of(
    strategy: Strategy,
    drafter: Drafter,
    settings: Settings,
    site: Site | None,
    chosen: frozenset[str],
    priced: Result[Priced],
    known: Result[KnownTokens],
) -> Scenario:
    """The scenario of a price and of known tokens; ``chosen`` are the options by which its alternative was made."""
    reads = chosen | priced.reads | (known.reads - priced.writes.keys())
    if settings["pair"] is not None and "alpha" in reads:  # who reads what a pair says reads the pair
        backup = {"pair_backup"} if reads & set(members(Group.BACKUP_QUALITY)) else set[str]()
        reads |= backup | {"pair", "pair_set", "temperature", "extrapolate"}
    if "alpha" in reads and settings.source("alpha").startswith((PUBLISHED, PRIOR)) and settings["draft_set"] is None:
        reads |= {"text"}
    return Scenario(strategy, drafter, settings, site, known.value, priced.value, reads)


def warnings_of(
    settings: Settings, contestants: Contestants, site: Site | None, with_room: tuple[str, ...]
) -> tuple[str, ...]:
    """Warnings about acceptance and hits of the strategies that have room, and about formats."""
    of_drafts = (*vocabulary_warnings(with_room, site), *ahead_warnings(with_room, contestants.drafter))
    of_names = () if site is None else format_warnings(settings, site, contestants.draft)
    older = None if site is None or settings["engine"] is None else older_than_all(settings["engine"])
    of_places = () if site is None or not contestants.draft else placeholder_warnings(site)
    of_names = (*of_names, *([older] if older else []), *of_places, *_of_rounds(site, contestants))
    of_rule = rule_warnings(settings) if contestants.draft else ()
    return (*token_warnings(settings), *published_warnings(settings), *of_rule, *of_drafts, *of_names)


def _of_rounds(site: Site | None, contestants: Contestants) -> Iterator[str]:
    """Warnings where no row of the engine is of such passes, or of such a target's rounds."""
    if site is not None and site.dcp > 1:
        yield f"no row of {site.runtime.title} has a shared cache (--dcp): it is priced by its kernels alone"
    if site is not None and contestants.draft and not site.runtime.knows_rounds_of(site.target):
        name = site.runtime.title
        yield f"no row of {name} tells what a round of a dense model with recurrent layers takes: intervals are wider"
