"""``ssdsim sweep``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pandas as pd
from rich.table import Table

from ssdsim.answers.sweep.plan import MOST_DRAWS, PRESETS, Plan, column, number_columns, plan_of
from ssdsim.answers.sweep.sweep import sweep
from ssdsim.cli.console import console
from ssdsim.cli.options import common_options, echo_json, grid_options
from ssdsim.cli.progress import shown
from ssdsim.cli.warning_lines import print_warnings
from ssdsim.errors import InputError, nearest
from ssdsim.scenario.options import UNIT_FREE

_SORT, _TOP = "ssd_over_sd", 10


@click.command("sweep")
@grid_options
@click.option("--preset", help=f"a ready grid, which options change: {', '.join(PRESETS)}")
@click.option("--engine", type=click.Choice(["closed", "mc", "des"]), default="closed", show_default=True)
@click.option("--precision", type=click.FloatRange(0.0, 1.0, min_open=True), help="of simulated tokens/s at 95 %")
@click.option(
    "--draws", type=click.IntRange(0, MOST_DRAWS), default=0, show_default=True, help="of timings' errors: intervals"
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="a run folder; resumed after a kill"
)
@click.option("--jobs", type=int, default=1, show_default=True, help="processes on this machine; -1: one a core")
@click.option("--cluster", metavar="TCP://HOST:PORT", help="a Dask scheduler, whose workers do the work")
@click.option("--sort", help=f"the column by which points are best: times and GPUs the smallest [default: {_SORT}]")
@click.option("--top", type=click.IntRange(0), help=f"best points to print [default: {_TOP}]")
@common_options
def command(
    preset: str | None,
    output: Path | None,
    sort: str | None,
    top: int | None,
    as_json: bool,
    quiet: bool,
    engine: Any,
    precision: float | None,
    draws: int,
    seed: int,
    jobs: int,
    cluster: str | None,
    **options: Any,
) -> None:
    """Predict every combination of options: each takes a list or a range.

    --alpha 0.5,0.7,0.9 --k 2:12 --p-hit 0.5:1:0.05 --backup jit,fast. Ranges have both their ends. --alpha is a list
    of rates here, not rates by position. --fl, --flm and --hit-curve have a slash between values. --f beside --p-hit
    is the draft's work only: a budget of F (K+1) cached outcomes.

    The closed form is exact where durations are constant; --engine mc or des simulates every point.
    """
    if jobs < 1 and jobs != -1:
        raise InputError(f"--jobs must be at least 1, or -1 for one a core, got {jobs}")
    given = {name: values[0] if len(values) == 1 else values for name, values in options.items() if values is not None}
    how = {"engine": engine, "precision": precision, "draws": draws, "seed": seed}
    plan = plan_of(preset, given, **how)
    _check_shown(plan, sort, top, as_json)
    with shown("sweep", "points", quiet) as progress:
        results = sweep(preset=preset, folder=output, jobs=jobs, cluster=cluster, progress=progress, **how, **given)
    if as_json:
        echo_json(_json(plan, results))
        return
    _print(plan, results, sort or _SORT, _TOP if top is None else top)
    if output is not None:
        click.echo(f"{len(results)} rows in {output}/results.parquet")
    print_warnings(results.attrs["warnings"], quiet)


def _check_shown(plan: Plan, sort: str | None, top: int | None, as_json: bool) -> None:
    """Before the work: how points are shown must mean something."""
    for name, value in (("--sort", sort), ("--top", top)):
        if as_json and value is not None:
            raise InputError(f"{name} has no effect with --json (it has every point, in the order of the grid)")
    if sort is None:
        return
    if top == 0:
        raise InputError("--sort has no effect with --top 0")
    columns = number_columns(plan)
    if sort not in columns:
        hint = nearest(sort, columns)
        raise InputError(f"--sort {sort}: no such column of numbers{hint} Allowed: {', '.join(columns)}")


def _json(plan: Plan, results: pd.DataFrame) -> dict[str, Any]:
    return {
        "schema": 1,
        "unit": _unit(plan),
        "engine": plan.engine,
        "seed": plan.seed,
        "options": dict(plan.options),
        "grid": dict(plan.grid),
        "points": len(results),
        "impossible": int(results["error"].notna().sum()),
        "rows": json.loads(results.to_json(orient="records", double_precision=15)),
        "warnings": results.attrs["warnings"],
    }


def _unit(plan: Plan) -> str:
    return "T_v" if "t_sd" in plan.options or "t_sd" in plan.grid else "s"


def _print(plan: Plan, results: pd.DataFrame, sort: str, top: int) -> None:
    out = console()
    axes = " x ".join(f"{name} {len(values)}" for name, values in plan.grid.items()) or "one point"
    out.print(f"{len(results)} points: {axes}", style="bold")
    possible = results[results["error"].isna()]
    best = possible.sort_values(sort, ascending=_less_is_better(sort), kind="stable").head(top)
    if len(best):
        out.print(_table(plan, best, sort))
    out.print(_summary(possible))
    refused = results["error"].dropna()
    if len(refused):
        reason, count = refused.value_counts().index[0], refused.value_counts().iloc[0]
        out.print(f"{len(refused)} points are not possible; {count} of them: {reason}", style="yellow")


def _less_is_better(name: str) -> bool:
    return name.endswith(("_s", "_ms", "_gpus")) or name in UNIT_FREE


def _table(plan: Plan, best: pd.DataFrame, sort: str) -> Table:
    unit = _unit(plan)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in (*plan.grid, "fallback", "SD", "SSD", "SSD/SD", "SSD/AR", "SSD/SD per GPU", "all hit"):
        table.add_column(f"{name} tokens/{unit}" if name in ("SD", "SSD") else name, justify="right", no_wrap=True)
    shown_already = {"sd_tokens_per_second", "ssd_tokens_per_second", "ssd_over_sd", "ssd_over_ar", "p_all_hit"}
    extra = [] if sort in {*shown_already, *plan.grid} else [sort]
    for name in extra:
        table.add_column(name, justify="right", no_wrap=True)
    for _, row in best.iterrows():
        rates = (row["sd_tokens_per_second"], row["ssd_tokens_per_second"])
        per_gpu = row["ssd_over_sd"] * row["sd_gpus"] / row["ssd_gpus"]
        table.add_row(
            *(_setting(row[name]) for name in plan.grid),
            str(row["effective_backup" if "backup" in plan.grid else "backup"]),
            *(f"{rate:.{1 if unit == 's' else 3}f}" for rate in rates),
            *(f"{ratio:.2f}x" for ratio in (row["ssd_over_sd"], row["ssd_over_ar"], per_gpu)),
            f"{row['p_all_hit']:.1%}",
            *(f"{row[name]:.4g}" for name in extra),
        )
    return table


def _setting(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _summary(possible: pd.DataFrame) -> str:
    """How often each strategy is fastest."""
    rates = possible[[f"{name}_tokens_per_second" for name in ("ar", "sd", "ssd")]]
    fastest = rates.idxmax(axis=1).value_counts(normalize=True)
    shares = ", ".join(f"{str(name).split('_')[0].upper()} at {share:.0%}" for name, share in fastest.items())
    ratio, jit = possible["ssd_over_sd"], (column(possible, "backup") == "jit").mean()
    spread = f"SSD/SD {ratio.min():.2f}-{ratio.max():.2f}x, median {ratio.median():.2f}x"
    return f"Fastest: {shares} of the possible points; {spread}; just in time is the fallback at {jit:.0%}"
