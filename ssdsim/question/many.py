"""Many scenarios of one strategy: closed-form estimates in columns, and tokens/s under draws of all errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.intervals import Draws, centred_on, median
from ssdsim.base.record import Record, replace
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.occupancy import Devices
from ssdsim.question.price import Priced
from ssdsim.question.scenario import Scenario
from ssdsim.question.token_errors import LOOKS, Cases, Changes, KnownTokens, drawn, look_of
from ssdsim.rounds.kernel import Averages, select, stack, tile
from ssdsim.rounds.round import Estimate, Round, Seconds
from ssdsim.strategies.protocols.strategy import Strategy

_KEPT = 2048  # prices whose drawn steps are kept


class ScenarioTable(Record):
    """Scenarios of one strategy in columns: distinct prices and tokens, and the index of each scenario's."""

    strategy: Strategy
    batch: Array
    prices: Sequence[Priced]
    price_of: NDArray[np.intp]
    known: Sequence[KnownTokens]
    known_of: NDArray[np.intp]

    @classmethod
    def of(cls, scenarios: Sequence[Scenario]) -> ScenarioTable:
        at = np.arange(len(scenarios))
        batch = np.array([each.batch for each in scenarios], dtype=float)
        priced, known = [each.priced for each in scenarios], [each.known for each in scenarios]
        return cls(scenarios[0].strategy, batch, priced, at, known, at)

    def __len__(self) -> int:
        return len(self.batch)

    def select(self, at: NDArray[np.intp]) -> ScenarioTable:
        """Some of the scenarios, by their numbers."""
        prices, price_of = np.unique(self.price_of[at], return_inverse=True)
        known, known_of = np.unique(self.known_of[at], return_inverse=True)
        made = [self.prices[number] for number in prices], price_of, [self.known[number] for number in known], known_of
        return ScenarioTable(self.strategy, self.batch[at], *made)

    @cached_property
    def averages(self) -> Averages:
        """The averages of their rounds, in columns."""
        return select(stack([each.tokens.averages for each in self.known], self.strategy.free_running), self.known_of)

    def devices(self, of: Callable[[Devices], float]) -> NDArray[Any]:
        """A number of their devices."""
        return np.array([of(price.devices) for price in self.prices])[self.price_of]


def estimate(rows: ScenarioTable) -> Estimate:
    """The closed form of all ``rows``; every number a column."""
    alike = _of_the_same_steps(rows)
    if len(alike) > 1:
        return _put_together([estimate(rows.select(numbers)) for numbers in alike], alike)
    return rows.strategy.closed_form(_round(rows, _seconds(rows), rows.averages, ()))


def rates(scenarios: Sequence[Scenario], errors: TimingErrors) -> Draws:
    """Tokens/s of each of them under each draw of the errors, shape ``(scenarios, draws)``."""
    return DrawnRates(errors)(ScenarioTable.of(scenarios))


def across(rows: ScenarioTable, errors: TimingErrors) -> Draws:
    """Tokens/s of each row over the ranges of its token inputs, at the predicted timings.

    Shape ``(rows, looks)``: at the ends of all ranges first. Some input of each row lies in a range.
    """
    at_ends = rates_over(rows, lambda known: known.at_ends)
    return np.concatenate([at_ends, rates_over(rows, lambda known: known.at_looks(errors))], axis=1)


def rates_over(rows: ScenarioTable, cases_of: Callable[[KnownTokens], Cases]) -> Draws:
    """Tokens/s of each row (first axis) in cases with other token inputs; all rows have the same number of cases."""
    alike = _of_the_same_steps(rows)
    if len(alike) > 1:
        return _in_order([rates_over(rows.select(numbers), cases_of) for numbers in alike], alike)
    made = [cases_of(each) for each in rows.known]
    averages = select(stack([each.averages for each in made], rows.strategy.free_running), rows.known_of)
    seconds = _seconds_over(rows, [each.changes for each in made])
    rate = rows.strategy.mean_round(_round(rows, seconds, averages, (None,))).tokens_per_second
    return np.broadcast_to(np.asarray(rate), np.shape(averages.tokens_per_round))


def _seconds(rows: ScenarioTable) -> dict[str, Array]:
    """Each step's duration in a column, of rows whose rounds have the same steps."""
    seconds = [price.seconds for price in rows.prices]
    return {name: np.array([each[name] for each in seconds])[rows.price_of] for name in seconds[0]}


def _seconds_over(rows: ScenarioTable, of_known: Sequence[Changes]) -> dict[str, Array]:
    """Each step's duration, a row a scenario, in one column or, where inputs of tokens move prices, in one a change."""
    if all(price.again is None for price in rows.prices):
        return {name: column[:, None] for name, column in _seconds(rows).items()}
    each = list(zip(rows.price_of.tolist(), rows.known_of.tolist(), strict=True))
    over = {pair: rows.prices[pair[0]].over(of_known[pair[1]]) for pair in dict.fromkeys(each)}
    return {
        name: np.stack(np.broadcast_arrays(*(np.atleast_1d(over[pair][name]) for pair in each)))
        for name in rows.prices[0].seconds
    }


def _in_order(parts: Sequence[Draws], numbers: Sequence[NDArray[np.intp]]) -> Draws:
    """All rows from parts of them, by their numbers."""
    return np.concatenate(parts)[np.argsort(np.concatenate(numbers))]


def _of_the_same_steps(rows: ScenarioTable) -> list[NDArray[np.intp]]:
    """Numbers of rows whose rounds have the same steps: columns of steps have one value a row."""
    steps = [tuple(price.expected) for price in rows.prices]
    if len(kinds := list(dict.fromkeys(steps))) == 1:
        return [np.arange(len(rows))]
    of = np.array([kinds.index(each) for each in steps])[rows.price_of]
    return [np.flatnonzero(of == kind) for kind in range(len(kinds))]


def _put_together(parts: Sequence[Estimate], numbers: Sequence[NDArray[np.intp]]) -> Estimate:
    """One estimate of all rows from those of some of them, by their numbers."""
    order = np.argsort(np.concatenate(numbers))

    def column(of_each: Sequence[Any]) -> Any:
        whole = [np.broadcast_to(each, len(of)) for each, of in zip(of_each, numbers, strict=True)]
        return np.concatenate(whole)[order]

    return _by_column(parts, column)


def rows_of(whole: Estimate, at: NDArray[np.intp], rows: int) -> Estimate:
    """The rows ``at`` of an estimate of so many; every number a column."""
    return _by_column([whole], lambda of_each: np.broadcast_to(of_each[0], rows)[at])


def _by_column(parts: Sequence[Estimate], column: Callable[[Sequence[Any]], Any]) -> Estimate:
    """One estimate, whose every number ``column`` makes of those of the parts; None where one of them has none."""

    def made(of_each: Sequence[Any]) -> Any:
        return None if any(each is None for each in of_each) else column(of_each)

    names = [name for name in Estimate.__struct_fields__ if name not in ("strategy", "breakdown_s")]
    return Estimate(
        parts[0].strategy,
        breakdown_s={part: made([each.breakdown_s[part] for each in parts]) for part in parts[0].breakdown_s},
        **{name: made([getattr(each, name) for each in parts]) for name in names},
    )


class DrawnRates:
    """:func:`rates` with a cache: the drawn steps of a price serve all rows that have it.

    Timings and tokens are drawn together. Where only timings and measured rates err, the median of a row's draws is its
    prediction; rates that lie in a range move each draw from there.
    """

    def __init__(self, errors: TimingErrors) -> None:
        self.errors = errors
        self._drawn: dict[int, tuple[Any, Mapping[str, Seconds]]] = {}  # by a price that is kept, too, and so its id

    def __call__(self, rows: ScenarioTable) -> Draws:
        if len(self._drawn) > _KEPT:
            self._drawn.clear()
        alike = _of_the_same_steps(rows)
        if len(alike) > 1:
            return _in_order([self(rows.select(numbers)) for numbers in alike], alike)
        steps = [self.steps(price) for price in rows.prices]
        seconds = {name: np.stack([each[name] for each in steps])[rows.price_of] for name in steps[0]}
        known = select(rows.averages, np.arange(len(rows))[:, None])  # each row's numbers in a column
        at_values = self._under(rows, seconds, known)
        factor = np.asarray(estimate(rows).tokens_per_second)[..., None] / median(at_values)[:, None]
        if not any(each.open for each in rows.known):
            return at_values * factor
        over_draws = [tile(each.over_ranges(self.errors), self.errors.draws) for each in rows.known]
        over_ranges = select(stack(over_draws, rows.strategy.free_running), rows.known_of)
        over_s = self._over_ranges(rows, seconds) if any(price.again for price in rows.prices) else seconds
        return self._under(rows, over_s, over_ranges) * factor

    def _over_ranges(self, rows: ScenarioTable, seconds: Mapping[str, Seconds]) -> Mapping[str, Seconds]:
        """The drawn steps as the looks over the ranges of tokens move their prices."""
        at_looks = [each.at_looks(self.errors).changes for each in rows.known]
        over, expected = _seconds_over(rows, at_looks), _seconds(rows)
        in_turn = look_of(self.errors.draws)

        def times(name: str) -> Array:
            """The factor by which a step takes longer, a row a scenario and a column a draw."""
            now = expected[name][:, None]
            each = np.divide(over[name], now, out=np.ones(over[name].shape), where=now > 0.0)
            return np.broadcast_to(each, (len(rows), LOOKS))[:, in_turn]

        return {name: drawn * times(name) for name, drawn in seconds.items()}

    def of_timings(self, scenario: Scenario) -> Draws:
        """Tokens/s of a scenario where timings alone err, around its prediction."""
        drawn_round = replace(scenario.round, seconds=self.steps(scenario.priced))
        alone = np.asarray(scenario.strategy.mean_round(drawn_round).tokens_per_second)
        return centred_on(float(scenario.estimate.tokens_per_second), np.broadcast_to(alone, self.errors.draws))

    def steps(self, price: Priced) -> Mapping[str, Seconds]:
        """Seconds of each step under each draw."""
        if id(price) not in self._drawn:
            self._drawn[id(price)] = price, {name: step.sample(self.errors) for name, step in price.steps.items()}
        return self._drawn[id(price)][1]

    def _under(self, rows: ScenarioTable, seconds: Mapping[str, Seconds], averages: Averages) -> Draws:
        made = [each.moves for each in rows.known]
        nowhere = dict.fromkeys(rows.known[0].tokens.averages.inside, 0.0)
        still = Averages(0.0, nowhere, nowhere)  # in a direction that a row does not know
        moves = {
            name: select(
                stack([each.get(name, still) for each in made], rows.strategy.free_running), rows.known_of[:, None]
            )
            for name in dict.fromkeys(name for each in made for name in each)
        }
        moved = drawn(averages, moves, self.errors)
        tokens_per_second = rows.strategy.mean_round(_round(rows, seconds, moved, (None,))).tokens_per_second
        return np.broadcast_to(np.asarray(tokens_per_second), (len(rows), self.errors.draws))


def _round(rows: ScenarioTable, seconds: Mapping[str, Seconds], averages: Averages, axes: tuple[None, ...]) -> Round:
    """The round of all rows; batch and devices are columns with ``axes`` behind the rows."""
    return Round(
        batch=rows.batch[:, *axes],
        gpus=rows.devices(lambda devices: devices.per_target).astype(float)[:, *axes],
        seconds=seconds,
        averages=averages,
        targets=rows.devices(lambda devices: devices.served)[:, *axes],
        together=rows.devices(lambda devices: devices.together)[:, *axes],
        microbatches=rows.devices(lambda devices: devices.microbatches)[:, *axes],
    )


class RateDraws(Record):
    """One rate under draws of what is not known.

    ``joint`` are of timings and tokens together, ``timings`` of timings alone. ``across`` are rates over the ranges of
    tokens, at their ends among others, with timings as they are predicted: the same looks for all that are held against
    each other. None where nobody asked for them, or no token input lies in a range.
    """

    joint: Draws
    timings: Draws
    across: Draws | None = None

    @classmethod
    def of(cls, scenario: Scenario, errors: TimingErrors, rates: DrawnRates | None = None) -> RateDraws:
        """Draws of tokens/s of a scenario; ``rates``, of the same errors, may know its price's draws."""
        of_errors = rates or DrawnRates(errors)
        return cls(of_errors(ScenarioTable.of([scenario]))[0], of_errors.of_timings(scenario))

    def over_ranges(self, scenario: Scenario, errors: TimingErrors) -> RateDraws:
        """The draws with the rates ``across`` the ranges of the scenario's tokens."""
        return replace(self, across=across(ScenarioTable.of([scenario]), errors)[0]) if scenario.known.open else self

    def scaled(self, by: float | Draws) -> RateDraws:
        """Draws of a rate that is so many times as high; ``by`` may be a number a draw."""
        middle = float(median(np.atleast_1d(by)))
        return RateDraws(self.joint * by, self.timings * by, None if self.across is None else self.across * middle)
