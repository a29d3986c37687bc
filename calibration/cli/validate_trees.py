"""``ssdsim validate paper`` of a paper about trees: the printed comparison."""

from __future__ import annotations

from calibration.validation.drafted import PublishedRows
from calibration.validation.paper import PublishedSpeeds, PublishedTrees
from calibration.validation.replay import TreesReplay
from ssdsim.base.plain import picked
from ssdsim.cli.console import console
from ssdsim.cli.tables import Table


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
        table = Table(("data set",), numbers, joined=joined, first=first, pad_edge=True)
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
