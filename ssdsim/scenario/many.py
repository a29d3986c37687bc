"""Scenarios of one strategy side by side: estimates as columns, and tokens/s under draws of all that is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ssdsim.base.intervals import Draws, centred_on, median
from ssdsim.pricing.cost import TimingErrors
from ssdsim.rounds.estimate import Estimate
from ssdsim.rounds.kernel import Averages, repeated_over, stacked, taken
from ssdsim.rounds.round import Round, Seconds
from ssdsim.scenario.scenario import Scenario
from ssdsim.scenario.token_errors import Moves, drawn

_KEPT = 2048  # prices whose drawn steps are kept


def estimate(rows: Sequence[Scenario]) -> Estimate:
    """The closed form of all ``rows``; every number a column."""
    alike = _of_the_same_steps(rows)
    if len(alike) > 1:
        return _put_together([estimate([rows[number] for number in numbers]) for numbers in alike], alike)
    seconds = [row.seconds for row in rows]
    columns = {name: np.array([each[name] for each in seconds]) for name in seconds[0]}
    averages = stacked([row.tokens.averages for row in rows], rows[0].strategy.free_running)
    return rows[0].strategy.closed_form(_round(rows, columns, averages, ()))


def rates(rows: Sequence[Scenario], errors: TimingErrors) -> Draws:
    """Tokens/s of each of ``rows`` under each draw of the errors, shape ``(rows, draws)``."""
    return Rates(errors)(rows)


def _of_the_same_steps(rows: Sequence[Scenario]) -> list[list[int]]:
    """Numbers of rows whose rounds have the same steps: columns of steps have one value a row."""
    found: dict[tuple[str, ...], list[int]] = {}
    for number, row in enumerate(rows):
        found.setdefault(tuple(row.steps), []).append(number)
    return list(found.values())


def _put_together(parts: Sequence[Estimate], numbers: Sequence[Sequence[int]]) -> Estimate:
    """One estimate of all rows from those of some of them, by their numbers."""
    order = np.argsort(np.concatenate(numbers))

    def column(of_each: Sequence[Any]) -> Any:
        if any(each is None for each in of_each):
            return None
        whole = [np.broadcast_to(each, len(of)) for each, of in zip(of_each, numbers, strict=True)]
        return np.concatenate(whole)[order]

    names = [field.name for field in fields(Estimate) if field.name not in ("strategy", "breakdown_s")]
    return Estimate(
        parts[0].strategy,
        breakdown_s={part: column([each.breakdown_s[part] for each in parts]) for part in parts[0].breakdown_s},
        **{name: column([getattr(each, name) for each in parts]) for name in names},
    )


class Rates:
    """:func:`rates` for who asks often: the drawn steps of a price are kept for the next row that has it.

    Timings and tokens are drawn together. Where only timings and measured rates err, the median of a row's draws is its
    prediction; rates that lie in a range move each draw from there.
    """

    def __init__(self, errors: TimingErrors) -> None:
        self._errors = errors
        self._drawn: dict[int, tuple[Any, Mapping[str, Seconds]]] = {}  # by a price that is kept, too, and so its id

    def __call__(self, rows: Sequence[Scenario]) -> Draws:
        if len(self._drawn) > _KEPT:
            self._drawn.clear()
        alike = _of_the_same_steps(rows)
        if len(alike) > 1:
            apart = [self([rows[number] for number in numbers]) for numbers in alike]
            return np.concatenate(apart)[np.argsort(np.concatenate(alike))]
        steps = [self.steps(row) for row in rows]
        seconds = {name: np.stack([each[name] for each in steps]) for name in steps[0]}
        made = [row.tokens.averages for row in rows]
        known = stacked(made, rows[0].strategy.free_running)
        known = taken(known, np.arange(len(rows))[:, None])  # each row's numbers in a column
        at_values = self._under(rows, seconds, known)
        factor = np.asarray(estimate(rows).tokens_per_second)[..., None] / median(at_values)[:, None]
        if not any(row.known.open for row in rows):
            return at_values * factor
        over_draws = [repeated_over(row.known.over_ranges(self._errors), self._errors.draws) for row in rows]
        return self._under(rows, seconds, stacked(over_draws, rows[0].strategy.free_running)) * factor

    def steps(self, row: Scenario) -> Mapping[str, Seconds]:
        """Seconds of each step of a row under each draw."""
        price = row.priced
        if id(price) not in self._drawn:
            self._drawn[id(price)] = price, {name: step.sample(self._errors) for name, step in price.steps.items()}
        return self._drawn[id(price)][1]

    def _under(self, rows: Sequence[Scenario], seconds: Mapping[str, Seconds], averages: Averages) -> Draws:
        moved = drawn(averages, _moves(rows), self._errors)
        found = rows[0].strategy.closed_form(_round(rows, seconds, moved, (None,))).tokens_per_second
        return np.broadcast_to(np.asarray(found), (len(rows), self._errors.draws))


def _round(
    rows: Sequence[Scenario], seconds: Mapping[str, Seconds], averages: Averages, axes: tuple[None, ...]
) -> Round:
    """Batch and devices are columns with ``axes`` behind the rows."""
    return Round(
        batch=np.array([row.batch for row in rows], dtype=float)[:, *axes],
        gpus=np.array([row.gpus for row in rows], dtype=float)[:, *axes],
        seconds=seconds,
        averages=averages,
        targets=np.array([row.devices.targets for row in rows])[:, *axes],
        together=np.array([row.devices.together for row in rows])[:, *axes],
    )


def _moves(rows: Sequence[Scenario]) -> Moves:
    """Columns of how the averages move, 0 in a direction that a row does not know."""
    made = [row.known.moves for row in rows]
    nowhere = dict.fromkeys(rows[0].tokens.averages.inside, 0.0)
    still = Averages(0.0, nowhere, nowhere)
    at = np.arange(len(rows))[:, None]
    return {
        name: taken(stacked([each.get(name, still) for each in made], rows[0].strategy.free_running), at)
        for name in dict.fromkeys(name for each in made for name in each)
    }


@dataclass(frozen=True)
class Drawn:
    """One rate under draws of what is not known.

    ``joint`` are of timings and tokens together, ``timings`` of timings alone. ``across`` are rates over the ranges of
    tokens, at their ends among others, with timings as they are predicted: the same looks for all that are held against
    each other. None where no token input lies in a range.
    """

    joint: Draws
    timings: Draws
    across: Draws | None = None

    @classmethod
    def of(cls, scenario: Scenario, errors: TimingErrors) -> Drawn:
        """Of tokens/s of a scenario."""
        of_errors = Rates(errors)
        joint = of_errors([scenario])[0]
        rate, closed_form = float(scenario.estimate.tokens_per_second), scenario.strategy.closed_form
        alone = np.asarray(closed_form(replace(scenario.round, seconds=of_errors.steps(scenario))).tokens_per_second)
        timings = centred_on(rate, np.broadcast_to(alone, errors.draws))
        if not scenario.known.open:
            return cls(joint, timings)
        looks = (scenario.known.ends, scenario.known.by_look(errors))
        across = [np.asarray(closed_form(replace(scenario.round, averages=each)).tokens_per_second) for each in looks]
        return cls(joint, timings, np.concatenate(across))

    def scaled(self, by: float | Draws) -> Drawn:
        """Of a rate that is so many times as high; ``by`` may be a number a draw."""
        middle = float(median(np.atleast_1d(by)))
        return Drawn(self.joint * by, self.timings * by, None if self.across is None else self.across * middle)
