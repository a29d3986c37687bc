"""``ssdsim serve``."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from ssdsim.answers.workers import Workers
from ssdsim.base.kinds import File, Number
from ssdsim.base.option_record import pop_record
from ssdsim.base.record import replace
from ssdsim.cli.help_page import output_option, rare_option
from ssdsim.cli.options import Verb, chosen_options, common_options, echo_json, kept_option, record_options
from ssdsim.cli.progress import kept_in, shown, told
from ssdsim.cli.render_serving import print_serving
from ssdsim.cli.values import OfKind, OutputFile
from ssdsim.cli.warning_lines import print_warnings
from ssdsim.runs.answer_folders import opened_for_serving
from ssdsim.serving.answer import Serving
from ssdsim.serving.answer import as_json as serving_json
from ssdsim.serving.batching import Batching
from ssdsim.serving.journal import timeline
from ssdsim.serving.load import Load
from ssdsim.serving.measuring import Needs, run
from ssdsim.serving.options import Effort, Fleet, Goal
from ssdsim.serving.policies import AUTO
from ssdsim.serving.policies import taken as taken_by_serving
from ssdsim.serving.serve import served

_STRATEGIES = f"ar,sd,ssd,{AUTO}"
_LONG_S = 60.0  # of a core


@click.command("serve", cls=Verb, example="ssdsim serve --rate 1,2,4 --input-len 1024 --slo ttft:500,tpot:20")
@record_options(Load)
@record_options(Goal)
@click.option("--gpu-hour", type=OfKind(Number()), help="price of a GPU for an hour")
@record_options(Fleet)
@output_option("--trace", type=OutputFile(), help="write a timeline that Perfetto opens, of auto or the subject")
@rare_option("--schedule", type=OfKind(File()), help="a plan of ssdsim export, in the place of auto's own")
@record_options(Batching)
@record_options(Effort)
@kept_option
@record_options(Workers)
@chosen_options(taken_by_serving, instead=lambda: {"strategies": _STRATEGIES})
@common_options
def command(
    gpu_hour: float | None,
    trace: Path | None,
    schedule: Path | None,
    output: Path | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Serve requests that arrive: up to which rate SSD is worth its GPU, and what users see there.

    A rate is that of one replica of each strategy. --strategies may have auto in it: whatever serves most at the batch
    that there is.
    """
    load, goal = pop_record(Load, options), pop_record(Goal, options)
    fleet, batching = pop_record(Fleet, options), pop_record(Batching, options)
    effort, workers = pop_record(Effort, options), pop_record(Workers, options)
    requests = load.arrives(effort.seed, goal.capacity)
    with shown("serve", "runs", quiet, kept=kept_in(output, "run")) as progress, ExitStack() as stack:
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
    print_serving(answer, gpu_hour)
    print_warnings(answer.warnings, quiet)


def _say_cost(needs: Needs, output: Path | None) -> None:
    """Say before long work what it is, and how it is stopped."""
    if needs.core_s < _LONG_S:
        return
    what = f"{needs.runs} runs of {needs.requests:,} requests and {needs.tokens:,} tokens"
    pace = f"about {told(needs.core_s)} of one core at the pace of the first ones"
    takes = f"{pace}, and {needs.memory_bytes / 1e9:.1f} GB"
    click.echo(f"serve: {what}, {takes}; Ctrl-C ends it, {kept_in(output, 'run')}", err=True)


def _save_timeline(serving: Serving, path: Path) -> None:
    """Save a timeline of the schedule where there is one, else of the subject, at the first load."""
    policy = serving.policies.by_name.get(AUTO) or serving.policies.by_name[serving.subject]
    load = serving.points[0].workload
    timeline(run(policy, load, serving.how), policy).save(path)
