"""The table of a prediction: a row a strategy."""

from __future__ import annotations

from collections.abc import Mapping

from ssdsim import strategies
from ssdsim.answers.columns import TITLED, Column
from ssdsim.base.intervals import Interval
from ssdsim.base.told import Told
from ssdsim.pricing.room import counted
from ssdsim.question.configuration import Configuration
from ssdsim.rounds.estimate import Estimate


def told(
    configuration: Configuration,
    estimates: Mapping[str, Estimate],
    intervals: Mapping[str, Interval | None],
    subject: str,
    sentence: str,
) -> Told:
    """A row a strategy: its numbers, its interval, and its tokens/s over each rival's."""
    seconds = configuration.unit == "s"
    shown = {column.headed(seconds): column for column in TITLED}
    rate, *others = shown
    rivals = [name for name in estimates if name != subject]
    bounds = ["95 %"] if any(intervals.values()) else []
    rows = []
    for name, e in estimates.items():
        interval = intervals[name]
        first, *rest = (_cell(column, e, seconds) for column in shown.values())
        said = [f"{interval.low:.4g}-{interval.high:.4g}"] if interval else []
        over = (f"{e.tokens_per_second / estimates[rival].tokens_per_second:.2f}x" for rival in rivals)
        rows.append((strategies.ALL.named(name).title, first, *said, *rest, *over))
    header = ("", rate, *bounds, *others, *(f"vs {strategies.ALL.named(name).title}" for name in rivals))
    return Told(configuration.title, header, rows, sentence)


def _cell(column: Column, estimate: Estimate, seconds: bool) -> str:
    value = column.value(estimate, seconds)
    if column.unit == "devices":
        return counted(value)
    digits = 2 if column.unit != "rate" else 1 if seconds else 3
    return f"{value:.{digits}f}"
