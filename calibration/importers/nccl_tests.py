"""Import timings of nccl-tests and rccl-tests into a profile: what a run is of, whether it is of use, and its fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from calibration.importers.nccl_output import MOST_RANKS, READABLE_RATE, NcclRun, read_runs
from calibration.importers.tables import messages_over
from calibration.timings.fit import FEWEST_ROWS, FEWEST_SIZES, fit_collective, fit_link
from ssdsim.base.documents import read_text
from ssdsim.base.errors import InputError, nearest, short_repr
from ssdsim.base.record import Record, replace
from ssdsim.hardware.collectives import CollectiveModel
from ssdsim.hardware.gpu_names import gpu_form, gpu_model
from ssdsim.hardware.profile import HardwareProfile, Provenance
from ssdsim.transformer.operations import CollectiveKind

OPERATIONS: Mapping[str, CollectiveKind | None] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "alltoall": "all_to_all",
    "sendrecv": None,
}
"""Those that a profile prices, as which collective; None is the link."""

_RATES_AGREE = 0.05
_LARGE = 2**24  # bytes: the bandwidth does not show in less
_OTHER_LINK = 2.5  # times faster or slower than the base at the largest size


class Timings(Record):
    """Times of one operation over a number of ranks: bytes and seconds of each row, and how they came to be."""

    operation: str
    ranks: int
    rows: tuple[tuple[float, float], ...]
    where: str = ""
    processes: str = "processes not said"
    graphs: str = "graphs not said"
    gpus: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """What was left out, or is odd, a line each."""

    @property
    def mode(self) -> str:
        """Processes and graphs, which decide the fixed time of a small collective."""
        return f"{self.processes}, {self.graphs}"

    @property
    def description(self) -> str:
        """Text of these timings in a profile's provenance."""
        of = f" of {', '.join(self.gpus)}" if self.gpus else ""
        how = f", {self.mode}" if self.where else ""
        return f"{self.operation} over {self.ranks}{of}: {len(self.rows)} rows{how}"

    @property
    def model(self) -> tuple[str, int]:
        """The model of a profile that they are fitted to: a link has no number of ranks."""
        return self.operation, self.ranks if self.operation != "sendrecv" else 0


class _NotOfUseError(InputError):
    """A run that is left out if another one of its file is of use."""


def read_nccl_tests(
    path: Path, operation: str | None = None, ranks: int | None = None, only: int | None = None
) -> list[Timings]:
    """The timings in a file of any of the formats; runs of the same way are pooled.

    ``operation`` and ``ranks`` supply what the file does not say. If it has several runs they choose among them, as
    does the number of the ``only`` one.
    """
    runs = read_runs(path, read_text(path, "output of nccl-tests"))
    usable = [run for run in runs if run.rows]
    if not usable:
        left_out = sum((run.left_out for run in runs), Counter[str]())
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise InputError(f"{path}: no rows of nccl-tests or rccl-tests there{f'; left out {why}' if why else ''}")
    if only and only > len(usable):
        raise InputError(f"{path}: no run {only}; it has {len(usable)}")
    timings, refused = list[Timings](), list[InputError]()
    for number, run in enumerate(usable, 1):
        if only in (None, number):
            where = f"{path}" if len(usable) == 1 else f"{path}, run {number}"
            try:
                timings.append(_timings(where, run, operation, ranks))
            except _NotOfUseError as error:
                refused.append(error)
    if not timings:
        more = f" (and {len(refused) - 1} more runs of no use)" if len(refused) > 1 else ""
        raise InputError(f"{refused[0]}{more}")
    first, *others = pooled(timings)
    return [replace(first, remarks=(*first.remarks, *(f"left out: {error}" for error in refused))), *others]


def _timings(where: str, run: NcclRun, operation: str | None, ranks: int | None) -> Timings:
    run.devices = list(dict.fromkeys(run.devices))  # a log may repeat each rank's line
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
    count = len({(device.host, device.process) for device in run.devices if device.process})
    processes = {0: "processes not said", 1: "one process", ranks: "a process a rank"}.get(count, f"{count} processes")
    launches = run.settings.get("graph")
    graphs = {None: "graphs not said", "0": "eager"}.get(launches, f"in CUDA graphs ({launches} launches)")
    gpus = tuple(sorted({device.gpu for device in run.devices if device.gpu}))
    rows = tuple(row[:2] for row in run.rows)
    return Timings(operation, ranks, rows, where, processes, graphs, gpus, tuple(remarks))


def _operation(where: str, run: NcclRun, asked: str | None, seen: str) -> str:
    if run.operation and asked and run.operation != asked:
        raise _NotOfUseError(f"{where}: the file names {run.operation}, --operation says {asked}")
    operation, allowed = run.operation or asked, ", ".join(OPERATIONS)
    if operation is None:
        like = " (its busbw is that of an all_reduce)" if run.bus_share() > 1 + _RATES_AGREE else ""
        raise InputError(f"{where}: {seen}, but it does not name its test{like}; say --operation {allowed}")
    if operation not in OPERATIONS:
        named = f"operation {short_repr(operation)} is not priced{nearest(operation, OPERATIONS)}"
        raise _NotOfUseError(f"{where}: {named} Allowed: {allowed}; {seen} there")
    return operation


def _ranks(where: str, run: NcclRun, asked: int | None, seen: str) -> int:
    numbers = [device.rank for device in run.devices]
    hosts = list(dict.fromkeys(device.host for device in run.devices if device.host))
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
    if len(hosts) > 1:
        on = f"{ranks} ranks on {len(hosts)} hosts ({', '.join(hosts[:4])})"
        raise _NotOfUseError(f"{where}: {on}: a profile is of one machine; {seen} there")
    return ranks


def _rates_are_of_times(run: NcclRun) -> bool | None:
    """Whether the printed rate is size over time; None if no rate is large enough to tell.

    Before 2021 all-gather and the like printed the rate of the bytes received, (ranks - 1) / ranks of the size.
    """
    readable = [(rate, row) for row in run.rows if row[0] >= 1 and (rate := row[2]) and rate >= READABLE_RATE]
    if not readable:
        return None
    ratio = float(np.median([rate * seconds / (1e-9 * size) for rate, (size, seconds, *_) in readable]))
    devices = len(run.devices) or run.ranks or 1
    return any(abs(ratio / each - 1) <= _RATES_AGREE for each in (1.0, (devices - 1) / devices) if each)


def _check_bus_rate(where: str, run: NcclRun, operation: str, ranks: int) -> None:
    """An all-reduce's bus rate is 2 (ranks - 1) / ranks of the algorithm's; no other test's is above it."""
    share, expected = run.bus_share(), 2 * (ranks - 1) / ranks
    if share and operation == "all_reduce" and abs(share / expected - 1) > _RATES_AGREE:
        raise InputError(
            f"{where}: its busbw is {share:.2f} of its algbw, that of an all_reduce over {ranks} is {expected:.2f}: "
            "another operation or another number of ranks"
        )
    if operation != "all_reduce" and share > 1 + _RATES_AGREE:
        raise InputError(
            f"{where}: its busbw is {share:.2f} of its algbw, as of an all_reduce only; told that it is {operation}"
        )


def pooled(timings: Iterable[Timings]) -> list[Timings]:
    """One for each operation and number of ranks, of the runs that are most as engines run.

    Those have a process a rank, in CUDA graphs. Runs of other GPUs are not mixed.
    """
    groups: dict[tuple[str, int], list[Timings]] = {}
    for timed in timings:
        groups.setdefault(timed.model, []).append(timed)
    return [_as_engines_run(group) for group in groups.values()]


def _as_engines_run(group: Sequence[Timings]) -> Timings:
    first, remarks = group[0], [remark for timed in group for remark in timed.remarks]
    odd = next((timed for timed in group if timed.gpus != first.gpus), None)
    if odd is not None:
        gpus = [", ".join(timed.gpus) or "GPUs not named" for timed in (first, odd)]
        said = f"{first.where} and {odd.where} time {first.operation} over {first.ranks} on other GPUs"
        raise InputError(f"{said}: {gpus[0]}; {gpus[1]}. Give one of them, or --run of a file")
    best = max(group, key=lambda timed: (timed.graphs.startswith("in"), timed.processes.startswith("a ")))
    kept = [timed for timed in group if timed.mode == best.mode]
    if len(kept) < len(group):
        whose = ", ".join(f"{timed.where} ({timed.mode})" for timed in group if timed not in kept)
        remarks.append(
            f"left out: {whose}: {best.where} is of {best.mode}, which is nearer to an engine; --run takes one"
        )
    if len(kept) > 1:
        places = ", ".join(timed.where for timed in kept)
        over = ", ".join(map(str, sorted({timed.ranks for timed in kept})))
        remarks.append(f"{places}: the medians of {len(kept)} runs of {best.operation} over {over}")
    rows = tuple(row for timed in kept for row in timed.rows)
    return replace(kept[0], rows=rows, remarks=tuple(remarks))


def with_nccl_tests(profile: HardwareProfile, timings: Iterable[Timings], source: str) -> HardwareProfile:
    """``profile`` with its collectives and link replaced by fits to the timings (medians of repeated sizes).

    It still speaks for messages smaller than the smallest timed, where that one does not show the latency.
    """
    collectives: dict[CollectiveKind, dict[int, CollectiveModel]] = {}
    link, notes = None, ["out of place"]
    for timed in pooled(timings):
        medians = pd.DataFrame(timed.rows).groupby(0)[1].median()
        sizes, seconds = medians.index.to_numpy(float), medians.to_numpy(float)
        kind = OPERATIONS[timed.operation]
        fewest = FEWEST_SIZES if kind else FEWEST_ROWS
        if len(sizes) < fewest:
            raise InputError(f"{timed.where}: {timed.operation}: {len(sizes)} sizes; a fit needs at least {fewest}")
        notes.append(timed.description)
        if kind:
            collectives.setdefault(kind, {})[timed.ranks] = fit_collective(sizes, seconds, source)
        else:
            link = fit_link(sizes, seconds, source)
    sources = {**profile.sources, source: Provenance(kind="imported", source=source, note="; ".join(notes))}
    return profile.changed(**messages_over(profile, collectives, link), sources=sources)


def unlike(profile: HardwareProfile, timings: Iterable[Timings]) -> list[str]:
    """Warnings about timings of other GPUs, another link or a larger machine than ``profile``."""
    return [f"{timed.where}: {warning}" for timed in timings for warning in _differences(profile, timed)]


def _differences(profile: HardwareProfile, timed: Timings) -> Iterator[str]:
    device = profile.device
    base = f"{profile.name} is of {device.count} x {device.name}, {device.topology}"
    for gpu in timed.gpus:
        if gpu_model(gpu) != gpu_model(device.name):
            yield f"ran on {gpu}, {base}; give the profile of that GPU as --base"
        elif _is_of_another_form(gpu, profile):
            yield f"ran on {gpu}, {base}: another link"
    if timed.ranks > device.count:
        yield f"is over {timed.ranks} ranks, {base}: none of its placements has so many"
    size, seconds = max(timed.rows)
    kind = OPERATIONS[timed.operation]
    model: Any = profile.collectives.get(kind, {}).get(timed.ranks) if kind else profile.link
    base_s = float(model.seconds(size)) if model and size >= _LARGE else seconds
    if not 1 / _OTHER_LINK <= seconds / base_s <= _OTHER_LINK:
        slower = " (is its NVLink in use?)" if seconds > base_s and "nvlink" in device.topology.lower() else ""
        reached = f"reaches {1e-9 * size / seconds:.3g} GB/s at {size / 2**20:.4g} MiB"
        than = f"{profile.name} {1e-9 * size / base_s:.3g}"
        yield f"{timed.operation} over {timed.ranks} {reached}, {than}: another link{slower}"


def _is_of_another_form(gpu: str, profile: HardwareProfile) -> bool:
    form, base_form = gpu_form(gpu), gpu_form(profile.device.name)
    return bool(form and base_form and form != base_form) or (
        form == "pcie" and "nvlink" in profile.device.topology.lower()
    )
