"""The place of a scenario's models: cards, profiles, the runtime, formats."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ssdsim import strategies
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.option import spelled
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import CALIBRATED, DEFAULT, GIVEN, Settings
from ssdsim.hardware.catalog import (
    find_hardware,
    find_transformer,
    format_named,
    is_gguf,
)
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.hardware.runtime_catalog import find_runtime, runtime_of
from ssdsim.pricing.passes import NamedLink, Network
from ssdsim.pricing.site import Site
from ssdsim.pricing.stages import check_stages
from ssdsim.question.drafting import draft_of
from ssdsim.question.engines import engine_of_file
from ssdsim.question.measured_pair import routed
from ssdsim.question.options import DEFAULTS
from ssdsim.strategies.drafters.model import ModelDrafter
from ssdsim.strategies.protocols.alternate import SD_DRAFT
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.context_parallel import check_context_parallel
from ssdsim.transformer.forward import DATA_PARALLEL
from ssdsim.transformer.operations import DTYPE_BYTES, DTYPES, WEIGHT_BYTES
from ssdsim.transformer.precision import BESIDE_QUANTISED, Precision

OF_DEVICE = "the device's"
"""The source of a dtype that the card's was not timed in, and of a degree for few devices."""
PLACEHOLDER = "placeholder"
"""The source of a profile that is of no machine."""
_SIZES = ("tp", "dtype", "context")


class Drafting(Record):
    """The draft's card, device and format, and the network to it."""

    card: Transformer
    profile: HardwareProfile
    dtype: str | None
    network: Network | NamedLink | None


def settle_calibrated(settings: Settings) -> None:
    """Derive what the profile was calibrated for, where nobody said otherwise; few devices lower the default degree."""
    if settings["t_sd"] is not None or settings.source("hardware") == DEFAULT:
        return
    said = {name for name in ("target", "draft", "drafter", *_SIZES) if settings.source(name) != DEFAULT}
    for name, value in calibrated_options(settings["hardware"], said).items():
        settings.settle(name, value, CALIBRATED)
    if settings.source("tp") == DEFAULT:
        settings.settle_all({name: (value, OF_DEVICE) for name, value in _on_few_devices(settings["hardware"]).items()})


def _on_few_devices(hardware: str) -> dict[str, int]:
    """The degree where devices are too few for the default and a draft: a power of two that leaves one, if it can."""
    fitting = 1 << max(1, find_hardware(hardware).device.count - 1).bit_length() - 1
    return {"tp": fitting} if fitting < DEFAULTS["tp"] else {}


def calibrated_options(hardware: str, said: Collection[str]) -> dict[str, Any]:
    """What a profile was calibrated for, as options: none that is ``said``, and of another target its context alone."""
    made_for = find_hardware(hardware).calibrated
    if made_for is None:
        return {}
    models = () if "target" in said else ("target",) if {"draft", "drafter"} & set(said) else ("target", "draft")
    names = (*models, *(_SIZES if models else ("context",)))
    return {name: value for name in names if name not in said and (value := getattr(made_for, name))}


def with_calibrated(options: Mapping[str, Any], takes: Collection[str]) -> dict[str, Any]:
    """Options that were given, with what their profile was calibrated for of those that an answer ``takes``."""
    hardware = options.get("hardware")
    own = {} if hardware is None else {**_on_few_devices(hardware), **calibrated_options(hardware, options)}
    if (engine := engine_of_file({**own, **options})) is not None:
        own["engine"] = engine
    return {**{name: value for name, value in own.items() if name in takes}, **options}


def settle_place_of_draft(settings: Settings) -> None:
    """Put a draft that takes turns with its target on the device that is given for drafts, if no other reads that."""
    given = next(
        (name for name in ("draft_hardware", "draft_link", "draft_link_us") if settings.source(name) == GIVEN), None
    )
    if given is None or settings.source(SD_DRAFT.name) != DEFAULT:
        return
    drafting = [each for each in map(strategies.ALL.named, settings["strategies"]) if each.drafts]
    if drafting and all(SD_DRAFT in each.options for each in drafting):
        settings.settle(SD_DRAFT.name, "separate", f"{spelled(given)} is given, and nobody else drafts there")


def drafting_of(settings: Settings) -> Drafting | None:
    """The draft and its place; None where times are unit-free."""
    if settings["t_sd"] is not None:
        return None
    if settings["draft_hardware"] is None:
        settings.derive("draft_hardware", settings["hardware"], "same as hardware")
    _settle_format_beside_file(settings)
    return Drafting(
        card=_with_states(routed(draft_of(settings).card, settings, "draft"), settings),
        profile=_placed(settings["draft_hardware"], settings),
        dtype=settings["draft_dtype"],
        network=_network_of(settings),
    )


def _network_of(settings: Settings) -> Network | NamedLink | None:
    """What was said of the link to the draft; None where that is the profile's."""
    if (named := settings["draft_link"]) is not None:
        return NamedLink(find_link(named))
    latency_us, gigabytes = settings["draft_link_us"], settings["draft_link_gbs"]
    if latency_us is not None and gigabytes == 0.0:
        raise InputError("--draft-link-gbs must be above 0, got 0")
    return None if latency_us is None else Network(latency_us * 1e-6, gigabytes * 1e9)


def find_link(name: str, option: str = "draft_link") -> HardwareProfile:
    """A profile with the link of a name: a published one, or that of another profile, such as one of nccl-tests."""
    from ssdsim.hardware.what_if import LINKS, NETWORKS, over_link  # here: who names no link starts faster

    if (published := over_link(find_hardware(DEFAULTS["hardware"]), name.lower())) is not None:
        return published
    try:
        profile = find_hardware(name)
    except InputError:
        if name.endswith(".json"):
            raise
        known = (*LINKS, *NETWORKS)
        taken = (f"{link} ({us * 1e6:g} us, {rate / 1e9:g} GB/s)" for link, (us, rate, _) in NETWORKS.items())
        allowed = ", ".join((*LINKS, *taken))
        raise InputError(
            f"{spelled(option)}: unknown link '{name}'{nearest(name, known)} Allowed: {allowed}, or a profile"
        ) from None
    profile.link_between()  # refuses one without
    return profile


def _settle_format_beside_file(settings: Settings) -> None:
    """Give the draft model that nobody named the format of a GGUF target: it is a file of that kind, too."""
    said = settings.source("draft") == GIVEN or settings["dtype"] is not None or settings["draft_dtype"] is not None
    if said or settings["drafter"] != ModelDrafter.name or not is_gguf(settings["target"]):
        return
    kept = min(find_transformer(settings["target"]).precision().formats_of_blocks, key=WEIGHT_BYTES.__getitem__)
    if kept not in DTYPES:
        settings.derive("draft_dtype", kept, "as the target's file")


def site_of(settings: Settings, drafting: Drafting | None) -> Site | None:
    """The site on which the models run; None where times are unit-free."""
    if settings["t_sd"] is not None or drafting is None:
        return None
    data_parallel = settings["attention"] == DATA_PARALLEL
    card = find_transformer(settings["target"])
    if card.head is not None:
        raise InputError(f"--target {settings['target']} is a draft head: give its target, and the head by --draft")
    target = _with_states(routed(card, settings, "target"), settings)
    if data_parallel:
        settings.derive("ep", settings["tp"], "tp, beside data-parallel attention")
        _check_spread(target)
    check_context_parallel(target, settings["tp"], settings["dcp"])
    check_stages(target, settings["pp"])
    profile = _placed(settings["hardware"], settings)
    runtime = _settled_runtime(settings).keeping(settings["states"])
    _settle_states(settings, runtime, target, drafting.card)
    site = Site(
        target=target,
        draft=drafting.card,
        profile=profile,
        draft_profile=drafting.profile,
        tp=settings["tp"],
        ep=settings["ep"],
        data_parallel=data_parallel,
        dcp=settings["dcp"],
        pp=settings["pp"],
        batch=settings["b"],
        context=settings["context"],
        sampling=settings["temperature"] > 0,
        dtype=settings["dtype"],
        options=settings,
        runtime=runtime.on(profile.device).verifying(target),
        draft_dtype=drafting.dtype,
        kv_dtype=settings["kv_dtype"],
        network=drafting.network,
        between_stages=_between_stages(settings),
    )
    site = _with_activations_of_devices(site)
    if settings["dtype"] is None and (own := _dtype_of_devices(site)) is not None:
        settings.derive("dtype", own, OF_DEVICE)
        site = replace(site, dtype=own)
    elif settings["dtype"] is None:
        why = "the target's name" if format_named(settings["target"]) else "the target card's"
        settings.derive("dtype", site.target.precision().weights, why)
    formats = site.precision_of("target")
    if settings["kv_dtype"] is None and formats.kv != formats.activations:
        settings.derive("kv_dtype", formats.kv, "the target card's")
    elif settings["kv_dtype"] is None and (kept := site.runtime.cache_beside(formats)):
        settings.derive("kv_dtype", kept, "the runtime's, for quantised weights")
        site = replace(site, kv_dtype=kept)
    return site.with_options(settings.plain)


def _between_stages(settings: Settings) -> NamedLink | None:
    """The link between stages that are nodes of their own; None where one node has all."""
    if settings["pp"] == 1 or (named := settings["pp_link"]) is None:
        return None
    return NamedLink(find_link(named, "pp_link"))


def _with_activations_of_devices(site: Site) -> Site:
    """The site with activations in 16 bits that were timed on its devices, where the target's weights are quantised."""
    if site.precision_of("target").weights in DTYPES:
        return site
    target = _computed_on(site.target, site.precision_of("target"), (site.profile,))
    draft = _computed_on(site.draft, site.precision_of("draft"), (site.profile, site.draft_profile))
    return site if (target, draft) == (site.target, site.draft) else replace(site, target=target, draft=draft)


def _computed_on(card: Transformer, formats: Precision, profiles: Sequence[HardwareProfile]) -> Transformer:
    if all(profile.prices(formats.activations) for profile in profiles):
        return card
    there = (dtype for dtype in BESIDE_QUANTISED if all(profile.prices(dtype) for profile in profiles))
    return next(map(card.computed_in, there), card)


def _dtype_of_devices(site: Site) -> str | None:
    """The plain dtype that the devices have, where the target's own was not timed there; None where it was."""
    own = site.target.precision()
    if own.weights not in DTYPES or site.profile.prices(own.activations):
        return None
    there = [dtype for dtype in DTYPES if site.profile.prices(dtype) and site.draft_profile.prices(dtype)]
    return min(there, key=lambda dtype: abs(DTYPE_BYTES[dtype] - DTYPE_BYTES[own.activations]), default=None)


def _with_states(card: Transformer, settings: Settings) -> Transformer:
    """The card with the dtype that is asked for its recurrent states."""
    dtype, recurrent = settings["state_dtype"], card.recurrent
    if dtype is None or recurrent is None or dtype == recurrent.state_dtype:
        return card
    return card.changed(recurrent=recurrent.changed(state_dtype=dtype))


def _settle_states(settings: Settings, runtime: Runtime, *cards: Transformer) -> None:
    """Settle what is kept of recurrent layers, where a model has some."""
    recurrent = next((card.recurrent for card in cards if card.recurrent is not None), None)
    if recurrent is None:
        given = next((name for name in ("state_dtype", "states") if settings[name] is not None), None)
        if given is not None:
            raise InputError(f"{spelled(given)} has no effect: neither model has recurrent layers")
        return
    if settings["state_dtype"] is None:
        settings.derive("state_dtype", recurrent.state_dtype, "the card's")
    if settings["states"] is None:
        settings.derive("states", runtime.states, "the runtime's")


def _check_spread(target: Transformer) -> None:
    if target.experts is None:
        raise InputError(
            f"--attention {DATA_PARALLEL}: {target.name} has no experts to bring tokens to; devices with sequences of "
            "their own are copies of it (recommend --gpus)"
        )


def _placed(hardware: str, settings: Settings) -> HardwareProfile:
    """The profile; of the target's node with its devices in the order that is asked for."""
    profile, order = find_hardware(hardware), settings["placement"]
    return profile.placed(order) if order and hardware == settings["hardware"] else profile


def _settled_runtime(settings: Settings) -> Runtime:
    if settings["engine"] is not None:
        return find_runtime(settings["engine"])
    runtime, why = runtime_of(find_hardware(settings["hardware"]), settings["hardware"])
    settings.derive("engine", runtime.name, why)
    return runtime


def placeholder_warnings(site: Site) -> Iterator[str]:
    """A warning of a device that stands for any of its kind."""
    profile = site.draft_profile
    if any(each.source == PLACEHOLDER for each in profile.sources.values()):
        yours = "ssdsim import llama-bench makes yours of llama-bench -ngl 0"
        yield f"{profile.name} is a placeholder, {profile.device.topology}, right within a factor of 2.5: {yours}"


def runtime_for(options: Mapping[str, Any]) -> Runtime:
    """The engine asked for, or the one that belongs to the target's profile."""
    return _settled_runtime(Settings(options, {}, DEFAULTS))


def settle_spread(settings: Settings, site: Site | None) -> None:
    """Put the profile's measured spread in the place of ``profile``."""
    if settings["spread"] != "profile" or site is None:
        return
    if site.profile.spread == 0.0:
        raise InputError(f"profile {site.profile.name} holds no measured spread: give --spread a number")
    settings.settle("spread", site.profile.spread, "measured, from the profile")
