"""Replay a paper's trees: fit what a verification of so many nodes takes, predict speed-ups; find the tree it shipped.

The charge of a round is Sequoia's own: a draft step for every level, the root's included.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.base.records import FROM_LIST, Card, of_one_length
from ssdsim.tokens.trees.dynamic_program import best_trees
from ssdsim.tokens.trees.shape import Tree

Positive = Annotated[float, Field(gt=0.0)]
Count = Annotated[int, Field(ge=1, le=4096)]


class TreeRows(Card):
    """Results with trees of so many nodes at a temperature; ``tokens`` of a round, speed-ups over AR."""

    nodes: Count
    temperature: float
    datasets: Annotated[tuple[str, ...], FROM_LIST] = Field(min_length=1)
    levels: Annotated[tuple[Count, ...], FROM_LIST]
    tokens: Annotated[tuple[Positive, ...], FROM_LIST]
    speedups: Annotated[tuple[Positive, ...], FROM_LIST]

    _a_result_a_data_set = of_one_length("datasets", "levels", "tokens", "speedups")


class Demo(Card):
    """Acceptance by rank and times (of one unit) from which a tree was searched, and the tree's size; root included."""

    ranks: Annotated[tuple[Annotated[float, Field(ge=0.0, le=1.0)], ...], FROM_LIST] = Field(min_length=1)
    draft_time: Positive
    nodes: Annotated[tuple[Count, ...], FROM_LIST] = Field(min_length=1)
    target_times: Annotated[tuple[Positive, ...], FROM_LIST]
    most_levels: Count
    shipped_nodes: Count
    shipped_levels: Count

    @model_validator(mode="after")
    def _a_time_a_size(self) -> Demo:
        if len(self.nodes) != len(self.target_times) or 1 not in self.nodes:
            raise ValueError("nodes and target_times must be lists of one length, and nodes must have 1 among them")
        return self


class PublishedTrees(Card):
    """A paper's trees and the setting in which they were measured; ``ar_s`` is a token's time without speculation."""

    name: str
    citation: str
    setting: str
    ar_s: Positive
    draft_step_s: Positive
    trees: Annotated[tuple[TreeRows, ...], FROM_LIST] = Field(min_length=1)
    demo: Demo | None = None


class TreeReplay(Record):
    """Fitted: a verification's time over that of one token. Predicted: a speed-up a data set."""

    rows: TreeRows
    verify: float
    speedups: Array

    @property
    def errors(self) -> Array:
        return np.asarray(self.speedups / np.array(self.rows.speedups) - 1.0)


class DemoReplay(Record):
    """The tree of the least time a token: its nodes and levels, root included, tokens a round, and what it gains."""

    tree: Tree
    nodes: int
    levels: int
    tokens: float
    time_per_token: float
    speedup: float


def replay_trees(paper: PublishedTrees, rows: TreeRows) -> TreeReplay:
    """One number for all rows, ``t(nodes)``: ``speedup = tokens / (t(nodes) + levels c)``, c a draft step over AR's."""
    tokens, seen = np.array(rows.tokens), np.array(rows.speedups)
    drafting = np.array(rows.levels) * paper.draft_step_s / paper.ar_s
    verify = float(np.exp(np.mean(np.log(tokens / seen - drafting))))
    return TreeReplay(rows, verify, tokens / (verify + drafting))


def replay_demo(demo: Demo) -> DemoReplay:
    """Nothing is fitted."""
    table = best_trees(np.array([demo.ranks]), max(demo.nodes), demo.most_levels)
    trees = [
        ((demo.draft_time * levels + time) / float(table.tokens[nodes, levels]), nodes, levels)
        for nodes, time in zip(demo.nodes, demo.target_times, strict=True)
        for levels in range(1, demo.most_levels + 1)
        if np.isfinite(table.tokens[nodes, levels])
    ]
    time_per_token, nodes, levels = min(trees)
    speedup = demo.target_times[demo.nodes.index(1)] / time_per_token
    tokens = float(table.tokens[nodes, levels])
    return DemoReplay(table.tree(nodes, levels), nodes, levels, tokens, time_per_token, speedup)
