"""``ssdsim validate --paper`` of a paper about trees: the printed comparison."""

from __future__ import annotations

import numpy as np

from ssdsim.base.plain import picked
from ssdsim.cli.console import console
from ssdsim.cli.options import echo_json
from ssdsim.cli.tables import Table
from ssdsim.validation.drafted import PublishedRows
from ssdsim.validation.paper import Published
from ssdsim.validation.tree_paper import DemoReplay, PublishedTrees, TreeReplay, replay_demo, replay_trees


def replay_tree_paper(paper: PublishedTrees, max_error: float, as_json: bool) -> bool:
    """Replay and print; whether every speed-up is within ``max_error`` and the demo's tree is the one shipped."""
    replays = [replay_trees(paper, rows) for rows in paper.trees]
    demo = None if paper.demo is None else replay_demo(paper.demo)
    worst = max(float(np.abs(replay.errors).max()) for replay in replays)
    if as_json:
        echo_json(_json(paper, replays, demo, worst))
    else:
        _print(paper, replays, demo, worst)
    return worst <= max_error and _is_shipped(paper, demo)


def _is_shipped(paper: PublishedTrees, demo: DemoReplay | None) -> bool:
    if paper.demo is None or demo is None:
        return True
    return (demo.nodes, demo.levels) == (paper.demo.shipped_nodes, paper.demo.shipped_levels)


def _print(paper: PublishedTrees, replays: list[TreeReplay], demo: DemoReplay | None, worst: float) -> None:
    out = console()
    out.print(f"{paper.citation}\n{paper.setting}", style="dim")
    out.print(f"\na draft step is {paper.draft_step_s / paper.ar_s:.4f} of a decoding step, as published")
    for replay in replays:
        rows = replay.rows
        out.print(f"\ntrees of {rows.nodes} nodes, temperature {rows.temperature:g}", style="bold")
        out.print(f"fitted, one number for all rows: a verification takes {replay.verify:.3f} decoding steps")
        table = Table(first=("speed-up", "tokens"), pad_edge=True)
        for column in ("data set", "levels", "tokens", "speed-up", "predicted", "error"):
            table.add_column(column, words=column == "data set", joined=column in ("predicted", "error"))
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
    out.print(f"\nSpeed-ups: worst error {worst:.1%}.")


def headed(paper: Published | PublishedRows | PublishedTrees) -> dict[str, object]:
    """What the JSON of every paper begins with."""
    return {"schema": 1, "paper": paper.name, "citation": paper.citation}


def _json(paper: PublishedTrees, replays: list[TreeReplay], demo: DemoReplay | None, worst: float) -> dict[str, object]:
    trees = [
        {
            **picked(replay.rows, "nodes", "temperature", "datasets"),
            **picked(replay, "speedups", "errors"),
            "fitted": picked(replay, "verify"),
        }
        for replay in replays
    ]
    tree = None if demo is None else picked(demo, "nodes", "levels", "tokens", "time_per_token", "speedup")
    return {**headed(paper), "trees": trees, "demo": tree, "worst_error": worst}
