"""Import timings of nccl-tests and rccl-tests into a profile: what a run is of, whether it is of use, and its fit.

Which pairs of GPUs have NVLinks is not in their output, but in ``nvidia-smi topo -m``, which is read beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from calibration.importers.nccl_output import READABLE_RATE, NcclRun, runs_in
from calibration.importers.tables import messages_over
from calibration.machine.drivers import parse_links
from calibration.timings.fit import FEWEST_ROWS, FEWEST_SIZES, fit_collective, fit_link
from ssdsim.base.documents import read_printed
from ssdsim.base.errors import InputError, nearest, short_repr
from ssdsim.base.record import Record, replace
from ssdsim.hardware.collectives import CollectiveModel
from ssdsim.hardware.gpu_names import gpu_form, gpu_model
from ssdsim.hardware.links import LinkModel, Links
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
_OTHER_PAIRS = 1.5  # times apart, beyond which devices of one machine are not linked alike
_MOST_RANKS = 1_000_000


# which runs are of use


class Timings(Record):
    """Times of one operation over a number of ranks: bytes and seconds of each row, and how they came to be.

    ``devices`` are number and bus of each rank's, as the run saw them; ``nvlinks`` are the fewest between two that talk
    to each other, where that is known. ``remarks`` are what was left out, or is odd.
    """

    operation: str
    ranks: int
    rows: tuple[tuple[float, float], ...]
    where: str
    mode: str
    gpus: tuple[str, ...] = ()
    devices: tuple[tuple[int, str], ...] = ()
    nvlinks: int | None = None
    remarks: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """Text of these timings in a profile's provenance."""
        of = f" of {', '.join(self.gpus)}" if self.gpus else ""
        links = "" if self.nvlinks is None else f", over {self.nvlinks or 'no'} NVLinks"
        return f"{self.operation} over {self.ranks}{of}: {len(self.rows)} rows, {self.mode}{links}"

    @property
    def model(self) -> tuple[str, int]:
        """The model of a profile that they are fitted to: a link has no number of ranks."""
        return self.operation, self.ranks if self.operation != "sendrecv" else 0

    @property
    def named_devices(self) -> str:
        return f"GPUs {', '.join(str(number) for number, _ in self.devices)}" if self.devices else "GPUs not named"


class _NotOfUseError(InputError):
    """A run that is left out if another one of its file is of use."""


def _read(path: Path, operation: str | None = None, ranks: int | None = None, only: int | None = None) -> list[Timings]:
    """The timings in a file of any of the formats; none in a topology, which times nothing."""
    text = read_printed(path, "output of nccl-tests")
    runs = runs_in(text, path)
    usable = [run for run in runs if run.rows]
    if not usable and parse_links(text):
        return []
    if not usable:
        left_out = sum((run.left_out for run in runs), Counter[str]())
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise InputError(f"{path}: no rows of nccl-tests or rccl-tests there{f'; left out {why}' if why else ''}")
    if only and only > len(usable):
        raise InputError(f"{path}: no run {only}; it has {len(usable)}")
    timings, refused = list[Timings](), list[InputError]()
    for number, run in enumerate(usable, 1):
        if only in (None, number):
            try:
                timings.append(
                    _timings(f"{path}" if len(usable) == 1 else f"{path}, run {number}", run, operation, ranks)
                )
            except _NotOfUseError as error:
                refused.append(error)
    if not timings:
        more = f" (and {len(refused) - 1} more runs of no use)" if len(refused) > 1 else ""
        raise InputError(f"{refused[0]}{more}")
    first, *others = timings
    return [replace(first, remarks=(*first.remarks, *(f"left out: {error}" for error in refused))), *others]


def _timings(where: str, run: NcclRun, operation: str | None, ranks: int | None) -> Timings:
    run.devices = list(dict.fromkeys(run.devices))  # a log may repeat each rank's line
    seen = f"{len(run.rows)} rows ({run.layout})"
    ranks = _ranks(where, run, ranks, seen, (operation, run.operation))
    operation = _tested(where, run, operation, seen)
    if rates_are_right := _rates_are_of_times(run):
        _check_bus_rate(where, run, operation, ranks)
    remarks = [f"{where}: left out {count} row(s) {why}" for why, count in run.left_out.items()]
    if run.in_place:
        remarks.append(f"{where}: {run.in_place} row(s) have a time in place only, which was taken")
    if rates_are_right is False:
        remarks.append(f"{where}: the rates beside the times are not those of the times; the times were taken")
    if operation != "all_reduce" and run.reductions & {"sum", "prod", "max", "min", "avg"}:
        remarks.append(f"{where}: taken as {operation}, but its rows name the reduction {min(run.reductions)}")
    count = len({(device.host, device.process) for device in run.devices if device.process != "0"})
    processes = {0: "processes not said", 1: "one process", ranks: "a process a rank"}.get(count, f"{count} processes")
    gpus = tuple(sorted({device.gpu for device in run.devices if device.gpu}))
    devices = tuple(device.device for device in sorted(run.devices, key=lambda device: device.rank))
    told = devices if len({*devices}) == ranks else ()
    rows, mode = tuple(row[:2] for row in run.rows), f"{processes}, {run.graphs}"
    if len({device.host for device in run.devices}) > 1:
        mode += ", between two machines"
        remarks.append(f"{where}: the link is one between two machines: ssdsim predict --draft-link takes it")
    return Timings(operation, ranks, rows, where, mode, gpus, told, remarks=tuple(remarks))


def _tested(where: str, run: NcclRun, asked: str | None, seen: str) -> str:
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


def _ranks(where: str, run: NcclRun, asked: int | None, seen: str, operations: Sequence[str | None]) -> int:
    numbers = [device.rank for device in run.devices]
    hosts = list(dict.fromkeys(device.host for device in run.devices))
    said = max(run.ranks or 0, len(numbers)) or None  # a log may hold the lines of one of several processes
    ranks = said or asked
    if not ranks:
        raise InputError(f"{where}: {seen}, but it does not say how many ranks ran; say --ranks")
    is_link = "sendrecv" in operations and ranks == len(hosts) == 2
    on = f"{ranks} ranks on {len(hosts)} hosts ({', '.join(hosts[:4])})"
    for is_so, why in (
        (
            len(numbers) > 1 and {*numbers} == {0},
            f"{len(numbers)} devices, each rank 0: as many runs of one rank. A build without MPI under mpirun or srun "
            "times no communication; build nccl-tests with MPI=1",
        ),
        (len({*numbers}) < len(numbers), f"{len(numbers)} devices for {len({*numbers})} ranks: several runs at once"),
        (said and asked and said != asked, f"the file has {said} ranks, --ranks says {asked}"),
        (ranks == 1, f"{seen} of one rank: a copy on the device, nothing was communicated"),
        (ranks > _MOST_RANKS, f"{ranks} ranks; a collective is of 2 to {_MOST_RANKS}"),
        (len(hosts) > 1 and not is_link, f"{on}: a profile is of one machine; {seen} there"),
    ):
        if is_so:
            raise _NotOfUseError(f"{where}: {why}")
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


# the links of the machine, and the runs that are one


def read_nccl_tests(
    files: Sequence[Path], operation: str | None = None, ranks: int | None = None, only: int | None = None
) -> tuple[list[Timings], Links]:
    """The timings of a machine, one for each model, and the NVLinks between its GPUs, where a file tells them.

    ``operation`` and ``ranks`` supply what a file does not say. If it has several runs they choose among them, as does
    the number of the ``only`` one.
    """
    timings = [timed for file in files for timed in _read(file, operation, ranks, only)]
    if not timings:
        raise InputError(f"{files[0]}: a topology alone has no times; give the output of nccl-tests beside it")
    told = [links for file in files if (links := _nvlinks(read_printed(file, "output of nccl-tests")))]
    if len({*told}) > 1:
        raise InputError(f"{', '.join(map(str, files))}: topologies of several machines; a profile is of one")
    links = told[0] if told else ()
    return pooled([replace(timed, nvlinks=_fewest(timed, timings, links)) for timed in timings], links), links


def _nvlinks(text: str) -> Links:
    """The number of NVLinks between each two GPUs (``NV12``; ``PIX``, ``SYS`` and the like are none)."""
    links = parse_links(text)
    count = max((b + 1 for _, b in links), default=0)
    number = {pair: int(link[2:]) if link[2:].isdigit() and link[:2] == "NV" else 0 for pair, link in links.items()}
    return tuple(tuple(number.get((min(a, b), max(a, b)), 0) for b in range(count)) for a in range(count))


def _fewest(timed: Timings, timings: Sequence[Timings], links: Links) -> int | None:
    """The fewest NVLinks between ranks that follow each other; None where it is not known which GPUs they are.

    Both nvidia-smi and CUDA number GPUs by their bus. Of hidden GPUs a run's numbers are others: its buses say which,
    where the runs together name all of them.
    """
    known = {device for each in timings for device in each.devices}
    buses = sorted({bus for _, bus in known})
    if len(buses) == len(links):
        places = [buses.index(bus) for _, bus in timed.devices]
    else:
        places = [number for number, _ in timed.devices]
    hidden = len(buses) != len(links) and len({number for number, _ in known}) < len(known)
    if not places or hidden or max(places) >= len(links):
        return None
    ring = [*pairwise(places), *([(places[-1], places[0])] if timed.operation != "sendrecv" else [])]
    return min(links[a][b] for a, b in ring)


def pooled(timings: Iterable[Timings], links: Links = ()) -> list[Timings]:
    """One for each model, of the runs that are most as engines run: a process a rank, in CUDA graphs.

    Runs of other GPUs, or over other links, are not mixed. Of collectives those are kept whose devices are linked as
    the machine's first ones, which engines take; of messages one for each number of NVLinks.
    """
    groups: dict[tuple[object, ...], list[Timings]] = {}
    for timed in timings:
        groups.setdefault((*timed.model, timed.nvlinks if timed.operation == "sendrecv" else None), []).append(timed)
    return [_as_engines_run(group) for group in groups.values()]


def _as_engines_run(group: Sequence[Timings]) -> Timings:
    remarks = [remark for timed in group for remark in timed.remarks]
    first = min(group, key=lambda timed: timed.devices)
    if others := [timed for timed in group if timed.nvlinks != first.nvlinks]:
        remarks += [
            f"left out: {timed.where}, on {timed.named_devices}, which are linked otherwise" for timed in others
        ]
        group = [timed for timed in group if timed.nvlinks == first.nvlinks]
    for odd in group:
        said = f"{first.where} and {odd.where} time {first.operation} over {first.ranks} on other GPUs"
        if odd.gpus != first.gpus:
            gpus = [", ".join(timed.gpus) or "GPUs not named" for timed in (first, odd)]
            raise InputError(f"{said}: {gpus[0]}; {gpus[1]}. Give one of them, or --run of a file")
        if odd.devices != first.devices and (apart := _apart(first, odd)) > _OTHER_PAIRS:
            raise InputError(
                f"{said}, {apart:.1f} times as fast: {first.named_devices}; {odd.named_devices}. Give what nvidia-smi "
                "topo -m prints beside them, or one of them, or --run of a file"
            )
    best = max(group, key=lambda timed: ("in CUDA" in timed.mode, timed.mode.startswith("a ")))
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


def _apart(one: Timings, other: Timings) -> float:
    """How many times apart two runs are at the largest message of both."""
    seconds = dict(one.rows), dict(other.rows)
    largest = max(seconds[0].keys() & seconds[1].keys(), default=None)
    if largest is None:
        return 1.0
    ratio = seconds[0][largest] / seconds[1][largest]
    return max(ratio, 1.0 / ratio)


def with_nccl_tests(
    profile: HardwareProfile, timings: Iterable[Timings], source: str, nvlinks: Links = ()
) -> HardwareProfile:
    """``profile`` with its collectives and link replaced by fits to the timings (medians of repeated sizes).

    It still speaks for messages smaller than the smallest timed, where that one does not show the latency. With the
    ``nvlinks`` of the machine it is of so many GPUs; where pairs differ, each kind of pair has a link of its own.
    """
    collectives: dict[CollectiveKind, dict[int, CollectiveModel]] = {}
    links: dict[int, LinkModel] = {}
    notes = ["out of place"]
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
            links[timed.nvlinks or 0] = fit_link(sizes, seconds, source)
    usual = links.get(nvlinks[0][1] if nvlinks else 0, links.get(min(links, default=0)))
    sources = {**profile.sources, source: Provenance(kind="imported", source=source, note="; ".join(notes))}
    device = profile.device.changed(peer_access=None)  # the timings say it
    there = profile.changed(device=device, **messages_over(profile, collectives, usual), sources=sources)
    if not nvlinks:
        return there
    kinds = sorted({nvlinks[a][b] for a in range(len(nvlinks)) for b in range(a)}, reverse=True)
    linked = {"count": len(nvlinks), "topology": _linked(kinds), "nvlinks": nvlinks if len(kinds) > 1 else None}
    by_kind = {count: link.over((profile.links or {}).get(count, profile.link)) for count, link in links.items()}
    own = {**(profile.links or {}), **by_kind} if len(kinds) > 1 else None
    return there.changed(device=device.changed(**linked), links=own)


def _linked(kinds: Sequence[int]) -> str:
    """What lies between two GPUs of the machine, in words."""
    words = [f"{count} NVLink{'s' if count > 1 else ''}" if count else "PCIe" for count in kinds]
    return f"{' or '.join(words)} between two GPUs"


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
