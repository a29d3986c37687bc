"""``ssdsim compare``."""

from __future__ import annotations

from typing import Any

import click

from ssdsim.advise.compare import as_json as comparison_json
from ssdsim.advise.compare import compare
from ssdsim.advise.recommend.request import workload
from ssdsim.cli.options import Verb, chosen_options, common_options, echo_json
from ssdsim.cli.progress import shown
from ssdsim.cli.recommend import Gpus, beside_searched, searched_options
from ssdsim.cli.values import OfKind
from ssdsim.question.options import ALL


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
    with shown("compare", "", quiet):
        comparison = compare(seed=seed, **options)
    if as_json:
        echo_json(comparison_json(comparison))
    else:
        from ssdsim.cli.render_comparison import print_comparison

        print_comparison(comparison, quiet)
    return 0
