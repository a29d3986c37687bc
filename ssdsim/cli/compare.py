"""``ssdsim compare``: the old name of ``recommend --all``."""

from __future__ import annotations

from typing import Any

import click

from ssdsim.advise.recommend.request import workload
from ssdsim.cli.console import echo
from ssdsim.cli.options import Verb, chosen_options, common_options, explain_option
from ssdsim.cli.param_types import OfKind
from ssdsim.cli.recommend import GPUS, Gpus, answered, beside_searched, searched_options
from ssdsim.question.options import ALL

_BESIDE: dict[str, Any] = {
    **{"rank": "user", "gpu_hour": None, "use": "needed", "at_least": None, "rule": "mean-log"},
    **{"rate": None, "slo": None, "output": None, "every": True, "paste": None},
}


@click.command(
    "compare", cls=Verb, example="ssdsim compare --gpus 5 --model llama-3.1-70b -b 16", needs=("strategies",)
)
@click.option("--gpus", type=OfKind(Gpus()), required=True, help=GPUS)
@click.option(*ALL["b"].flags, "b", type=int, default=1, show_default=True, help="sequences in flight")
@searched_options
@chosen_options(lambda: (name for name in workload() if name != "subject"), instead=beside_searched)
@explain_option
@common_options
def command(quiet: bool, **options: Any) -> int:
    """Hold every strategy at its best against the others on as many GPUs: ssdsim recommend --all."""
    failed = answered(quiet=quiet, **_BESIDE, **options)
    if not quiet:
        echo("note: compare is now ssdsim recommend --all", stderr=True)
    return failed
