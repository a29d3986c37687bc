"""What a run folder holds: the options and grid of a run, its results, traces and measurements."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ssdsim import strategies
from ssdsim.errors import InputError, nearest
from ssdsim.runs.layout import CONFIG, HOW, MEASURED_TRACE, PARTS, RECOMMENDATION, RESULTS, TRACE, VALIDATION
from ssdsim.scenario.options import ALL, DEFAULTS

_KEYS = ("schema", "verb", "options", "grid")
_COMPARED = ("point", "strategy", "measured", "predicted_s")  # what a comparison of a validation log has


@dataclass(frozen=True)
class RunFolder:
    """A run folder as it was found; what it does not hold is None or empty.

    ``options`` are single values and ``grid`` lists of values, both by option name; ``results`` has a row a grid
    point, worked out by ``engine``; an unfinished sweep has ``points_in`` of its ``points``. ``trace`` and
    ``measured_trace`` are Chrome trace documents; ``validation`` are the comparisons of ``ssdsim validate``, a record
    a strategy and grid point; ``recommendation`` is ``ssdsim recommend --json``.
    """

    path: Path
    options: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    results: pd.DataFrame | None = None
    trace: Mapping[str, Any] | None = None
    measured_trace: Mapping[str, Any] | None = None
    engine: str = "closed"
    validation: Sequence[Mapping[str, Any]] = ()
    recommendation: Mapping[str, Any] | None = None

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
        """Points that results tell of; all of them where there never was a sweep."""
        return self.points if self.results is None else len(self.results)

    @cached_property
    def base(self) -> dict[str, Any]:
        """The options of the point in the middle: a grid option has its default, or else its middle value.

        Where that point is not possible, the possible one that is fewest steps away along the axes.
        """
        at = {name: _base_index(name, values) for name, values in self.grid.items()}
        if self.results is not None and "error" in self.results and self.results["error"].notna().any():
            at = self._nearest_possible(self.results, at)
        return {**self.options, **{name: values[at[name]] for name, values in self.grid.items()}}

    def _nearest_possible(self, results: pd.DataFrame, wanted: dict[str, int]) -> dict[str, int]:
        """Indices into the grid of the possible point nearest to ``wanted``; that itself where none is possible."""
        possible = results[results["error"].isna()]
        index = {name: {grid_key(v): at for at, v in enumerate(values)} for name, values in self.grid.items()}
        found = pd.DataFrame({name: possible[name].map(grid_key).map(at) for name, at in index.items()}).dropna()
        if found.empty:
            return wanted
        steps = np.abs(found.to_numpy() - [wanted[name] for name in index]).sum(axis=1)
        return {name: int(found[name].iloc[int(steps.argmin())]) for name in index}


def _base_index(name: str, values: Sequence[Any]) -> int:
    default = DEFAULTS.get(name)
    return values.index(default) if default is not None and default in values else len(values) // 2


def grid_key(value: Any) -> str:
    """A grid value as text, the same from TOML and from Parquet (1 and 1.0 are one value)."""
    if isinstance(value, int | float):
        return f"{value:.12g}"
    return str(value.tolist() if hasattr(value, "tolist") else value)


def read_run_folder(path: Path) -> RunFolder:
    """Read a run folder.

    Raises
    ------
    InputError : no folder, no config.toml in it, or a file that is not what its name says.
    """
    if not path.is_dir():
        raise InputError(f"{path}: no such run folder; ssdsim sweep -o FOLDER makes one")
    options, grid = _config(path / CONFIG)
    return RunFolder(
        path=path,
        options=options,
        grid=grid,
        results=_results(path, options, grid),
        engine=(_json(path / HOW) or {}).get("engine", "closed"),
        trace=_trace(path / TRACE),
        measured_trace=_trace(path / MEASURED_TRACE),
        validation=_validation(path / VALIDATION),
        recommendation=_json(path / RECOMMENDATION),
    )


def _config(path: Path) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    if not path.is_file():
        raise InputError(f"{path.parent}: no {path.name} in it, so it is not a run folder")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not TOML ({error})") from None
    if data.get("schema") != 1:
        raise InputError(f"{path}: schema must be 1, got {data.get('schema')}")
    for key in data:
        if key not in _KEYS:
            raise InputError(f"{path}: unknown key '{key}'{nearest(key, _KEYS)} Allowed: {', '.join(_KEYS)}")
    options, grid = data.get("options", {}), data.get("grid", {})
    if not isinstance(options, dict) or not isinstance(grid, dict):
        raise InputError(f"{path}: options and grid must be tables")
    for name in [*options, *grid]:
        if name == "strategy":
            raise InputError(f"{path}: written by an older ssdsim, whose 'strategy' is 'strategies' now: sweep anew")
        if name not in DEFAULTS:
            raise InputError(f"{path}: unknown option '{name}'{nearest(name, DEFAULTS)}")
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"{path}: grid.{name} must be a list of values, got {values}")
        if name in options:
            raise InputError(f"{path}: '{name}' is both an option and a grid axis")
    return options, grid


def _results(path: Path, options: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]) -> pd.DataFrame | None:
    """All rows, or those of the parts that are in; None where no sweep was begun."""
    columns = _needed(options, grid)
    whole = [path / RESULTS] if (path / RESULTS).is_file() else []
    if not whole and not (path / PARTS).is_dir():
        return None
    tables = [_table(part, columns) for part in whole or sorted((path / PARTS).glob("*.parquet"))]
    found: pd.DataFrame = pa.concat_tables(tables).to_pandas() if tables else pd.DataFrame(columns=columns)
    return found


def _needed(options: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]) -> list[str]:
    """The columns that figures read: the axes and the strategies' results."""
    asked = [options["strategies"]] if "strategies" in options else grid.get("strategies", [DEFAULTS["strategies"]])
    names = dict.fromkeys(name for one in asked for name in ALL["strategies"].checked(one))
    return [*grid, *(f"{name}_{what}" for name in names for what in ("tokens_per_second", "gpus"))]


def _table(path: Path, columns: Sequence[str]) -> pa.Table:
    try:
        results = pq.read_table(path)
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise InputError(f"{path}: not a Parquet file ({error})") from None
    lacking = [name for name in columns if name not in results.column_names]
    if lacking:
        raise InputError(f"{path}: lacks the columns {', '.join(lacking)}; it is of another version: sweep anew")
    return results


def _json(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not JSON, or cut short ({error})") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: must hold a JSON object")
    return found


def _trace(path: Path) -> dict[str, Any] | None:
    found = _json(path)
    if found is not None and "traceEvents" not in found:
        raise InputError(f"{path}: not a Chrome trace (no traceEvents)")
    return found


def _validation(path: Path) -> list[dict[str, Any]]:
    """The comparisons of a validation log; a last line torn by a kill is skipped, as ``ssdsim validate`` does."""
    if not path.is_file():
        return []
    comparisons: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        comparisons += record.get("comparisons", []) if isinstance(record, dict) else []
    for comparison in comparisons:
        lacking = [name for name in _COMPARED if name not in comparison]
        if lacking:
            raise InputError(f"{path}: a comparison lacks {', '.join(lacking)}")
        if comparison["strategy"] not in strategies.ALL.names:
            raise InputError(f"{path}: there is no strategy '{comparison['strategy']}' here")
        measured = comparison["measured"]
        if not isinstance(measured, dict) or not {"value", "low", "high"} <= measured.keys():
            raise InputError(f"{path}: a measured round must have value, low and high")
    return comparisons
