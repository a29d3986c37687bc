"""Timings of nccl-tests put into a profile, and held against it: another GPU, link or size is said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

import pandas as pd

from calibration.importers.nccl_tests.timings import Timings
from calibration.timings.fit import FEWEST_ROWS, FEWEST_SIZES, fit_collective, fit_link
from ssdsim.base.errors import InputError
from ssdsim.hardware.profile import HardwareProfile, Provenance
from ssdsim.transformer.operations import CollectiveKind

_UNLIKE = 2.5  # times faster or slower than the base at the largest size: another link, or none in use
_MAKERS = {"nvidia", "tesla", "geforce", "amd", "instinct", "quadro", "graphics"}
_FORM = re.compile(r"sxm\d?|pcie|nvl|hbm\d\w*|dgxs|oam|\d+g[bi]?b?")


def with_nccl_tests(profile: HardwareProfile, timings: Iterable[Timings], source: str) -> HardwareProfile:
    """``profile`` with its collectives and link replaced by these timings (medians of repeated sizes)."""
    timings = list(timings)
    _refuse_mixtures(timings)
    collectives = {kind: dict(by_ranks) for kind, by_ranks in profile.collectives.items()}
    link = profile.link
    for timed in timings:
        rows = [row for each in timings if _key(each) == _key(timed) for row in each.rows]
        medians = pd.DataFrame(rows).groupby(0)[1].median()
        sizes, seconds = medians.index.to_numpy(float), medians.to_numpy(float)
        fewest = FEWEST_ROWS if timed.operation == "sendrecv" else FEWEST_SIZES
        if len(sizes) < fewest:
            raise InputError(f"{timed.where}: {timed.operation}: {len(sizes)} sizes; a fit needs at least {fewest}")
        if timed.operation == "sendrecv":
            link = fit_link(sizes, seconds, source)
        else:
            model = fit_collective(sizes, seconds, source)
            collectives.setdefault(cast(CollectiveKind, timed.operation), {})[timed.ranks] = model
    note = "; ".join(["out of place", *(timed.told for timed in timings)])
    sources = {**profile.sources, source: Provenance(kind="imported", source=source, note=note)}
    return profile.model_copy(update={"collectives": collectives, "link": link, "sources": sources})


def unlike(profile: HardwareProfile, timings: Iterable[Timings]) -> list[str]:
    """Lines that say where the timings are of other GPUs, another link or a larger machine than ``profile``."""
    unlike = []
    for timed in timings:
        unlike += [f"{timed.where}: {said}" for said in _unlike(profile, timed)]
    return unlike


def _key(timed: Timings) -> tuple[str, int]:
    return timed.operation, timed.ranks if timed.operation != "sendrecv" else 0


def _refuse_mixtures(timings: Sequence[Timings]) -> None:
    first: dict[tuple[str, int], Timings] = {}
    for timed in timings:
        other = first.setdefault(_key(timed), timed)
        if (other.gpus, other.mode) != (timed.gpus, timed.mode):
            raise InputError(
                f"{other.where} and {timed.where} both time {timed.operation} over {timed.ranks}, not of the same: "
                f"{other.told}; {timed.told}. Give one of them"
            )


def _unlike(profile: HardwareProfile, timed: Timings) -> list[str]:
    device, said = profile.device, []
    named = f"{profile.name} is of {device.count} x {device.name}, {device.topology}"
    for gpu in timed.gpus:
        if _model(gpu) != _model(device.name):
            said.append(f"ran on {gpu}, {named}; give the profile of that GPU as --base")
        elif _is_of_another_form(gpu, profile):
            said.append(f"ran on {gpu}, {named}: another link")
    if timed.ranks > device.count:
        said.append(f"is over {timed.ranks} ranks, {named}: none of its placements has so many")
    return said + _unlike_rate(profile, timed)


def _is_of_another_form(gpu: str, profile: HardwareProfile) -> bool:
    form, base_form = _form(gpu), _form(profile.device.name)
    return bool(form and base_form and form != base_form) or (
        form == "pcie" and "nvlink" in profile.device.topology.lower()
    )


def _unlike_rate(profile: HardwareProfile, timed: Timings) -> list[str]:
    """Lines that say where the largest messages take much longer or shorter than the base says."""
    size, seconds = max(timed.rows)
    if timed.operation == "sendrecv":
        model: Any = profile.link
    else:
        model = profile.collectives.get(cast(CollectiveKind, timed.operation), {}).get(timed.ranks)
    if model is None or size < 2**24:  # the bandwidth does not show in less
        return []
    ratio = seconds / float(model.seconds(size))
    if 1 / _UNLIKE <= ratio <= _UNLIKE:
        return []
    rate, base_rate = (1e-9 * size / each for each in (seconds, float(model.seconds(size))))
    slower = " (is its NVLink in use?)" if ratio > 1 and "nvlink" in profile.device.topology.lower() else ""
    return [
        f"{timed.operation} over {timed.ranks} reaches {rate:.3g} GB/s at {size / 2**20:.4g} MiB, {profile.name} "
        f"{base_rate:.3g}: another link{slower}"
    ]


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\s\-_/,()]+", name.lower()) if word]


def _model(name: str) -> frozenset[str]:
    """``Tesla V100-SXM2-16GB`` and ``NVIDIA V100-PCIE-32GB`` -> ``{v100}``."""
    return frozenset(word for word in _words(name) if word not in _MAKERS and not _FORM.fullmatch(word))


def _form(name: str) -> str | None:
    return next((word for word in _words(name) if re.fullmatch(r"sxm\d?|pcie|nvl|oam", word)), None)
