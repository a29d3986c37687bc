"""``ssdsim predict``."""

from __future__ import annotations

from typing import Any

import click

from ssdsim.answers.predict import PredictSolver, predict
from ssdsim.cli.options import Verb, common_options, rare_option, scenario_options
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
@common_options
def command(solver: PredictSolver, as_json: bool, seed: int, quiet: bool, **options: Any) -> None:
    """Predict strategies (AR, SD, SSD) and say whether the subject, SSD, is worth its GPU.

    Times are priced on a hardware profile, or are unit-free with --t-sd, --t-p and --t-b.
    """
    with progress_bar("predict", "rounds", quiet) as progress:
        prediction = predict(seed=seed, solver=solver, progress=progress, **options)
    if as_json:
        from ssdsim.answers.predict import as_json as prediction_json

        echo_json(prediction_json(prediction))
        return
    from ssdsim.cli.render_prediction import print_prediction

    print_prediction(prediction, quiet)
