"""Many predictions at once: each distinct cost and kernel is worked out once, closed forms take whole columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssdsim import strategies
from ssdsim.answers import columns as named
from ssdsim.answers.contest import share_fastest
from ssdsim.answers.predict import check_constant
from ssdsim.base.checks import Array, whole
from ssdsim.base.errors import InputError
from ssdsim.base.intervals import Draws, bounds_95
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.room import NoRoom
from ssdsim.scenario.asked import Asked, RememberedSteps, Steps
from ssdsim.scenario.many import Rates, estimate
from ssdsim.scenario.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

_POINTS_REMEMBERED = 30_000  # some 200 MB
_POINTS_AT_ONCE = 512  # of drawn columns: 4 MB a column at 1000 draws


def evaluate(
    points: Iterable[Mapping[str, Any]], draws: int = 0, seed: int = 0, names: Collection[str] = ()
) -> pd.DataFrame:
    """Predict in closed form at every point; the same numbers as :func:`ssdsim.predict`.

    Parameters
    ----------
    points : option mappings as :func:`ssdsim.configure` takes them.
    draws : of all that is not known, timings and tokens, for intervals; 0 for none. ``predict`` takes 1000.
    seed : of those draws; the same timing's error, and the same input of tokens, is the same at every point.
    names : strategies that have columns even where no point asks for them.

    Returns
    -------
    A row a point, in order. For each of the points' strategies (by default ``ar``, ``sd``, ``ssd``):
    ``*_tokens_per_second`` over the whole batch, ``*_gpus``, ``*_round_s``, ``tokens_per_round_*``; ratios such as
    ``ssd_over_sd``; ``p_hit`` (stationary), ``p_all_hit``, ``backup`` (the better one of ``auto``), ``budget`` (cached
    outcomes a sequence). Unit-free points count in T_v instead of seconds. With draws also ``ar_low``, ``ar_high`` and
    so on (95 % of tokens/s) and ``probability_ssd_beats_sd``, NaN where unit-free and all rates of tokens are given.
    ``error`` is None, or says in one line why the point, or one of its strategies, is not possible: what is not
    possible is NaN. ``attrs["warnings"]`` lists the extrapolations behind the rows.

    Raises
    ------
    InputError : ``points`` are not mappings; draws or seed is not a whole number of at least 0.

    >>> points = [{"t_sd": 0.2, "alpha": 0.9, "k": 5, "p_hit": p_hit} for p_hit in (0.5, 0.85, 1.5)]
    >>> evaluate(points)[["ssd_over_sd", "error"]].round(3)
       ssd_over_sd                                error
    0        1.091                                 None
    1        1.165                                 None
    2          NaN  --p-hit must lie in [0, 1], got 1.5
    """
    return Evaluator().frame(points, draws, seed, names)


@dataclass(frozen=True)
class Evaluated:
    """A table of predictions, an array a column; ``errors`` has None for a point that is possible."""

    columns: Mapping[str, NDArray[Any]]
    errors: Sequence[str | None]
    warnings: Sequence[str]

    def rows(self) -> Iterator[dict[str, Any]]:
        """A mapping a point."""
        values = (column.tolist() for column in self.columns.values())
        return (dict(zip(self.columns, row, strict=True)) for row in zip(*values, strict=True))


class Evaluator:
    """:func:`evaluate` for who asks many times: it keeps costs and kernels from one call to the next."""

    def __init__(self) -> None:
        self._steps = RememberedSteps()
        self._evaluated = 0

    def evaluate(
        self, points: Iterable[Mapping[str, Any]], draws: int = 0, seed: int = 0, names: Collection[str] = ()
    ) -> Evaluated:
        """The numbers of :func:`evaluate`; the columns are those of this call's strategies."""
        draws, seed = whole("draws", draws, 0), whole("seed", seed, 0)
        return self._table(points, names).evaluated(draws, seed)

    def fastest(self, points: Iterable[Mapping[str, Any]]) -> Fastest:
        """The scenario of the one strategy that each point names."""
        return Fastest(self._table(points, ()))

    def _table(self, points: Iterable[Mapping[str, Any]], names: Collection[str]) -> _Table:
        if self._evaluated > _POINTS_REMEMBERED:
            self._steps, self._evaluated = RememberedSteps(), 0
        table = _Table(self._steps, names)
        for point in _mappings(points):
            table.add(point)
            self._evaluated += 1
        return table

    def frame(
        self, points: Iterable[Mapping[str, Any]], draws: int = 0, seed: int = 0, names: Collection[str] = ()
    ) -> pd.DataFrame:
        """What :func:`evaluate` returns."""
        import pandas as pd  # takes longer to load than small grids to evaluate

        results = self.evaluate(points, draws, seed, names)
        frame = pd.DataFrame(results.columns, index=range(len(results.errors)))
        frame["error"] = pd.Series(np.array(results.errors, dtype=object), dtype=object)
        frame.attrs["warnings"] = results.warnings
        return frame


def _mappings(points: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    if not isinstance(points, Iterable) or isinstance(points, Mapping | str):
        raise InputError(f"points must be several mappings of options, got {points!r}")
    for point in points:
        if not isinstance(point, Mapping):
            raise InputError(f"a point must be a mapping of options, got {point!r}")
        yield point


class _Row(NamedTuple):
    """A scenario at a point, by the point's number."""

    point: int
    scenario: Scenario


class _Table:
    """Points in the order in which they are added."""

    def __init__(self, steps: Steps, names: Collection[str]) -> None:
        self._steps = steps
        self._rows: dict[str, list[_Row]] = {name: [] for name in names}
        self.errors: list[str | None] = []
        self._has_errors: list[bool] = []  # not where times are unit-free and tokens given
        self._of_tokens: set[str] = set()

    def add(self, point: Mapping[str, Any]) -> None:
        self._has_errors.append(False)
        self.errors.append(None)
        try:
            self._add(len(self.errors) - 1, Asked.of(point, self._steps))
        except InputError as error:
            self.errors[-1] = str(error)

    def _add(self, number: int, asked: Asked) -> None:
        for name in asked.names:
            self._rows.setdefault(name, [])
        rows_by_name, problems = {}, {}
        for name in asked.names:
            try:
                rows_by_name[name] = [_Row(number, scenario) for scenario in asked.scenarios(name)]
            except NoRoom as error:
                problems[name] = str(error)
        if rows_by_name:
            check_constant(asked.settings["spread"])
        self._of_tokens.update(asked.warnings(rows_by_name, asked.settings))
        known = (row.scenario.known for rows in rows_by_name.values() for row in rows)
        self._has_errors[number] = asked.site is not None or not all(each.is_sure for each in known)
        for name, rows in rows_by_name.items():  # only now, since any other mistake refuses the whole point
            self._rows[name].extend(rows)
        if problems:
            self.errors[number] = problems.get(asked.subject) or next(iter(problems.values()))

    def fastest(self) -> dict[int, tuple[float, Scenario]]:
        """Tokens/s and scenario by the point's number, where each point has one strategy."""
        best = (_fastest(rows) for rows in self._rows.values() if rows)
        return {row.point: (rate, row.scenario) for rows in best for rate, row in rows}

    def evaluated(self, draws: int, seed: int) -> Evaluated:
        names = [strategy.name for strategy in strategies.ALL if strategy.name in self._rows]
        names = names or list(strategies.default())
        warnings = self.warnings
        columns: dict[str, Any] = {}
        for name in names:
            if self._rows.get(name):
                self._rows[name] = [row for _, row in _fastest(self._rows[name])]
                columns |= self._results(names, name)
        columns |= named.over(named.ratios(names), columns)
        if draws and self._rows:
            columns |= self._intervals(names, TimingErrors(draws, seed))
        nowhere = np.full(len(self.errors), np.nan)
        wanted = [*named.results(names), *(named.intervals(names) if draws else ())]
        return Evaluated({name: columns.get(name, nowhere) for name in wanted}, self.errors, sorted(warnings))

    @property
    def warnings(self) -> frozenset[str]:
        prices = {id(row.scenario.priced): row.scenario for rows in self._rows.values() for row in rows}
        return frozenset(self._of_tokens).union(*(scenario.warnings for scenario in prices.values()))

    def _results(self, names: Sequence[str], name: str) -> dict[str, NDArray[Any]]:
        """A strategy's columns over all points; NaN, or None for words, where it is not possible."""
        rows = self._rows[name]
        points, scenarios = [row.point for row in rows], [row.scenario for row in rows]
        columns = {
            column: self._spread(points, np.broadcast_to(values, len(rows)))
            for column, values in named.of_estimate(names, estimate(scenarios)).items()
        }
        for told in strategies.ALL.named(name).told:
            values = [scenario.settings[told] for scenario in scenarios]
            words = any(isinstance(value, str) for value in values)
            kind = object if words else float
            columns[named.own(names, name, told)] = self._spread(points, np.array(values, dtype=kind))
        return columns

    def _spread(self, points: Sequence[int], values: NDArray[Any]) -> NDArray[Any]:
        column = np.full(len(self.errors), np.nan if values.dtype != object else None, dtype=values.dtype)
        column[points] = values
        return column

    def _intervals(self, names: Sequence[str], errors: TimingErrors) -> dict[str, Array]:
        """95 % intervals of tokens/s; NaN where times are unit-free and every rate of tokens is given."""
        filled = {name: np.full(len(self.errors), np.nan) for name in named.intervals(names)}
        by_point = {name: dict(self._rows[name]) for name in names}
        rates = {name: Rates(errors) for name in names}
        for start in range(0, len(self.errors), _POINTS_AT_ONCE):
            points = [n for n in range(start, min(start + _POINTS_AT_ONCE, len(self.errors))) if self._has_errors[n]]
            draws: dict[str, Draws] = {}
            for name in names:
                draws[name] = np.full((len(points), errors.draws), np.nan)
                present = [place for place, point in enumerate(points) if point in by_point[name]]
                if present:
                    at = [points[place] for place in present]
                    draws[name][present] = rates[name]([by_point[name][point] for point in at])
                filled[f"{name}_low"][points], filled[f"{name}_high"][points] = bounds_95(draws[name])
            for name, rival in named.contests(names):
                both = [p for p in range(len(points)) if points[p] in by_point[name] and points[p] in by_point[rival]]
                faster = share_fastest(draws[name][both], [draws[rival][both]])
                filled[named.probability(name, rival)][np.array(points, dtype=int)[both]] = faster
        return filled


def _fastest(rows: Sequence[_Row]) -> list[tuple[float, _Row]]:
    """At each point the scenario of most tokens/s (the first of equals), and these."""
    best: dict[int, tuple[float, _Row]] = {}
    speeds = np.broadcast_to(estimate([row.scenario for row in rows]).tokens_per_second, len(rows)).tolist()
    for rate, row in zip(speeds, rows, strict=True):
        if row.point not in best or rate > best[row.point][0]:
            best[row.point] = rate, row
    return list(best.values())


class Fastest:
    """The scenarios of points with one strategy each; ``found`` has in its place why a point is not possible."""

    def __init__(self, table: _Table) -> None:
        best = table.fastest()
        self._table = table
        self.found = [best[number][1] if error is None else error for number, error in enumerate(table.errors)]
        self.tokens_per_second = [best[n][0] if error is None else 0.0 for n, error in enumerate(table.errors)]

    @property
    def warnings(self) -> frozenset[str]:
        return self._table.warnings
