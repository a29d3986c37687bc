"""A grid of options: its points in order, cut into parts that any process can work out by itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from math import prod
from pathlib import PurePath
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from ssdsim import strategies
from ssdsim.answers import columns as named
from ssdsim.answers.grid import MOST_DRAWS, Evaluated, Evaluator
from ssdsim.answers.predict import Prediction, predicted
from ssdsim.answers.simulation.simulate import Solver as SimulationSolver
from ssdsim.base.arrow import floats, integers, words
from ssdsim.base.checks import few_enough, whole
from ssdsim.base.errors import InputError, nearest, why_refused
from ssdsim.base.option import spelled
from ssdsim.base.plain import picked
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.question.checked_options import GridPart
from ssdsim.question.drafting import draft_by_options
from ssdsim.question.engines import strategies_by_options
from ssdsim.question.option_usage import check_owners, check_read
from ssdsim.question.options import ALL, DEFAULTS, check_names, files
from ssdsim.question.point_table import Rows
from ssdsim.runs.sweep_folder import SweepResults

Solver = Literal["closed", "mc", "des"]

# The proposal names F and alpha (section 5.1) and b (section 5.2); K and p_hit, which it leaves open, span what it
# discusses. Its graph on V100s is of sections 4 and 5.1; the dimensions, open there, make the draft a hundredth of the
# target. In its units F has no effect beside p_hit, and T_SD is what it expects (section 5.3).
PRESETS: dict[str, dict[str, Any]] = {
    "proposal": {
        "target": "transformer-shaped-8192x40",
        "draft": "transformer-shaped-2048x6",
        "hardware": "v100-sxm2-32gb",
        "engine": "cublas-loop",
        "f": [1, 2, 4, 8, 16],
        "alpha": [0.5, 0.7, 0.9],
        "k": list(range(2, 13)),
        "p_hit": [step / 20 for step in range(10, 21)],
        "b": [1, 2, 4, 8, 16, 32],
    },
    "proposal-unit-free": {
        "alpha": [0.5, 0.7, 0.9],
        "k": list(range(2, 13)),
        "p_hit": [step / 20 for step in range(10, 21)],
        "b": [1, 2, 4, 8, 16, 32],
        "t_sd": [0.1, 0.2, 0.3],
    },
}

MOST_POINTS = 10_000_000  # of a grid: its table of pandas then takes some gigabytes
_POINTS_A_PART = {"closed": 4096, "mc": 4, "des": 4}  # a second or a few: what a kill loses


class PlanPart(Record):
    """The points ``start`` to ``stop - 1``."""

    number: int
    start: int
    stop: int


class GridPlan(Record):
    """The plan of a sweep: single ``options``, the ``grid`` of lists (the last varies fastest), solver and draws."""

    options: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]
    solver: Solver = "closed"
    precision: float | None = None
    draws: int = 0
    seed: int = 0

    @property
    def size(self) -> int:
        """Number of points."""
        return prod(map(len, self.grid.values()))

    @property
    def how(self) -> dict[str, Any]:
        """Everything but options and grid."""
        return picked(self, "solver", "precision", "draws", "seed")

    @property
    def strategies(self) -> tuple[str, ...]:
        """Strategies with results in the table, in their order: those of any point, also in a part of the points."""
        given = self.grid.get("strategies", [strategies_by_options(self.options)])
        asked = {name for names in given for name in ALL["strategies"].checked(names)}
        return tuple(strategy.name for strategy in strategies.ALL if strategy.name in asked)

    def named(self) -> list[Any]:
        """Values of the options that may name files."""
        return [value for name in files() for value in (self.options.get(name), *self.grid.get(name, ()))]

    def parts(self) -> list[PlanPart]:
        """All points in parts; the same plan always has the same parts."""
        step = _POINTS_A_PART[self.solver]
        starts = range(0, self.size, step)
        return [PlanPart(number, start, min(start + step, self.size)) for number, start in enumerate(starts)]

    def points(self, part: PlanPart) -> GridPart:
        """The given options of the part's points."""
        return GridPart(self.options, self.grid, part.start, part.stop)

    def results(self, part: PlanPart) -> pa.Table:
        """The part's rows: the grid's columns, then the results; warnings are in the schema's metadata."""
        points = self.points(part)
        if self.solver == "closed":
            found = self._evaluator.evaluate(points, self.draws, self.seed, self.strategies)
        else:
            found = simulate_each(points, self.solver, self.precision, self.seed, self.strategies)
        axes = {name: _column(values, points.numbers(name)) for name, values in self.grid.items()}
        return _table(axes, found, self.strategies)

    @cached_property
    def _evaluator(self) -> Evaluator:
        """The evaluator of all parts, which remembers costs and kernels."""
        return Evaluator()

    def is_of(self, results: SweepResults) -> bool:
        """Say whether ``results`` may be this plan's: their rows, columns and types fit."""
        numbers = [name for name in number_columns(self) if name not in self.grid]
        floats = [field.name for field in results.schema if field.type == pa.float64()]
        words = {effective(name, self.grid) for name in named.texts(self.strategies)}
        expected = {*self.grid, *numbers, *words}
        return len(results) == self.size and {*results.schema.names} == expected and {*numbers} <= {*floats}


def plan_of(preset: str | None, options: Mapping[str, Any], **how: Any) -> GridPlan:
    """A plan from options of which some are lists; they replace those of the preset."""
    if preset is not None and not (isinstance(preset, str) and preset in PRESETS):
        raise InputError(f"unknown preset '{preset}'{nearest(preset, PRESETS)} Allowed: {', '.join(PRESETS)}")
    given = {name: _plain(value) for name, value in options.items() if value is not None}
    check_names(given)
    check_owners(given)
    both = {**(PRESETS[preset] if preset else {}), **given}
    ordered = {name: both[name] for name in DEFAULTS if name in both}
    grid = {name: values for name, values in ordered.items() if _nesting(values) > ALL[name].kind.depth}
    for name, values in grid.items():
        repeated = [value for number, value in enumerate(values) if value in values[:number]]
        if not values or repeated:
            what = f"names {repeated[0]} twice" if repeated else "names no value"
            raise InputError(f"the list of {spelled(name)} {what}")
    plan = GridPlan({name: value for name, value in ordered.items() if name not in grid}, grid, **how)
    _check(plan)
    check_read(given, plan.points(PlanPart(0, 0, plan.size)))
    return plan


def _check(plan: GridPlan) -> None:
    if not isinstance(plan.solver, str) or plan.solver not in _POINTS_A_PART:
        raise InputError(f"unknown solver '{plan.solver}'; allowed: {', '.join(_POINTS_A_PART)}")
    if plan.precision is not None and not (isinstance(plan.precision, int | float) and 0 < plan.precision <= 1):
        raise InputError(f"--precision must lie above 0 and at most at 1, got {plan.precision!r}")
    if plan.solver == "closed" and plan.precision is not None:
        raise InputError("--precision has no effect with --solver closed (it is exact)")
    if plan.solver != "closed" and plan.draws:
        raise InputError(f"--draws has no effect with --solver {plan.solver} (its intervals are always given)")
    few_enough("points", plan.grid.values(), MOST_POINTS)
    whole("--draws", plan.draws, 0, MOST_DRAWS)
    whole("--seed", plan.seed, 0)
    if plan.draws and ("t_sd" in plan.options or "t_sd" in plan.grid):
        raise InputError("--draws has no effect with --t-sd (unit-free durations have no errors)")
    for name, find in (("target", find_transformer), ("hardware", find_hardware)):
        for card in plan.grid.get(name, ()):  # a wrong name is a mistake, not a point that is not possible
            find(card)
    for card in plan.grid.get("draft", ()):
        draft_by_options({**plan.options, **{name: values[0] for name, values in plan.grid.items()}, "draft": card})
    spreads = plan.grid.get("spread", [plan.options.get("spread", 0.0)])
    if plan.solver == "closed" and any(spread != 0.0 for spread in spreads):
        raise InputError("--solver closed needs constant durations (--spread 0); mc or des replay varying ones")


def _plain(value: Any) -> Any:
    """The value with lists in place of numpy arrays, ranges and tuples, and text in place of a path."""
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(each) for each in value] if isinstance(value, list | tuple | range) else value


def _nesting(value: Any) -> int:
    if not isinstance(value, list):
        return 0
    return 1 + max(map(_nesting, value), default=0)


def _table(axes: Mapping[str, pa.Array], found: Evaluated, strategies: Sequence[str]) -> pa.Table:
    """The table of a part. A result with an axis's name, such as ``p_hit``, is called ``effective_p_hit``."""
    columns, texts = dict(axes), named.texts(strategies)
    for name, values in {**found.columns, "error": found.errors}.items():
        if name in texts:  # NaN where no point of the part asks for who has words
            column = words([value if isinstance(value, str) else None for value in values])
        else:
            column = floats(np.asarray(values))
        columns[effective(name, axes)] = column
    warnings = json.dumps(found.warnings).encode()
    return pa.table(columns).replace_schema_metadata({b"warnings": warnings})


def _column(values: Sequence[Any], of: Rows) -> pa.Array:
    """A column of an axis: numbers, names or lists; a mixture, such as 1, 2 and ``window``, is text."""
    kinds = {type(value) for value in values}
    if kinds <= {int, float}:
        return integers(np.array(values)[of]) if kinds == {int} else floats(np.array(values, dtype=float)[of])
    if kinds == {list}:
        return pa.array(values).take(integers(of))
    said = [str(value) for value in values]
    return words([said[number] for number in of.tolist()])


def number_columns(plan: GridPlan) -> list[str]:
    """Names of the plan's columns of numbers: axes, then results."""
    axes = [name for name, values in plan.grid.items() if {type(value) for value in values} <= {int, float}]
    bounded = plan.draws or plan.solver != "closed"
    columns = [*named.results(plan.strategies), *(named.intervals(plan.strategies) if bounded else ())]
    results = [name for name in columns if name not in named.texts(plan.strategies)]
    return [*axes, *(effective(name, plan.grid) for name in results)]


def effective(name: str, axes: Collection[str]) -> str:
    """The column of a result, whether or not an axis has its name."""
    return f"effective_{name}" if name in axes else name


def simulate_each(
    points: Iterable[Mapping[str, Any]],
    solver: SimulationSolver,
    precision: float | None = None,
    seed: int = 0,
    names: Collection[str] = (),
) -> Evaluated:
    """Simulate every point by itself; the columns of :func:`ssdsim.evaluate` with intervals.

    ``precision`` is the half width of the 95 % interval of tokens/s at which a run ends, relative; by default that of
    :func:`ssdsim.predict`. Intervals hold the simulation's error and, on hardware, the timings'. Every point has the
    same seed, so neighbours differ by less than their intervals say. ``names`` are strategies that have columns even
    where no point asks for them.
    """
    answers: list[Prediction | InputError] = []
    for point in points:
        try:
            answers.append(predicted(point, seed, solver, precision))
        except InputError as error:
            answers.append(error)
    predictions = [each for each in answers if isinstance(each, Prediction)]
    present = {name for each in predictions for name in (*each.estimates, *each.configuration.refused)} | {*names}
    shown = [strategy.name for strategy in strategies.ALL if strategy.name in present] or list(strategies.DEFAULT)
    rows = [_row(shown, each) if isinstance(each, Prediction) else {"error": str(each)} for each in answers]
    words = named.texts(shown)
    columns = {
        name: np.array([row.get(name) for row in rows], dtype=object if name in words else float)
        for name in (*named.results(shown), *named.intervals(shown))
    }
    warnings = sorted({line for each in predictions for line in each.configuration.warnings})
    return Evaluated(columns, [row.get("error") for row in rows], warnings)


def _row(names: list[str], prediction: Prediction) -> dict[str, Any]:
    configuration = prediction.configuration
    row: dict[str, Any] = {}
    for name, estimate in prediction.estimates.items():
        row |= named.of_estimate(names, estimate)
        scenario = configuration.scenarios[name]
        if scenario.strategy.drafts:
            row[named.lookahead(name)] = scenario.strategy.lookahead(scenario.settings)
        for told in scenario.strategy.shown_settings:
            row[named.own(names, name, told)] = scenario.settings[told]
        interval = prediction.intervals[name]
        row |= {f"{name}_low": interval.low, f"{name}_high": interval.high} if interval else {}
    row |= named.over(named.ratios(names), row)
    for name, rival in named.contests(names):
        row[named.probability(name, rival)] = prediction.probability(name, rival)
    if configuration.refused:
        row["error"] = why_refused(configuration.subject, configuration.refused)
    return row
