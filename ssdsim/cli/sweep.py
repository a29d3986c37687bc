"""``ssdsim sweep``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from ssdsim import strategies
from ssdsim.answers.columns import lookahead, over, own, own_columns
from ssdsim.answers.grid import MOST_DRAWS
from ssdsim.answers.sweep import at_best_k, frame, over_best_k, pairs_over_best_k, swept
from ssdsim.answers.sweep_plan import PRESETS, GridPlan, effective, number_columns, plan_of
from ssdsim.answers.verdict import rivals, title_of
from ssdsim.answers.workers import Workers
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.option import Group, number, pop_record
from ssdsim.base.plain import picked
from ssdsim.base.record import Record, replace
from ssdsim.cli.console import console, print_warnings
from ssdsim.cli.options import (
    Verb,
    common_options,
    given_of_grid,
    grid_options,
    kept_option,
    rare_option,
    record_options,
)
from ssdsim.cli.output import echo_json, print_out
from ssdsim.cli.param_types import Finite
from ssdsim.cli.progress import kept_in, progress_bar
from ssdsim.cli.tables import TextTable
from ssdsim.question.engines import subject_among
from ssdsim.question.options import members
from ssdsim.runs.sweep_folder import SweepResults

_TOP = 10


@click.command("sweep", cls=Verb, example="ssdsim sweep -b 1,16,64 --k 2:8 --alpha 0.6:0.9:0.1 -o run")
@grid_options
@click.option("--preset", help=f"a ready grid, which options change: {', '.join(PRESETS)}")
@rare_option("--solver", type=click.Choice(["closed", "mc", "des"]), default="closed", show_default=True)
@rare_option("--precision", type=Finite(0.0, 1.0, min_open=True), help="of simulated tokens/s at 95 %")
@rare_option(
    "--draws", type=click.IntRange(0, MOST_DRAWS), default=0, show_default=True, help="of what is not known: intervals"
)
@kept_option
@record_options(Workers)
@click.option("--sort", help="the column by which points are best: the smallest times, the most tokens/s")
@click.option("--top", type=click.IntRange(0), help=f"best points to print [default: {_TOP}]")
@common_options
def command(
    preset: str | None,
    output: Path | None,
    sort: str | None,
    top: int | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Predict every combination of options: each takes a list or a range.

    --alpha 0.5,0.7,0.9 --k 2:12 --p-hit 0.5:1:0.05 --backup jit,fast. Ranges have both their ends. --alpha is a list
    of rates here, not rates by position. --fl, --flm and --hit-curve have a slash between values. --f beside --p-hit
    is the draft's work only: a budget of F (K+1) cached outcomes.

    The closed form is exact where durations are constant; --solver mc or des simulates every point.
    """
    workers = pop_record(Workers, options)
    how = {name: options.pop(name) for name in ("solver", "precision", "draws", "seed")}
    plan = plan_of(preset, given_of_grid(options), **how)
    _check_shown(plan, sort, top, as_json)
    with progress_bar("sweep", "points", quiet, kept=kept_in(output, "point")) as progress:
        results = swept(plan, output, replace(workers, progress=progress))
    if as_json:
        echo_json(_json(plan, results))
        return
    _print(plan, results, sort, _TOP if top is None else top)
    if output is not None:
        print_out(f"{len(results)} rows in {output}/results.parquet")
    print_warnings(results.warnings, quiet)


def _check_shown(plan: GridPlan, sort: str | None, top: int | None, as_json: bool) -> None:
    """Check, before the work, that how points are shown means something."""
    for name, value in (("--sort", sort), ("--top", top)):
        if as_json and value is not None:
            raise InputError(f"{name} has no effect with --json (it has every point, in the order of the grid)")
    if sort is None:
        return
    if top == 0:
        raise InputError("--sort has no effect with --top 0")
    columns = [*number_columns(plan), *pairs_over_best_k(plan)]
    if sort not in columns:
        hint = nearest(sort, columns)
        raise InputError(f"--sort {sort}: no such column of numbers{hint} Allowed: {', '.join(columns)}")


def _json(plan: GridPlan, results: SweepResults) -> dict[str, Any]:
    return {
        "schema": 4,
        "unit": _unit(plan),
        **picked(plan, "solver", "seed", "options", "grid"),
        "points": len(results),
        "impossible": len(results) - len(results.possible),
        "rows": json.loads(frame(plan, results).to_json(orient="records", double_precision=15)),
        "warnings": results.warnings,
    }


def _unit(plan: GridPlan) -> str:
    return "T_v" if "t_sd" in plan.options or "t_sd" in plan.grid else "s"


def _print(plan: GridPlan, results: SweepResults, sort: str | None, top: int) -> None:
    out, contest = console(), _Sides.of(plan)
    of_best = over_best_k(plan, results)
    sort = sort or next((name for name in (f"{contest.sort}_at_best_k",) if name in of_best), contest.sort)
    axes = " x ".join(f"{name} {len(values)}" for name, values in plan.grid.items()) or "one point"
    out.print(f"{len(results)} points: {axes}", style="bold")
    possible = results.possible
    names = [f"{name}_tokens_per_second" for name in contest.names]
    columns = contest.with_ratios({name: results.numbers(name, possible) for name in names})
    columns |= {name: values[possible] for name, values in of_best.items()}
    sorts = columns[sort] if sort in columns else results.numbers(sort, possible)
    best = np.argsort(sorts if _less_is_better(sort) else -sorts, kind="stable")[:top]
    if best.size:
        of_rows = [{name: columns[name][row] for name in of_best} for row in best.tolist()]
        rows = [row | more for row, more in zip(results.records(possible[best]), of_rows, strict=True)]
        out.print(_table(plan, contest, rows, sort))
    out.print(_summary(plan, contest, columns, of_best, results))
    refused = np.setdiff1d(np.arange(len(results)), possible)
    if refused.size:
        reason, count = max(results.counts("error", refused).items(), key=itemgetter(1))
        points = "1 point is" if refused.size == 1 else f"{refused.size} points are"
        some = f"; {count} of them" if count < refused.size else ""
        out.print(f"{points} not possible{some}: {reason}", style="yellow")


def _less_is_better(name: str) -> bool:
    return name.endswith(("_s", "_ms", "_gpus")) or name in members(Group.UNIT_FREE)


class _Sides(Record):
    """The subject, its rivals (the one that it is held against first), and whose columns there are."""

    names: tuple[str, ...]
    subject: str
    rivals: tuple[str, ...]

    @staticmethod
    def of(plan: GridPlan) -> _Sides:
        subject = subject_among(plan.strategies, plan.options.get("subject"))
        return _Sides(plan.strategies, subject, rivals(subject, plan.strategies))

    @property
    def sort(self) -> str:
        return f"{self.subject}_over_{self.rivals[0]}" if self.rivals else f"{self.subject}_tokens_per_second"

    def with_ratios(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Columns, or a row, with the subject's tokens/s over each rival's."""
        return {**columns, **over([(self.subject, rival) for rival in self.rivals], columns)}

    def own(self, column: str) -> str | None:
        """The subject's column of a result that not every strategy has."""
        return own(self.names, self.subject, column) if column in own_columns(self.subject) else None


_Row = Mapping[str, Any]


def _shown(plan: GridPlan, contest: _Sides) -> list[tuple[str, str, Callable[[_Row], str]]]:
    """Header, the results' column, and the cell of a row, for each column that is shown of a point."""
    unit, name, decimals = _unit(plan), contest.subject, 1 if _unit(plan) == "s" else 3

    def rate(strategy: str) -> tuple[str, str, Callable[[_Row], str]]:
        column = f"{strategy}_tokens_per_second"
        return f"{title_of(strategy)} tokens/{unit}", column, lambda row: f"{row[column]:.{decimals}f}"

    def k_of(strategy: str) -> tuple[str, str, Callable[[_Row], str]]:
        column = effective(lookahead(strategy), plan.grid)
        return f"{title_of(strategy)} K", column, lambda row: f"{row[column]:.0f}"

    def over(rival: str) -> tuple[str, str, Callable[[_Row], str]]:
        column = f"{name}_over_{rival}"
        return f"{title_of(name)}/{title_of(rival)}", column, lambda row: f"{row[column]:.2f}x"

    def over_best(rival: str) -> tuple[str, str, Callable[[_Row], str]]:
        column = f"{name}_over_{rival}_at_best_k"
        return f"{title_of(name)}/{title_of(rival)} at its best K", column, lambda row: f"{row[column]:.2f}x"

    def per_gpu(rival: str) -> tuple[str, str, Callable[[_Row], str]]:
        ratio, gpus, rival_gpus = f"{name}_over_{rival}", f"{name}_gpus", f"{rival}_gpus"
        cell = lambda row: f"{row[ratio] * row[rival_gpus] / row[gpus]:.2f}x"  # noqa: E731
        return f"{title_of(name)}/{title_of(rival)} per GPU", "", cell

    shown = []
    backup, all_hit = contest.own("backup"), contest.own("p_all_hit")
    if backup is not None and "auto" in plan.grid.get("backup", ["auto"]):
        chosen = effective(backup, plan.grid)
        shown.append(("backup", chosen, lambda row: str(row[chosen])))
    shown += [k_of(strategy) for strategy in (*contest.rivals[:1], name) if _chooses_k(plan, strategy)]
    shown += [rate(strategy) for strategy in (*contest.rivals[:1], name)]
    shown += [over_best(rival) for rival in contest.rivals[:1] if (name, rival) in pairs_over_best_k(plan).values()]
    shown += [over(rival) for rival in contest.rivals]
    shown += [per_gpu(rival) for rival in contest.rivals[:1]]
    if all_hit is not None:
        shown.append(("all hit", all_hit, lambda row: f"{row[all_hit]:.1%}"))
    return shown


def _chooses_k(plan: GridPlan, name: str) -> bool:
    """Say whether a strategy drafts at its own best K."""
    return strategies.ALL.named(name).drafts and not {"k", "t_sd"} & {*plan.options, *plan.grid}


def _table(plan: GridPlan, contest: _Sides, best: Sequence[_Row], sort: str) -> TextTable:
    shown = _shown(plan, contest)
    if sort not in {*(column for _, column, _ in shown), *plan.grid}:
        shown.append((sort, sort, lambda row: f"{row[sort]:.4g}"))
    ratios = [header for header, column, _ in shown if "_over_" in column]
    rates = [header for header, column, _ in shown if column.endswith("_tokens_per_second")]
    headers, first = [*plan.grid, *(each[0] for each in shown)], (sort, *ratios[:1], *reversed(rates), *ratios[1:])
    table = TextTable((), headers, names=len(plan.grid), first=first)
    there = ({name: math.nan if value is None else value for name, value in row.items()} for row in best)
    for row in map(contest.with_ratios, there):  # at another engine a strategy may not be there
        cells = (cell(row) for _, _, cell in shown)
        table.add_row(*(number(row[name]) for name in plan.grid), *("-" if "nan" in each else each for each in cells))
    return table


def _summary(
    plan: GridPlan,
    contest: _Sides,
    columns: Mapping[str, NDArray[np.float64]],
    of_best: Mapping[str, Array],
    results: SweepResults,
) -> str:
    """The summary: how often each strategy is fastest, and what the subject makes of its rival."""
    rates = [np.nan_to_num(columns[f"{name}_tokens_per_second"], nan=-np.inf) for name in contest.names]
    points = np.bincount(np.argmax(rates, axis=0), minlength=len(rates)).tolist()
    fastest = sorted(zip(contest.names, points, strict=True), key=itemgetter(1), reverse=True)
    shares = ", ".join(f"{title_of(name)} at {count / sum(points):.0%}" for name, count in fastest if count)
    said = [f"Predicted fastest: {shares} of the possible points"]
    for rival in contest.rivals[:1]:
        name, what = f"{contest.subject}_over_{rival}", f"{title_of(contest.subject)}/{title_of(rival)}"
        ratio = columns[name]
        if f"{name}_at_best_k" in of_best:
            ratio, what = at_best_k(plan, of_best[f"{name}_at_best_k"]), f"{what}, each at its best K,"
        if (known := ratio[~np.isnan(ratio)]).size:  # rows of a file may lack it
            said.append(f"{what} {known.min():.2f}-{known.max():.2f}x, median {np.median(known):.2f}x")
    backup = contest.own("backup")
    if backup is not None:
        in_time = results.counts(effective(backup, plan.grid), results.possible).get("jit", 0)
        said.append(f"just in time is the backup at {in_time / len(results.possible):.0%}")
    return "; ".join(said)
