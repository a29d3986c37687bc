"""``ssdsim validate pair``: the models of a pair's file run for real, beside what it predicts of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibration.cli.calibrate import alone_under_torchrun
from calibration.validation.tokens.answer import RealPair, ValidatedPair, validate_pair
from ssdsim import strategies as known
from ssdsim.base.kinds import Percent
from ssdsim.cli.console import console, echo
from ssdsim.cli.options import Verb, json_option, output_option, quiet_option, record_options
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import OfKind, Output
from ssdsim.cli.progress import progress_bar
from ssdsim.cli.tables import TextTable

if TYPE_CHECKING:
    from calibration.validation.tokens.comparison import TokenComparison


@click.command("pair", cls=Verb, example="ssdsim validate pair pair.json --prompts unseen.jsonl")
@click.argument("pair", type=click.Path(path_type=Path))
@click.option(
    "--prompts", type=click.Path(path_type=Path), required=True, help="prompts that the pair was not measured on"
)
@record_options(RealPair)
@click.option("--max-error", type=OfKind(Percent()), help="exit 1 beyond it")
@output_option("-o", "--output", type=Output(path_type=Path), default="validation", show_default=True, help="a folder")
@quiet_option
@json_option
def command(
    pair: Path, prompts: Path, max_error: float | None, output: Path, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Run a measured pair's models greedily on --prompts, one request at a time, and compare; PAIR is its pair.json."""
    alone_under_torchrun()
    given = {name: value for name, value in options.items() if value is not None}
    validated_pair = validate_pair(pair, prompts, output=output, told=partial(progress_bar, quiet=quiet), **given)
    if as_json:
        echo_json(validated_pair.as_json())
    else:
        _print(validated_pair)
    sys.exit(0 if validated_pair.bugs == 0 and (max_error is None or validated_pair.worst_error <= max_error) else 1)


def _print(answer: ValidatedPair) -> None:
    bench, found = answer.bench, answer.comparisons
    echo(
        f"{bench.models[0]} with {bench.models[1]}, greedy, {answer.requests} requests one after the other, "
        f"{bench.size.new_tokens} tokens, K {bench.size.k}, F {bench.size.fan_out}, {bench.repeats} runs"
    )
    console().print(_table(found))
    console().print(_rates(found))
    greedy = [each.greedy for each in found]
    same, of = sum(each.identical for each in greedy), sum(each.requests for each in greedy)
    ties, bugs = sum(each.near_ties for each in greedy), sum(each.bugs for each in greedy)
    echo(f"{same} of {of} answers are AR's own; {ties} part at a near tie, {bugs} by a bug")


def _table(token_comparisons: Sequence[TokenComparison]) -> TextTable:
    headers = ("", "tok/s", "lowest", "highest", "predicted before", "beside", "median error", "worst")
    table = TextTable((), headers, pad_edge=True)
    for each in token_comparisons:
        table.add_row(
            _title(each),
            *(f"{value:.1f}" for value in (_middle(each.measured), min(each.measured), max(each.measured))),
            f"{each.predicted:.1f}",
            f"{_middle(each.beside):.1f}",
            f"{each.median_error:.1%}",
            f"{each.worst_error:.1%}",
        )
    return table


def _rates(token_comparisons: Sequence[TokenComparison]) -> TextTable:
    headers = ("", "tokens/round", "by the pair", "acceptance", "by the pair", "hits", "by the pair")
    table = TextTable((), headers, pad_edge=True)
    for each in token_comparisons:
        pairs = (*each.tokens_per_round, *each.acceptance, *each.p_hit)
        table.add_row(_title(each), *("-" if value is None else f"{value:.3f}" for value in pairs))
    return table


def _title(each: TokenComparison) -> str:
    return str(known.ALL.named(each.strategy).title)


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
