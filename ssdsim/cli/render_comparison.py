"""A comparison as a person reads it in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from ssdsim import strategies
from ssdsim.advise.compare import Comparison
from ssdsim.answers.evidence import range_text, standing_text, value_text
from ssdsim.base.option import spelled
from ssdsim.cli.console import UNLABELLED, console, print_labelled, print_origins
from ssdsim.cli.tables import Table
from ssdsim.cli.warning_lines import print_warnings
from ssdsim.question.standing import Standing, TokenInput

_BAR = 24


def print_comparison(comparison: Comparison, quiet: bool) -> None:
    """The sentence, the strategies from the fastest on, and what acceptance they rest on."""
    out = console()
    print_labelled(out, "Verdict  ", comparison.sentence, "green" if comparison.winner else "yellow", "bold")
    if comparison.doubts_told:
        print_labelled(out, UNLABELLED, f"not known: {comparison.doubts_told}")
    out.print()
    out.print(
        f"Tokens/s per user at batch {comparison.batch} on up to {comparison.request.gpus} GPUs, "
        "each at its best settings",
        style="bold",
    )
    out.print(_strategies(comparison))
    for each in comparison.unsupported.values():
        out.print(f"apart: {each.sentence} ({each.deployment.name})", style="yellow")
    for name, reason in comparison.impossible.items():
        out.print(f"no {strategies.ALL.named(name).title}: {reason}", style="yellow")
    out.print()
    out.print("Acceptance inputs", style="bold")
    out.print(_inputs(comparison))
    out.print()
    out.print("What each strategy rests on", style="bold")
    out.print(_rests_on(comparison))
    out.print()
    out.print("95 % and P(fastest) from errors of timings and the ranges of these inputs, drawn together", style="dim")
    print_origins(out, (), comparison.runtime)
    print_warnings(comparison.warnings, quiet)


def _strategies(comparison: Comparison) -> Table:
    numbers = ("GPUs", "/user", "95 %", "/GPU", "P")
    table = Table(("deployment", "settings"), numbers, ("",), joined=("settings", "95 %"))
    longest = max(each.high for each in comparison.compared.values())
    for each in comparison.compared.values():
        d = each.deployment
        table.add_row(
            d.name,
            d.settings,
            str(d.gpus),
            f"{d.per_user:.1f}",
            f"{each.low:.1f}-{each.high:.1f}",
            f"{d.per_gpu:.1f}",
            f"{each.probability_fastest:.2f}",
            _bar(each.low / longest, d.per_user / longest, each.high / longest),
        )
    return table


def _bar(low: float, at: float, high: float) -> str:
    """A bar: the interval as a line, the prediction as a block."""
    first, middle, last = (min(_BAR - 1, int(share * _BAR)) for share in (low, at, high))
    return "".join("█" if n == middle else "─" if first <= n <= last else " " for n in range(_BAR))


def _inputs(comparison: Comparison) -> Table:
    table = Table(("input",), ("value",), ("range", "what it is"))
    for each in comparison.inputs:
        table.add_row(*_cells(each))
    return table


def _cells(each: TokenInput) -> Iterator[str]:
    yield spelled(each.name)
    yield value_text(each)
    yield range_text(each)
    yield standing_text(each)


def _rests_on(comparison: Comparison) -> Table:
    """A line a strategy: its inputs by who says so."""
    rests_on = [compared.rests_on for compared in comparison.compared.values()]
    standings = [standing for standing in get_args(Standing) if any(standing in each for each in rests_on)]
    table = Table(("", *standings))
    for name, compared in comparison.compared.items():
        said = (", ".join(map(spelled, compared.rests_on.get(standing, ()))) for standing in standings)
        table.add_row(strategies.ALL.named(name).title, *said)
    return table
