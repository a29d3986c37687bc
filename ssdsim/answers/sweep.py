"""Prediction of a whole grid of options, here or on many machines, in a folder that survives a kill."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa

from ssdsim import strategies
from ssdsim.answers import columns as named
from ssdsim.answers.sweep_plan import GridPlan, PlanPart, Solver, plan_of
from ssdsim.answers.verdict import rivals
from ssdsim.answers.workers import Workers
from ssdsim.base.checks import Array, text
from ssdsim.base.errors import InputError
from ssdsim.base.progress import Progress
from ssdsim.question.engines import subject_among
from ssdsim.question.spellings import any_spelling
from ssdsim.runs.sweep_folder import SweepResults, opened

if TYPE_CHECKING:
    import pandas as pd

    from ssdsim.question.typed_options import Axes


@any_spelling
def sweep(
    *,
    preset: str | None = None,
    solver: Solver = "closed",
    precision: float | None = None,
    draws: int = 0,
    seed: int = 0,
    folder: str | Path | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    progress: Progress | None = None,
    **options: Unpack[Axes],
) -> pd.DataFrame:
    """Predict every combination of the options that are lists (or tuples, ranges, arrays).

    Parameters
    ----------
    options : those of :func:`ssdsim.configure`; a list is an axis of the grid. So ``alpha=[0.5, 0.7]`` are two rates
        (rates by position would be a list of lists), but ``fl=[4, 3, 2]`` is one fan-out list. ``f`` beside ``p_hit``
        sets the budget of cached outcomes, F (K+1).
    preset : ``proposal`` (F x alpha x K x p_hit x b, 10,890 points, of its graph on V100s) or ``proposal-unit-free``;
        options replace its.
    solver : ``closed`` form; ``mc`` or ``des`` simulate every point until tokens/s is known to ``precision``.
    precision : half width of the 95 % interval of simulated tokens/s, relative to it; by default that of ``predict``.
    draws : of all errors, for intervals of the closed form (1000 as in ``predict``; 0: no intervals).
    seed : of every random draw, the same at every point.
    folder : a run folder (``config.toml``, ``results.parquet``). Results are written as they come; the same call on the
        same folder resumes after a kill and repeats nothing. Files that options name are copied into it, and its
        results use the copies' names. One process at a time works in it.
    jobs : processes on this machine; -1 for one a core.
    cluster : address of a Dask scheduler, ``tcp://host:port``, whose workers take the place of ``jobs``. They need
        ssdsim and every file that the options name.
    progress : called with the points done and all points.

    Returns
    -------
    A row a point: the axes by name, then the columns of :func:`ssdsim.evaluate`. A result that has an axis's name is
    called ``effective_...`` (``effective_p_hit``). Points that are not possible have an ``error`` and NaN. Where K is
    an axis, ``ssd_over_sd_at_best_k`` is SSD at the row's K over SD at its own best K of the grid. Where matplotlib is
    not installed, ``.plot()`` of tables draws with plotly from then on: of a sweep, the ratio of its subject to the
    first rival over the first axis that varies, a line for each of the others' values.

    Raises
    ------
    InputError : a mistake in the options, a folder with another sweep, a cluster that cannot be reached, or no point
        that is possible.

    >>> table = sweep(t_sd=0.2, alpha=[0.7, 0.9], k=5, p_hit=0.85, b=[1, 16])
    >>> table[["b", "alpha", "ssd_over_sd", "p_all_hit"]].round(3)
        b  alpha  ssd_over_sd  p_all_hit
    0   1    0.7        1.165      0.850
    1   1    0.9        1.165      0.850
    2  16    0.7        1.081      0.074
    3  16    0.9        1.058      0.074
    """
    how: dict[str, Any] = {"solver": solver, "precision": precision, "draws": draws, "seed": seed}
    workers = Workers(jobs, cluster, progress)
    kept = None if folder is None else Path(text("a run folder", folder))
    plan = plan_of(preset, options, **how)
    made = frame(plan, swept(plan, kept, workers))
    _plot_without_matplotlib()
    return made


def _plot_without_matplotlib() -> None:
    """Let ``.plot`` of tables draw with plotly, which ssdsim needs, where pandas' own choice is not installed.

    What is drawn where nobody says it, :mod:`ssdsim.reports.table_plots` knows, which is loaded by the first plot.
    """
    import pandas as pd

    if pd.get_option("plotting.backend") == "matplotlib" and find_spec("matplotlib") is None:
        pd.set_option("plotting.backend", "ssdsim.reports.table_plots")


def frame(plan: GridPlan, results: SweepResults) -> pd.DataFrame:
    """All rows, as :func:`sweep` returns them."""
    made: pd.DataFrame = results.table().to_pandas(ignore_metadata=True)
    for name, ratios in over_best_k(plan, results).items():
        made.insert(len(made.columns) - 1, name, ratios)
    made.attrs |= {"warnings": results.warnings, "axes": list(plan.grid), "ratio": _ratio(plan, made)}
    return made


def _ratio(plan: GridPlan, made: pd.DataFrame) -> str:
    """The column that the sweep is about: the subject over its first rival, each at its best K where K is an axis."""
    subject = subject_among(plan.strategies, plan.options.get("subject"))
    against = rivals(subject, plan.strategies)
    ratio = f"{subject}_over_{against[0]}" if against else f"{subject}_tokens_per_second"
    return f"{ratio}_at_best_k" if f"{ratio}_at_best_k" in made else ratio


def over_best_k(plan: GridPlan, results: SweepResults) -> dict[str, Array]:
    """Each strategy at a row's K over each rival at the rival's own best K of the grid, by column."""
    every, made = np.arange(len(results)), {}
    for column, (name, rival) in pairs_over_best_k(plan).items():
        own, its = (results.numbers(f"{each}_tokens_per_second", every) for each in (name, rival))
        shape = [*map(len, plan.grid.values())]
        made[column] = own / np.broadcast_to(at_best_k(plan, its), shape).reshape(-1)
    return made


def at_best_k(plan: GridPlan, column: Array) -> Array:
    """The largest of a column's numbers over K, an axis each of the grid (that of K has one place)."""
    along = column.reshape([*map(len, plan.grid.values())])
    return np.asarray(np.fmax.reduce(along, axis=[*plan.grid].index("k"), keepdims=True))


def pairs_over_best_k(plan: GridPlan) -> dict[str, tuple[str, str]]:
    """The pairs of :func:`over_best_k` by column; none without a cost of K, which unit-free durations do not know."""
    if "k" not in plan.grid or "t_sd" in {*plan.grid, *plan.options}:
        return {}
    pairs = [pair for pair in named.ratios(plan.strategies) if strategies.ALL.named(pair[1]).drafts]
    return {f"{name}_over_{rival}_at_best_k": (name, rival) for name, rival in pairs}


def swept(plan: GridPlan, folder: Path | None, workers: Workers) -> SweepResults:
    """:func:`sweep` of a plan."""
    if folder is None:
        tables = {part.number: table for part, table in _worked_out(plan, plan.parts(), workers)}
        return _checked(SweepResults.of([tables[number] for number in sorted(tables)]))
    with opened(folder, plan) as kept:
        missing = [part for part in plan.parts() if not kept.has(part)]
        for part, piece in _worked_out(plan, missing, workers):
            kept.add(part, piece)
        return _checked(kept.join(plan))


def _results(plan: GridPlan, part: PlanPart) -> tuple[PlanPart, pa.Table]:
    return part, plan.results(part)


def _worked_out(plan: GridPlan, parts: list[PlanPart], workers: Workers) -> Iterator[tuple[PlanPart, pa.Table]]:
    """Each of ``parts`` with its rows, in any order; copies of this process begin with the memory of the first part."""
    report = workers.progress or (lambda done, size: None)
    done = plan.size - sum(part.stop - part.start for part in parts)
    report(done, plan.size)
    if not parts:
        return
    first = 1 if workers.at_once == 1 else len(parts)
    for some in (parts[:first], parts[first:]):
        for part, table in workers.as_they_come(_results, [(plan, part) for part in some], workers.idle()):
            yield part, table
            done += part.stop - part.start
            report(done, plan.size)


def _checked(results: SweepResults) -> SweepResults:
    if not results.possible.size:
        first, points = results["error"][0].as_py(), len(results)
        raise InputError(first if points == 1 else f"none of the {points} points is possible; the first: {first}")
    return results
