"""Import timings of nccl-tests and rccl-tests into a profile: what a run is of, whether it is of use, and its fit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from calibration.importers.nccl_output import MOST_RANKS, NcclRun, read_runs
from calibration.timings.fit import FEWEST_ROWS, FEWEST_SIZES, fit_collective, fit_link
from ssdsim.base.documents import read_text
from ssdsim.base.errors import InputError, nearest, short_repr
from ssdsim.base.record import Record, replace
from ssdsim.hardware.profile import HardwareProfile, Provenance
from ssdsim.transformer.operations import CollectiveKind

OPERATIONS = ("all_reduce", "all_gather", "sendrecv")
"""Those that a profile prices."""

_RATES_AGREE = 0.05
_READABLE_RATE = 1.0  # GB/s: two decimals of less say little
_LARGE = 2**24  # bytes: the bandwidth does not show in less
_OTHER_LINK = 2.5  # times faster or slower than the base at the largest size
_MAKERS = {"nvidia", "tesla", "geforce", "amd", "instinct", "quadro", "graphics"}
_FORM = re.compile(r"sxm\d?|pcie|nvl|oam")
_VARIANT = re.compile(rf"{_FORM.pattern}|hbm\d\w*|dgxs|\d+g[bi]?b?")


class Timings(Record):
    """Times of one operation over a number of ranks: bytes and seconds of each row, and how they came to be."""

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
    def description(self) -> str:
        """Text of these timings in a profile's provenance."""
        of = f" of {', '.join(self.gpus)}" if self.gpus else ""
        how = f", {self.mode}" if self.mode else ""
        return f"{self.operation} over {self.ranks}{of}: {len(self.rows)} rows{how}"

    @property
    def model(self) -> tuple[str, int]:
        """The model of a profile that they are fitted to: a link has no number of ranks."""
        return self.operation, self.ranks if self.operation != "sendrecv" else 0


class _NotOfUseError(InputError):
    """A run that is left out if another one of its file is of use."""


def read_nccl_tests(path: Path, operation: str | None = None, ranks: int | None = None) -> list[Timings]:
    """The timings in a file of any of the formats; runs of the same way are pooled.

    ``operation`` and ``ranks`` supply what the file does not say. If it has several runs they choose among them.
    """
    runs = read_runs(path, read_text(path, "output of nccl-tests"))
    usable = [run for run in runs if run.rows]
    if not usable:
        left_out = sum((run.left_out for run in runs), Counter[str]())
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise InputError(f"{path}: no rows of nccl-tests or rccl-tests there{f'; left out {why}' if why else ''}")
    timings: list[Timings] = []
    refused: list[InputError] = []
    for number, run in enumerate(usable, 1):
        try:
            timings.append(_timings(f"{path}" if len(usable) == 1 else f"{path}, run {number}", run, operation, ranks))
        except _NotOfUseError as error:
            refused.append(error)
    if not timings:
        more = f" (and {len(refused) - 1} more runs of no use)" if len(refused) > 1 else ""
        raise InputError(f"{refused[0]}{more}")
    first, *others = _pooled(path, timings)
    left_out_runs = tuple(f"left out: {error}" for error in refused)
    return [replace(first, remarks=first.remarks + left_out_runs), *others]


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
    rows = tuple((row.size, row.seconds) for row in run.rows)
    gpus = tuple(sorted({device.gpu for device in run.devices if device.gpu}))
    return Timings(operation, ranks, rows, where, run.mode, gpus, tuple(remarks))


def _operation(where: str, run: NcclRun, asked: str | None, seen: str) -> str:
    if run.operation and asked and run.operation != asked:
        raise _NotOfUseError(f"{where}: the file names {run.operation}, --operation says {asked}")
    operation, allowed = run.operation or asked, ", ".join(OPERATIONS)
    if operation is None:
        like = " (its busbw is that of an all_reduce)" if _bus_share(run) > 1 + _RATES_AGREE else ""
        raise InputError(f"{where}: {seen}, but it does not name its test{like}; say --operation {allowed}")
    if operation not in OPERATIONS:
        hint = nearest(operation, OPERATIONS)
        raise _NotOfUseError(
            f"{where}: operation {short_repr(operation)} is not priced{hint} Allowed: {allowed}; {seen} there"
        )
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
        raise _NotOfUseError(
            f"{where}: {ranks} ranks on {len(hosts)} hosts ({', '.join(hosts[:4])}): a profile is of one machine; "
            f"{seen} there"
        )
    return ranks


def _rates_are_of_times(run: NcclRun) -> bool | None:
    """Whether the printed rate is size over time; None if no rate is large enough to tell.

    Before 2021 all-gather and the like printed the rate of the bytes received, (ranks - 1) / ranks of the size.
    """
    ratios = [
        row.algorithm_rate * row.seconds / (1e-9 * row.size)
        for row in run.rows
        if row.size >= 1 and row.algorithm_rate and row.algorithm_rate >= _READABLE_RATE
    ]
    if not ratios:
        return None
    devices = len(run.devices) or run.ranks or 1
    expected_ratios = filter(None, (1.0, (devices - 1) / devices))
    return any(abs(float(np.median(ratios)) / expected - 1) <= _RATES_AGREE for expected in expected_ratios)


def _check_bus_rate(where: str, run: NcclRun, operation: str, ranks: int) -> None:
    """An all-reduce's bus rate is 2 (ranks - 1) / ranks of the algorithm's; no other test's is above it."""
    share, expected = _bus_share(run), 2 * (ranks - 1) / ranks
    if share and operation == "all_reduce" and abs(share / expected - 1) > _RATES_AGREE:
        raise InputError(
            f"{where}: its busbw is {share:.2f} of its algbw, that of an all_reduce over {ranks} is {expected:.2f}: "
            "another operation or another number of ranks"
        )
    if operation != "all_reduce" and share > 1 + _RATES_AGREE:
        raise InputError(
            f"{where}: its busbw is {share:.2f} of its algbw, as of an all_reduce only; told that it is {operation}"
        )


def _bus_share(run: NcclRun) -> float:
    """The bus rate as a share of the algorithm's; 0 if no rate is large enough to tell."""
    ratios = [
        row.bus_rate / row.algorithm_rate
        for row in run.rows
        if row.bus_rate and row.algorithm_rate and row.algorithm_rate >= _READABLE_RATE
    ]
    return float(np.median(ratios)) if ratios else 0.0


def _pooled(path: Path, timings: Sequence[Timings]) -> list[Timings]:
    """One for each operation and number of ranks; its runs must be of the same GPUs, processes and graphs."""
    groups: dict[tuple[str, int], list[Timings]] = {}
    for timed in timings:
        groups.setdefault((timed.operation, timed.ranks), []).append(timed)
    pooled = []
    for (operation, ranks), group in groups.items():
        ways = list(dict.fromkeys(f"{', '.join(t.gpus) or 'GPUs not named'}, {t.mode}" for t in group))
        if len(ways) > 1:
            raise InputError(
                f"{path}: two runs of {operation} over {ranks} are not of the same: {ways[0]}; {ways[1]}. "
                "Keep one of them in the file"
            )
        remarks = [remark for timed in group for remark in timed.remarks]
        if len(group) > 1:
            places = ", ".join(timed.where for timed in group)
            remarks.append(f"{places}: the medians of {len(group)} runs of {operation} over {ranks}")
        rows = tuple(row for timed in group for row in timed.rows)
        pooled.append(replace(group[0], rows=rows, remarks=tuple(remarks)))
    return pooled


def with_nccl_tests(profile: HardwareProfile, timings: Iterable[Timings], source: str) -> HardwareProfile:
    """``profile`` with its collectives and link replaced by fits to the timings (medians of repeated sizes)."""
    timings = list(timings)
    groups: dict[tuple[str, int], list[Timings]] = {}
    for timed in timings:
        groups.setdefault(timed.model, []).append(timed)
    for first, *others in groups.values():
        for other in others:
            if (other.gpus, other.mode) != (first.gpus, first.mode):
                raise InputError(
                    f"{first.where} and {other.where} both time {other.operation} over {other.ranks}, not of the "
                    f"same: {first.description}; {other.description}. Give one of them"
                )
    collectives = {kind: dict(by_ranks) for kind, by_ranks in profile.collectives.items()}
    link = profile.link
    for (operation, ranks), group in groups.items():
        medians = pd.DataFrame([row for timed in group for row in timed.rows]).groupby(0)[1].median()
        sizes, seconds = medians.index.to_numpy(float), medians.to_numpy(float)
        fewest = FEWEST_ROWS if operation == "sendrecv" else FEWEST_SIZES
        if len(sizes) < fewest:
            raise InputError(f"{group[0].where}: {operation}: {len(sizes)} sizes; a fit needs at least {fewest}")
        if operation == "sendrecv":
            link = fit_link(sizes, seconds, source)
        else:
            model = fit_collective(sizes, seconds, source)
            collectives.setdefault(cast(CollectiveKind, operation), {})[ranks] = model
    note = "; ".join(["out of place", *(timed.description for timed in timings)])
    sources = {**profile.sources, source: Provenance(kind="imported", source=source, note=note)}
    return profile.changed(collectives=collectives, link=link, sources=sources)


def unlike(profile: HardwareProfile, timings: Iterable[Timings]) -> list[str]:
    """Warnings about timings of other GPUs, another link or a larger machine than ``profile``."""
    return [f"{timed.where}: {warning}" for timed in timings for warning in _differences(profile, timed)]


def _differences(profile: HardwareProfile, timed: Timings) -> list[str]:
    device, differences = profile.device, []
    base = f"{profile.name} is of {device.count} x {device.name}, {device.topology}"
    for gpu in timed.gpus:
        if _gpu_model(gpu) != _gpu_model(device.name):
            differences.append(f"ran on {gpu}, {base}; give the profile of that GPU as --base")
        elif _is_of_another_form(gpu, profile):
            differences.append(f"ran on {gpu}, {base}: another link")
    if timed.ranks > device.count:
        differences.append(f"is over {timed.ranks} ranks, {base}: none of its placements has so many")
    return differences + _rate_difference(profile, timed)


def _rate_difference(profile: HardwareProfile, timed: Timings) -> list[str]:
    """A warning if the largest message takes much more or less time than the base says."""
    size, seconds = max(timed.rows)
    by_ranks = profile.collectives.get(cast(CollectiveKind, timed.operation), {})
    model: Any = profile.link if timed.operation == "sendrecv" else by_ranks.get(timed.ranks)
    if model is None or size < _LARGE:
        return []
    base_s = float(model.seconds(size))
    if 1 / _OTHER_LINK <= seconds / base_s <= _OTHER_LINK:
        return []
    slower = " (is its NVLink in use?)" if seconds > base_s and "nvlink" in profile.device.topology.lower() else ""
    return [
        f"{timed.operation} over {timed.ranks} reaches {1e-9 * size / seconds:.3g} GB/s at {size / 2**20:.4g} MiB, "
        f"{profile.name} {1e-9 * size / base_s:.3g}: another link{slower}"
    ]


def _gpu_words(name: str) -> list[str]:
    return [word for word in re.split(r"[\s\-_/,()]+", name.lower()) if word]


def _gpu_model(name: str) -> frozenset[str]:
    """``Tesla V100-SXM2-16GB`` and ``NVIDIA V100-PCIE-32GB`` -> ``{v100}``."""
    return frozenset(word for word in _gpu_words(name) if word not in _MAKERS and not _VARIANT.fullmatch(word))


def _is_of_another_form(gpu: str, profile: HardwareProfile) -> bool:
    form, base_form = (next(filter(_FORM.fullmatch, _gpu_words(name)), None) for name in (gpu, profile.device.name))
    return bool(form and base_form and form != base_form) or (
        form == "pcie" and "nvlink" in profile.device.topology.lower()
    )
