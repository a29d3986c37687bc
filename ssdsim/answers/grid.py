"""Many predictions at once: each distinct cost and kernel is computed once, and closed forms take whole columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ssdsim import strategies
from ssdsim.answers import columns as named
from ssdsim.answers.best_at_points import best_scenarios
from ssdsim.answers.decision import share_fastest
from ssdsim.answers.predict import DRAWS, check_constant
from ssdsim.base.checks import Array, whole
from ssdsim.base.errors import InputError, short_repr, why_refused
from ssdsim.base.intervals import Draws, bounds_95
from ssdsim.base.record import Record
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.site import Site
from ssdsim.question.checked_options import GridPart
from ssdsim.question.many import DrawnRates, estimate, rows_of
from ssdsim.question.options import ALL
from ssdsim.question.point_table import MemoizedStep, Result
from ssdsim.question.points import Points, Scenarios, Steps
from ssdsim.question.price import Priced
from ssdsim.question.scenario import Scenario
from ssdsim.question.spellings import own_names
from ssdsim.rounds.round import Estimate

if TYPE_CHECKING:
    import pandas as pd

MOST_DRAWS = 10_000  # an interval's ends are then as sure as they need to be
_POINTS_AT_SITES = 30_000  # whose sites and prices are remembered
_ROUNDS_REMEMBERED = 40_000  # some 200 MB
_POINTS_AT_ONCE = 512  # of drawn columns: 4 MB a column at 1000 draws


def evaluate(
    points: Iterable[Mapping[str, Any]], draws: int = 0, seed: int = 0, names: Collection[str] = ()
) -> pd.DataFrame:
    """Predict in closed form at every point; the same numbers as :func:`ssdsim.predict`.

    Parameters
    ----------
    points : option mappings as :func:`ssdsim.configure` takes them.
    draws : of the errors of timings and token inputs, for intervals; 0 for none. ``predict`` takes 1000.
    seed : of those draws; a timing's error and a token input are the same at every point.
    names : strategies that have columns even if no point asks for them.

    Returns
    -------
    A row a point, in order. For each of the points' strategies (by default ``ar``, ``sd``, ``ssd``):
    ``*_tokens_per_second`` over the whole batch, ``*_gpus``, ``*_round_s``, ``tokens_per_round_*``; ratios such as
    ``ssd_over_sd``; ``p_hit`` (stationary), ``p_all_hit``, ``backup`` (the better one of ``auto``), ``budget`` (cached
    outcomes a sequence). Unit-free points count in T_v instead of seconds. With draws also ``ar_low``, ``ar_high`` and
    so on (95 % of tokens/s) and ``probability_ssd_beats_sd``, NaN if unit-free and all rates of tokens are given.
    ``error`` is None, or says in one line why the point, or one of its strategies, is not possible; its columns are
    NaN then. ``attrs["warnings"]`` lists the extrapolations behind the rows.

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
    if isinstance(points, Iterable) and not isinstance(points, Mapping):
        points = [own_names(point) if isinstance(point, Mapping) else point for point in points]
    return Evaluator().evaluate(points, draws, seed, names).frame()


class Evaluated(Record):
    """A table of predictions, an array a column; ``errors`` has None for a possible point."""

    columns: Mapping[str, NDArray[Any]]
    errors: Sequence[str | None]
    warnings: Sequence[str]

    def rows(self) -> Iterator[dict[str, Any]]:
        """A mapping a point."""
        values = (column.tolist() for column in self.columns.values())
        return (dict(zip(self.columns, row, strict=True)) for row in zip(*values, strict=True))

    def frame(self) -> pd.DataFrame:
        """The table that :func:`evaluate` returns."""
        import pandas as pd  # takes longer to load than small grids to evaluate

        frame = pd.DataFrame(self.columns, index=range(len(self.errors)))
        frame["error"] = pd.Series(np.array(self.errors, dtype=object), dtype=object)
        frame.attrs["warnings"] = self.warnings
        return frame


class Evaluator:
    """:func:`evaluate` for many calls: it keeps costs and kernels from one call to the next.

    ``fastest`` takes strategies as they are asked for, or, with rates ``chosen_by``, each at its own best.
    """

    def __init__(self, chosen_by: DrawnRates | None = None) -> None:
        self._steps, self._chosen_by = Steps(), chosen_by
        self._evaluated = 0

    def evaluate(
        self, points: Iterable[Mapping[str, Any]], draws: int = 0, seed: int = 0, names: Collection[str] = ()
    ) -> Evaluated:
        """The numbers of :func:`evaluate`; the columns are those of this call's strategies."""
        draws, seed = whole("draws", draws, 0, MOST_DRAWS), whole("seed", seed, 0)
        if not isinstance(names, Collection):
            raise InputError(f"names must be those of strategies, got {short_repr(names)}")
        names = ALL["strategies"].checked(tuple(names)) if len(names) else ()
        asked, rates = self._asked(points), DrawnRates(TimingErrors(DRAWS, seed))
        found = {name: best_scenarios(asked, name, rates) for name in asked.names}
        return PointResults(asked, found, names).evaluated(draws, seed)

    def sites(self, points: Sequence[Mapping[str, Any]]) -> list[Site | None]:
        """The site of each point."""
        asked = Points(points, self._steps)
        for error in filter(None, asked.errors):
            raise error
        return asked.sites

    def fastest(self, points: Iterable[Mapping[str, Any]]) -> PointResults:
        """The fastest scenario of each strategy that a point names, with the default of an option that is not given."""
        asked, by = self._asked(points), self._chosen_by
        found = {name: best_scenarios(asked, name, by) if by else asked.scenarios(name) for name in asked.names}
        return PointResults(asked, found)

    def _asked(self, points: Iterable[Mapping[str, Any]]) -> Points:
        self._steps.forget_rounds(_ROUNDS_REMEMBERED)
        if self._evaluated > _POINTS_AT_SITES:
            self._steps.forget_sites()
            self._evaluated = 0
        given = points if isinstance(points, GridPart) else list(_mappings(points))
        self._evaluated += len(given)
        return Points(given, self._steps)


def _mappings(points: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    if not isinstance(points, Iterable) or isinstance(points, Mapping | str):
        raise InputError(f"points must be several mappings of options, got {points!r}")
    for point in points:
        if not isinstance(point, Mapping):
            raise InputError(f"a point must be a mapping of options, got {point!r}")
        yield point


class PointResults:
    """Results at points, in order: of each strategy the fastest of the scenarios that were ``found``."""

    def __init__(self, points: Points, found: Mapping[str, Scenarios], names: Collection[str] = ()) -> None:
        self._points = points
        self._names = [strategy.name for strategy in strategies.ALL if strategy.name in {*found, *names}]
        self.errors = [None if error is None else str(error) for error in points.errors]
        for each in found.values():
            self._refuse(each)
        self._prices: dict[int, Priced] = {}
        self._fastest: dict[str, Fastest] = {}
        self._possible = np.array([error is None for error in self.errors], dtype=bool)
        for name, each in found.items():
            kept = each.take(np.flatnonzero(self._possible[each.rows]))
            if len(kept):
                self._prices |= {id(price): price for price in kept.side_by_side.prices}
                self._fastest[name] = Fastest.of(kept)
        for row in sorted({row for each in found.values() for row in each.refused if self._possible[row]}):
            problems = {name: each.refused[row] for name, each in found.items() if row in each.refused}
            self.errors[row] = why_refused(points.subject(row), problems)

    def _refuse(self, scenarios: Scenarios) -> None:
        """Note the errors of points that hold for all strategies."""
        for row, error in scenarios.errors.items():
            self.errors[row] = self.errors[row] or str(error)
        spreads = np.array(scenarios.values("spread"))
        for spread in np.unique(spreads).tolist():
            try:
                check_constant(spread)
            except InputError as error:
                for row in scenarios.rows[spreads == spread].tolist():
                    self.errors[row] = self.errors[row] or str(error)

    @cached_property
    def warnings(self) -> frozenset[str]:
        with_room = np.zeros((len(self._fastest), len(self.errors)), dtype=bool)
        for has, each in zip(with_room, self._fastest.values(), strict=True):
            has[each.scenarios.rows] = True
        of_tokens = self._points.warnings(_gathered(list(self._fastest), with_room, np.flatnonzero(self._possible)))
        steps = (step for price in self._prices.values() for step in price.expected.values())
        return of_tokens.union(*(step.warnings for step in steps))

    def side_by_side(self, name: str) -> Scenarios | None:
        """A strategy's scenarios; None if it is possible at no point."""
        found = self._fastest.get(name)
        return None if found is None else found.scenarios

    @cached_property
    def results(self) -> list[PointResult | str]:
        """The result of each point, or why it is not possible; each point names one strategy."""
        found = dict(pair for each in self._fastest.values() for pair in each.of_points())
        return [found[row] if error is None else error for row, error in enumerate(self.errors)]

    @cached_property
    def tokens_per_second(self) -> Array:
        """Tokens/s of each point, 0 if it is not possible; each point names one strategy."""
        rates = np.zeros(len(self.errors))
        for each in self._fastest.values():
            rates[each.scenarios.rows] = each.rates
        return np.where([error is None for error in self.errors], rates, 0.0)

    def evaluated(self, draws: int, seed: int) -> Evaluated:
        names = self._names or list(strategies.DEFAULT)
        columns: dict[str, Any] = {}
        for name in names:
            if name in self._fastest:
                columns |= self._results(names, name)
        columns |= named.over(named.ratios(names), columns)
        if draws and self._names:
            columns |= self._intervals(names, TimingErrors(draws, seed))
        nowhere = np.full(len(self.errors), np.nan)
        wanted = [*named.results(names), *(named.intervals(names) if draws else ())]
        return Evaluated({name: columns.get(name, nowhere) for name in wanted}, self.errors, sorted(self.warnings))

    def _results(self, names: Sequence[str], name: str) -> dict[str, NDArray[Any]]:
        """A strategy's columns over all points; NaN, or None for text, if it is not possible."""
        fastest = self._fastest[name]
        scenarios = fastest.scenarios
        columns = {
            column: self._spread(scenarios.rows, values)
            for column, values in named.of_estimate(names, fastest.estimate).items()
        }
        strategy = scenarios.strategy
        if strategy.drafts:
            drafted = MemoizedStep(strategy.lookahead).each(scenarios.table).map(_value)
            columns[named.lookahead(name)] = self._spread(scenarios.rows, np.array(drafted.of_each(), dtype=float))
        for told in strategy.shown_settings:
            values = scenarios.values(told)
            words = any(isinstance(value, str) for value in values)
            kind = object if words else float
            columns[named.own(names, name, told)] = self._spread(scenarios.rows, np.array(values, dtype=kind))
        return columns

    def _spread(self, points: NDArray[np.intp], values: NDArray[Any]) -> NDArray[Any]:
        column = np.full(len(self.errors), np.nan if values.dtype != object else None, dtype=values.dtype)
        column[points] = values
        return column

    def _intervals(self, names: Sequence[str], errors: TimingErrors) -> dict[str, Array]:
        """95 % intervals of tokens/s; NaN if times are unit-free and every rate of tokens is given."""
        filled = {name: np.full(len(self.errors), np.nan) for name in named.intervals(names)}
        err = self._err()
        places = {name: np.full(len(self.errors), -1, dtype=np.intp) for name in names}
        for name, each in self._fastest.items():
            places[name][each.scenarios.rows] = np.arange(len(each.scenarios))
        rates = {name: DrawnRates(errors) for name in names}
        for start in range(0, len(self.errors), _POINTS_AT_ONCE):
            points = start + np.flatnonzero(err[start : start + _POINTS_AT_ONCE])
            draws: dict[str, Draws] = {}
            for name in names:
                draws[name] = np.full((len(points), errors.draws), np.nan)
                own = places[name][points]
                if (own >= 0).any():
                    rows = self._fastest[name].scenarios.side_by_side.select(own[own >= 0])
                    draws[name][own >= 0] = rates[name](rows)
                filled[f"{name}_low"][points], filled[f"{name}_high"][points] = bounds_95(draws[name])
            for name, rival in named.contests(names):
                both = (places[name][points] >= 0) & (places[rival][points] >= 0)
                faster = share_fastest(draws[name][both], [draws[rival][both]])
                filled[named.probability(name, rival)][points[both]] = faster
        return filled

    def _err(self) -> NDArray[np.bool_]:
        """Points with errors: on hardware, or with token inputs that are not given."""
        err = np.zeros(len(self.errors), dtype=bool)
        for each in self._fastest.values():
            err[each.scenarios.rows] |= each.scenarios.is_unsure
        return err


def _value(result: Result[int] | InputError) -> int:
    assert isinstance(result, Result)  # of a point that is possible
    return result.value


def _gathered(
    names: Sequence[str], with_room: NDArray[np.bool_], rows: NDArray[np.intp]
) -> dict[tuple[str, ...], NDArray[np.intp]]:
    """The points ``rows`` grouped by the strategies that have room there."""
    if not rows.size:
        return {}
    kinds, kind = np.unique(with_room[:, rows], axis=1, return_inverse=True)
    return {
        tuple(name for name, has in zip(names, of, strict=True) if has): rows[kind == number]
        for number, of in enumerate(kinds.T)
    }


class Fastest(Record):
    """The scenario of most tokens/s at each point (the first of equals), with their estimates in columns."""

    scenarios: Scenarios
    estimate: Estimate

    @property
    def rates(self) -> Array:
        return np.asarray(self.estimate.tokens_per_second)

    @classmethod
    def of(cls, scenarios: Scenarios) -> Fastest:
        found = estimate(scenarios.side_by_side)
        rates = np.broadcast_to(found.tokens_per_second, len(scenarios))
        order = np.lexsort((np.arange(len(scenarios)), -rates, scenarios.rows))
        first = np.ones(len(order), dtype=bool)
        first[1:] = np.diff(scenarios.rows[order]) > 0
        best = order[first]
        return cls(scenarios.take(best), rows_of(found, best, len(scenarios)))

    def of_points(self) -> Iterator[tuple[int, PointResult]]:
        """Each point's row with its result."""
        told = self.scenarios.strategy.shown_settings
        columns = (self.scenarios.values(name) for name in told)
        said = zip(*columns, strict=True) if told else repeat((), len(self.scenarios))
        rates = np.broadcast_to(self.rates, len(self.scenarios)).tolist()
        rows = zip(self.scenarios.rows.tolist(), rates, said, strict=True)
        for number, (row, rate, values) in enumerate(rows):
            yield row, PointResult(self.scenarios, number, rate, dict(zip(told, values, strict=True)))


class Repriced(Record):
    """The fastest scenario of a point that another process has priced; it is priced again when it is read."""

    evaluator: Evaluator
    point: Mapping[str, Any]

    def __getitem__(self, number: int) -> Scenario:
        (found,) = self.evaluator.fastest([self.point]).results
        assert isinstance(found, PointResult)  # it was possible there
        return found.scenario


class PointResult(Record):
    """The fastest scenario of a point, made when it is read, with its tokens/s and the settings that are shown."""

    scenarios: Scenarios | Sequence[Scenario] | Repriced
    number: int
    tokens_per_second: float
    settings: Mapping[str, Any]

    @cached_property
    def scenario(self) -> Scenario:
        return self.scenarios[self.number]
