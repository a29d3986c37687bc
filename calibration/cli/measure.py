"""``ssdsim measure``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict
from rich.console import Console

from calibration.cli.first_screens import print_measured
from calibration.pairs.speedup_with_pair import speedups_with_pair
from ssdsim.base.errors import InputError
from ssdsim.base.extras import install
from ssdsim.base.plain import plain
from ssdsim.cli.console import console, print_labelled, print_warnings
from ssdsim.cli.options import Verb, common_options, explain_option, output_option, rare_option
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import MINUTES, NUMBERS, TEMPERATURES, WHOLES, Finite, OutputFile
from ssdsim.cli.progress import progress_bar
from ssdsim.cli.tables import TextTable
from ssdsim.question.options import ALL
from ssdsim.runs.layout import locked

if TYPE_CHECKING:
    from calibration.pairs.analysis import Questions
    from calibration.pairs.measure.checks import LoopCheck
    from calibration.pairs.measure.run import Job
    from calibration.pairs.speedup_with_pair import SpeedupWithPair
    from ssdsim.tokens.pair_file import AtTemperature, Backup, Findings, HitLaw, Pair

_OF_MODELS = (
    *("target", "draft", "prompts", "answers", "temperature", "top_p", "top_k", "draft_sampling"),
    *("check_loop", "lossless"),
)
_PATH = click.Path(path_type=Path)


_FAN_OUTS = (1, 3, 8)
_LABEL = 14
_BARS = " ▁▂▃▄▅▆▇█"


@click.command(
    "measure", cls=Verb, example="ssdsim measure --target big --draft small --prompts mine.jsonl -o pair.json"
)
@click.option("--target", help="the target: a folder, a cached hub id, or a .gguf file")
@click.option("--draft", help="the draft, likewise")
@click.option("--prompts", type=_PATH, help="prompts: JSON lines or Parquet")
@click.option("--set", "named", multiple=True, metavar="NAME=FILE", help="prompts of a data set; several times")
@click.option("--answers", type=_PATH, help="prompts with what the target wrote: nothing is generated")
@click.option("--resume", type=_PATH, help="analyse the records in this folder again, without the models")
@click.option("--temperature", type=TEMPERATURES, help="temperatures [default: 0,1; of --answers it must be said]")
@rare_option("--top-p", type=Finite(0.0, 1.0, min_open=True), help="of the target's sampling [default: 1]")
@rare_option("--top-k", type=click.IntRange(1), help="likewise [default: all]")
@rare_option(
    "--draft-sampling",
    type=click.Choice(["same", "raw"]),
    help="whether the engine's drafter cuts as its target does, or samples from everything [default: same]",
)
@click.option("--max-new-tokens", type=click.IntRange(4), default=256, show_default=True)
@click.option("--requests", type=click.IntRange(1), default=200, show_default=True, help="at most, over all sets")
@click.option("--limit-minutes", type=MINUTES, help="of collecting; run again to go on")
@click.option("--precision", type=Finite(0.0, 1.0, min_open=True), help="stop at this half-width of alpha")
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
@explain_option
@common_options
def command(
    output: Path | None, resume: Path | None, explain: bool, as_json: bool, seed: int, quiet: bool, **options: Any
) -> int:
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
    verdicts = list(speedups_with_pair(pair, output))
    if as_json:
        checked = [{**asdict(each), "agrees": each.agrees} for each in loops]
        echo_json({**plain(pair), "loop": checked, "consequences": verdicts})
    else:
        print_measured(pair, verdicts, output)
        if explain:
            print_pair(pair, console())
        print_compared(loops, console())
        if explain:
            print_speedups(verdicts, console())
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
            raise InputError(f"measure needs {name}: {install('measure')}")
    if options["target"] is None or options["draft"] is None:
        raise InputError("give --target and --draft, or --resume FOLDER")
    from calibration.pairs.measure.run import Job
    from calibration.pairs.records import RecordFolder

    folder = RecordFolder(output.with_suffix(""))
    if folder.path == output:
        raise InputError(f"-o {output}: needs a suffix, such as {output}.json: records go to the folder {output.name}")
    job = Job(options, asked, folder, seed)

    def told(what: str) -> Any:
        return progress_bar("measure", what, quiet, kept=f"what was collected is in {folder.path}; run again to resume")

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


def print_pair(pair: Pair, out: Console) -> None:
    """A block for each temperature, the data sets, and what loops found."""
    title = f"{pair.target.id or 'a target'} + {pair.draft.id or 'a draft'}: {pair.requests} requests, "
    out.print(f"{title}{pair.tokens:,} tokens, {pair.how}", style="bold")
    for at in pair.by_temperature:
        out.print()
        _print_temperature(at, out)
    _print_lossless(pair, out)
    _print_routing(pair, out)


def _print_temperature(at: AtTemperature, out: Console) -> None:
    temperature = "" if at.temperature is None else f"temperature {at.temperature:g}"
    out.print(temperature, style="bold")
    _line(out, "acceptance", _alpha(at))
    rates = at.rates
    bars = "".join(_BARS[round(rate * (len(_BARS) - 1))] for rate in rates)
    _line(out, "by position", f"{bars}  {' '.join(f'{rate:.2f}' for rate in rates)}")
    _line(out, "tokens/round", _length(at))
    _line(out, "requests", _spread(at))
    out.print(_curves(at))
    if at.saguaro:
        out.print(_saguaro(at))
    if at.sets:
        out.print(_sets(at))


def _line(out: Console, label: str, text: str) -> None:
    print_labelled(out, f"{label:<{_LABEL}}", text)


def _alpha(at: Findings) -> str:
    alpha = at.alpha
    text = f"{alpha.mean:.3f}" if alpha.mean is not None else "not known"
    if alpha.low is not None and alpha.high is not None:
        text += f" (95 % {alpha.low:.3f} to {alpha.high:.3f}, over {at.count} requests)"
    return text + (f", sum min(p, q) {at.overlap:.3f}" if at.overlap is not None else "")


def _length(at: Findings) -> str:
    length = at.length
    if length.pooled is None:
        return "not known"
    text = f"{length.pooled:.2f} at K {length.k}"
    if length.mean_of_requests is not None:
        text += f", mean of requests {length.mean_of_requests:.2f}"
    if at.independence is not None and at.independence.length is not None:
        text += f", one rate alone would give {at.independence.length:.2f}"
    return text


def _spread(at: Findings) -> str:
    requests = at.requests
    text = "alike" if requests.alike else "differ"
    if requests.concentration is not None:
        text += f", a Beta of concentration {requests.concentration:.3g}"
    clusters = [batch for batch in at.correlation.batch if batch.p_all_hit is not None]
    if clusters:
        last = max((each for each in clusters if (each.independent or 0.0) > 1e-3), key=lambda b: b.b, default=None)
        if last is not None and last.p_all_hit is not None and last.independent is not None:
            text += f"; all {last.b} of a batch hit {last.p_all_hit:.3f}, independently {last.independent:.3f}"
    return text


def _curves(at: Findings) -> TextTable:
    fan_outs = [f"F {f}" for f in _FAN_OUTS]
    table = TextTable(("hits after",), (*fan_outs, "c", "r", "R2", "error"), ("law fits",), first=fan_outs)
    table.add_column("tokens/round")
    for name, law in at.hits.laws.items():
        table.add_row(name, *_law(law), _backup(at.backups.get(name)))
    return table


def _law(law: HitLaw) -> list[str]:
    by_f = {point[0]: point[1] for point in law.curve or ()}
    hits = [f"{by_f[f]:.3f}" if f in by_f else "" for f in _FAN_OUTS]
    if law.c is None or law.r is None or law.r2 is None or law.max_error is None:
        return [*hits, "", "", "", "", f"{law.trials or 0:.0f} rounds: too few" if (law.trials or 0) < 50 else ""]
    return [
        *hits,
        _with(law.c, law.c_interval),
        _with(law.r, law.r_interval),
        f"{law.r2:.2f}",
        f"{law.max_error:.2f}",
        "yes" if law.fits else "no: its curve is used",
    ]


def _with(value: float, interval: tuple[float, float] | None) -> str:
    return f"{value:.2f}" if interval is None else f"{value:.2f} ({interval[0]:.2f}-{interval[1]:.2f})"


def _backup(backup: Backup | None) -> str:
    return "" if backup is None or backup.length is None else f"{backup.length:.2f}"


def _saguaro(at: Findings) -> TextTable:
    """Saguaro's table at the lookahead of the lengths."""
    table = TextTable((), ("Saguaro's C", "F", "tokens/round", "acceptance", "hits after a rejection", "hits"))
    for each in at.saguaro:
        if each.k == at.length.k and each.f == _FAN_OUTS[1]:
            numbers = (each.tokens, each.alpha, each.hit_rejected, each.p_hit)
            table.add_row(f"{each.c:g}", str(each.f), *("" if n is None else f"{n:.3f}" for n in numbers))
    return table


def _sets(at: AtTemperature) -> TextTable:
    fan_outs = (f"F {f}" for f in _FAN_OUTS)
    table = TextTable(("set",), ("requests", "acceptance", "95 %", "tokens/round", *fan_outs))
    for name, findings in at.sets.items():
        alpha, rejected = findings.alpha, findings.hits.rejected
        interval = f"{alpha.low:.3f}-{alpha.high:.3f}" if alpha.low is not None and alpha.high is not None else ""
        hits = _law(rejected)[: len(_FAN_OUTS)] if rejected is not None else []
        mean, pooled = (f"{v:.3f}" if v is not None else "" for v in (alpha.mean, findings.length.pooled))
        table.add_row(name, str(findings.count), mean, interval, pooled, *hits)
    return table


def _print_lossless(pair: Pair, out: Console) -> None:
    if pair.lossless is None:
        return
    out.print()
    greedy, sampling = pair.lossless.greedy, pair.lossless.sampling
    if greedy is not None:
        text = f"{greedy.identical} of {greedy.requests} greedy answers are the target's own"
        text += f", {greedy.near_ties} part at a near tie, {greedy.bugs} elsewhere"
        _line(out, "lossless", text)
    if sampling is not None:
        verdict = "as the target's" if sampling.passed else "NOT as the target's"
        _line(out, "", f"sampled tokens are distributed {verdict} (p {sampling.p:.3g})")


def _print_routing(pair: Pair, out: Console) -> None:
    for role, routing in (pair.routing or {}).items():
        touched = ", ".join(f"{experts:.1f} by {m}" for m, experts in routing.in_a_row)
        apart = ", ".join(f"{experts:.1f} by {m}" for m, experts in routing.apart)
        out.print()
        _line(
            out, "experts", f"of the {role}, {routing.count} a layer: {touched} tokens in a row; {apart} of other texts"
        )
        _line(out, "", f"a card says so with overlap {routing.overlap:.2f}, skew {routing.skew:.2f}")


def print_compared(loops: Sequence[LoopCheck], out: Console) -> None:
    """Print what a real loop found beside the coupling."""
    if not loops:
        return
    out.print()
    table = TextTable(("a real loop",), ("temperature", "coupling", "loop", "±"), ("agree",), names=2)
    for each in loops:
        numbers = (f"{each.coupling:.3f}", f"{each.loop:.3f}", f"{each.error:.3f}")
        table.add_row(each.what, f"{each.temperature:g}", *numbers, "yes" if each.agrees else "NO")
    out.print(table)


def print_speedups(speedups: Sequence[SpeedupWithPair], out: Console) -> None:
    """Print what the pair does to the answer."""
    out.print()
    for each in speedups:
        _line(out, f"at {each.temperature:g}", str(each))
        if each.next is not None:
            _line(out, "", each.next)
