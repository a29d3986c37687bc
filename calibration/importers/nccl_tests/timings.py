"""Timings of an operation over a number of ranks, made of the runs in a file; or why there are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from calibration.importers.nccl_tests.records import json_runs, record_runs
from calibration.importers.nccl_tests.runs import MOST_RANKS, Run
from calibration.importers.nccl_tests.text import has_rows, text_runs
from ssdsim.base.documents import parse_csv, read_text
from ssdsim.base.errors import InputError, nearest, short_repr
from ssdsim.base.record import Record, replace

OPERATIONS = ("all_reduce", "all_gather", "sendrecv")
"""Those that a profile prices."""

_RATES_AGREE = 0.05
_READABLE_RATE = 1.0  # GB/s: two decimals of less say little


class Timings(Record):
    """Times of one operation over one number of ranks: bytes and seconds of each row, and how they came to be."""

    operation: str
    ranks: int
    rows: tuple[tuple[float, float], ...]
    where: str = ""
    mode: str = ""
    """Processes and graphs."""

    gpus: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """What was left out, or is odd, a line each."""

    @property
    def told(self) -> str:
        """Text of these timings in a profile's provenance."""
        of = f" of {', '.join(self.gpus)}" if self.gpus else ""
        how = f", {self.mode}" if self.mode else ""
        return f"{self.operation} over {self.ranks}{of}: {len(self.rows)} rows{how}"


def read_nccl_tests(path: Path, operation: str | None = None, ranks: int | None = None) -> list[Timings]:
    """The timings in a file of any of the formats, those of runs in equal ways together.

    ``operation`` and ``ranks`` say what the file does not; of a file with several runs they choose.
    """
    text = read_text(path, "output of nccl-tests")
    runs = list(_runs(path, text))
    for run in runs:
        run.devices = list(dict.fromkeys(run.devices))  # a log may repeat each rank's line
    if not any(run.rows for run in runs):
        left_out = sum((run.left_out for run in runs), Counter[str]())
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        seen = f"; left out {why}" if why else ""
        raise InputError(f"{path}: no rows of nccl-tests or rccl-tests there{seen}")
    runs = [run for run in runs if run.rows]
    timings, refused = [], []
    for number, run in enumerate(runs, 1):
        where = f"{path}" if len(runs) == 1 else f"{path}, run {number}"
        try:
            timings.append(_timings(where, run, operation, ranks))
        except _NotOfUseError as error:
            refused.append(error)
    if not timings:
        more = f" (and {len(refused) - 1} more runs of no use)" if len(refused) > 1 else ""
        raise InputError(f"{refused[0]}{more}")
    return _told_beside(_pooled(path, timings), refused)


class _NotOfUseError(InputError):
    """A run that is left out where another one of its file is of use."""


def _runs(path: Path, text: str) -> list[Run]:
    stripped = text.lstrip()
    if stripped.startswith("{") or (stripped.startswith("[") and not has_rows(text)):
        return json_runs(path, stripped)
    if stripped and "inPlace" in stripped.splitlines()[0]:
        return record_runs(path, parse_csv(stripped, path))
    return text_runs(text)


def _timings(where: str, run: Run, operation: str | None, ranks: int | None) -> Timings:
    seen = f"{len(run.rows)} rows" + (f" ({run.layout})" if run.layout else "")
    ranks = _ranks(where, run, ranks, seen)
    operation = _operation(where, run, operation, seen)
    rates_are_right = _rates_are_of_times(run)
    if rates_are_right:
        _check_bus_rate(where, run, operation, ranks)
    remarks = [f"{where}: left out {count} row(s) {why}" for why, count in run.left_out.items()]
    if run.in_place:
        remarks.append(f"{where}: {run.in_place} row(s) have a time in place only, which was taken")
    if rates_are_right is False:
        remarks.append(f"{where}: the rates beside the times are not those of the times; the times were taken")
    if operation != "all_reduce" and run.reductions & {"sum", "prod", "max", "min", "avg"}:
        remarks.append(f"{where}: taken as {operation}, but its rows name the reduction {min(run.reductions)}")
    rows = tuple((row.size, row.seconds) for row in run.rows)
    return Timings(operation, ranks, rows, where, run.mode, tuple(run.gpus), tuple(remarks))


def _operation(where: str, run: Run, asked: str | None, seen: str) -> str:
    if run.operation and asked and run.operation != asked:
        raise _NotOfUseError(f"{where}: the file names {run.operation}, --operation says {asked}")
    operation = run.operation or asked
    if operation is None:
        allowed = ", ".join(OPERATIONS)
        like = " (its busbw is that of an all_reduce)" if _bus_share(run) > 1 + _RATES_AGREE else ""
        raise InputError(f"{where}: {seen}, but it does not name its test{like}; say --operation {allowed}")
    if operation not in OPERATIONS:
        hint = nearest(operation, OPERATIONS)
        allowed = ", ".join(OPERATIONS)
        raise _NotOfUseError(
            f"{where}: operation {short_repr(operation)} is not priced{hint} Allowed: {allowed}; {seen} there"
        )
    return operation


def _ranks(where: str, run: Run, asked: int | None, seen: str) -> int:
    numbers = [device.rank for device in run.devices]
    if len(numbers) > 1 and set(numbers) == {0}:
        raise _NotOfUseError(
            f"{where}: {len(numbers)} devices, each rank 0: as many runs of one rank. A build without MPI under "
            "mpirun or srun times no communication; build nccl-tests with MPI=1"
        )
    if len(set(numbers)) < len(numbers):
        raise _NotOfUseError(f"{where}: {len(numbers)} devices for {len(set(numbers))} ranks: several runs at once")
    printed_ranks = max(run.ranks or 0, len(numbers)) or None  # a log may hold the lines of one of several processes
    if printed_ranks and asked and printed_ranks != asked:
        raise _NotOfUseError(f"{where}: the file has {printed_ranks} ranks, --ranks says {asked}")
    ranks = printed_ranks or asked
    if not ranks:
        raise InputError(f"{where}: {seen}, but it does not say how many ranks ran; say --ranks")
    if ranks == 1:
        raise _NotOfUseError(f"{where}: {seen} of one rank: a copy on the device, nothing was communicated")
    if ranks > MOST_RANKS:
        raise InputError(f"{where}: {ranks} ranks; a collective is of 2 to {MOST_RANKS}")
    if len(run.hosts) > 1:
        hosts = ", ".join(run.hosts[:4])
        raise _NotOfUseError(
            f"{where}: {ranks} ranks on {len(run.hosts)} hosts ({hosts}): a profile is of one machine; {seen} there"
        )
    return ranks


def _rates_are_of_times(run: Run) -> bool | None:
    """Say whether what is printed as rate is size over time; None where no rate is large enough to tell.

    All-gather and like ones of before 2021 printed the bytes received, (ranks - 1) / ranks of the size.
    """
    ratios = [
        row.algorithm_rate * row.seconds / (1e-9 * row.size)
        for row in run.rows
        if row.size >= 1 and row.algorithm_rate and row.algorithm_rate >= _READABLE_RATE
    ]
    if not ratios:
        return None
    ratio = float(np.median(ratios))
    devices = len(run.devices) or run.ranks or 1
    of_received = (devices - 1) / devices
    return any(abs(ratio / expected - 1) <= _RATES_AGREE for expected in (1.0, of_received) if expected)


def _check_bus_rate(where: str, run: Run, operation: str, ranks: int) -> None:
    """An all-reduce's bus rate is 2 (ranks - 1) / ranks of the algorithm's; no other test's is above it."""
    share, expected = _bus_share(run), 2 * (ranks - 1) / ranks
    if not share:
        return
    if operation == "all_reduce" and abs(share / expected - 1) > _RATES_AGREE:
        raise InputError(
            f"{where}: its busbw is {share:.2f} of its algbw, that of an all_reduce over {ranks} is {expected:.2f}: "
            "another operation or another number of ranks"
        )
    if operation != "all_reduce" and share > 1 + _RATES_AGREE:
        raise InputError(
            f"{where}: its busbw is {share:.2f} of its algbw, as of an all_reduce only; told that it is {operation}"
        )


def _bus_share(run: Run) -> float:
    """The bus rate as a share of the algorithm's; 0 where no rate is large enough to tell."""
    ratios = [
        row.bus_rate / row.algorithm_rate
        for row in run.rows
        if row.bus_rate and row.algorithm_rate and row.algorithm_rate >= _READABLE_RATE
    ]
    return float(np.median(ratios)) if ratios else 0.0


def _pooled(path: Path, timings: Sequence[Timings]) -> list[Timings]:
    """Runs of one operation over as many ranks of the same GPUs in the same way are one; in different ways an error."""
    groups: dict[tuple[str, int], list[Timings]] = {}
    for timed in timings:
        groups.setdefault((timed.operation, timed.ranks), []).append(timed)
    for group in groups.values():
        for other in group[1:]:
            one_way, other_way = (f"{', '.join(t.gpus) or 'GPUs not named'}, {t.mode}" for t in (group[0], other))
            if one_way != other_way:
                raise InputError(
                    f"{path}: two runs of {other.operation} over {other.ranks} are not of the same: {one_way}; "
                    f"{other_way}. Keep one of them in the file"
                )
    return [_joined(group) for group in groups.values()]


def _joined(group: Sequence[Timings]) -> Timings:
    first, remarks = group[0], [remark for timed in group for remark in timed.remarks]
    if len(group) > 1:
        runs = f"{len(group)} runs of {first.operation} over {first.ranks}"
        remarks.append(f"{', '.join(t.where for t in group)}: the medians of {runs}")
    rows = tuple(row for timed in group for row in timed.rows)
    return replace(first, rows=rows, remarks=tuple(remarks))


def _told_beside(timings: list[Timings], refused: Iterable[InputError]) -> list[Timings]:
    """Runs that were left out are told with the first that was not."""
    left_out = tuple(f"left out: {error}" for error in refused)
    return [replace(timings[0], remarks=timings[0].remarks + left_out), *timings[1:]]
