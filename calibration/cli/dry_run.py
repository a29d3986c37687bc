"""The plan of a calibration as ``ssdsim calibrate --dry-run`` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from ssdsim import strategies
from ssdsim.cli.console import console
from ssdsim.cli.options import echo_json
from ssdsim.cli.tables import Table

if TYPE_CHECKING:
    from calibration.timings.dry_run import DryRun
    from ssdsim.hardware.profile import HardwareProfile


def show_dry_run(dry_run: DryRun, machine: HardwareProfile, minutes: float, as_json: bool) -> None:
    """Show who holds and does what, points, visits, minutes and memory; all of them fit."""
    if as_json:
        ranks = [asdict(rank) | {"fits": rank.fits} for rank in dry_run.ranks]
        whole = {"schema": 1, "machine": machine.name, "strategies": dry_run.strategies, "minutes": dry_run.minutes}
        echo_json(whole | {"ranks": ranks, "benchmarks": dry_run.benchmarks})
        return
    out, device = console(), machine.device
    out.print(f"{machine.name}: {device.count} x {device.name}, {device.topology}", style="bold")
    out.print(_ranks(dry_run))
    out.print(_work(dry_run))
    points, visits = (sum(getattr(each, name) for each in dry_run.benchmarks) for name in ("points", "visits"))
    titles = ", ".join(strategies.ALL.named(name).title for name in dry_run.strategies)
    out.print(
        f"{points} points for {titles}, {visits} visits, about {dry_run.minutes:.0f} minutes; --minutes {minutes:g}"
    )
    if dry_run.minutes > minutes:
        out.print("Longer than --minutes: every point is visited once before any is again; run again to resume")


def _ranks(dry_run: DryRun) -> Table:
    table = Table(("device", "role", "to the draft"), ("needs GiB", "has GiB"), names=2, pad_edge=True)
    for rank in dry_run.ranks:
        sizes = (f"{each / 2**30:.1f}" for each in (rank.needs_bytes, rank.has_bytes))
        table.add_row(rank.device, rank.role, rank.to_draft, *sizes)
    return table


def _work(dry_run: DryRun) -> Table:
    table = Table(("timing", "who"), ("points", "visits", "in the fit", "minutes"), pad_edge=True)
    for each in dry_run.benchmarks:
        table.add_row(each.name, each.who, str(each.points), str(each.visits), str(each.fitted), f"{each.minutes:.1f}")
    return table
