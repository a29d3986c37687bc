"""``ssdsim validate --paper``: the printed comparison with published results."""

from __future__ import annotations

import numpy as np
from rich.console import Console

from ssdsim.base.errors import InputError
from ssdsim.base.plain import picked
from ssdsim.cli.console import console
from ssdsim.cli.options import echo_json
from ssdsim.cli.tables import Table
from ssdsim.cli.validate_trees import headed, replay_tree_paper
from ssdsim.validation.drafted import PublishedRows, Replayed
from ssdsim.validation.paper import FamilyReplay, Published, SweepReplay, load_paper, replay_family, replay_sweep
from ssdsim.validation.tree_paper import PublishedTrees

HARDWARE = "h100-sxm"
MAX_ERROR = 0.05


def replay_paper(paper: str, hardware: str | None, max_error: float | None, as_json: bool) -> bool:
    """Replay and print; whether every row, and every sweep's mean, is within ``max_error``.

    Rows of drafters and trees say themselves on which hardware they were measured, those of drafters also within which
    error they should lie.
    """
    published = load_paper(paper)
    if not isinstance(published, Published) and hardware is not None:
        raise InputError(f"--hardware has no effect with --paper {paper}: its rows say where they were measured")
    if isinstance(published, PublishedRows):
        return replay_rows(published, max_error, as_json)
    max_error = MAX_ERROR if max_error is None else max_error
    if isinstance(published, PublishedTrees):
        return replay_tree_paper(published, max_error, as_json)
    hardware = hardware or HARDWARE
    families = [replay_family(published, family, hardware) for family in published.families]
    sweeps = [replay_sweep(published, sweep, hardware) for sweep in published.sweeps]
    worst = max(float(np.abs(family.errors).max()) for family in families)
    worst_sweep = max((float(np.abs(sweep.errors).mean()) for sweep in sweeps), default=0.0)
    if as_json:
        echo_json(_json(published, families, sweeps, worst, worst_sweep))
    else:
        _print(published, hardware, families, sweeps, worst, worst_sweep)
    return max(worst, worst_sweep) <= max_error


def _print(
    paper: Published,
    hardware: str,
    families: list[FamilyReplay],
    sweeps: list[SweepReplay],
    worst: float,
    worst_sweep: float,
) -> None:
    out = console()
    out.print(f"{paper.citation}\n{paper.setting}; kernels priced on {hardware}", style="dim")
    for family in families:
        _print_family(out, family, paper)
    if sweeps:
        out.print(
            f"\nEngines' sweeps over K, {paper.sweeps[0].target}: fitted per row, its shape predicted", style="bold"
        )
        out.print(_sweep_table(sweeps))
    out.print(f"\nSSD rows: worst error {worst:.1%}. Sweeps: worst mean error over K {worst_sweep:.1%}.")


def _print_family(out: Console, replay: FamilyReplay, paper: Published) -> None:
    family = replay.family
    out.print(f"\n{family.target} + {family.draft}", style="bold")
    out.print(f"fitted to the SD rows (K {paper.sd_k}): an acceptance rate for each data set")
    extra = f"{1e3 * replay.draft_step_s:.2f} ms a draft step between its kernels, p_hit {replay.p_hit:.3f}"
    out.print(f"fitted to the SSD rows (K {paper.ssd_k}): two numbers for all of them, {extra}")
    table = Table(first=("SSD tok/s", "alpha"), pad_edge=True)
    for column in ("data set", "alpha", "SD tok/s", "SSD tok/s", "predicted", "error", "SSD/SD", "predicted"):
        table.add_column(column, words=column == "data set", joined=column in ("predicted", "error"))
    rows = zip(family.datasets, family.sd_tokens_per_s, family.ssd_tokens_per_s, strict=True)
    for i, (name, sd, ssd) in enumerate(rows):
        predicted = float(replay.ssd_tokens_per_s[i])
        table.add_row(
            name,
            f"{replay.alpha[i]:.3f}",
            f"{sd:.0f}",
            f"{ssd:.0f}",
            f"{predicted:.1f}",
            f"{replay.errors[i]:+.1%}",
            f"{ssd / sd:.2f}x",
            f"{predicted / sd:.2f}x",
        )
    out.print(table)
    error = replay.ar_tokens_per_s / family.ar_tokens_per_s - 1.0
    out.print(
        f"AR {family.ar_tokens_per_s} tok/s; the runtime, whose host time was fitted to it: {error:+.1%}",
        style="dim",
    )


def _sweep_table(sweeps: list[SweepReplay]) -> Table:
    table = Table(names=2, pad_edge=True)
    for column in ("engine", "method"):
        table.add_column(column, words=True)
    for column in ("alpha", "ms a round", "ms a step", "mean error", "worst", "best K", "predicted"):
        table.add_column(column, joined=column in ("worst", "predicted"))
    for replay in sweeps:
        errors, (seen, predicted) = np.abs(replay.errors), replay.best_k
        table.add_row(
            replay.sweep.engine,
            replay.sweep.method,
            f"{replay.alpha:.3f}",
            f"{1e3 * replay.round_extra_s:.2f}",
            f"{1e3 * replay.draft_step_s:.2f}",
            f"{errors.mean():.1%}",
            f"{errors.max():.1%}",
            str(seen),
            str(predicted),
        )
    return table


def _json(
    paper: Published, families: list[FamilyReplay], sweeps: list[SweepReplay], worst: float, worst_sweep: float
) -> dict[str, object]:
    of_families = [
        {
            **picked(replay.family, "target", "draft"),
            "fitted": {
                "alpha": dict(zip(replay.family.datasets, replay.alpha, strict=True)),
                "draft_step_ms": 1e3 * replay.draft_step_s,
                "p_hit": replay.p_hit,
            },
            "ssd_tokens_per_second": replay.ssd_tokens_per_s,
            "errors": replay.errors,
        }
        for replay in families
    ]
    of_sweeps = [
        {
            **picked(replay.sweep, "engine", "method"),
            "fitted": {
                "alpha": replay.alpha,
                "round_extra_ms": 1e3 * replay.round_extra_s,
                "draft_step_ms": 1e3 * replay.draft_step_s,
            },
            "tokens_per_second": replay.tokens_per_s,
            "errors": replay.errors,
            "best_k": dict(zip(("published", "predicted"), replay.best_k, strict=True)),
        }
        for replay in sweeps
    ]
    errors = {"worst_error": worst, "worst_sweep_mean_error": worst_sweep}
    return {**headed(paper), "families": of_families, "sweeps": of_sweeps, **errors}


def replay_rows(paper: PublishedRows, max_error: float | None, as_json: bool) -> bool:
    """Rows of drafters."""
    replays = [rows.replay() for rows in paper.rows]
    if as_json:
        rows = [{**vars(replay), "errors": replay.errors} for replay in replays]
        echo_json({**headed(paper), "rows": rows, "worst_error": max(replay.worst for replay in replays)})
    else:
        _print_rows(paper, replays)
    return all(replay.worst <= (replay.within if max_error is None else max_error) for replay in replays)


def _print_rows(paper: PublishedRows, replays: list[Replayed]) -> None:
    out = console()
    out.print(f"{paper.citation}\n{paper.setting}", style="dim")
    for replay in replays:
        out.print(f"\n{replay.about}", style="bold")
        if replay.fitted:
            out.print(f"fitted: {replay.fitted}")
        table = Table(first=(replay.unit,), pad_edge=True)
        table.add_column("", words=True)
        for column in ("published", "predicted", "error"):
            table.add_column(column, joined=column != "published")
        rows = zip(replay.labels, replay.published, replay.predicted, replay.errors, replay.judged, strict=True)
        for label, seen, predicted, error, judged in rows:
            mark = " judged" if judged and replay.fitted else ""
            table.add_row(label + mark, f"{seen:.2f}", f"{predicted:.2f}", f"{error:+.1%}")
        out.print(table)
        out.print(f"worst error {replay.worst:.1%} ({replay.unit}; should be within {replay.within:.0%})")
