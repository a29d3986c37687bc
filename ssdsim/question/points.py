"""Questions at many points: each step to a scenario runs once for all points that agree in the options it reads.

Every point has the scenarios that :class:`ssdsim.question.question.Question` has of it alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssdsim import strategies
from ssdsim.base.errors import CannotRun, InputError
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import Entry
from ssdsim.pricing.site import Site
from ssdsim.question.checked_options import PointsLike, checked_table
from ssdsim.question.many import ScenarioTable
from ssdsim.question.place import drafting_of, site_of
from ssdsim.question.point_table import Column, MemoizedStep, PointTable, Result, Rows
from ssdsim.question.price import price
from ssdsim.question.question import alternatives, complete, contestants_of, place, scenario_of, warnings_of
from ssdsim.question.scenario import Scenario
from ssdsim.question.token_errors import KnownTokens
from ssdsim.strategies.protocols.strategy import Strategy

T = TypeVar("T")


class StepsOf:
    """The steps of one strategy, cached apart: other strategies read other options."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.alternatives = MemoizedStep(lambda settings: alternatives(settings, strategy))
        self.tokens = MemoizedStep(lambda settings, who: KnownTokens(settings, strategy, who.drafter))
        self.forget_prices()

    def forget_prices(self) -> None:
        strategy = self.strategy
        self.price = MemoizedStep(lambda settings, site, who: price(settings, strategy, site, who.drafter))


class Steps:
    """The steps from options to scenarios, which remember their results."""

    def __init__(self) -> None:
        self.complete = MemoizedStep(complete)
        self.contestants = MemoizedStep(contestants_of)
        self.drafting = MemoizedStep(drafting_of)
        self._of_strategies: dict[str, StepsOf] = {}
        self.forget_sites()

    def forget_sites(self) -> None:
        """Forget sites and all prices: other points may be at other sites, but of the same rounds."""
        self.site, self.place = MemoizedStep(site_of), MemoizedStep(place)
        self._warnings: dict[tuple[str, ...], MemoizedStep[tuple[str, ...]]] = {}
        for each in self._of_strategies.values():
            each.forget_prices()

    @property
    def rounds(self) -> int:
        """Number of scenarios whose rounds are remembered."""
        return sum(len(each.tokens) for each in self._of_strategies.values())

    def forget_rounds(self, most: int) -> None:
        """Drop the newest rounds beyond this number: a grid that varies them fastest returns to the oldest."""
        while (beyond := self.rounds - most) > 0:
            max((each.tokens for each in self._of_strategies.values()), key=len).forget_newest(beyond)

    def of_strategy(self, name: str) -> StepsOf:
        if name not in self._of_strategies:
            self._of_strategies[name] = StepsOf(strategies.ALL.named(name))
        return self._of_strategies[name]

    def warnings(self, with_room: tuple[str, ...]) -> MemoizedStep[tuple[str, ...]]:
        if with_room not in self._warnings:
            self._warnings[with_room] = MemoizedStep(partial(warnings_of, with_room=with_room))
        return self._warnings[with_room]


class Points:
    """Questions at each of many points; ``errors`` say why some are not possible, ``table`` has the others."""

    def __init__(self, given: PointsLike, steps: Steps | None = None) -> None:
        self.steps = steps = steps or Steps()
        self.table, self.errors = checked_table(given)
        self._run("complete", steps.complete)
        self._run("contestants", steps.contestants)
        self._run("drafting", steps.drafting)
        self._run("site", steps.site, "drafting")
        self._run("place", steps.place, "contestants", "site")

    def _run(self, name: str, step: MemoizedStep[Any], *arguments: str) -> None:
        self.table, errors = self.table.after(name, step, *arguments)
        for row, error in errors.items():
            self.errors[row] = error

    @property
    def names(self) -> tuple[str, ...]:
        """Strategies that are asked for at any point that is possible."""
        asked = self.table.results["contestants"].used().values
        return tuple(dict.fromkeys(name for each in asked for name in each.value.names))

    def subject(self, row: int) -> str:
        """The strategy that the answer at a point is about."""
        contestants = self.table.results["contestants"].at(self._place[row]).value
        return str(contestants.subject)

    @cached_property
    def _place(self) -> dict[int, int]:
        return {row: place for place, row in enumerate(self.table.rows.tolist())}

    @property
    def sites(self) -> list[Site | None]:
        """The site of each point that is possible."""
        return [each.value for each in self.table.results["site"].of_each()]

    def each(self, step: MemoizedStep[T]) -> Column[Result[T] | InputError]:
        """The result of a step about who is compared at each point that is possible, and where."""
        return step.each(self.table, self.table.results["contestants"], self.table.results["site"])

    def warnings(self, with_room: Mapping[tuple[str, ...], Rows]) -> frozenset[str]:
        """Warnings about acceptance and hits, by which strategies have room at which points."""
        said: set[str] = set()
        for names, rows in with_room.items():
            table = self.table.take(np.array([self._place[row] for row in rows.tolist()], dtype=np.intp))
            step = self.steps.warnings(names)
            for result in step.each(table, table.results["contestants"], table.results["site"]).values:
                if isinstance(result, InputError):
                    raise result
                said.update(result.value)
        return frozenset(said)

    def asking(self, name: str) -> Rows:
        """The places in the table of the points that ask for a strategy."""
        contestants = self.table.results["contestants"]
        asks = np.array([name in each.value.names for each in contestants.values], dtype=bool)
        return np.flatnonzero(asks[contestants.index])

    def scenarios(
        self,
        name: str,
        places: Rows | None = None,
        turned: Column[Mapping[str, Entry]] | None = None,
        numbered: bool = False,
    ) -> Scenarios:
        """A strategy's scenarios, with each of its alternatives, where a word such as ``auto`` leaves a choice.

        They are at the points that ask for it, or at some ``places`` in the table, with the options ``turned`` that a
        search tries at each. Rows are those of the points; ``numbered`` where these are several times among places.
        """
        steps = self.steps.of_strategy(name)
        table = self.table.take(self.asking(name) if places is None else places)
        if turned is not None:
            table = table.settled(turned)
        if numbered:
            table = replace(table, rows=np.arange(len(table)))
        table, errors = table.after("alternatives", steps.alternatives)
        table, refused = _with_alternatives(table).after("price", steps.price, "site", "contestants")
        table, wrong = table.after("tokens", steps.tokens, "contestants")
        reasons = {row: error.reason for row, error in refused.items() if isinstance(error, CannotRun)}
        errors |= wrong | {row: error for row, error in refused.items() if row not in reasons}
        bad = np.array([*refused, *errors], dtype=np.intp)
        return Scenarios(steps.strategy, table.take(np.flatnonzero(~np.isin(table.rows, bad))), reasons, errors)


def _with_alternatives(table: PointTable) -> PointTable:
    """Each point with each of its alternatives, one after the other."""
    alternatives = table.results["alternatives"]
    counts = np.array([len(each.value) for each in alternatives.values], dtype=np.intp)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
    of_point = counts[alternatives.index]
    point = np.repeat(np.arange(len(table)), of_point)
    number = np.arange(len(point)) - np.repeat(np.cumsum(of_point) - of_point, of_point)
    writes = [settled for each in alternatives.values for settled in each.value]
    return table.take(point).settled(Column(writes, starts[alternatives.index[point]] + number))


class Scenarios(Record):
    """Scenarios of one strategy in columns, those of a point in the order of its alternatives.

    ``refused`` says at which points it cannot run and why, ``errors`` what else is wrong there.
    """

    strategy: Strategy
    table: PointTable
    refused: Mapping[int, str]
    errors: Mapping[int, InputError]

    def __len__(self) -> int:
        return len(self.table)

    @property
    def rows(self) -> Rows:
        """Each scenario's point."""
        return self.table.rows

    def take(self, at: Rows) -> Scenarios:
        """The scenarios of these indices."""
        return replace(self, table=self.table.take(at))

    def joined(self, other: Scenarios) -> Scenarios:
        """These, and then those of the same strategy at other points."""
        refused, errors = {**self.refused, **other.refused}, {**self.errors, **other.errors}
        return Scenarios(self.strategy, self.table.joined(other.table), refused, errors)

    def __getitem__(self, number: int) -> Scenario:
        results = {name: column.at(number) for name, column in self.table.results.items()}
        return scenario_of(
            self.strategy,
            results["contestants"].value.drafter,
            self.table.settings(number),
            results["site"].value,
            results["alternatives"].reads,
            results["price"],
            results["tokens"],
        )

    def __iter__(self) -> Iterator[Scenario]:
        return map(self.__getitem__, range(len(self)))

    def values(self, name: str) -> list[Any]:
        """An option's value in each of them."""
        return self.table.values(name)

    @cached_property
    def side_by_side(self) -> ScenarioTable:
        """Their prices and tokens in columns."""
        priced, known = (self._results(name) for name in ("price", "tokens"))
        batch = np.array(self.values("b"), dtype=float)
        return ScenarioTable(self.strategy, batch, priced.values, priced.index, known.values, known.index)

    def _results(self, name: str) -> Column[Any]:
        return self.table.results[name].used().map(lambda result: result.value)

    @property
    def is_unsure(self) -> NDArray[np.bool_]:
        """Whether each scenario is uncertain: it rests on timings, or on tokens that nobody measured or gave."""
        site, known = self.table.results["site"], self.table.results["tokens"]
        has_site = np.array([result.value is not None for result in site.values], dtype=bool)
        is_unsure = np.array([not result.value.is_sure for result in known.values], dtype=bool)
        return np.asarray(has_site[site.index] | is_unsure[known.index])
