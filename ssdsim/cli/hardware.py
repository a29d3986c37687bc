"""``ssdsim hardware``: the hardware profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ssdsim.base.errors import InputError
from ssdsim.base.plain import picked
from ssdsim.cli.console import console, echo, print_labelled
from ssdsim.cli.options import CommandGroup, json_option, output_option
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import DEVICE_SIZE, NUMBER, OutputFile, completing_hardware
from ssdsim.cli.tables import TextTable
from ssdsim.hardware.catalog import HARDWARE, find_hardware, own_profiles
from ssdsim.hardware.laws import TimingModel
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_catalog import BY_DEFAULT, SUFFIX, runtime_of, save_runtime
from ssdsim.hardware.what_if import Datasheet, from_datasheet, scale

_MOST_TERA, _MOST_GIGA = 1e6, 1e6


@click.group("hardware", cls=CommandGroup)
def command() -> None:
    """List and show hardware profiles."""


@command.command("list", example="ssdsim hardware list")
@json_option
def list_hardware(as_json: bool) -> None:
    """Every profile with its device and where its timings come from: yours, as calibrated here, before the bundled."""
    profiles = [*map(find_hardware, own_profiles().values()), *HARDWARE.cards()]
    if as_json:
        echo_json({"schema": 1, "hardware": [picked(each, "name", "device", "sources") for each in profiles]})
        return
    table = TextTable(("name", "device", "count", "memory", "bandwidth", "dtypes", "timings"), pad_edge=True)
    for profile in profiles:
        device = profile.device
        table.add_row(
            profile.name,
            device.name,
            str(device.count),
            f"{device.memory_bytes / 2**30:.0f} GiB",
            f"{device.memory_bandwidth / 1e9:.0f} GB/s",
            ", ".join(profile.gemm),
            ", ".join(sorted({source.kind for source in profile.sources.values()})),
        )
    console().print(table)


@command.command("show", example="ssdsim hardware show h100-sxm")
@click.argument("name", shell_complete=completing_hardware)
@json_option
def show_hardware(name: str, as_json: bool) -> None:
    """One profile: its device, and each timing with its provenance, domain and held-out error."""
    profile = find_hardware(name)
    if as_json:
        echo_json(profile.as_dict(without_none=True))
        return
    print_profile(profile, name)


def keep_profile(profile: HardwareProfile, output: Path) -> None:
    """Write a profile, and print it."""
    profile.save(output)
    print_profile(profile, output)
    click.echo(f"written to {output}", err=True)


def keep_derived(profile: HardwareProfile, like: str, output: Path) -> None:
    """Write a profile that is made of another one's timings, and say what it is and how sure: three lines."""
    profile.save(output)
    device = profile.device
    memory, bandwidth = f"{device.memory_bytes / 2**30:.0f} GiB", f"{device.memory_bandwidth / 1e12:.2f} TB/s"
    peak = max(device.peak_flops.values()) / 1e12
    echo(f"{output}: {device.count} x {device.name}, {memory} at {bandwidth}, up to {peak:.0f} TFLOP/s")
    echo(f"Not timed: as far below its datasheet as {like} is below its own")
    echo(f"Next  ssdsim predict --hardware {output}   (ssdsim hardware show {output})")


def print_profile(profile: HardwareProfile, path: str | Path = "") -> None:
    """Device, timings, provenance, and the runtime of a profile that lies at ``path``."""
    out = console()
    device = profile.device
    out.print(f"{profile.name}: {device.count} x {device.name}, {device.topology}", style="bold")
    out.print(_timings(profile))
    out.print("Timed", style="dim")
    for name, model in profile.models().items():
        if model.domain:
            print_labelled(out, "  ", _domain(name, model), "dim")
    runtime, why = runtime_of(profile, path or profile.name)
    out.print(f"Runtime, where none is asked for: {runtime.summary} ({why})")
    for key, source in profile.sources.items():
        details = [source.source, source.commit, source.licence, source.date, source.note]
        out.print(f"{key}: {source.kind}, {', '.join(text for text in details if text)}", style="dim")


def _timings(profile: HardwareProfile) -> TextTable:
    """Held-out errors, and what of them the uncertainty of the coefficients makes (``their sd``)."""
    errors = ("median error", "95th percentile")
    headers = ("timing", "source", "held-out rows", *errors, "coefficients", "their sd")
    table = TextTable(headers, first=errors, pad_edge=True)
    for name, model in profile.models().items():
        report = model.report
        cells = ["-"] * 5
        if report:
            shares = (report.median_error, report.p95_error, report.coefficient_sd)
            median, p95, wander = (f"{share:.1%}" for share in shares)
            cells = [str(report.rows_held_out), median, p95, str(report.coefficients), wander]
        table.add_row(name, model.source, *cells)
    return table


def _domain(name: str, model: TimingModel) -> str:
    """The shapes between which a timing is no extrapolation."""
    return f"{name}: " + ", ".join(f"{key} {low:.3g}-{high:.3g}" for key, (low, high) in model.domain.items())


@command.command("scale", example="ssdsim hardware scale h100-sxm --clock 0.5 -o slower.json")
@click.argument("name", shell_complete=completing_hardware)
@click.option("--memory-bandwidth", type=NUMBER, default=1.0, show_default=True, help="factor")
@click.option("--clock", type=NUMBER, default=1.0, show_default=True, help="factor")
@click.option("--link", help="pcie3, pcie4, pcie5, nvlink2, nvlink3 or nvlink4 [default: as it was]")
@output_option("-o", "--output", type=OutputFile(), required=True)
def scale_hardware(name: str, memory_bandwidth: float, clock: float, link: str | None, output: Path) -> None:
    """Derive a hypothetical device from a profile, for what-if questions such as a weaker draft GPU."""
    profile = find_hardware(name)
    if (memory_bandwidth, clock, link) == (1.0, 1.0, None):
        raise InputError("nothing to scale: give --memory-bandwidth, --clock or --link")
    scaled = scale(profile, output.stem, memory_bandwidth=memory_bandwidth, clock=clock, link=link)
    own, why = runtime_of(profile, name)
    if why != BY_DEFAULT:
        save_runtime(own, output.with_suffix(SUFFIX))
    keep_derived(scaled, profile.name, output)


@command.command("new", example="ssdsim hardware new --like h100-sxm --memory 141 -o h200.json")
@click.option("--like", required=True, help="profile whose launches and shapes' efficiencies are taken over")
@click.option("--device", help="its name [default: the output's name]")
@click.option("--memory", type=DEVICE_SIZE, help="GiB")
@click.option("--memory-bandwidth", type=DEVICE_SIZE, help="GB/s")
@click.option(
    "--flops", multiple=True, help="TFLOP/s without sparsity, of 16-bit floats or as float8=1979; several times"
)
@click.option("--link", help="GB/s one way of a device, or pcie3, pcie4, pcie5, nvlink2, nvlink3, nvlink4")
@click.option("--count", type=click.IntRange(1, 1024), help="devices of a node")
@click.option("--compute-units", type=click.IntRange(1, 100_000), help="streaming multiprocessors")
@output_option("-o", "--output", type=OutputFile(), required=True)
def new_hardware(
    like: str,
    device: str | None,
    memory: float | None,
    memory_bandwidth: float | None,
    flops: tuple[str, ...],
    link: str | None,
    output: Path,
    **counts: Any,
) -> None:
    """A hypothetical profile of a device that only has a datasheet; what is not given is as of --like."""
    sheet = Datasheet(
        name=device or output.stem,
        memory_bytes=round(memory * 2**30) if memory else None,
        memory_bandwidth=memory_bandwidth * 1e9 if memory_bandwidth else None,
        peak_flops=dict(_flops(text) for text in flops),
        link=_rate(link),
        **counts,
    )
    keep_derived(from_datasheet(find_hardware(like), sheet, output.stem), like, output)


def _flops(text: str) -> tuple[str, float]:
    """``989`` or ``bfloat16=989`` as dtype and flop/s."""
    dtype, equals, number = text.rpartition("=")
    try:
        tera = float(number)
    except ValueError:
        tera = 0.0
    if not 0.0 < tera <= _MOST_TERA or (equals and not dtype):
        raise InputError(f"--flops '{text}' is not TFLOP/s such as 989 or bfloat16=989")
    return dtype, tera * 1e12


def _rate(link: str | None) -> float | str | None:
    """GB/s as bytes/s; a name as it is."""
    try:
        rate = float(link) if link else 0.0
    except ValueError:
        return link
    if link and not 0.0 < rate <= _MOST_GIGA:
        raise InputError(f"--link must be above 0 and at most {_MOST_GIGA:g} GB/s, got {link}")
    return rate * 1e9 if link else None
