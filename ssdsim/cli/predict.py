"""``ssdsim predict``."""

from __future__ import annotations

from typing import Any

import click

from ssdsim.answers.decision import RULES, Rule
from ssdsim.answers.predict import PredictSolver, predict
from ssdsim.cli.options import Verb, common_options, explain_option, rare_option, scenario_options
from ssdsim.cli.output import echo_json
from ssdsim.cli.progress import progress_bar


@click.command(
    "predict",
    cls=Verb,
    example="ssdsim predict --model qwen3-32b --hardware h100-sxm --tp 2 -b 16",
    needs=("hardware", "tp", "strategies"),
)
@scenario_options
@rare_option("--solver", type=click.Choice(["auto", "closed", "mc", "des"]), default="auto", show_default=True)
@rare_option("--rule", type=click.Choice(RULES), default=RULES[0], show_default=True, help="that chooses the fastest")
@rare_option("--energy", is_flag=True, help="joules a token and watts a GPU too, where a GPU's watts are known")
@explain_option
@common_options
def command(
    solver: PredictSolver,
    rule: Rule,
    energy: bool,
    explain: bool,
    as_json: bool,
    seed: int,
    quiet: bool,
    **options: Any,
) -> None:
    """Predict strategies (AR, SD, SSD), each at its own best K, and say which is the fastest and how sure that is.

    Times are priced on a hardware profile, or are unit-free with --t-sd, --t-p and --t-b.
    """
    with progress_bar("predict", "rounds", quiet) as progress:
        prediction = predict(seed=seed, solver=solver, rule=rule, energy=energy, progress=progress, **options)
    if as_json:
        from ssdsim.answers.predict import as_json as prediction_json

        echo_json(prediction_json(prediction))
        return
    from ssdsim.cli.render_prediction import print_prediction

    print_prediction(prediction, explain, quiet)
