"""Many predictions at once: each distinct cost and speculator is worked out once, closed forms take whole columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import itemgetter
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ssdsim.answers.predict import STRATEGIES, Prediction, check_constant, estimate_all, predict_configured
from ssdsim.checks import whole
from ssdsim.engine.simulate import Engine
from ssdsim.errors import InputError
from ssdsim.intervals import Draws, bounds_95, centred_on
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.placement import Placement, RoundCosts
from ssdsim.rounds.estimate import Estimate
from ssdsim.rounds.scenario import Count, Gpus, RoundTimes
from ssdsim.scenario.configuration import Priced, configure, effective, locate, price, settle_spread
from ssdsim.scenario.options import read_by
from ssdsim.speculation.requests import RoundAverages, mean_sd_tokens, ssd_averages
from ssdsim.speculation.speculator import Fallback
from ssdsim.speculation.speculators import speculators

T = TypeVar("T")

RESULTS = (
    *(f"{name}_tokens_per_second" for name in STRATEGIES),
    *("ssd_over_sd", "ssd_over_ar", "sd_over_ar"),
    *(f"{name}_gpus" for name in STRATEGIES),
    *("tokens_per_round_sd", "tokens_per_round_ssd"),
    *(f"{name}_round_s" for name in STRATEGIES),
    *("p_hit", "p_all_hit", "backup", "budget"),
)
INTERVALS = (*(f"{name}_{end}" for name in STRATEGIES for end in ("low", "high")), "probability_ssd_beats_sd")

_CASES_AT_ONCE = 512  # of drawn columns: 4 MB a column at 1000 draws


def evaluate(points: Iterable[Mapping[str, Any]], draws: int = 0, seed: int = 0) -> pd.DataFrame:
    """Predict AR, SD and SSD in closed form at every point; the same numbers as :func:`ssdsim.predict`.

    Parameters
    ----------
    points : option mappings as :func:`ssdsim.configure` takes them.
    draws : of the timings' errors, for intervals; 0 for none. ``predict`` takes 1000.
    seed : of those draws; the same timing's error is the same at every point.

    Returns
    -------
    A row a point, in order. For each strategy (``ar``, ``sd``, ``ssd``): ``*_tokens_per_second`` over the whole
    batch, ``*_gpus``, ``*_round_s``; ``ssd_over_sd``, ``ssd_over_ar``, ``sd_over_ar``; ``tokens_per_round_sd``,
    ``tokens_per_round_ssd``; ``p_hit`` (stationary), ``p_all_hit``; ``backup`` (the better one of ``auto``),
    ``budget`` (cached outcomes a sequence). Unit-free points count in T_v instead of seconds. With draws also
    ``ar_low``, ``ar_high`` and so on (95 % of tokens/s) and ``probability_ssd_beats_sd``, NaN where unit-free.
    ``error`` is None, or says in one line why the point is not possible: the rest is then NaN.
    ``attrs["warnings"]`` lists the extrapolations behind the rows.

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
    whole("draws", draws, 0), whole("seed", seed, 0)
    table = _Table()
    for point in _mappings(points):
        table.add(point)
    return table.frame(draws, seed)


def _mappings(points: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    if not isinstance(points, Iterable) or isinstance(points, Mapping | str):
        raise InputError(f"points must be several mappings of options, got {points!r}")
    for point in points:
        if not isinstance(point, Mapping):
            raise InputError(f"a point must be a mapping of options, got {point!r}")
        yield point


def simulate_each(
    points: Iterable[Mapping[str, Any]], engine: Engine, precision: float | None = None, seed: int = 0
) -> pd.DataFrame:
    """Simulate every point by itself; the columns of :func:`evaluate` with intervals.

    ``precision`` is the half width of the 95 % interval of tokens/s at which a run ends, relative; by default that of
    :func:`ssdsim.predict`. Intervals hold the simulation's error and, on hardware, the timings'. Every point has the
    same seed, so neighbours differ by less than their intervals say.
    """
    rows: list[dict[str, Any]] = []
    warnings: set[str] = set()
    for point in points:
        try:
            prediction = predict_configured(configure(**point), seed, engine, precision)
        except InputError as error:
            rows.append({"error": str(error)})
            continue
        rows.append(_simulated(prediction))
        warnings |= set(prediction.configuration.warnings)
    frame = pd.DataFrame(rows, columns=[*RESULTS, *INTERVALS, "error"])
    frame["error"] = pd.Series([row.get("error") for row in rows], dtype=object)
    frame.attrs["warnings"] = sorted(warnings)
    return frame


def _simulated(prediction: Prediction) -> dict[str, Any]:
    configuration = prediction.configuration
    row: dict[str, Any] = dict(_results(prediction.estimates))
    row |= {"backup": configuration.scenario.fallback, "budget": configuration.values["budget"]}
    for name, interval in prediction.intervals.items():
        row |= {f"{name}_low": interval.low, f"{name}_high": interval.high} if interval else {}
    return row | {"probability_ssd_beats_sd": prediction.verdict.probability}


@dataclass
class _Step(Generic[T]):
    """A step of configuring that is run once for each distinct set of the options it reads."""

    reads: tuple[str, ...]
    run: Callable[..., T]
    made: list[T] = field(default_factory=list)
    _known: dict[tuple[Any, ...], tuple[int, dict[str, Any]] | str] = field(default_factory=dict)

    def number(self, values: dict[str, Any], *arguments: Any) -> int:
        """Where in ``made`` the result for ``values`` is; writes into ``values`` what the step derives."""
        key = (itemgetter(*self.reads)(values), *arguments)
        try:
            found = self._known.get(key)
        except TypeError:  # lists are not hashable
            key = _frozen(key)
            found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._new(values, arguments)
        if isinstance(found, str):
            raise InputError(found)
        values.update(found[1])
        return found[0]

    def _new(self, values: dict[str, Any], arguments: tuple[Any, ...]) -> tuple[int, dict[str, Any]] | str:
        before = {name: values[name] for name in self.reads}
        read = dict(before)
        try:
            self.made.append(self.run(read, {}, *arguments))
        except InputError as error:
            return str(error)
        written = {name: value for name, value in read.items() if name not in before or value is not before[name]}
        return len(self.made) - 1, written


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class _Rounds:
    """What the closed forms read of a speculation, apart from its durations."""

    ssd: RoundAverages
    sd_tokens_per_round: float


@dataclass(frozen=True)
class _Columns:
    """Scenarios side by side, as the closed forms read them; every number is an array."""

    batch: Count
    gpus: Gpus
    times: RoundTimes
    ssd: RoundAverages
    sd_tokens_per_round: NDArray[np.float64]

    def against(self, drawn: RoundTimes, numbers: list[int]) -> _Columns:
        """The scenarios of these numbers (down) with every draw of their times (across)."""

        def down(column: NDArray[np.float64]) -> NDArray[np.float64]:
            return column[numbers, None]

        return _Columns(
            batch=down(self.batch),
            gpus=Gpus(*(down(getattr(self.gpus, f.name)) for f in fields(Gpus))),
            times=drawn,
            ssd=RoundAverages(down(self.ssd.tokens_per_round), down(self.ssd.p_hit)),
            sd_tokens_per_round=down(self.sd_tokens_per_round),
        )


@dataclass(frozen=True, slots=True)
class _Case:
    """A point with one fallback: its number, and where its rounds and its durations are."""

    point: int
    fallback: Fallback
    batch: int
    budget: int
    rounds: int
    priced: int


class _Table:
    """Points in the order in which they are added."""

    def __init__(self) -> None:
        # a step sees no options but those that are said to be read by it, so none can be forgotten there
        self._placed: _Step[Placement | None] = _Step(read_by("placement"), locate)
        self._rounds: _Step[_Rounds] = _Step(read_by("speculation"), _rounds)
        self._priced: _Step[Priced] = _Step((*read_by("price"), "placed"), self._price)
        self._cases: list[_Case] = []
        self._errors: list[str | None] = []

    def add(self, point: Mapping[str, Any]) -> None:
        try:
            values = effective(point)
            auto = values["backup"] == "auto"
            kinds: Sequence[Fallback] = ("jit", "fast") if auto else (values["backup"],)
            cases = [self._case(dict(values), kind) for kind in kinds]
        except InputError as error:
            self._errors.append(str(error))
            return
        self._cases.extend(cases)
        self._errors.append(None)

    def _case(self, values: dict[str, Any], fallback: Fallback) -> _Case:
        """The steps of :func:`ssdsim.configure`, in its order."""
        values["placed"] = self._placed.number(values)
        # where hit rates are given no fan-outs follow from the budget
        hits = values if values["p_hit"] is None else {**values, "budget": None}
        rounds = self._rounds.number(hits, fallback)
        settle_spread(values, {}, self._placed.made[values["placed"]])
        priced = self._priced.number(values, fallback)
        check_constant(values["spread"])
        return _Case(len(self._errors), fallback, values["b"], values["budget"], rounds, priced)

    def _price(self, values: dict[str, Any], sources: dict[str, str], fallback: Fallback) -> Priced:
        return price(values, sources, self._placed.made[values["placed"]], fallback)

    def frame(self, draws: int, seed: int) -> pd.DataFrame:
        best = self._better_fallbacks(self._cases)
        scenarios = self._columns(best)
        columns = _results(estimate_all(scenarios))
        columns["backup"] = np.array([case.fallback for case in best], dtype=object)
        columns["budget"] = np.array([case.budget for case in best], dtype=float)
        if draws:
            columns |= self._intervals(best, scenarios, columns, TimingErrors(draws, seed))
        rows = np.array([case.point for case in best], dtype=int)
        named = [*RESULTS, *(INTERVALS if draws else ())]
        frame = pd.DataFrame(columns, index=rows, columns=named).reindex(range(len(self._errors)))
        frame["error"] = pd.Series(self._errors, dtype=object)
        frame.attrs["warnings"] = self._warnings(best)
        return frame

    def _columns(self, cases: Sequence[_Case]) -> _Columns:
        rounds, priced = self._rounds.made, self._priced.made
        at = np.array([case.rounds for case in cases], dtype=int)
        on = np.array([case.priced for case in cases], dtype=int)
        return _Columns(
            batch=np.array([case.batch for case in cases], dtype=float),
            gpus=Gpus(*(_gather([getattr(p.gpus, f.name) for p in priced], on) for f in fields(Gpus))),
            times=RoundTimes(*(_gather([getattr(p.times, f.name) for p in priced], on) for f in fields(RoundTimes))),
            ssd=RoundAverages(
                tokens_per_round=_gather([r.ssd.tokens_per_round for r in rounds], at),
                p_hit=_gather([r.ssd.p_hit for r in rounds], at),
            ),
            sd_tokens_per_round=_gather([r.sd_tokens_per_round for r in rounds], at),
        )

    def _better_fallbacks(self, cases: Sequence[_Case]) -> list[_Case]:
        """One case a point: where both fallbacks were tried, the one of more tokens/s (just in time if equal)."""
        rates = np.asarray(estimate_all(self._columns(cases))["ssd"].tokens_per_second).tolist()
        best: dict[int, tuple[float, _Case]] = {}
        for rate, case in zip(rates, cases, strict=True):
            if case.point not in best or rate > best[case.point][0]:
                best[case.point] = rate, case
        return [case for _, case in best.values()]

    def _intervals(
        self,
        cases: Sequence[_Case],
        scenarios: _Columns,
        columns: Mapping[str, NDArray[Any]],
        errors: TimingErrors,
    ) -> dict[str, NDArray[np.float64]]:
        """95 % intervals of tokens/s; NaN where times are unit-free, since those have no errors."""
        found = {name: np.full(len(cases), np.nan) for name in INTERVALS}
        for costs, numbers in self._of_one_price(cases):
            draws: dict[str, Draws] = {}
            for name, estimate in estimate_all(scenarios.against(costs.sample(errors), numbers)).items():
                rates = columns[f"{name}_tokens_per_second"][numbers, None]
                draws[name] = centred_on(rates, np.asarray(estimate.tokens_per_second))
                found[f"{name}_low"][numbers], found[f"{name}_high"][numbers] = bounds_95(draws[name])
            found["probability_ssd_beats_sd"][numbers] = np.mean(draws["ssd"] > draws["sd"], axis=-1)
        return found

    def _of_one_price(self, cases: Sequence[_Case]) -> Iterator[tuple[RoundCosts, list[int]]]:
        """Numbers of the cases that share their costs, some hundreds at once."""
        shared: dict[int, list[int]] = {}
        for number, case in enumerate(cases):
            shared.setdefault(case.priced, []).append(number)
        for priced, numbers in shared.items():
            costs = self._priced.made[priced].costs
            if costs is not None:
                for start in range(0, len(numbers), _CASES_AT_ONCE):
                    yield costs, numbers[start : start + _CASES_AT_ONCE]

    def _warnings(self, cases: Sequence[_Case]) -> list[str]:
        costs = [self._priced.made[number].costs for number in {case.priced for case in cases}]
        return sorted(frozenset().union(*(c.warnings for c in costs if c is not None)))


def _rounds(values: dict[str, Any], sources: dict[str, str], fallback: Fallback) -> _Rounds:
    made = speculators(values, sources, fallback)
    return _Rounds(ssd_averages(made.primary, made.backup, made.requests), mean_sd_tokens(made.sd, made.requests))


def _gather(values: list[Any], numbers: NDArray[np.int_]) -> NDArray[np.float64]:
    return np.array(values, dtype=float)[numbers]


def _results(estimates: Mapping[str, Estimate]) -> dict[str, NDArray[Any]]:
    """The columns that do not need draws."""
    columns: dict[str, Any] = {}
    for name, estimate in estimates.items():
        columns[f"{name}_tokens_per_second"] = estimate.tokens_per_second
        columns[f"{name}_gpus"] = estimate.gpus
        columns[f"{name}_round_s"] = estimate.round_s
    for name, other in (("ssd", "sd"), ("ssd", "ar"), ("sd", "ar")):
        columns[f"{name}_over_{other}"] = columns[f"{name}_tokens_per_second"] / columns[f"{other}_tokens_per_second"]
    columns["tokens_per_round_sd"] = estimates["sd"].tokens_per_round
    columns["tokens_per_round_ssd"] = estimates["ssd"].tokens_per_round
    columns["p_hit"] = estimates["ssd"].p_hit
    columns["p_all_hit"] = estimates["ssd"].p_all_hit
    return columns
