"""Many predictions at once: each distinct cost and kernel is worked out once, closed forms take whole columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ssdsim import drafters, strategies
from ssdsim.answers import columns as named
from ssdsim.answers.predict import check_constant
from ssdsim.answers.remembered import Remembered
from ssdsim.checks import FloatOrArray, whole
from ssdsim.errors import InputError
from ssdsim.intervals import Draws, bounds_95, centred_on
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.room import NoRoom
from ssdsim.pricing.site import Site
from ssdsim.protocols.strategy import Strategy
from ssdsim.rounds.estimate import Estimate
from ssdsim.rounds.kernel import Averages
from ssdsim.rounds.round import Round, Seconds
from ssdsim.scenario.configuration import effective, price, settle_spread, site_of, subject_among
from ssdsim.scenario.drafting import ahead_warnings, published_warnings
from ssdsim.scenario.measured_pair import token_warnings
from ssdsim.scenario.token_errors import Moves, drawn, moves
from ssdsim.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

_POINTS_AT_ONCE = 512  # of drawn columns: 4 MB a column at 1000 draws
_DRAWN_AT_ONCE = 2048  # prices whose drawn steps are kept


def evaluate(
    points: Iterable[Mapping[str, Any]], draws: int = 0, seed: int = 0, names: Collection[str] = ()
) -> pd.DataFrame:
    """Predict in closed form at every point; the same numbers as :func:`ssdsim.predict`.

    Parameters
    ----------
    points : option mappings as :func:`ssdsim.configure` takes them.
    draws : of the timings' errors, for intervals; 0 for none. ``predict`` takes 1000.
    seed : of those draws; the same timing's error is the same at every point.
    names : strategies that have columns even where no point asks for them.

    Returns
    -------
    A row a point, in order. For each of the points' strategies (by default ``ar``, ``sd``, ``ssd``):
    ``*_tokens_per_second`` over the whole batch, ``*_gpus``, ``*_round_s``, ``tokens_per_round_*``; ratios such as
    ``ssd_over_sd``; ``p_hit`` (stationary), ``p_all_hit``, ``backup`` (the better one of ``auto``), ``budget`` (cached
    outcomes a sequence). Unit-free points count in T_v instead of seconds. With draws also ``ar_low``, ``ar_high`` and
    so on (95 % of tokens/s) and ``probability_ssd_beats_sd``, NaN where unit-free.
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
    import pandas as pd  # takes longer to load than small grids to evaluate

    found = Evaluator().evaluate(points, draws, seed, names)
    frame = pd.DataFrame(found.columns, index=range(len(found.errors)))
    frame["error"] = pd.Series(np.array(found.errors, dtype=object), dtype=object)
    frame.attrs["warnings"] = found.warnings
    return frame


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
        self._sites: Remembered[Site | None] = Remembered(site_of)
        self._known: dict[str, _Known] = {}

    def evaluate(
        self, points: Iterable[Mapping[str, Any]], draws: int = 0, seed: int = 0, names: Collection[str] = ()
    ) -> Evaluated:
        """The numbers of :func:`evaluate`; the columns are those of this call's strategies."""
        draws, seed = whole("draws", draws, 0), whole("seed", seed, 0)
        table = _Table(self._sites, self._known, names)
        for point in _mappings(points):
            table.add(point)
        return table.evaluated(draws, seed)


def _mappings(points: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    if not isinstance(points, Iterable) or isinstance(points, Mapping | str):
        raise InputError(f"points must be several mappings of options, got {points!r}")
    for point in points:
        if not isinstance(point, Mapping):
            raise InputError(f"a point must be a mapping of options, got {point!r}")
        yield point


@dataclass(frozen=True, slots=True)
class _Case:
    """A strategy at a point with one of its alternatives: its number, and where its averages and its price are."""

    point: int
    batch: int
    averages: int
    priced: int
    told: tuple[Any, ...]


class _Tokens:
    """A kernel's averages, and how they move with rates that were measured, worked out when it is asked for."""

    def __init__(self, strategy: Strategy, settings: Settings, drafter: Drafter) -> None:
        self.averages = strategy.kernel(settings, drafter).averages
        # what says which measured rates these are is read here, so that no other ones are remembered as these
        pair, *_ = (settings[name] for name in ("pair", "pair_set", "pair_backup", "temperature"))
        self._measured = pair is not None
        self._of = strategy, settings.copy(), drafter

    @cached_property
    def moves(self) -> Moves:
        return moves(*self._of) if self._measured else {}


class _Known:
    """What a strategy's kernels and steps come to, worked out once for all points that share what they read."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.averages = Remembered(lambda settings, drafter: _Tokens(strategy, settings, drafter))
        self.priced = Remembered(lambda settings, site, drafter: price(strategy, settings, site, drafter))
        self._seconds: list[dict[str, float]] = []

    def seconds(self, priced: int) -> Mapping[str, float]:
        """Each step's duration."""
        for made in self.priced.made[len(self._seconds) :]:
            self._seconds.append({name: step.seconds for name, step in made.expected.items()})
        return self._seconds[priced]


class _Column:
    """One strategy's cases at the points of a call."""

    def __init__(self, known: _Known) -> None:
        self.strategy = known.strategy
        self._known = known
        self._cases: list[_Case] = []
        self._drawn: dict[int, Mapping[str, Seconds]] = {}

    def made(self, point: int, settings: Settings, site: tuple[int, Site | None], drafter: Drafter) -> list[_Case]:
        """Every alternative of the strategy at a point."""
        made = []
        for own in self.strategy.alternatives(settings.copy()):
            priced = self._known.priced.number(own, site[1], drafter, key=(site[0], drafter.name))
            averages = self._known.averages.number(own, drafter, key=drafter.name)
            told = tuple(own[name] for name in self.strategy.told)
            made.append(_Case(point, own["b"], averages, priced, told))
        return made

    def add(self, cases: Iterable[_Case]) -> None:
        self._cases.extend(cases)

    def choose(self) -> None:
        """Keep the alternative of most tokens/s at each point (the first of equals)."""
        rates = np.asarray(self.estimate(self._cases).tokens_per_second).tolist()
        best: dict[int, tuple[float, _Case]] = {}
        for rate, case in zip(rates, self._cases, strict=True):
            if case.point not in best or rate > best[case.point][0]:
                best[case.point] = rate, case
        self._cases = [case for _, case in best.values()]

    @property
    def cases(self) -> Sequence[_Case]:
        return self._cases

    def estimate(self, cases: Sequence[_Case]) -> Estimate:
        """The closed form of many cases at once; every number a column."""
        return self.strategy.closed_form(self._round(cases, lambda column: column, self._seconds(cases)))

    def drawn(self, cases: Sequence[_Case], errors: TimingErrors) -> Estimate:
        """The same under every draw of the timings' errors, draws across."""
        if len(self._drawn) > _DRAWN_AT_ONCE:
            self._drawn.clear()
        for case in cases:
            if case.priced not in self._drawn:
                steps = self._known.priced.made[case.priced].steps
                self._drawn[case.priced] = {name: step.sample(errors) for name, step in steps.items()}
        names = self._drawn[cases[0].priced]
        seconds = {name: np.stack([self._drawn[case.priced][name] for case in cases]) for name in names}
        round = self._round(cases, lambda column: column[:, None], seconds)
        return self.strategy.closed_form(replace(round, averages=drawn(round.averages, self._moves(cases), errors)))

    def _moves(self, cases: Sequence[_Case]) -> Moves:
        """Columns of how the averages move, 0 in a direction that a case does not know."""
        made = [self._known.averages.made[case.averages].moves for case in cases]
        nowhere = dict.fromkeys(self._known.averages.made[cases[0].averages].averages.inside, 0.0)
        still = Averages(0.0, nowhere, nowhere)
        return {
            name: _columns(
                [each.get(name, still) for each in made], lambda column: column[:, None], self.strategy.free_running
            )
            for name in dict.fromkeys(name for each in made for name in each)
        }

    def _seconds(self, cases: Sequence[_Case]) -> dict[str, Seconds]:
        if not cases:
            return {}
        rows = [self._known.seconds(case.priced) for case in cases]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def _round(self, cases: Sequence[_Case], shaped: Any, seconds: Mapping[str, Seconds]) -> Round:
        return Round(
            batch=shaped(np.array([case.batch for case in cases], dtype=float)),
            gpus=shaped(np.array([self._known.priced.made[case.priced].devices.total for case in cases], dtype=float)),
            seconds=seconds,
            averages=_columns(
                [self._known.averages.made[case.averages].averages for case in cases],
                shaped,
                self.strategy.free_running,
            ),
        )

    @property
    def warnings(self) -> frozenset[str]:
        steps = [self._known.priced.made[number].expected for number in {case.priced for case in self._cases}]
        return frozenset().union(*(step.warnings for made in steps for step in made.values()))


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


class _Table:
    """Points in the order in which they are added."""

    def __init__(self, sites: Remembered[Site | None], known: dict[str, _Known], names: Collection[str]) -> None:
        self._sites = sites
        self._known = known
        self._columns: dict[str, _Column] = {}
        for name in names:
            self._column(name)
        self._errors: list[str | None] = []
        self._has_errors: list[bool] = []  # of timings: not where unit-free
        self._of_tokens: set[str] = set()

    def add(self, point: Mapping[str, Any]) -> None:
        self._has_errors.append(False)
        self._errors.append(None)
        try:
            self._add(len(self._errors) - 1, effective(point))
        except InputError as error:
            self._errors[-1] = str(error)

    def _add(self, number: int, settings: Settings) -> None:
        """The steps of :func:`ssdsim.configure`, in its order."""
        names = settings["strategies"]
        subject = subject_among(names, settings["subject"])
        drafter = drafters.ALL.named(settings["drafter"])
        for name in names:
            self._column(name)
        where = self._sites.number(settings)
        site = self._sites.made[where]
        settle_spread(settings, site)
        self._has_errors[number] = site is not None
        made, problems = {}, {}
        for name in names:
            try:
                made[name] = self._columns[name].made(number, settings, (where, site), drafter)
            except NoRoom as error:
                problems[name] = str(error)
        if made:
            check_constant(settings["spread"])
        self._of_tokens.update(token_warnings(settings), published_warnings(settings), ahead_warnings(made, drafter))
        for name, cases in made.items():  # only now, since any other mistake refuses the whole point
            self._columns[name].add(cases)
        if problems:
            self._errors[number] = problems.get(subject) or next(iter(problems.values()))

    def _column(self, name: str) -> _Column:
        if name not in self._columns:
            known = self._known.setdefault(name, _Known(strategies.ALL.named(name)))
            self._columns[name] = _Column(known)
        return self._columns[name]

    def evaluated(self, draws: int, seed: int) -> Evaluated:
        names = [strategy.name for strategy in strategies.ALL if strategy.name in self._columns]
        names = names or list(strategies.default())
        columns: dict[str, Any] = {}
        for name in names:
            if name in self._columns and self._columns[name].cases:
                self._columns[name].choose()
                columns |= self._results(names, self._columns[name])
        columns |= named.over(named.ratios(names), columns)
        if draws and self._columns:
            columns |= self._intervals(names, columns, TimingErrors(draws, seed))
        nowhere = np.full(len(self._errors), np.nan)
        wanted = [*named.results(names), *(named.intervals(names) if draws else ())]
        warnings = self._of_tokens.union(*(column.warnings for column in self._columns.values()))
        return Evaluated({name: columns.get(name, nowhere) for name in wanted}, self._errors, sorted(warnings))

    def _results(self, names: Sequence[str], column: _Column) -> dict[str, NDArray[Any]]:
        """A strategy's columns over all points; NaN, or None for words, where it is not possible."""
        cases = column.cases
        rows = [case.point for case in cases]
        found = {
            name: self._spread(rows, np.broadcast_to(values, len(cases)))
            for name, values in named.of_estimate(names, column.estimate(cases)).items()
        }
        for place, told in enumerate(column.strategy.told):
            values = [case.told[place] for case in cases]
            words = any(isinstance(value, str) for value in values)
            kind = object if words else float
            found[named.own(names, column.strategy.name, told)] = self._spread(rows, np.array(values, dtype=kind))
        return found

    def _spread(self, rows: Sequence[int], values: NDArray[Any]) -> NDArray[Any]:
        column = np.full(len(self._errors), np.nan if values.dtype != object else None, dtype=values.dtype)
        column[rows] = values
        return column

    def _intervals(
        self, names: Sequence[str], columns: Mapping[str, NDArray[Any]], errors: TimingErrors
    ) -> dict[str, NDArray[np.float64]]:
        """95 % intervals of tokens/s; NaN where times are unit-free, since those have no errors."""
        found = {name: np.full(len(self._errors), np.nan) for name in named.intervals(names)}
        by_point: dict[str, dict[int, _Case]] = {
            name: {case.point: case for case in self._columns[name].cases} for name in names
        }
        for start in range(0, len(self._errors), _POINTS_AT_ONCE):
            points = [n for n in range(start, min(start + _POINTS_AT_ONCE, len(self._errors))) if self._has_errors[n]]
            draws: dict[str, Draws] = {}
            for name in names:
                draws[name] = self._draws(points, columns, name, by_point[name], errors)
                found[f"{name}_low"][points], found[f"{name}_high"][points] = bounds_95(draws[name])
            for name, rival in named.contests(names):
                both = [p for p in range(len(points)) if points[p] in by_point[name] and points[p] in by_point[rival]]
                faster = np.mean(draws[name][both] > draws[rival][both], axis=-1)
                found[named.probability(name, rival)][np.array(points, dtype=int)[both]] = faster
        return found

    def _draws(
        self,
        points: Sequence[int],
        columns: Mapping[str, NDArray[Any]],
        name: str,
        by_point: Mapping[int, _Case],
        errors: TimingErrors,
    ) -> Draws:
        """Draws of a strategy's tokens/s at ``points``, shape ``(points, draws)``; NaN where it is not possible."""
        drawn = np.full((len(points), errors.draws), np.nan)
        present = [place for place, point in enumerate(points) if point in by_point]
        if present:
            cases = [by_point[points[place]] for place in present]
            rates = columns[f"{name}_tokens_per_second"][[case.point for case in cases], None]
            estimate = self._columns[name].drawn(cases, errors)
            drawn[present] = centred_on(rates, np.asarray(estimate.tokens_per_second))
        return drawn
