"""Output of ``ssdsim bench``: what it says before it begins, and shows in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ssdsim.base.plain import plain
from ssdsim.cli.console import console, echo
from ssdsim.cli.tables import Table

if TYPE_CHECKING:
    from calibration.bench.load import LoadPoint
    from calibration.bench.run import BenchJob
    from calibration.bench.server import Server
    from ssdsim.readers.row import Repeated


def say_what_comes(work: BenchJob, server: Server, points: Sequence[LoadPoint]) -> None:
    """Say what will be asked for, before it is."""
    requests, outputs, inputs = work.asked_tokens(points)
    prompts = "your prompts" if work.prompts else f"about {inputs:,} tokens of prompts"
    who = " ".join(filter(None, (server.engine or "a server", server.version)))
    echo(
        f"{who}, {server.served}: {len(points)} points in at most {requests:,} requests for {outputs:,} tokens, with "
        f"{prompts}; never more than {work.most} at once",
        stderr=True,
    )


def print_settings(settings: Sequence[Repeated]) -> None:
    """A row a setting: its mean over repeats, how far they lie apart, and what else was seen."""
    from ssdsim.readers.row import noise_of

    out = console()
    numbers = ("batch", "in", "out", "repeats", "TPOT ms", "95 % from", "to", "noise")
    seen = ("TTFT ms", "ITL ms", "tok/s", "tokens", "undrafted")
    table = Table(("model", "drafts"), (*numbers, *seen), joined=("to",), names=3, pad_edge=True)
    for each in settings:
        table.add_row(*_cells(each))
    out.print(table)
    noise = noise_of(settings)
    if noise is not None:
        echo(f"A repeat is off by {noise:.1%} (standard deviation): no fit to these rows can be trusted further.")


def _cells(each: Repeated) -> list[str]:
    row, bounds, noise = each.rows[0], each.bounds, each.noise

    def mean(name: str, digits: int) -> str:
        values = [value for own in each.rows if (value := getattr(own, name)) is not None]
        return f"{sum(values) / len(values):.{digits}f}" if values else "-"

    drafts = "-" if row.k is None else f"{row.draft or row.drafter} K {row.k}"
    lengths = (mean("input_tokens", 0), mean("output_tokens", 0), str(len(each.rows)))
    low, high = (f"{bound:.4g}" for bound in bounds) if bounds else ("-", "-")
    shares = [own.found for own in each.rows if own.found is not None]
    undrafted = f"{1.0 - sum(shares) / len(shares):.0%}" if shares else "-"
    speeds = (f"{each.mean:.4g}", low, high, "-" if noise is None else f"{noise:.1%}")
    beside = (mean("ttft_ms", 1), mean("itl_ms", 2), mean("output_tokens_per_s", 1), mean("acceptance_length", 2))
    return [row.model, drafts, str(row.batch), *lengths, *speeds, *beside, undrafted]


def setting_json(each: Repeated) -> dict[str, Any]:
    """The setting, with the mean of its repeats."""
    low, high = each.bounds or (None, None)
    return {
        **{name: value for name, value in plain(each.rows[0]).items() if name not in ("value", "repeat")},
        "repeats": len(each.rows),
        "mean": each.mean,
        "low": low,
        "high": high,
        "noise": each.noise,
    }
