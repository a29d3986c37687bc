"""``ssdsim import``: other tools' measurements and engines' logs -> a hardware profile, or a pair of models."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from ssdsim.base.errors import InputError
from ssdsim.cli.console import console, echo, print_each, print_labelled, print_warnings
from ssdsim.cli.options import CommandGroup, json_option, output_option, quiet_option
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import DEVICE_SIZE, Finite, OutputFile, completing
from ssdsim.cli.progress import progress_bar
from ssdsim.cli.tables import TextTable
from ssdsim.hardware.catalog import find_hardware, hardware_names
from ssdsim.hardware.runtime_catalog import SUFFIX, save_runtime
from ssdsim.readers.acceptance.counts import ImportOptions
from ssdsim.readers.acceptance.read import PairLabels, import_acceptance
from ssdsim.tokens.pair_file import Findings, Pair
from ssdsim.tokens.rules import RULES, TOKEN

if TYPE_CHECKING:
    from calibration.runtimes.fit import DecodingSpeed
    from ssdsim.hardware.profile import HardwareProfile

_OUTPUT = output_option("-o", "--output", type=OutputFile(), required=True)
_OPERATIONS = ["all_reduce", "all_gather", "alltoall", "sendrecv"]
_COMMIT = click.option("--commit", default="", help="of the source repository, for the provenance")


@click.group("import", cls=CommandGroup)
def command() -> None:
    """Fit a hardware profile to another tool's measurements, or keep what an engine logged of its speculation."""


@command.command("aiconfigurator", example="ssdsim import aiconfigurator h100_sxm --link send_recv.csv -o h100.json")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", help="of the profile [default: the output's name]")
@click.option("--link", "link_csv", type=click.Path(path_type=Path), help="Vidur's send_recv.csv of the same machine")
@click.option("--link-commit", default="", help="of Vidur's repository")
@click.option("--ar", multiple=True, help="an engine's speed CARD:TP:TOKENS_PER_S, at least twice: fits a runtime")
@click.option("--ar-context", type=click.IntRange(1), default=512, show_default=True)
@click.option("--ar-source", default="", help="where the speeds were published")
@_COMMIT
@_OUTPUT
def aiconfigurator(
    folder: Path, name: str | None, ar: tuple[str, ...], ar_context: int, ar_source: str, output: Path, **found: Any
) -> None:
    """A folder of aiconfigurator's tables (GEMM, decode attention, all-reduce, NCCL) and its system.yaml."""
    from calibration.importers.aiconfigurator import import_aiconfigurator
    from calibration.runtimes.fit import fit_decoding_speeds

    speeds = [_speed(text, ar_context) for text in ar]
    with progress_bar("import", "", quiet=False):
        profile = import_aiconfigurator(folder, name or output.stem, **found)
        runtime = fit_decoding_speeds(profile, speeds, ar_source, output.stem) if speeds else None
    if runtime is not None:
        save_runtime(runtime, output.with_suffix(SUFFIX))
    _save(profile, output)


def _speed(text: str, context: int) -> DecodingSpeed:
    from calibration.runtimes.fit import DecodingSpeed

    try:
        card, tp, rate = text.split(":")
        return DecodingSpeed(card, int(tp), context, float(rate))
    except ValueError:
        raise InputError(f"--ar '{text}' is not CARD:TP:TOKENS_PER_S such as llama-3.1-70b:4:54.7") from None


@command.command("deepbench", example="ssdsim import deepbench DeepBench/results -o old.json")
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--name", help="of the profile [default: the output's name]")
@_COMMIT
@_OUTPUT
def deepbench(table: Path, name: str | None, commit: str, output: Path) -> None:
    """DeepBench's V100 workbook (.xlsx) or its GEMMs as CSV; the rest of the V100 from its datasheet."""
    from calibration.importers.deepbench import import_deepbench

    with progress_bar("import", "", quiet=False):
        profile = import_deepbench(table, name=name or output.stem, commit=commit)
    _save(profile, output)


@command.command("v100", example="ssdsim import v100 deepbench.csv timings -o v100.json")
@click.argument("deepbench", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", help="of the profile [default: the output's name]")
@click.option("--memory", type=click.Choice(["16", "32"]), default="32", show_default=True, help="GiB of the card")
@_COMMIT
@_OUTPUT
def v100(deepbench: Path, folder: Path, name: str | None, memory: str, commit: str, output: Path) -> None:
    """DeepBench's GEMMs and a folder of public V100 measurements: links, all-reduces, streaming, launches."""
    from calibration.importers.v100 import import_v100

    with progress_bar("import", "", quiet=False):
        profile = import_v100(deepbench, folder, name or output.stem, int(memory), commit)
    _save(profile, output)


_BASE = click.option(
    "--base",
    default="h100-sxm",
    show_default=True,
    shell_complete=completing(hardware_names),
    help="profile whose other timings are kept",
)


@command.command("vidur", example="ssdsim import vidur --mlp mlp.csv -o mine.json")
@click.option("--mlp", type=click.Path(path_type=Path), help="layer operations: GEMMs and element-wise kernels")
@click.option("--all-reduce", type=click.Path(path_type=Path), help="all_reduce.csv")
@click.option("--send-recv", type=click.Path(path_type=Path), help="send_recv.csv")
@_BASE
@_COMMIT
@_OUTPUT
def vidur(
    mlp: Path | None, all_reduce: Path | None, send_recv: Path | None, base: str, commit: str, output: Path
) -> None:
    """Vidur's CSVs of one machine, on top of a profile of the same device."""
    from calibration.importers.tables import messages_over, smallest_messages
    from calibration.importers.vidur import (
        DTYPE,
        SOURCE,
        import_all_reduce,
        import_elementwise,
        import_gemms,
        import_link,
        provenance,
    )

    if not (mlp or all_reduce or send_recv):
        raise InputError("nothing to import: give --mlp, --all-reduce or --send-recv")
    profile = find_hardware(base)
    update: dict[str, object] = {"name": output.stem, "sources": {**profile.sources, SOURCE: provenance(commit)}}
    # the fastest link that datasheets of NVLink devices name; it only settles whether sizes are bytes or elements
    peak = 450e9
    if mlp:
        with progress_bar("import", "", quiet=False):
            update["gemm"] = {**profile.gemm, DTYPE: import_gemms(mlp)}
            update["elementwise"] = import_elementwise(mlp)
    reduces = import_all_reduce(all_reduce, peak) if all_reduce else {}
    update |= messages_over(profile, {"all_reduce": reduces}, import_link(send_recv, peak) if send_recv else None)
    made = profile.changed(**update)
    print_warnings([*smallest_messages(made, SOURCE, base)], quiet=False)
    _save(made, output)


@command.command("nccl-tests", example="ssdsim import nccl-tests all_reduce.txt -o mine.json")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--operation", type=click.Choice(_OPERATIONS), help="where a file does not say; which, of several")
@click.option("--ranks", type=click.IntRange(2), help="where a file does not say; which, of several")
@click.option("--run", "number", type=click.IntRange(1), help="which, of several in a file")
@_BASE
@_OUTPUT
def nccl_tests(
    files: tuple[Path, ...], operation: str | None, ranks: int | None, number: int | None, base: str, output: Path
) -> None:
    """Text, CSV or JSON of nccl-tests and rccl-tests, of any version and launcher, on top of a profile.

    What nvidia-smi topo -m prints of the machine may be one of FILES: it says which pairs of GPUs have NVLinks.
    """
    from calibration.importers.nccl_tests import read_nccl_tests, unlike, with_nccl_tests
    from calibration.importers.tables import smallest_messages

    with progress_bar("import", "", quiet=False):
        timings, nvlinks = read_nccl_tests(files, operation, ranks, number)
    under, source = find_hardware(base), "nccl-tests"
    profile = with_nccl_tests(under, timings, source, nvlinks)  # which refuses before anything is said
    for timed in timings:
        echo(f"{timed.where}: {timed.description}", stderr=True)
    remarks = (remark for timed in timings for remark in timed.remarks)
    print_warnings([*remarks, *unlike(under, timings), *smallest_messages(profile, source, base)], quiet=False)
    _save(profile.changed(name=output.stem), output)


@command.command("csv", example="ssdsim import csv timings.csv -o mine.json")
@click.argument("file", type=click.Path(path_type=Path))
@_BASE
@_OUTPUT
def plain_csv(file: Path, base: str, output: Path) -> None:
    """A plain CSV (op, dtype, seconds, m, n, k, ...), on top of a profile."""
    from calibration.importers.plain_csv import with_plain_csv
    from calibration.importers.tables import smallest_messages

    with progress_bar("import", "", quiet=False):
        profile = with_plain_csv(find_hardware(base), file, "csv")
    print_warnings([*smallest_messages(profile, "csv", base)], quiet=False)
    _save(profile.changed(name=output.stem), output)


@command.command("llama-bench", example="ssdsim import llama-bench target.json draft.json")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--target", help="the largest model's card or config.json, where no card has its file's name")
@click.option("--draft", help="the smallest model's, likewise")
@click.option("--memory", type=DEVICE_SIZE, help="GiB of the device, where no profile is of it")
@click.option("--base", shell_complete=completing(hardware_names), help="profile whose other timings are kept")
@output_option(
    "-o",
    "--output",
    type=OutputFile(),
    help="the profile, such as mine.json [default: in your data folder, under a name that --hardware takes]",
)
@json_option
@quiet_option
def llama_bench(files: tuple[Path, ...], output: Path | None, as_json: bool, quiet: bool, **given: Any) -> None:
    """llama-bench's passes of your own models (JSON, CSV or Markdown) -> your machine, for llama.cpp.

    Run llama-bench -p 1,2,3,4,5,6,8,16,32 -n 128 -o json -m FILE.gguf for the target and for the draft. Two devices
    make two profiles.
    """
    from calibration.cli.machine_screen import machine_json, print_machine
    from calibration.importers.llama_bench import import_llama_bench

    memory = given.pop("memory")
    machines = import_llama_bench(files, output, memory_bytes=memory and round(memory * 2**30), **given)
    for machine in machines:
        machine.profile.save(machine.output)
        save_runtime(machine.runtime, machine.output.with_suffix(SUFFIX))
    if as_json:
        echo_json({"schema": 1, "machines": list(map(machine_json, machines))})
        return
    for machine in machines:
        print_machine(machine, quiet)


def _save(profile: HardwareProfile, output: Path) -> None:
    from ssdsim.cli.hardware import keep_profile

    keep_profile(profile, output)


_ASKED, _NAMED = (
    ("k", "model", "sampled", "since_start", "adaptive"),
    ("target", "draft", "temperature", "acceptance_rule"),
)


@command.command("acceptance", example="ssdsim import acceptance vllm.log --k 3 -o pair.json")
@click.argument("engine")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@output_option("-o", "--output", type=OutputFile(), required=True, help="the pair (JSON)")
@click.option("--target", help="the target's id or card, where no file says it")
@click.option("--draft", help="the draft's id or card, where no file says it")
@click.option("--temperature", type=Finite(0.0, 100.0), help="of the sampling; engines do not log it")
@click.option("--acceptance-rule", type=click.Choice((TOKEN, *RULES.files)), help="the engine's; token if not said")
@click.option("--k", type=click.IntRange(1, 1000), help="tokens drafted a round: where no file says it, or to cut to")
@click.option("--set", "named", multiple=True, metavar="NAME=FILE[,FILE]", help="files of a set of requests")
@click.option("--served", "model", help="the served model whose counters to read, where there are several")
@click.option("--since-start", is_flag=True, help="one snapshot of counters is enough: the server did nothing else")
@click.option("--sampled", is_flag=True, help="windows of the last seconds (gauges, log lines) cover the work")
@click.option("--adaptive", is_flag=True, help="rounds drafted different numbers of tokens: keep no rate by position")
@json_option
@quiet_option
def acceptance(
    engine: str, files: tuple[Path, ...], output: Path, named: tuple[str, ...], as_json: bool, quiet: bool, **said: Any
) -> None:
    """Import what an ENGINE (vllm, sglang, aiperf, ssd, trtllm, llama-cpp, transformers) logged of its speculation.

    Several FILES are several sets of requests, each called by its file's name; snapshots of counters are one set.
    """
    asked, models = ImportOptions(*(said[each] for each in _ASKED)), PairLabels(*(said[each] for each in _NAMED))
    with progress_bar("import", "", quiet):
        pair = import_acceptance(engine, files, _named_sets(named), asked, models, date.today().isoformat())
    pair.save(output)
    if as_json:
        echo_json(pair)
        return
    print_pair(pair, console(), quiet)
    click.echo(f"written to {output}", err=True)


def _named_sets(named: Iterable[str]) -> dict[str, list[Path]]:
    sets: dict[str, list[Path]] = {}
    for each in named:
        name, equals, files = each.partition("=")
        if not name or not equals or not files:
            raise InputError(f"--set '{each}' is not NAME=FILE such as code=code.jsonl")
        if name in sets:
            raise InputError(f"--set {name} is there twice")
        sets[name] = [Path(file) for file in files.split(",")]
    return sets


def print_pair(pair: Pair, out: Console, quiet: bool) -> None:
    """Acceptance and lengths, of all requests and of each set, and what must be said of them."""
    whole = pair.by_temperature[0]
    temperature = "not said" if whole.temperature is None else f"{whole.temperature:g}"
    models = f"{pair.target.id or 'a target'} + {pair.draft.id or 'a draft'}"
    out.print(f"{models}, {pair.how}, temperature {temperature}", style="bold")
    out.print(_table({"all": whole, **whole.sets}))
    if whole.cache is not None and whole.cache.p_hit is not None:
        print_labelled(out, "Hits     ", f"{whole.cache.p_hit:.2f} of the outcomes were cached", "dim")
    if quiet:
        return
    for note in pair.provenance.notes:
        print_labelled(out, "Note     ", note, "dim")
    print_each("warning: ", pair.provenance.warnings, "yellow")


def _table(sets: dict[str, Findings]) -> TextTable:
    numbers = ("requests", "rounds", "undrafted", "K", "tokens", "of requests", "alpha", "95 %")
    table = TextTable(("",), numbers, ("alpha by position",), first=("alpha", "95 %", "tokens"))
    for name, findings in sets.items():
        table.add_row(name, *_row(findings))
    return table


def _row(findings: Findings) -> list[str]:
    length, alpha = findings.length, findings.alpha
    bounded = alpha.low is not None and alpha.high is not None
    return [
        _shown(findings.count),
        _shown(length.rounds),
        _shown(length.undrafted),
        _shown(length.k),
        _shown(length.pooled, 2),
        _shown(length.mean_of_requests, 2),
        _shown(alpha.mean, 3),
        f"{alpha.low:.3f}-{alpha.high:.3f}" if bounded else "",
        " ".join("?" if rate is None else f"{rate:.2f}" for rate in findings.alpha_k or ()),
    ]


def _shown(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:.{digits}f}"
