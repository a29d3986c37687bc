"""``ssdsim measure``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from calibration.cli.render_pair import print_compared, print_consequences, print_pair
from calibration.pairs.verdict import consequences
from ssdsim.base.errors import InputError
from ssdsim.base.plain import plain
from ssdsim.cli.console import console
from ssdsim.cli.help_page import output_option, rare_option
from ssdsim.cli.options import Verb, common_options, echo_json
from ssdsim.cli.progress import shown
from ssdsim.cli.values import NUMBERS, WHOLES, OutputFile
from ssdsim.cli.warning_lines import print_warnings
from ssdsim.question.options import ALL
from ssdsim.runs.layout import locked

if TYPE_CHECKING:
    from calibration.pairs.analysis import Questions
    from calibration.pairs.measure.checks import LoopCheck
    from calibration.pairs.measure.run import Job
    from ssdsim.tokens.pair_file import Pair

_OF_MODELS = (
    *("target", "draft", "prompts", "answers", "temperature", "top_p", "top_k", "draft_sampling"),
    *("check_loop", "lossless"),
)
_PATH = click.Path(path_type=Path)


@click.command(
    "measure", cls=Verb, example="ssdsim measure --target big --draft small --prompts mine.jsonl -o pair.json"
)
@click.option("--target", help="the target: a folder, a cached hub id, or a .gguf file")
@click.option("--draft", help="the draft, likewise")
@click.option("--prompts", type=_PATH, help="prompts: JSON lines or Parquet")
@click.option("--set", "named", multiple=True, metavar="NAME=FILE", help="prompts of a data set; several times")
@click.option("--answers", type=_PATH, help="prompts with what the target wrote: nothing is generated")
@click.option("--resume", type=_PATH, help="analyse the records in this folder again, without the models")
@click.option("--temperature", type=NUMBERS, help="temperatures [default: 0,1; of --answers it must be said]")
@rare_option("--top-p", type=click.FloatRange(0.0, 1.0, min_open=True), help="of the target's sampling [default: 1]")
@rare_option("--top-k", type=click.IntRange(1), help="likewise [default: all]")
@rare_option(
    "--draft-sampling",
    type=click.Choice(["same", "raw"]),
    help="whether the engine's drafter cuts as its target does, or samples from everything [default: same]",
)
@click.option("--max-new-tokens", type=click.IntRange(4), default=256, show_default=True)
@click.option("--requests", type=click.IntRange(1), default=200, show_default=True, help="at most, over all sets")
@click.option("--limit-minutes", type=click.FloatRange(0.0, min_open=True), help="of collecting; run again to go on")
@click.option("--precision", type=click.FloatRange(0.0, min_open=True), help="stop at this half-width of alpha")
@click.option(
    *ALL["b"].flags, "b", type=click.IntRange(1), default=16, show_default=True, help="requests written at once"
)
@click.option("--dtype", type=click.Choice(["float32", "bfloat16", "float16"]), help="[default: by device]")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@rare_option("--device-map", help="how transformers lays layers out, such as auto")
@rare_option("--chat-template", "template", type=click.Choice(["auto", "none"]), default="auto", show_default=True)
@rare_option("--top", type=click.IntRange(1, 1024), default=64, show_default=True, help="tokens kept a position")
@rare_option("--no-tokens", is_flag=True, help="keep no token ids and no text; look-ups are then not judged")
@click.option("--k", type=WHOLES, default="1:12", show_default=True, help="lookaheads")
@click.option("--f", type=WHOLES, default="1:64", show_default=True, help="guesses an outcome")
@rare_option("--c", type=NUMBERS, default="0.3,0.5,0.7,1", show_default=True, help="Saguaro's C")
@click.option("--backup", default="random,ngram:3,suffix", show_default=True, help="look-ups that answer a miss")
@rare_option("--starts", type=click.Choice(["first", "offsets"]), default="first", show_default=True, help="of rounds")
@rare_option("--saguaro-width", "width", type=click.Choice(["F", "F+1"]), default="F", show_default=True)
@click.option("--check-loop", type=click.IntRange(2), help="run a real SSD loop on so many requests beside it")
@rare_option("--lossless", type=click.IntRange(1), help="check real loops' tokens on so many requests")
@output_option("-o", "--output", type=OutputFile(), help="the pair (JSON); records are kept in a folder beside it")
@common_options
def command(output: Path | None, resume: Path | None, as_json: bool, seed: int, quiet: bool, **options: Any) -> int:
    """Measure acceptance and hit rates of a target and its draft on your prompts.

    The target writes answers, then each model passes over them once: that answers every K, F and C. What was collected
    is kept beside the output as it comes; run again to resume, or --resume FOLDER to ask other questions of it.
    """
    asked = _questions(options, seed)
    loops: list[LoopCheck] = []
    if resume is not None:
        _only_questions(options)
        from calibration.pairs.records import RecordFolder

        folder, output = RecordFolder(resume), output or resume.resolve().with_suffix(".json")
        pair = _analysed(folder, asked)
    else:
        if output is None:
            raise InputError("-o names the file to write, such as -o pair.json")
        pair, loops = _measured(output, options, asked, seed, quiet)
    pair.save(output)
    verdicts = list(consequences(pair, output))
    if as_json:
        checked = [{**asdict(each), "agrees": each.agrees} for each in loops]
        echo_json({**plain(pair), "loop": checked, "consequences": verdicts})
    else:
        print_pair(pair, console())
        print_compared(loops, console())
        print_consequences(verdicts, console())
        click.echo(f"written to {output}", err=True)
        print_warnings(pair.provenance.warnings, quiet)
    return _exit_code(pair, loops)


def _exit_code(pair: Pair, loops: Sequence[LoopCheck]) -> int:
    """1 where a check says no."""
    lossless = pair.lossless
    lost = lossless is not None and (
        bool(lossless.greedy and lossless.greedy.bugs) or bool(lossless.sampling and lossless.sampling.passed is False)
    )
    return int(lost or not all(each.agrees for each in loops))


def _questions(options: dict[str, Any], seed: int) -> Questions:
    from calibration.pairs.analysis import Questions

    return Questions(
        ks=tuple(options.pop("k")),
        fan_outs=tuple(options.pop("f")),
        cs=tuple(options.pop("c")),
        backups=tuple(name for name in options.pop("backup").split(",") if name),
        starts=options.pop("starts"),
        width=options.pop("width"),
        seed=seed,
    )


def _only_questions(options: dict[str, Any]) -> None:
    given = [name for name in _OF_MODELS if options[name]]
    if given or options["named"]:
        name = (given or ["set"])[0].replace("_", "-")
        raise InputError(f"--resume runs no model, so --{name} has no place beside it")


def _analysed(folder: Any, asked: Questions) -> Pair:
    from calibration.pairs.measured import pair_of, said_of_loops, said_of_routing

    return pair_of(folder, asked, said_of_loops(folder), said_of_routing(folder))


def _measured(
    output: Path, options: dict[str, Any], asked: Questions, seed: int, quiet: bool
) -> tuple[Pair, list[LoopCheck]]:
    for name in ("torch", "transformers"):
        if find_spec(name) is None:
            raise InputError(f"measure needs {name}: pip install 'ssdsim[measure]'")
    if options["target"] is None or options["draft"] is None:
        raise InputError("give --target and --draft, or --resume FOLDER")
    from calibration.pairs.measure.run import Job
    from calibration.pairs.records import RecordFolder

    folder = RecordFolder(output.with_suffix(""))
    if folder.path == output:
        raise InputError(f"-o {output}: needs a suffix, such as {output}.json: records go to the folder {output.name}")
    job = Job(options, asked, folder, seed)

    def told(what: str) -> Any:
        return shown("measure", what, quiet, kept=f"what was collected is in {folder.path}; run again to resume")

    lock = folder.path.with_name(f".{folder.path.name}.lock")
    with locked(lock, folder.path, "measurement"):
        return _run(job, told)


def _run(job: Job, told: Callable[[str], Any]) -> tuple[Pair, list[LoopCheck]]:
    with told("answers") as progress:
        job.collect(progress)
    job.count_experts()
    loops: list[LoopCheck] = []
    if job.options["check_loop"]:
        with told("requests of a real loop") as progress:
            loops = job.check_loop(progress)
    if job.options["lossless"]:
        with told("answers of real loops") as progress:
            job.check_lossless(progress)
    return _analysed(job.folder, job.asked), loops
