"""Scenarios of one strategy side by side: estimates as columns, and tokens/s under draws of the errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.checks import FloatOrArray
from ssdsim.intervals import Draws
from ssdsim.pricing.cost import TimingErrors
from ssdsim.rounds.estimate import Estimate
from ssdsim.rounds.kernel import Averages
from ssdsim.rounds.round import Round, Seconds
from ssdsim.scenario.scenario import Scenario
from ssdsim.scenario.token_errors import Moves, drawn

_KEPT = 2048  # prices whose drawn steps are kept


def estimate(rows: Sequence[Scenario]) -> Estimate:
    """The closed form of all ``rows``; every number a column."""
    seconds = [row.seconds for row in rows]
    columns = {name: np.array([each[name] for each in seconds]) for name in seconds[0]}
    return rows[0].strategy.closed_form(_round(rows, lambda column: column, columns))


def rates(rows: Sequence[Scenario], errors: TimingErrors) -> Draws:
    """Tokens/s of each of ``rows`` under each draw of the errors, shape ``(rows, draws)``."""
    return Rates(errors)(rows)


class Rates:
    """:func:`rates` for who asks often: the drawn steps of a price are kept for the next row that has it."""

    def __init__(self, errors: TimingErrors) -> None:
        self._errors = errors
        self._drawn: dict[int, tuple[Any, Mapping[str, Seconds]]] = {}  # by a price that is kept, too, and so its id

    def __call__(self, rows: Sequence[Scenario]) -> Draws:
        if len(self._drawn) > _KEPT:
            self._drawn.clear()
        steps = [self._steps(row) for row in rows]
        columns = {name: np.stack([each[name] for each in steps]) for name in steps[0]}
        round = _round(rows, lambda column: column[:, None], columns)
        moved = drawn(round.averages, _moves(rows), self._errors)
        found = rows[0].strategy.closed_form(replace(round, averages=moved)).tokens_per_second
        return np.broadcast_to(np.asarray(found), (len(rows), self._errors.draws))

    def _steps(self, row: Scenario) -> Mapping[str, Seconds]:
        price = row.priced
        if id(price) not in self._drawn:
            self._drawn[id(price)] = price, {name: step.sample(self._errors) for name, step in price.steps.items()}
        return self._drawn[id(price)][1]


def _round(rows: Sequence[Scenario], shaped: Any, seconds: Mapping[str, Seconds]) -> Round:
    return Round(
        batch=shaped(np.array([row.batch for row in rows], dtype=float)),
        gpus=shaped(np.array([row.gpus for row in rows], dtype=float)),
        seconds=seconds,
        averages=_columns([row.tokens.averages for row in rows], shaped, rows[0].strategy.free_running),
    )


def _moves(rows: Sequence[Scenario]) -> Moves:
    """Columns of how the averages move, 0 in a direction that a row does not know."""
    made = [row.known.moves for row in rows]
    nowhere = dict.fromkeys(rows[0].tokens.averages.inside, 0.0)
    still = Averages(0.0, nowhere, nowhere)
    return {
        name: _columns(
            [each.get(name, still) for each in made], lambda column: column[:, None], rows[0].strategy.free_running
        )
        for name in dict.fromkeys(name for each in made for name in each)
    }


def _columns(made: Sequence[Averages], shaped: Any, free_running: bool) -> Averages:
    """Averages of many cases as one, every number a column."""

    def shares(rows: list[Mapping[str, Any]]) -> dict[str, NDArray[np.float64]]:
        states = dict.fromkeys(state for row in rows for state in row)
        return {state: shaped(np.array([row.get(state, 0.0) for row in rows])) for state in states}

    return Averages(
        shaped(np.array([each.tokens_per_round for each in made])),
        shares([each.inside for each in made]),
        shares([each.to for each in made]),
        shaped(_rows([each.accepted for each in made])) if free_running else None,
        _shared([each.shared for each in made], shaped),
    )


def _shared(made: Sequence[FloatOrArray | None], shaped: Any) -> FloatOrArray | None:
    """Infinite where sequences are independent; None where they are so everywhere."""
    if all(each is None for each in made):
        return None
    found: FloatOrArray = shaped(np.array([np.inf if each is None else each for each in made]))
    return found


def _rows(pmfs: Sequence[NDArray[np.float64] | None]) -> NDArray[np.float64]:
    """Distributions of different lengths below each other, NaN beyond each one's end."""
    rows = np.full((len(pmfs), max((pmf.size for pmf in pmfs if pmf is not None), default=1)), np.nan)
    for row, pmf in zip(rows, pmfs, strict=True):
        if pmf is not None:
            row[: pmf.size] = pmf
    return rows
