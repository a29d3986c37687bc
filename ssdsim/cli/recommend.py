"""``ssdsim recommend``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import click

from ssdsim.answers.recommend.answer import recommend
from ssdsim.answers.recommend.as_json import as_json as recommendation_json
from ssdsim.answers.recommend.request import RANKS, every_axis, workload
from ssdsim.cli.options import Verb, chosen_options, common_options, echo_json, late_options, several_of
from ssdsim.cli.values import MOST_VALUES, Values
from ssdsim.scenario.options import ALL


class Batches(Values):
    """A list or range; ``1,2,4,...,64`` goes on as it began, by steps or by factors."""

    def __init__(self) -> None:
        super().__init__(int)
        self.name = "n[,n...]|n,n,...,last|first:last[:step]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or ",...," not in value:
            return super().convert(value, param, ctx)
        start, _, end = value.partition(",...,")
        begun: list[int] = super().convert(start, param, ctx)
        (last,) = super().convert(end, param, ctx)[-1:]
        following = _following(begun)
        if following is None or last <= begun[-1]:
            self.fail(f"'{value}' does not rise by equal steps or factors from at least two numbers", param, ctx)
        while following(begun[-1]) <= last:
            if len(begun) >= MOST_VALUES:
                self.fail(f"'{value}' has more than {MOST_VALUES} values", param, ctx)
            begun.append(following(begun[-1]))
        return begun if begun[-1] == last else [*begun, last]


def _following(begun: list[int]) -> Any:
    """The rule by which a list goes on; two numbers go on by their difference."""
    if len(begun) < 2 or begun[-1] <= begun[-2]:
        return None
    difference, factor = begun[-1] - begun[-2], begun[-1] // begun[-2]
    if all(b - a == difference for a, b in pairwise(begun)):
        return lambda number: number + difference
    if all(b == a * factor for a, b in pairwise(begun)):
        return lambda number: number * factor
    return None


def narrowed() -> Iterator[click.Option]:
    """Every option that is searched, as a list or range of what may be chosen."""
    for axis in every_axis():
        option = ALL[axis.option]
        yield click.Option([*option.flags, option.name], type=several_of(option), help=axis.about)


def beside_searched() -> Mapping[str, Any]:
    """What a search takes in the place of defaults."""
    return dict(pair for axis in every_axis() for pair in axis.beside)


@click.command("recommend", cls=Verb)
@click.option("--gpus", type=int, required=True, help="GPUs that may be used, over all copies")
@click.option(
    *ALL["b"].flags,
    "b",
    type=Batches(),
    default="1",
    show_default=True,
    help="sequences in flight",
)
@click.option("--rank", type=click.Choice(RANKS), default="user", show_default=True, help="what counts")
@click.option("--gpu-hour", type=float, help="price of a GPU for an hour")
@click.option("--at-least", type=float, help="tokens/s that a user must get")
@late_options(narrowed)
@chosen_options(workload, instead=beside_searched)
@common_options
def command(as_json: bool, seed: int, quiet: bool, **options: Any) -> int:
    """Say how to decode on a number of GPUs: which strategy, on which of them, and with which settings.

    --k, --tp, --ep, --draft-gpus, --budget and --backup narrow what is searched. A token is counted to the GPUs in use;
    idle ones cost nothing. Exits with 1 where nothing fits.
    """
    found = recommend(seed=seed, **options)
    if as_json:
        echo_json(recommendation_json(found))
    else:
        from ssdsim.cli.render_recommendation import print_recommendation

        print_recommendation(found, quiet)
    return int(all(answer.best is None for answer in found.answers))
