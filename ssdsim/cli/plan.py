"""``ssdsim plan``: its options, what it leaves in files, and in which order it prints."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from ssdsim.answers.workers import Workers
from ssdsim.base.kinds import File, Number
from ssdsim.base.option import pop_record
from ssdsim.base.record import replace
from ssdsim.cli.console import console, print_warnings
from ssdsim.cli.explain_plan import print_explanation
from ssdsim.cli.options import (
    Verb,
    chosen_options,
    common_options,
    explain_option,
    kept_option,
    output_option,
    rare_option,
    record_options,
)
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import OfKind, OutputFile
from ssdsim.cli.progress import duration_text, kept_in, progress_bar
from ssdsim.cli.render_plan import print_first_screen
from ssdsim.question.options import DEFAULTS
from ssdsim.runs.answer_folders import opened_for_serving
from ssdsim.serving.answer import Serving
from ssdsim.serving.answer import as_json as serving_json
from ssdsim.serving.batching import Batching
from ssdsim.serving.journal import timeline
from ssdsim.serving.load import Load
from ssdsim.serving.options import Fleet, Goal, ServeSolverOptions
from ssdsim.serving.policies import AUTO, accepted_options
from ssdsim.serving.policy_runs import RunNeeds, run
from ssdsim.serving.serve import served
from ssdsim.serving.workload import Workload

_STRATEGIES = f"ar,sd,ssd; {AUTO}, too, where no GPUs are searched"
_LONG_TOKENS = 100_000  # of a load, whose search for GPUs takes some seconds
_LONG_S = 60.0  # of a core


@click.command(
    "plan",
    cls=Verb,
    example="ssdsim plan --log log.csv --slo ttft:1s,tpot:30ms --gpu-hour 2.5",
    needs=(
        *("workload", "rate", "scale_rate", "slo", "attainment", "gpu_hour", "input_len", "output_len"),
        *("hardware", "tp", "strategies"),
    ),
    has_no={"b": "plan has no batch: --rate or --concurrency"},
)
@record_options(Load)
@record_options(Goal)
@click.option("--gpu-hour", type=OfKind(Number()), help="dollars that a GPU costs an hour")
@record_options(Fleet)
@output_option("--trace", type=OutputFile(), help="write a timeline that Perfetto opens, of auto or the subject")
@rare_option("--schedule", type=OfKind(File()), help="a plan of ssdsim export, in the place of auto's own")
@record_options(Batching)
@record_options(ServeSolverOptions)
@kept_option
@record_options(Workers)
@chosen_options(
    accepted_options,
    several="plan",
    instead=lambda: {
        "strategies": _STRATEGIES,
        "k": "each one's best",
        "tp": f"the fewest GPUs within the SLO; else {DEFAULTS['tp']}",
    },
)
@explain_option
@common_options
def command(
    gpu_hour: float | None,
    trace: Path | None,
    schedule: Path | None,
    output: Path | None,
    explain: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Plan for requests that arrive: the GPUs that a log or a rate needs within an SLO, with speculation and without.

    Without --slo: who is done first at a rate, and from which rate on a replica is full. Each strategy has its best K
    at the load, unless --k is given. --strategies may have auto in it: whatever serves most at the batch that there is.
    """
    load, goal = pop_record(Load, options), pop_record(Goal, options)
    fleet, batching = pop_record(Fleet, options), pop_record(Batching, options)
    effort, workers = pop_record(ServeSolverOptions, options), pop_record(Workers, options)
    requests = load.arrives(effort.seed, goal.capacity)
    if goal.bounds is not None and effort.runs and not quiet:
        _say_search(requests, output)
    with progress_bar("plan", "runs", quiet, kept=kept_in(output, "run")) as progress, ExitStack() as stack:
        folder = None if output is None else stack.enter_context(opened_for_serving(output))
        answer = served(
            Load(load.rate, workload=requests),
            fleet,
            batching,
            goal,
            effort,
            replace(workers, progress=progress),
            schedule=schedule,
            folder=folder,
            hears_needs=lambda needs: None if quiet else _say_cost(needs, output),
            **options,
        )
        if folder is not None:
            folder.finish(serving_json(answer, gpu_hour), answer.requests)
    if trace is not None:
        _save_timeline(answer, trace)
    if as_json:
        echo_json(serving_json(answer, gpu_hour))
        return
    print_first_screen(answer, gpu_hour, explain, load.scale_rate)
    if explain:
        console().print()
        print_explanation(answer, gpu_hour)
        print_warnings(answer.warnings, quiet)


def _say_search(requests: Workload, output: Path | None) -> None:
    """Say before a search that takes more than some seconds that it goes on; a terminal has a bar."""
    if requests.output_tokens.sum() >= _LONG_TOKENS and not sys.stderr.isatty():
        runs = f"plan: runs {requests.requests:,} requests again and again, for up to some minutes"
        click.echo(f"{runs}; Ctrl-C ends it, {kept_in(output, 'run')}", err=True)


def _say_cost(needs: RunNeeds, output: Path | None) -> None:
    """Say before long work what it is, and how it is stopped."""
    if needs.core_s < _LONG_S:
        return
    what = f"{needs.runs} runs of {needs.requests:,} requests and {needs.tokens:,} tokens"
    pace = f"about {duration_text(needs.core_s)} of one core at the pace of the first ones"
    takes = f"{pace}, and {needs.memory_bytes / 1e9:.1f} GB"
    click.echo(f"plan: {what}, {takes}; Ctrl-C ends it, {kept_in(output, 'run')}", err=True)


def _save_timeline(serving: Serving, path: Path) -> None:
    """Save a timeline of the schedule where there is one, else of the subject, at the first load."""
    policy, load, how = serving.first_run(AUTO if AUTO in serving.points[0].served else serving.subject)
    timeline(run(policy, load, how), policy).save(path)
