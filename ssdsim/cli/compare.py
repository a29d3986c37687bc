"""``ssdsim compare``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import click

from ssdsim import strategies
from ssdsim.advise.compare import Comparison, compare
from ssdsim.advise.compare import as_json as comparison_json
from ssdsim.advise.recommend.request import workload
from ssdsim.answers.evidence import range_text, standing_text, value_text
from ssdsim.base.option import spelled
from ssdsim.cli.console import UNLABELLED, console, print_labelled, print_origins, print_warnings
from ssdsim.cli.options import Verb, chosen_options, common_options
from ssdsim.cli.output import echo_json
from ssdsim.cli.progress import progress_bar
from ssdsim.cli.recommend import Gpus, beside_searched, searched_options
from ssdsim.cli.tables import TextTable
from ssdsim.cli.values import OfKind
from ssdsim.question.options import ALL
from ssdsim.question.standing import Standing, TokenInput

_BAR = 24


@click.command("compare", cls=Verb, example="ssdsim compare --gpus 5 --model llama-3.1-70b -b 16")
@click.option("--gpus", type=OfKind(Gpus()), required=True, help="GPUs that may be used, over all copies: 8, or 8xh200")
@click.option(*ALL["b"].flags, "b", type=int, default=1, show_default=True, help="sequences in flight")
@click.option("--strategies", help="whom to compare [default: all]")
@searched_options
@chosen_options(lambda: (name for name in workload() if name not in ("strategies", "subject")), instead=beside_searched)
@common_options
def command(as_json: bool, seed: int, quiet: bool, **options: Any) -> int:
    """Hold every strategy at its best settings against the others on as many GPUs.

    P is the probability of being the fastest under the errors of timings and the ranges of acceptance and hits. A
    winner is named where it has P 0.95, and is the fastest wherever in their ranges these lie.
    """
    with progress_bar("compare", "", quiet):
        comparison = compare(seed=seed, **options)
    if as_json:
        echo_json(comparison_json(comparison))
    else:
        print_comparison(comparison, quiet)
    return 0


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


def _strategies(comparison: Comparison) -> TextTable:
    numbers = ("GPUs", "/user", "95 %", "/GPU", "P")
    table = TextTable(("deployment", "settings"), numbers, ("",), joined=("settings", "95 %"))
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


def _inputs(comparison: Comparison) -> TextTable:
    table = TextTable(("input",), ("value",), ("range", "what it is"))
    for each in comparison.inputs:
        table.add_row(*_cells(each))
    return table


def _cells(each: TokenInput) -> Iterator[str]:
    yield spelled(each.name)
    yield value_text(each)
    yield range_text(each)
    yield standing_text(each)


def _rests_on(comparison: Comparison) -> TextTable:
    """A line a strategy: its inputs by who says so."""
    rests_on = [compared.rests_on for compared in comparison.compared.values()]
    standings = [standing for standing in get_args(Standing) if any(standing in each for each in rests_on)]
    table = TextTable(("", *standings))
    for name, compared in comparison.compared.items():
        said = (", ".join(map(spelled, compared.rests_on.get(standing, ()))) for standing in standings)
        table.add_row(strategies.ALL.named(name).title, *said)
    return table
