"""``ssdsim serve``."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from ssdsim.answers.serving.as_json import as_json as serving_json
from ssdsim.answers.serving.as_json import comparison_json
from ssdsim.answers.serving.batching import Batching
from ssdsim.answers.serving.compared import compare as compare_with
from ssdsim.answers.serving.from_log import Cut, workload_of
from ssdsim.answers.serving.lengths import Lengths
from ssdsim.answers.serving.measuring import run
from ssdsim.answers.serving.policies import AUTO, policies, taken
from ssdsim.answers.serving.serve import Serving, serve
from ssdsim.answers.serving.slo import Slo
from ssdsim.answers.serving.timeline import timeline
from ssdsim.answers.serving.workload import Arrivals, Workload, synthetic
from ssdsim.answers.workers import check_workers
from ssdsim.base.checks import within
from ssdsim.base.errors import InputError
from ssdsim.base.option import spelled
from ssdsim.cli.help_page import output_option
from ssdsim.cli.options import Verb, chosen_options, common_options, echo_json, work_options
from ssdsim.cli.progress import shown, told
from ssdsim.cli.render_serving import print_compared, print_serving
from ssdsim.cli.values import NUMBERS, OutputFile
from ssdsim.cli.warning_lines import print_warnings
from ssdsim.hardware.catalog import find_transformer
from ssdsim.measured.bench import model_in
from ssdsim.measured.request_logs.log import RequestLog
from ssdsim.runs.serving_folder import opened_for_serving
from ssdsim.scenario.asked import subject_among

_STRATEGIES = f"ar,sd,ssd,{AUTO}"
_INPUT, _OUTPUT, _REQUESTS, _ATTAINMENT = "1024", "256", 2000, 0.9
_MOST_SECONDS = 1e9  # thirty years
_MADE_UP = ("concurrency", "input_len", "output_len", "requests", "seconds", "burstiness", "ramp_up")
_TOKEN_S, _SEARCH_RUNS, _LONG_S = 3e-6, 15, 60.0
"""What a simulated token takes at most of a core, runs that a search for a capacity takes, and what is long."""
_NO_LOG = RequestLog("made up", None, np.zeros(0), np.zeros(0))


@click.command("serve", cls=Verb, example="ssdsim serve --rate 1,2,4 --input-len 1024 --slo ttft:500,tpot:20")
@click.option("--rate", "rates", type=NUMBERS, help="requests a second; a list or range sweeps; inf: all at once")
@click.option("--concurrency", type=int, help="requests in flight at any time, in place of a rate")
@click.option("--input-len", help=f"tokens of prompts: N, lognormal:MEAN,SD, ... [default: {_INPUT}]")
@click.option("--output-len", help=f"tokens of answers, likewise [default: {_OUTPUT}]")
@click.option("--requests", type=int, help=f"how many come [default: {_REQUESTS}]")
@click.option("--seconds", type=float, help="how long they come, in place of --requests")
@click.option("--burstiness", type=float, help="shape of the gamma law of gaps: 1 Poisson, less comes in bursts")
@click.option("--ramp-up", type=click.Choice(["linear", "exponential"]), help="the rate grows while they come")
@click.option("--workload", type=click.Path(path_type=Path), help="a log: Azure, BurstGPT, Mooncake, vLLM, ... or CSV")
@click.option("--scale-rate", type=float, help="the log's time, compressed by a factor")
@click.option("--slice", "slice_", help="seconds of the log: 0:3600")
@click.option("--limit", type=int, help="requests of the log")
@click.option("--tokenizer", type=click.Path(path_type=Path), help="tokenizer.json that counts ShareGPT's tokens")
@click.option(
    "--compare", type=click.Path(path_type=Path), help="a benchmark (vLLM, SGLang, AIPerf, guidellm) to hold against"
)
@click.option("--slo", help="what a good request keeps, in ms: ttft:500,tpot:20,e2el:10000,queue:100")
@click.option("--capacity", is_flag=True, help="the highest rate at which enough requests keep the --slo")
@click.option("--attainment", type=float, help="how many are enough, as a share [default: 0.9]")
@click.option("--gpu-hour", type=float, help="price of a GPU for an hour")
@click.option("--replicas", type=int, default=1, show_default=True, help="of each strategy, that share the requests")
@click.option("--router", default="round-robin", show_default=True, help="round-robin or least-loaded")
@click.option("--draft-pool", type=int, help="that draft for all replicas together [default: one each]")
@output_option("--trace", type=OutputFile(), help="write a timeline that Perfetto opens, of auto or the subject")
@click.option("--schedule", type=click.Path(path_type=Path), help="a plan of ssdsim export, in the place of auto's own")
@click.option("--prefill", default="chunked", show_default=True, help="chunked, priority or none (elsewhere)")
@click.option("--token-budget", type=int, default=2048, show_default=True, help="tokens that a pass has room for")
@click.option("--prefill-ms", type=float, default=0.0, help="what prefill elsewhere takes")
@click.option("--max-batch", "--max-num-seqs", type=int, default=256, show_default=True, help="requests held at once")
@click.option("--kv-fraction", type=float, default=0.9, show_default=True, help="of memory, for weights and caches")
@click.option("--block", type=int, default=16, show_default=True, help="tokens of a cache block")
@click.option("--first-speculation", default="miss", show_default=True, help="miss, or prefill: guessed meanwhile")
@click.option("--dynamic-tax", type=float, default=0.0, help="share by which a schedule's rounds are longer")
@click.option("--hold", type=int, default=1, show_default=True, help="rounds before a schedule switches")
@click.option("--engine", type=click.Choice(["auto", "closed", "loop"]), default="auto", show_default=True)
@click.option("--precision", type=float, help="more requests until the mean TPOT is known to it at 95 %: 0.02")
@work_options
@chosen_options(taken, instead=lambda: {"strategies": _STRATEGIES})
@common_options
def command(
    rates: list[float] | None,
    workload: Path | None,
    compare: Path | None,
    capacity: bool,
    attainment: float | None,
    slo: str | None,
    gpu_hour: float | None,
    replicas: int,
    router: Any,
    trace: Path | None,
    schedule: Path | None,
    engine: Any,
    precision: float | None,
    draft_pool: int | None,
    jobs: int,
    cluster: str | None,
    output: Path | None,
    as_json: bool,
    seed: int,
    quiet: bool,
    **options: Any,
) -> None:
    """Serve requests that arrive: up to which rate SSD is worth its GPU, and what users see there.

    A rate is that of one replica of each strategy. --strategies may have auto in it: whatever serves most at the batch
    that there is.
    """
    check_workers(jobs, cluster)
    if attainment is not None and not capacity:
        raise InputError("--attainment needs --capacity (the rate that it is searched for)")
    scenario = {name: options.pop(name) for name in taken()}
    batching = _batching(options)
    requests, log = _requests(options, rates, workload, compare, capacity, seed)
    if compare is not None:
        _compare(compare, requests, log, batching, scenario, seed, output, as_json)
        return
    if engine != "closed" and not quiet:
        _say_cost(requests, len(rates or [None]) + (_SEARCH_RUNS if capacity else 0), scenario, output)
    with shown("serve", "runs", quiet) as progress, ExitStack() as stack:
        folder = None if output is None else stack.enter_context(opened_for_serving(output))
        found = serve(
            requests,
            rates=rates,
            batching=batching,
            slo=Slo.parse(slo),
            attainment=(_ATTAINMENT if attainment is None else attainment) if capacity else None,
            replicas=replicas,
            router=router,
            schedule=schedule,
            draft_pool=draft_pool,
            engine=engine,
            seed=seed,
            precision=precision,
            jobs=jobs,
            cluster=cluster,
            progress=progress,
            folder=folder,
            **scenario,
        )
        if folder is not None:
            folder.finish(serving_json(found, gpu_hour), found.requests)
    if trace is not None:
        _save_timeline(found, trace)
    if as_json:
        echo_json(serving_json(found, gpu_hour))
        return
    print_serving(found, gpu_hour)
    print_warnings(found.warnings, quiet)


def _say_cost(requests: Workload, runs: int, scenario: dict[str, Any], output: Path | None) -> None:
    """Before long work: what it is, and how it is stopped."""
    count, tokens = runs * len(str(scenario["strategies"] or _STRATEGIES).split(",")), int(requests.output_tokens.sum())
    if count * tokens * _TOKEN_S < _LONG_S:
        return
    kept = f"{output} keeps each run that is done" if output else "-o FOLDER would keep each run that is done"
    what = f"{count} runs of {requests.requests:,} requests and {tokens:,} tokens"
    click.echo(f"serve: {what}, up to {told(count * tokens * _TOKEN_S)} of one core; Ctrl-C ends it, {kept}", err=True)


def _save_timeline(found: Serving, path: Path) -> None:
    """Of the schedule where there is one, else of the subject, at the first load."""
    policy = found.policies.by_name.get(AUTO) or found.policies.by_name[found.subject]
    load = found.points[0].workload
    timeline(run(policy, load, found.how), policy).save(path)


def _compare(
    path: Path,
    requests: Workload,
    log: RequestLog,
    batching: Batching,
    scenario: dict[str, Any],
    seed: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """One strategy, the subject, against what a benchmark saw of the model that it names."""
    scenario = scenario | {"target": _measured_model(path, log, scenario["target"])}
    found = policies(scenario | {"subject": None}, requests, batching)
    name = subject_among(tuple(found.fixed), scenario["subject"])
    comparison = compare_with(found.by_name[name], requests, log, batching, path, seed)
    answer = comparison_json(name, found, requests, comparison)
    if output is not None:
        with opened_for_serving(output) as folder:
            folder.finish(answer)
    if as_json:
        echo_json(answer)
        return
    print_compared(found.by_name[name].title, requests, comparison.rows, found.configuration)


def _measured_model(path: Path, log: RequestLog, target: str | None) -> str:
    """The card of the model that was measured; ``target`` is said of one that the file does not name, or has no card.

    Raises
    ------
    InputError : neither tells a card, or they tell two.
    """
    given = {} if target is None else {"model": target}
    name = model_in(log.model, given, str(path))
    if target is not None and find_transformer(name).name != find_transformer(target).name:
        raise InputError(f"{path}: measured {name}, not --target {target}")
    return name


def _requests(
    options: dict[str, Any],
    rates: list[float] | None,
    workload: Path | None,
    compare: Path | None,
    capacity: bool,
    seed: int,
) -> tuple[Workload, RequestLog]:
    """Those of a log, or some that are made up."""
    cut = [options.pop(name) for name in ("slice_", "limit", "scale_rate")]
    tokenizer, path = options.pop("tokenizer"), workload or compare
    if path is None:
        if tokenizer is not None:
            raise InputError("--tokenizer needs a --workload of conversations")
        if any(each is not None for each in cut):
            raise InputError("--slice, --limit and --scale-rate need a --workload")
        return _made_up(options, [1.0] if rates is None and capacity else rates, seed), _NO_LOG
    for name in _MADE_UP:
        if options[name] is not None:
            raise InputError(f"{spelled(name)} has no effect with a log ({path})")
    found, log = workload_of(path, Cut.parse(*cut), seed=seed, tokenizer=tokenizer)
    if found.concurrency is None and log.arrival_s is None and rates is None and not capacity:
        raise InputError(f"{path}: its requests have no arrivals; give --rate")
    return replace(found, concurrency=None) if rates is not None else found, log


def _batching(options: dict[str, Any]) -> Batching:
    names = ("prefill", "token_budget", "prefill_ms", "max_batch", "kv_fraction", "block", "first_speculation", "hold")
    return Batching(**{name: options.pop(name) for name in names}, tax=options.pop("dynamic_tax"))


def _made_up(options: dict[str, Any], rates: list[float] | None, seed: int) -> Workload:
    """Requests that are made up."""
    concurrency, requests, seconds = options["concurrency"], options["requests"], options["seconds"]
    if rates is None and concurrency is None:
        raise InputError("give --rate (requests a second), --concurrency (in flight), --capacity or a --workload")
    if rates is not None and concurrency is not None:
        raise InputError("--rate has no effect with --concurrency (a request comes when another one is answered)")
    if concurrency is not None and concurrency < 1:
        raise InputError(f"--concurrency must be at least 1, got {concurrency}")
    if seconds is not None:
        within("--seconds", seconds, 0.0, _MOST_SECONDS)
        if requests is not None or rates is None or not np.isfinite(max(rates)):
            raise InputError("--seconds needs a finite --rate, and stands in the place of --requests")
        requests = max(1, round(seconds * max(rates)))
    arrivals = Arrivals(1.0 if options["burstiness"] is None else options["burstiness"], options["ramp_up"])
    return synthetic(
        _REQUESTS if requests is None else requests,
        1.0,
        Lengths.parse(options["input_len"] or _INPUT, "--input-len"),
        Lengths.parse(options["output_len"] or _OUTPUT, "--output-len"),
        arrivals=arrivals,
        concurrency=concurrency,
        seed=seed,
    )
