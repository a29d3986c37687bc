"""Warnings about the formats of weights: names that say another one, and one that is slower than a larger one."""

from __future__ import annotations

from collections.abc import Iterator

from ssdsim.base.option import spelled
from ssdsim.base.record import replace
from ssdsim.base.settings import GIVEN, Settings
from ssdsim.hardware.catalog import find_transformer, format_named, unlike_its_format
from ssdsim.pricing.occupancy import target_on, usable_bytes
from ssdsim.pricing.passes import Model
from ssdsim.pricing.site import Site, memoized
from ssdsim.question.place import OF_DEVICE
from ssdsim.transformer.operations import DTYPES, QUANTISED_BYTES, WEIGHT_BYTES

_SLOWER = 1.05
"""A difference that matters."""
_ROLES: tuple[tuple[Model, str], ...] = (("target", "dtype"), ("draft", "draft_dtype"))


def format_warnings(settings: Settings, site: Site, drafts: bool) -> Iterator[str]:
    """Warnings of a name that says another format than the one asked for, of a device's own dtype, and of a format
    that is slower than a larger one.
    """
    for role, option in _ROLES[: 1 + drafts]:
        option = option if settings[option] is not None else "dtype"
        said = format_named(settings[role]) if settings.source(option) == GIVEN else None
        if said is not None and said != settings[option]:
            yield f"priced in {spelled(option)} {settings[option]}, where the name {settings[role]} says {said}"
        if (bits := unlike_its_format(settings[role])) is not None:
            yield f"{settings[role]} is {bits}: priced in {site.precision_of(role).weights}, the nearest format"
    plain = find_transformer(settings["target"]).dtype
    if site.precision_of("target").weights not in DTYPES and site.target.dtype != plain:
        there = f"beside {settings['dtype']} weights all is {site.target.dtype}"
        yield f"{site.profile.name} has no {plain} timings: {there}"
    if settings.source("dtype") == OF_DEVICE:
        yield f"{site.profile.name} has no {site.target.dtype} timings: priced in --dtype {settings['dtype']}"
    faster = larger_and_faster(site)
    if faster is not None:
        own, there = site.precision_of("target").weights, f"{site.target.name} on {site.profile.name}"
        yield f"{there} is slower in {own} than in {faster}, as kernels were timed there: --dtype {faster}"


@memoized
def larger_and_faster(site: Site) -> str | None:
    """The fastest format of the target that is no smaller than its own, was timed and has room, if faster than it."""
    own = site.precision_of("target")
    smallest = min(WEIGHT_BYTES[kept] for kept in own.formats_of_blocks)
    if smallest >= WEIGHT_BYTES[own.activations]:
        return None
    timed = [kept for kept in (own.activations, *QUANTISED_BYTES) if kept in site.profile.gemm]
    sites = {
        kept: replace(site, dtype=kept, kv_dtype=own.kv)
        for kept in timed
        if WEIGHT_BYTES[kept] >= smallest and kept != own.weights
    }
    took = {kept: _decoding_s(each) for kept, each in sites.items() if _has_room(each)}
    best = min(took, key=took.__getitem__, default=None)
    return best if best is not None and _decoding_s(site) > _SLOWER * took[best] else None


def _decoding_s(site: Site) -> float:
    return site.target_pass("verify", 1).cost.seconds


def _has_room(site: Site) -> bool:
    return target_on(site, 0).total_bytes(site.batch) <= usable_bytes(site.profile)
