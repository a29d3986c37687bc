"""Questions at many points: options completed, who is compared, what drafts, where; and the scenarios that follow.

Each step from options to a scenario is taken once for all points that it reads alike; one call is one point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from ssdsim import strategies
from ssdsim.base.errors import InputError
from ssdsim.base.option import Group
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import Choosing, Settings, TrackedSettings
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.occupancy import DoesNotFit
from ssdsim.pricing.site import Site
from ssdsim.question.columns import Columns, Rows
from ssdsim.question.drafting import (
    ahead_warnings,
    check_vocabularies,
    published_warnings,
    settle_draft,
    vocabulary_warnings,
)
from ssdsim.question.given import Asked, of_points, possible
from ssdsim.question.many import SideBySide
from ssdsim.question.measured_pair import settle_pair, token_warnings
from ssdsim.question.options import DEFAULTS, members
from ssdsim.question.place import drafting_of, settle_spread, site_of
from ssdsim.question.price import Priced, price
from ssdsim.question.remembered import Found, Made, Remembered, Written, settle_all
from ssdsim.question.scenario import Scenario
from ssdsim.question.token_errors import KnownTokens
from ssdsim.strategies import drafters
from ssdsim.strategies.protocols.strategy import Strategy

T = TypeVar("T")


class Sides(NamedTuple):
    """Sides of a question: who is compared, whom the answer is about, and what drafts."""

    names: tuple[str, ...]
    subject: str
    drafter: Drafter


def completed(settings: Settings) -> None:
    """Derive what a measured pair and a published draft know in the place of defaults."""
    settle_pair(settings)
    settle_draft(settings)


def sides_of(settings: Settings) -> Sides:
    """Whom the options name; where nothing drafts, no drafter is asked for."""
    names = settings["strategies"]
    drafts = any(strategies.ALL.named(name).drafts for name in names)
    drafter = drafters.ALL.named(settings["drafter"] if drafts else DEFAULTS["drafter"])
    return Sides(names, subject_among(names, settings["subject"]), drafter)


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


def _placed(settings: Settings, sides: Sides, site: Site | None) -> None:
    """Settle what follows from a site and from who is compared there."""
    check_vocabularies(settings, sides.names, site)
    settle_spread(settings, site)


def _choices(strategy: Strategy, settings: TrackedSettings) -> list[Written]:
    """List what each of a strategy's alternatives settles."""
    choices: list[Any] = list(strategy.alternatives(Choosing(settings)))
    return [Written(each.writes, each.sources) for each in choices]


def warnings_of(found: tuple[str, ...], settings: Settings, sides: Sides, site: Site | None) -> tuple[str, ...]:
    """About acceptance and hits of the strategies that were ``found`` to have room."""
    of_drafts = (*vocabulary_warnings(found, site), *ahead_warnings(found, sides.drafter))
    return (*token_warnings(settings), *published_warnings(settings), *of_drafts)


class Steps:
    """The steps from options to a scenario, which remember what they made."""

    def __init__(self) -> None:
        self.completed = Remembered(completed)
        self.sides = Remembered(sides_of)
        self.drafting = Remembered(drafting_of)
        self.site = Remembered(site_of)
        self.placed = Remembered(_placed)
        self._of_strategies: dict[str, OfStrategy] = {}
        self._warnings: dict[tuple[str, ...], Remembered[tuple[str, ...]]] = {}

    def forget_sites(self) -> None:
        """Forget sites and all prices: other points may be at other sites, but of the same rounds."""
        self.site, self.placed = Remembered(site_of), Remembered(_placed)
        self._warnings.clear()
        for each in self._of_strategies.values():
            each.forget_prices()

    @property
    def rounds(self) -> int:
        """Number of scenarios whose rounds are remembered."""
        return sum(len(each.tokens) for each in self._of_strategies.values())

    def forget_rounds(self, most: int) -> None:
        """Forget the newest rounds beyond so many: a grid that varies them fastest comes back to the first ones."""
        while (beyond := self.rounds - most) > 0:
            max((each.tokens for each in self._of_strategies.values()), key=len).forget_newest(beyond)

    def of_strategy(self, name: str) -> OfStrategy:
        """Memory of one strategy: what it reads says nothing of another."""
        return self._of_strategies.setdefault(name, OfStrategy(strategies.ALL.named(name)))

    def warnings(self, found: tuple[str, ...]) -> Remembered[tuple[str, ...]]:
        return self._warnings.setdefault(found, Remembered(partial(warnings_of, found)))


class OfStrategy:
    """A strategy's own steps."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.choices = Remembered(partial(_choices, strategy))
        self.tokens = Remembered(lambda settings, sides: KnownTokens(settings, strategy, sides.drafter))
        self.forget_prices()

    def forget_prices(self) -> None:
        strategy = self.strategy
        self.price = Remembered(lambda settings, site, sides: price(settings, strategy, site, sides.drafter))


class Whose(Record, Generic[T]):
    """Things made for points, and the number of each one's; -1 where nothing was."""

    made: Sequence[Made[T]]
    of: Rows

    @classmethod
    def of_found(cls, found: Found[T], rows: Rows, size: int) -> Whose[T]:
        """Take what was found at the points ``rows`` of so many."""
        good = [number for number, each in enumerate(found.made) if isinstance(each, Made)]
        codes = np.full(len(found.made) + 1, -1, dtype=np.intp)
        codes[good] = np.arange(len(good))
        of = np.full(size, -1, dtype=np.intp)
        of[rows] = codes[found.of]
        return cls([each for each in found.made if isinstance(each, Made)], of)

    def at(self, row: int) -> Made[T]:
        made: Made[T] = self.made[self.of[row]]
        return made


class Points:
    """Questions at each of many points; ``errors`` say why some are not possible."""

    def __init__(self, given: Asked, steps: Steps | None = None) -> None:
        self.steps = steps or Steps()
        self.columns, self.errors = of_points(given)
        self._completed = self._taken(self.steps.completed)
        self.sides = self._taken(self.steps.sides)
        self._drafting = self._taken(self.steps.drafting)
        self.sites = self._taken(self.steps.site, self._drafting)
        self._placed = self._taken(self.steps.placed, self.sides, self.sites)

    def _taken(self, step: Remembered[T], *arguments: Whose[Any]) -> Whose[T]:
        """A step at every point that is possible."""
        return _taken(step, self.columns, self._possible, arguments, self.errors.__setitem__)

    def reads(self, row: int) -> frozenset[str]:
        """Options on which the compared strategies and the site depend."""
        reads = self.sides.at(row).reads | self.sites.at(row).reads | self._placed.at(row).reads
        return reads | self._drafting.at(row).reads if self._drafts(row) else reads

    def idle(self, row: int) -> frozenset[str]:
        """Options that were derived for a draft where nobody drafts."""
        derived = self._completed.at(row).writes.keys() | self._drafting.at(row).writes.keys()
        return frozenset() if self._drafts(row) else frozenset(derived)

    def _drafts(self, row: int) -> bool:
        return any(strategies.ALL.named(name).drafts for name in self.sides.at(row).result.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Strategies that are asked for at any point that is possible."""
        asked = np.unique(self.sides.of[self._possible])
        return tuple(dict.fromkeys(name for number in asked for name in self.sides.made[number].result.names))

    @property
    def _possible(self) -> Rows:
        return possible(self.errors)

    def asking(self, name: str) -> Rows:
        """Points that are possible at which a strategy is asked for."""
        asked = np.array([name in each.result.names for each in self.sides.made], dtype=bool)
        rows = self._possible
        row: Rows = rows[asked[self.sides.of[rows]]]
        return row

    def of_strategy(self, name: str, rows: Rows) -> Scenarios:
        """A strategy's scenarios at some points, asked for or not, with each of its alternatives where a word such as
        ``auto`` leaves a choice.
        """
        return scenarios(self, self.steps.of_strategy(name), rows)

    def found(self, step: Remembered[T], rows: Rows) -> Found[T]:
        """Ask a step that writes nothing about some points, who is compared there, and the site."""
        return step.each(self.columns, rows, *_together(rows, (self.sides, self.sites)))

    def warnings(self, found: Mapping[tuple[str, ...], Rows]) -> frozenset[str]:
        """About acceptance and hits, by which strategies were found to have room at which points."""
        said: set[str] = set()
        for names, rows in found.items():
            for made in self.found(self.steps.warnings(names), rows).made:
                if isinstance(made, InputError):
                    raise made
                said.update(made.result)
        return frozenset(said)


def _together(rows: Rows, whose: Sequence[Whose[Any]]) -> tuple[list[tuple[Any, ...]], Rows]:
    """Join what points have of each, as arguments: the different ones, and the number of each point's."""
    key = np.zeros(len(rows), dtype=np.intp)
    for each in whose:
        key = key * max(1, len(each.made)) + each.of[rows]
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    return [tuple(each.at(row).result for each in whose) for row in rows[first].tolist()], of


class _Choice(Record):
    """Alternative of a strategy at many points."""

    columns: Columns
    rows: Rows
    priced: Whose[Priced]
    known: Whose[KnownTokens]

    def values(self, name: str, rows: Rows) -> list[Any]:
        """An option's value at some of them; what rounds derive is not in the columns."""
        values = self.columns.values(name, rows)
        if name not in self._derived:
            return values
        return [self.known.at(row).writes.get(name, value) for row, value in zip(rows.tolist(), values, strict=True)]

    @cached_property
    def _derived(self) -> frozenset[str]:
        return frozenset().union(*(each.writes for each in self.known.made))


class Scenarios(Record):
    """Scenarios of one strategy side by side: ``rows`` are their points, those of a point in the order of its choices.

    ``no_room`` says at which points it does not fit and why, ``errors`` what else is wrong there.
    """

    points: Points
    strategy: Strategy
    rows: Rows
    no_room: Mapping[int, DoesNotFit]
    errors: Mapping[int, InputError]
    _choosing: Whose[list[Written]]
    _choices: Sequence[_Choice]
    _choice: Rows

    def __len__(self) -> int:
        return len(self.rows)

    def taken(self, at: Rows) -> Scenarios:
        """Some of them."""
        return replace(self, rows=self.rows[at], _choice=self._choice[at])

    def __getitem__(self, number: int) -> Scenario:
        row, choice = int(self.rows[number]), self._choices[self._choice[number]]
        chosen, priced, known = self._choosing.at(row), choice.priced.at(row), choice.known.at(row)
        settings = choice.columns.settings(row)
        for name, value in known.writes.items():
            settings.settle(name, value, known.sources[name])
        read = chosen.reads | priced.reads | (known.reads - priced.writes.keys())
        return Scenario(
            self.strategy,
            self.points.sides.at(row).result.drafter,
            settings,
            self.points.sites.at(row).result,
            known.result,
            priced.result,
            _with_pair(settings, read),
        )

    def values(self, name: str) -> list[Any]:
        """An option's value in each of them."""
        filled = np.empty(len(self), dtype=object)
        for number, choice in enumerate(self._choices):
            own = np.flatnonzero(self._choice == number)
            filled[own] = choice.values(name, self.rows[own])
        return list(filled.tolist())

    @cached_property
    def side_by_side(self) -> SideBySide:
        """Their numbers in columns."""
        priced, price_of = self._made(lambda choice: choice.priced)
        known, known_of = self._made(lambda choice: choice.known)
        return SideBySide(self.strategy, np.array(self.values("b"), dtype=float), priced, price_of, known, known_of)

    def _made(self, of: Callable[[_Choice], Whose[T]]) -> tuple[list[T], Rows]:
        """Things made for them, each once, and the number of each one's."""
        made: list[T] = []
        numbers = np.empty(len(self), dtype=np.intp)
        for number, choice in enumerate(self._choices):
            own, whose = self._choice == number, of(choice)
            used, codes = np.unique(whose.of[self.rows[own]], return_inverse=True)
            numbers[own] = len(made) + codes
            made += [whose.made[each].result for each in used]
        return made, numbers


def _taken(
    step: Remembered[T],
    columns: Columns,
    rows: Rows,
    arguments: Sequence[Whose[Any]],
    refuse: Callable[[int, InputError], None],
    last: bool = False,
) -> Whose[T]:
    """A step at the points ``rows``; ``refuse`` hears where it is not possible.

    It writes into ``columns``, but for the ``last``, after which no step reads them.
    """
    found = step.each(columns, rows, *_together(rows, arguments))
    for place, error in found.errors():
        refuse(int(rows[place]), error)
    if not last:
        settle_all(columns, rows, found.made, found.of)
    return Whose.of_found(found, rows, columns.size)


def scenarios(points: Points, steps: OfStrategy, rows: Rows) -> Scenarios:
    """A strategy's scenarios at the points ``rows``."""
    no_room: dict[int, DoesNotFit] = {}
    errors: dict[int, InputError] = {}

    def refuse(row: int, error: InputError) -> None:
        if isinstance(error, DoesNotFit):
            no_room.setdefault(row, error)
        else:
            errors.setdefault(row, error)

    def taken(
        step: Remembered[T], columns: Columns, rows: Rows, *arguments: Whose[Any], last: bool = False
    ) -> tuple[Whose[T], Rows]:
        whose = _taken(step, columns, rows, arguments, refuse, last)
        return whose, rows[whose.of[rows] >= 0]

    choosing, rows = taken(steps.choices, points.columns.copy(), rows)
    counts = np.array([len(each.result) for each in choosing.made], dtype=np.intp)
    choices = []
    for number in range(counts.max(initial=0)):
        columns, own = points.columns.copy(), rows[counts[choosing.of[rows]] > number]
        settle_all(
            columns,
            own,
            [each.result[number] if len(each.result) > number else Written({}, {}) for each in choosing.made],
            choosing.of[own],
        )
        priced, own = taken(steps.price, columns, own, points.sites, points.sides)
        known, own = taken(steps.tokens, columns, own, points.sides, last=True)
        choices.append(_Choice(columns, own, priced, known))
    bad = np.array([*no_room, *errors], dtype=np.intp)
    kept = [choice.rows[~np.isin(choice.rows, bad)] for choice in choices]
    where = np.concatenate([*kept, np.zeros(0, dtype=np.intp)]).astype(np.intp)
    which = np.repeat(np.arange(len(choices)), [len(each) for each in kept])
    order = np.argsort(where, kind="stable")
    return Scenarios(points, steps.strategy, where[order], no_room, errors, choosing, choices, which[order])


def _with_pair(settings: Settings, reads: frozenset[str]) -> frozenset[str]:
    """All that was read; a measured pair by who reads what it says."""
    if settings["pair"] is None or "alpha" not in reads:
        return reads
    backup = {"pair_backup"} if reads & set(members(Group.BACKUP_QUALITY)) else set()
    return reads | backup | {"pair", "pair_set", "temperature", "extrapolate"}
