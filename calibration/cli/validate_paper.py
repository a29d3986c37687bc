"""``ssdsim validate paper``: published results beside predictions."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import numpy as np
from msgspec.structs import asdict
from rich.console import Console

from calibration.validation.paper import FamilyReplay, PublishedSpeeds, PublishedTrees, SweepReplay
from calibration.validation.published_drafters import PublishedRows
from calibration.validation.replay import HARDWARE, MAX_ERROR, PaperReplay, RowsReplay, TreesReplay, validate_paper
from ssdsim.base.kinds import Percent
from ssdsim.base.plain import picked
from ssdsim.cli.console import console
from ssdsim.cli.options import Verb, common_options
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import OfKind
from ssdsim.cli.tables import TextTable
from ssdsim.strategies.protocols.hits import C


@click.command("paper", cls=Verb, example="ssdsim validate paper kumar2026")
@click.argument("paper")
@click.option("--hardware", help=f"profile that kernels are priced on [default: {HARDWARE}]")
@click.option(
    "--max-error", type=OfKind(Percent()), help=f"exit 1 beyond it [default: {MAX_ERROR:g}, or the rows' own]"
)
@common_options
def command(paper: str, hardware: str | None, max_error: float | None, as_json: bool, seed: int, quiet: bool) -> None:
    """Replay published results; runs nothing.

    PAPER is kumar2026; of drafters eagle2024, magicdec2024, medusa2024, tensorrt-llm-r1, vllm-eagle; of trees sequoia;
    or a card's path.
    """
    replay = validate_paper(paper, hardware=hardware)
    match replay:
        case PaperReplay():
            echo_json(_json(replay)) if as_json else _print(replay)
        case TreesReplay():
            echo_json(trees_json(replay)) if as_json else print_trees(replay)
        case RowsReplay():
            echo_json(_rows_json(replay)) if as_json else _print_rows(replay)
    sys.exit(0 if replay.holds(max_error) else 1)


def _print(replay: PaperReplay) -> None:
    out, paper = console(), replay.paper
    out.print(f"{paper.citation}\n{paper.setting}; kernels priced on {replay.hardware}", style="dim")
    for family in replay.families:
        _print_family(out, family, paper)
    if replay.sweeps:
        out.print(
            f"\nEngines' sweeps over K, {paper.sweeps[0].target}: fitted per row, its shape predicted", style="bold"
        )
        out.print(_sweep_table(replay.sweeps))
        if bounded := [f"{each.sweep.engine} {each.sweep.method}" for each in replay.sweeps if each.at_bound]:
            out.print(f"{', '.join(bounded)}: a fit that ended where its numbers can go no farther")
    out.print(f"\nSSD rows: worst error {replay.worst:.1%}. Sweeps: worst mean error over K {replay.worst_sweep:.1%}.")


def _print_family(out: Console, replay: FamilyReplay, paper: PublishedSpeeds) -> None:
    family = replay.family
    sd_k, ssd_k, fan_out = paper.setting_of(family)
    out.print(f"\n{family.target} + {family.draft}", style="bold")
    if family.assumed:
        out.print(f"assumed: {family.assumed}")
    out.print(f"fitted to the SD rows (K {sd_k}): an acceptance rate for each data set")
    end = ", the end of what it may be: no hit rate explains these rows" if replay.at_bound else ""
    hits = f"one guess misses {replay.hit_c:.3f}{end}, here p_hit {replay.p_hit:.3f} (K {ssd_k}, F {fan_out})"
    out.print(f"fitted to all SSD rows: {hits}. predict takes {C.default:g}, to which no row was fitted")
    numbers = ("alpha", "SD tok/s", "SSD tok/s", "predicted", "error", "SSD/SD", "predicted")
    first = ("SSD tok/s", "alpha")
    table = TextTable(("data set",), numbers, joined=("predicted", "error"), first=first, pad_edge=True)
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
    seen, ours = family.ar_tokens_per_s, replay.ar_tokens_per_s
    out.print(f"AR {seen} tok/s, predicted {ours:.1f}: {ours / seen - 1.0:+.1%}", style="dim")


def _sweep_table(sweeps: Sequence[SweepReplay]) -> TextTable:
    numbers = ("alpha", "ms a round", "ms a step", "mean error", "worst", "best K", "predicted")
    table = TextTable(("engine", "method"), numbers, joined=("worst", "predicted"), names=2, pad_edge=True)
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


def _json(paper_replay: PaperReplay) -> dict[str, object]:
    of_families = [
        {
            **picked(replay.family, "target", "draft"),
            "fitted": {
                "alpha": dict(zip(replay.family.datasets, replay.alpha, strict=True)),
                **picked(replay, "hit_c", "p_hit", "at_bound"),
            },
            "assumed": replay.family.assumed,
            "ssd_tokens_per_second": replay.ssd_tokens_per_s,
            "errors": replay.errors,
        }
        for replay in paper_replay.families
    ]
    of_sweeps = [
        {
            **picked(replay.sweep, "engine", "method"),
            "fitted": {
                "alpha": replay.alpha,
                "round_extra_ms": 1e3 * replay.round_extra_s,
                "draft_step_ms": 1e3 * replay.draft_step_s,
                **picked(replay, "at_bound"),
            },
            "tokens_per_second": replay.tokens_per_s,
            "errors": replay.errors,
            "best_k": dict(zip(("published", "predicted"), replay.best_k, strict=True)),
        }
        for replay in paper_replay.sweeps
    ]
    errors = {"worst_error": paper_replay.worst, "worst_sweep_mean_error": paper_replay.worst_sweep}
    return {**headed(paper_replay.paper), "families": of_families, "sweeps": of_sweeps, **errors}


def _rows_json(rows_replay: RowsReplay) -> dict[str, object]:
    rows = [{**asdict(replay), "errors": replay.errors} for replay in rows_replay.rows]
    return {**headed(rows_replay.paper), "rows": rows, "worst_error": rows_replay.worst}


def _print_rows(rows_replay: RowsReplay) -> None:
    out = console()
    out.print(f"{rows_replay.paper.citation}\n{rows_replay.paper.setting}", style="dim")
    for replay in rows_replay.rows:
        out.print(f"\n{replay.about}", style="bold")
        if replay.fitted:
            out.print(f"fitted: {replay.fitted}")
        joined = ("predicted", "error")
        table = TextTable(("",), ("published", *joined), joined=joined, first=(replay.unit,), pad_edge=True)
        rows = zip(replay.labels, replay.published, replay.predicted, replay.errors, replay.judged, strict=True)
        for label, seen, predicted, error, judged in rows:
            mark = " judged" if judged and replay.fitted else ""
            table.add_row(label + mark, f"{seen:.2f}", f"{predicted:.2f}", f"{error:+.1%}")
        out.print(table)
        out.print(f"worst error {replay.worst:.1%} ({replay.unit}; should be within {replay.within:.0%})")


def print_trees(trees_replay: TreesReplay) -> None:
    """Print the speed-ups of each table, and the demo's tree."""
    out, paper, demo = console(), trees_replay.paper, trees_replay.demo
    out.print(f"{paper.citation}\n{paper.setting}", style="dim")
    out.print(f"\na draft step is {paper.draft_step_s / paper.ar_s:.4f} of a decoding step, as published")
    for replay in trees_replay.trees:
        rows = replay.rows
        out.print(f"\ntrees of {rows.nodes} nodes, temperature {rows.temperature:g}", style="bold")
        out.print(f"fitted, one number for all rows: a verification takes {replay.verify:.3f} decoding steps")
        joined, first = ("predicted", "error"), ("speed-up", "tokens")
        numbers = ("levels", "tokens", "speed-up", *joined)
        table = TextTable(("data set",), numbers, joined=joined, first=first, pad_edge=True)
        for i, (name, levels, tokens, seen) in enumerate(
            zip(rows.datasets, rows.levels, rows.tokens, rows.speedups, strict=True)
        ):
            predicted = f"{replay.speedups[i]:.2f}x"
            table.add_row(name, str(levels), f"{tokens:.2f}", f"{seen:.2f}x", predicted, f"{replay.errors[i]:+.1%}")
        out.print(table)
    if demo is not None and paper.demo is not None:
        out.print("\nthe repository's demo, nothing fitted", style="bold")
        out.print(
            f"best tree {demo.nodes} nodes on {demo.levels} levels (shipped: {paper.demo.shipped_nodes} on "
            f"{paper.demo.shipped_levels}), {demo.tokens:.4f} tokens, {demo.time_per_token:.4f} a token, "
            f"{demo.speedup:.4f}x"
        )
    out.print(f"\nSpeed-ups: worst error {trees_replay.worst:.1%}.")


def headed(paper: PublishedSpeeds | PublishedRows | PublishedTrees) -> dict[str, object]:
    """The first keys of the JSON of every paper."""
    return {"schema": 1, "paper": paper.name, "citation": paper.citation}


def trees_json(trees_replay: TreesReplay) -> dict[str, object]:
    """The object of ``--json``."""
    trees = [
        {
            **picked(replay.rows, "nodes", "temperature", "datasets"),
            **picked(replay, "speedups", "errors"),
            "fitted": picked(replay, "verify"),
        }
        for replay in trees_replay.trees
    ]
    demo = trees_replay.demo
    tree = None if demo is None else picked(demo, "nodes", "levels", "tokens", "time_per_token", "speedup")
    return {**headed(trees_replay.paper), "trees": trees, "demo": tree, "worst_error": trees_replay.worst}
