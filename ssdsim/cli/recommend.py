"""``ssdsim recommend``."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from ssdsim.advise.recommend.command import SPECULATIVE_CONFIG, launch
from ssdsim.advise.recommend.launch_plan import LaunchPlan, base_point, recommended_with_launch_plan
from ssdsim.advise.recommend.launch_plan import as_json as recommendation_json
from ssdsim.advise.recommend.recommendation import Recommendation
from ssdsim.advise.recommend.request import RANKS, USES, every_axis, workload
from ssdsim.answers.decision import RULES
from ssdsim.base.errors import InputError
from ssdsim.base.files import write_whole
from ssdsim.base.kinds import Kind, Number, Whole
from ssdsim.base.kinds_of_lists import EVERY, MOST_VALUES, Several
from ssdsim.base.option import Option
from ssdsim.cli.console import print_each, print_warnings
from ssdsim.cli.options import (
    Verb,
    chosen_options,
    common_options,
    dynamic_options,
    explain_option,
    listed,
    output_option,
    rare_option,
    several_of,
)
from ssdsim.cli.output import echo_json, print_out
from ssdsim.cli.param_types import OfKind
from ssdsim.cli.progress import progress_bar
from ssdsim.question.options import ALL
from ssdsim.runs.answer_folders import keep_recommendation
from ssdsim.runs.layout import COMMAND, REPORT

_NAMED = ""  # by --engine
_FILES = (SPECULATIVE_CONFIG, "json", "csv")


GPUS = "GPUs that may be used, over all copies: 8, 8xh200, or 1xrtx-4090+1xrtx-3090 with a draft's own"


class Gpus(Kind):
    """``8``, or ``8xh200``, whose profile it names too, or those of the target and of its draft."""

    metavar = "n|nxhardware"
    parse_error = "not a number of GPUs such as 8, 8xh200 or 1xrtx-4090+1xrtx-3090"

    def parse(self, text: str) -> int | str:
        if not text.isdecimal() and "x" not in text.lower():
            raise ValueError
        return Whole().parse(text) if text.isdecimal() else text


class Batches(Several):
    """A list or range; ``1,2,4,...,64`` goes on as it began, by steps or by factors."""

    metavar = "n[,n...]|n,n,...,last|first:last[:step]"

    def parse(self, text: str) -> list[int]:
        start, goes_on, end = text.partition(",...,")
        begun = super().parse(start)
        if not goes_on:
            return begun
        last, following = super().parse(end)[-1], _following(begun)
        if following is None or last <= begun[-1]:
            raise ValueError("a list that does not rise by equal steps or factors from at least two numbers")
        while following(begun[-1]) <= last:
            if len(begun) >= MOST_VALUES:
                raise ValueError(f"a list of more than {MOST_VALUES} values")
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


def _narrowing(option: Option) -> click.Option:
    """An option that is searched, as a list or range of what may be chosen."""
    about = next(axis.about for axis in every_axis() if axis.option == option.name)
    return listed(option, type=several_of(option), help=about)


searched_options = dynamic_options(lambda: (ALL[axis.option] for axis in every_axis()), _narrowing)


def beside_searched() -> Mapping[str, Any]:
    """The values that a search takes in the place of defaults."""
    return dict(pair for axis in every_axis() for pair in axis.implied)


@click.command(
    "recommend",
    cls=Verb,
    example="ssdsim recommend --gpus 8xh100-sxm --model llama-3.1-70b -b 1,16,64",
    needs=("rate", "gpu_hour", "strategies"),
)
@click.option("--gpus", type=OfKind(Gpus()), required=True, help=GPUS)
@click.option(
    *ALL["b"].flags, "b", type=OfKind(Batches(Whole())), default="1", show_default=True, help="sequences in flight"
)
@click.option("--rank", type=click.Choice(RANKS), default="user", show_default=True, help="what counts")
@click.option("--gpu-hour", type=OfKind(Number()), help="price of a GPU for an hour")
@click.option("--use", type=click.Choice(USES), default="needed", show_default=True, help="GPUs that a token pays for")
@click.option(
    "--rate", type=OfKind(Number()), help="requests a second over all copies, at which strategies are held together"
)
@click.option("--slo", help="what 90 % of requests must keep, in ms or with units: ttft:500,tpot:20ms")
@output_option("-o", "--output", type=click.Path(path_type=Path), help="a folder that keeps it; a file with --paste")
@output_option("--all", "every", is_flag=True, help="every strategy against the others, each at its best")
@output_option(
    "--paste",
    is_flag=False,
    flag_value=_NAMED,
    metavar="[ENGINE]",
    help=f"nothing but what to paste: vllm, sglang, ..., {SPECULATIVE_CONFIG}, json, csv [default: of --engine]",
)
@click.option("--at-least", type=OfKind(Number()), help="tokens/s that a user must get")
@rare_option("--rule", type=click.Choice(RULES), default="mean-log", show_default=True, help="by which is chosen")
@searched_options
@chosen_options(workload, instead=beside_searched)
@explain_option
@common_options
def command(**options: Any) -> int:
    """Say how to decode on a number of GPUs: which strategy, on which of them, with which settings, and the command.

    It is the highest mean log speed over all that is not known. With --engine only what that engine runs is ranked.
    --k, --tp, --ep, --draft-gpus, --budget and --backup narrow what is searched. A token is counted to the GPUs in use,
    or to all with --use all. -o keeps the answer, the command, the options as config.toml and a page. Exits with 1
    where nothing fits.
    """
    return answered(**options)


def answered(
    as_json: bool,
    seed: int,
    quiet: bool,
    explain: bool,
    rate: float | None,
    slo: str | None,
    output: Path | None,
    every: bool,
    paste: str | None,
    **options: Any,
) -> int:
    """Answer as asked; the exit code."""
    if every and options.get("strategies") is None:
        options["strategies"] = EVERY
    for flag, said in (("--json", as_json), ("--explain", explain)):
        if paste is not None and said:
            raise InputError(f"{flag} has no effect with --paste (which prints the command alone)")
    if paste not in (None, _NAMED, *_FILES) and options.get("engine") is None:
        options["engine"] = paste
    explained = as_json or explain or rate is not None or slo is not None or (output is not None and paste is None)
    with progress_bar("recommend", "steps", quiet) as progress:
        recommendation, plan = recommended_with_launch_plan(progress, rate, slo, explained, seed=seed, **options)
    failed = int(all(answer.best is None for answer in recommendation.answers))
    if paste is not None:
        if failed:
            raise InputError(f"nothing to paste: {recommendation.answers[0].error}")
        return _paste(recommendation, plan, None if paste == _NAMED else paste, output, quiet)
    answer = recommendation_json(recommendation, plan) if as_json or output is not None else {}
    if output is not None:
        with progress_bar("recommend", "", quiet):
            _keep(output, recommendation, plan, answer, seed)
    if as_json:
        echo_json(answer)
        return failed
    from ssdsim.cli.explain_recommendation import print_explained
    from ssdsim.cli.render_recommendation import print_recommendation

    print_recommendation(recommendation, plan, every)
    if explain:
        print_explained(recommendation, plan)
    told = recommendation.telling_warnings if explain else recommendation.request.warnings
    print_warnings(recommendation.warnings if explain else told, quiet, telling=told)
    if output is not None and plan is not None:
        written = [output / REPORT, *([output / COMMAND] if plan.command else [])]
        click.echo(", ".join(map(str, written)))
    return failed


def _paste(
    recommendation: Recommendation, plan: LaunchPlan | None, what: str | None, output: Path | None, quiet: bool
) -> int:
    """The command or the file alone; its notes go to stderr."""
    started = launch(recommendation.answers, recommendation.request, what)
    if started is None or started.command is None:
        raise InputError("--paste needs an engine: --paste vllm, or --engine")
    made = started.command
    if output is not None:
        write_whole(output, made.text)
    else:
        print_out(made.text.removesuffix("\n"))
    if not quiet:
        from ssdsim.cli.render_recommendation import assumed

        served = [plan.instead] if plan is not None and plan.instead else []
        print_each("note: ", [*served, *made.notes, f"assumed: {assumed(recommendation)}"], "cyan")
    return int(not made.text)


def _keep(
    folder: Path, recommendation: Recommendation, plan: LaunchPlan | None, answer: dict[str, Any], seed: int
) -> None:
    """The folder, with its page where there is something to show."""
    options = {} if plan is None else base_point(recommendation, plan)
    command = None if plan is None else plan.command
    keep_recommendation(folder, options, answer, "" if command is None else command.with_notes)
    if plan is not None:
        from ssdsim.reports.build import report

        report(folder, seed).save(folder / REPORT)
