"""Reader of a run folder: the options and grid of a run, its results, traces and measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import isfinite, prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
import pyarrow as pa
from msgspec import Meta

from ssdsim import strategies
from ssdsim.base.arrow import numbers
from ssdsim.base.card import Coefficient, Excerpt, NotNegative, Positive
from ssdsim.base.documents import as_record, read_json, read_toml, surviving_records
from ssdsim.base.errors import InputError, nearest, short_repr
from ssdsim.base.parquet import read_table
from ssdsim.base.record import Record, field
from ssdsim.question.engines import strategies_by_options
from ssdsim.question.options import ALL, DEFAULTS
from ssdsim.question.spellings import own_names
from ssdsim.readers.row import Metric
from ssdsim.runs.layout import (
    CONFIG,
    HOW,
    MEASURED,
    MEASURED_TRACE,
    PARTS,
    RECOMMENDATION,
    RESULTS,
    SERVING,
    TRACE,
    VALIDATION,
)

if TYPE_CHECKING:
    import pandas as pd

_MOST = 1e40  # beyond it a product of two numbers leaves the floats
_KEYS = ("schema", "verb", "options", "grid")


class _Slice(Excerpt):
    """Work on a track of a timeline, in microseconds."""

    name: str
    tid: int
    ts: Coefficient
    dur: NotNegative


class _Name(Excerpt):
    name: str


class _TrackName(Excerpt):
    tid: int
    args: _Name


class _Interval(Excerpt):
    value: Positive
    low: Coefficient
    high: Coefficient


class _Compared(Excerpt):
    """A round measured and predicted."""

    point: dict[str, Any]
    strategy: str
    measured: _Interval
    predicted_s: Positive
    others: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None


class _Checked(Excerpt):
    """A row of an engine, measured and predicted."""

    model: str
    hardware: str
    tp: int
    batch: int
    metric: Metric
    series: str
    runtime: str
    value: Positive
    predicted: Positive
    low: Positive
    high: Positive
    error: Coefficient
    holds: bool


class _Summary(Excerpt):
    """Errors of the rows with one value on an axis."""

    axis: str
    value: str
    rows: int
    error: NotNegative
    bias: Coefficient
    coverage: NotNegative


class _Skipped(Excerpt):
    """A row of an engine that was not predicted."""

    number: int
    reason: str


class _Measured(Excerpt):
    rows: Annotated[list[_Checked], Meta(min_length=1)]
    skipped: list[_Skipped] = field(default_factory=list)
    summaries: Annotated[list[_Summary], Meta(min_length=1)]


class RunFolder(Record):
    """A run folder as it was found; what it does not hold is None or empty.

    ``options`` are single values and ``grid`` lists of values, both by option name; ``rows`` has one a grid
    point, of the columns that figures read, worked out by ``solver``; an unfinished sweep has ``points_in`` of its
    ``points``. ``trace`` and ``measured_trace`` are Chrome trace documents; ``validation`` are the comparisons of
    ``ssdsim validate``, a record a strategy and grid point; ``recommendation`` is ``ssdsim recommend --json``;
    ``measured`` is ``ssdsim validate rows --json``, ``serving`` is ``ssdsim plan --json``.
    """

    path: Path
    options: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    rows: pa.Table | None = None
    trace: Mapping[str, Any] | None = None
    measured_trace: Mapping[str, Any] | None = None
    solver: str = "closed"
    validation: Sequence[Mapping[str, Any]] = ()
    recommendation: Mapping[str, Any] | None = None
    measured: Mapping[str, Any] | None = None
    serving: Mapping[str, Any] | None = None

    @property
    def measured_alone(self) -> bool:
        """Say whether the folder holds only rows of an engine: then there is no scenario to predict."""
        return self.measured is not None and not self.options and not self.grid and not self.validation

    @property
    def of_rounds(self) -> bool:
        """Say whether it is of ``ssdsim validate run``, and of no sweep."""
        return bool(self.validation) and self.rows is None

    @property
    def axes(self) -> dict[str, Sequence[Any]]:
        """The options of the grid that take more than one value."""
        return {name: values for name, values in self.grid.items() if len(values) > 1}

    @property
    def points(self) -> int:
        """Points of the grid."""
        return prod(map(len, self.grid.values()))

    @property
    def points_in(self) -> int:
        """Points with results; all points if there never was a sweep."""
        return self.points if self.rows is None else int(self.rows.num_rows)

    @cached_property
    def results(self) -> pd.DataFrame | None:
        """The rows for figures, which need pandas."""
        # what pandas once noted beside the columns is not checked, and not needed
        return None if self.rows is None else cast("pd.DataFrame", self.rows.to_pandas(ignore_metadata=True))

    @cached_property
    def base(self) -> dict[str, Any]:
        """The options of the base point: each option of the grid at its default, or else at its middle value.

        If that point is not possible, the possible one fewest steps away along the axes.
        """
        at = {name: _base_index(name, values) for name, values in self.grid.items()}
        rows = self.rows
        if rows is not None and "error" in rows.column_names and rows["error"].null_count < rows.num_rows:
            at = self._nearest_possible(at)
        return {**self.options, **{name: values[at[name]] for name, values in self.grid.items()}}

    def _nearest_possible(self, wanted: dict[str, int]) -> dict[str, int]:
        """Grid indices of the possible point nearest to ``wanted``; ``wanted`` itself if none is possible."""
        import pandas as pd  # most sweeps have no such point, and a page's controls need no pandas

        results = self.results
        assert results is not None  # of an error
        possible = results[results["error"].isna()]
        index = {name: {grid_key(v): at for at, v in enumerate(values)} for name, values in self.grid.items()}
        places = pd.DataFrame({name: grid_keys(possible[name]).map(at) for name, at in index.items()}).dropna()
        if places.empty:
            return wanted
        steps = np.abs(places.to_numpy(int) - [wanted[name] for name in index]).sum(axis=1)
        return {name: int(places[name].iloc[int(steps.argmin())]) for name in index}


def _base_index(name: str, values: Sequence[Any]) -> int:
    default = DEFAULTS.get(name)
    return values.index(default) if default is not None and default in values else len(values) // 2


def grid_key(value: Any) -> str:
    """A grid value as text, the same from TOML and from Parquet (1 and 1.0 are one value)."""
    if isinstance(value, int | float):
        return f"{value:.12g}"
    return str(value.tolist() if hasattr(value, "tolist") else value)


def grid_keys(column: pd.Series) -> pd.Series:
    """:func:`grid_key` of each value, as categories; called once per distinct value, of lists once per row."""
    import pandas as pd  # here: who has a column of it has loaded it

    if column.dtype == object:  # such as lists, which cannot be looked up
        return column.map(grid_key).astype("category")
    codes, different = pd.factorize(column, use_na_sentinel=False)
    key_of, keys = pd.factorize(np.array([grid_key(value) for value in different], dtype=object))
    return pd.Series(pd.Categorical.from_codes(key_of[codes], pd.Index(keys)), column.index)


def read_run_folder(path: Path) -> RunFolder:
    """Read a run folder."""
    if not path.is_dir():
        raise InputError(f"{path}: no such run folder; ssdsim sweep -o FOLDER makes one")
    options, grid = _config(path / CONFIG)
    how = _json(path / HOW) or {}  # of 0.3.0 and before with the solver as "engine"
    if how.get("schema") == 1 or (path / VALIDATION).is_file():
        options = _with_common_k(options, grid)
    return RunFolder(
        path=path,
        options=options,
        grid=grid,
        rows=_rows(path, options, grid),
        solver=how.get("solver", how.get("engine", "closed")),
        trace=_trace(path / TRACE),
        measured_trace=_trace(path / MEASURED_TRACE),
        validation=_validation(path / VALIDATION),
        recommendation=_json(path / RECOMMENDATION),
        measured=_measured(path / MEASURED),
        serving=_serving(path / SERVING),
    )


def _config(path: Path) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    if not path.is_file():
        raise InputError(f"{path.parent}: no {path.name} in it, so it is not a run folder")
    data = read_toml(path, "run's config")
    if data.get("schema") != 1:
        raise InputError(f"{path}: schema must be 1, got {data.get('schema')}")
    for key in data:
        if key not in _KEYS:
            raise InputError(f"{path}: unknown key '{key}'{nearest(key, _KEYS)} Allowed: {', '.join(_KEYS)}")
    options, grid = data.get("options", {}), data.get("grid", {})
    if not isinstance(options, dict) or not isinstance(grid, dict):
        raise InputError(f"{path}: options and grid must be tables")
    if "strategy" in {*options, *grid}:
        raise InputError(f"{path}: written by an older ssdsim, whose 'strategy' is 'strategies' now: sweep anew")
    options, grid = dict(own_names(options)), dict(own_names(grid))
    for name in [*options, *grid]:
        if name not in DEFAULTS:
            raise InputError(f"{path}: unknown option '{name}'{nearest(name, DEFAULTS)}")
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"{path}: grid.{name} must be a list of values, got {values}")
        if name in options:
            raise InputError(f"{path}: '{name}' is both an option and a grid axis")
    for name, value in [*options.items(), *((name, each) for name, values in grid.items() for each in values)]:
        if not _is_finite(value):
            _check(path, name, value)
    return options, grid


def _is_finite(value: Any) -> bool:
    """Whether a value, or every one of a list, is no NaN and no infinity, as TOML may have them."""
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or isfinite(value)


def _check(path: Path, name: str, value: Any) -> None:
    try:
        ALL[name].checked(value)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _with_common_k(options: dict[str, Any], grid: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The options of rounds that ran, or of a sweep up to 0.3.0: all strategies had the default K and fan-out there."""
    said, found = {*options, *grid}, dict(options)
    named = map(strategies.ALL.named, strategies_by_options(options))
    if "k" not in said and "t_sd" not in said:
        found["k"] = DEFAULTS["k"]
    caches = any(option.name == "f" for each in named for option in each.options)
    if caches and not {"f", "fl", "budget", "p_hit", "t_sd"} & said:
        found["f"] = DEFAULTS["f"]
    return found


def _rows(path: Path, options: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]) -> pa.Table | None:
    """All rows, or those of the parts that are in; None if no sweep was begun."""
    asked = grid.get("strategies", [strategies_by_options(options)])
    names = dict.fromkeys(name for one in asked for name in ALL["strategies"].checked(one))
    columns = [*grid, *(f"{name}_{what}" for name in names for what in ("tokens_per_second", "gpus"))]
    whole = [path / RESULTS] if (path / RESULTS).is_file() else []
    if not whole and not (path / PARTS).is_dir():
        return None
    tables = [_table(part, columns, grid) for part in whole or sorted((path / PARTS).glob("*.parquet"))]
    return pa.concat_tables(tables) if tables else pa.table({name: pa.nulls(0) for name in columns})


def _table(path: Path, columns: Sequence[str], axes: Mapping[str, Sequence[Any]]) -> pa.Table:
    results = read_table(path, [*columns, "error"])
    lacking = [name for name in columns if name not in results.column_names]
    if lacking:
        raise InputError(f"{path}: lacks the columns {', '.join(lacking)}; it is of another version: sweep anew")
    for name, values in axes.items():
        kind = results.schema.field(name).type
        if all(isinstance(each, int | float) for each in values) and not pa.types.is_primitive(kind):
            raise InputError(f"{path}: the column {name} must hold numbers, got {kind}")
    for name, kind in ((name, results.schema.field(name).type) for name in columns if name not in axes):
        if kind != pa.float64():
            raise InputError(f"{path}: the column {name} must hold floats, got {kind}")
        largest = np.fmax.reduce(np.abs(numbers(results[name])), initial=0.0)
        if largest > _MOST:
            raise InputError(f"{path}: the column {name} must hold numbers of at most {_MOST:g}, got {largest:g}")
    return results


def _json(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    document = read_json(path, "file of a run")
    if not isinstance(document, dict):
        raise InputError(f"{path}: must hold a JSON object")
    return document


def _serving(path: Path) -> dict[str, Any] | None:
    answer = _json(path)
    return None if answer is None else checked_serving(answer, path)


def checked_serving(answer: dict[str, Any], where: str | Path) -> dict[str, Any]:
    """An answer of ``ssdsim plan``, checked."""
    from ssdsim.runs.serving_answer import ComparedAnswer, ServingAnswer  # here: most folders hold none

    as_record(ComparedAnswer if "compared" in answer else ServingAnswer, answer, where, "answer of ssdsim plan")
    return answer


def _measured(path: Path) -> dict[str, Any] | None:
    answer = _json(path)
    if answer is not None:
        as_record(_Measured, answer, path, "measured rows")
    return answer


def _trace(path: Path) -> dict[str, Any] | None:
    """A Chrome trace with its slices and track names checked."""
    answer = _json(path)
    if answer is None:
        return None
    events = answer.get("traceEvents")
    if not isinstance(events, list):
        raise InputError(f"{path}: not a Chrome trace (no list of traceEvents)")
    for number, event in enumerate(events):
        where = f"{path}: traceEvents.{number}"
        if not isinstance(event, dict):
            raise InputError(f"{where} must be an object, got {short_repr(event)}")
        if event.get("ph") == "X":
            as_record(_Slice, event, where, "a slice")
        elif event.get("ph") == "M" and event.get("name") == "thread_name":
            as_record(_TrackName, event, where, "the name of a track")
    return answer


def _validation(path: Path) -> list[dict[str, Any]]:
    """The comparisons of a validation log; a last line torn by a kill is skipped, as in ``ssdsim validate``."""
    comparisons: list[dict[str, Any]] = []
    for line in surviving_records(path):
        event = line.get("comparisons", []) if isinstance(line, dict) else []
        if not isinstance(event, list):
            raise InputError(f"{path}: comparisons must be a list, got {short_repr(event)}")
        comparisons += event
    for number, comparison in enumerate(comparisons, 1):
        read = as_record(_Compared, comparison, path, f"comparison {number}")
        if read.strategy not in strategies.ALL.names:
            raise InputError(f"{path}: there is no strategy '{read.strategy}' here")
    return comparisons
