"""The drafter of a scenario, and what was published of its acceptance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ssdsim import strategies
from ssdsim.base.errors import InputError
from ssdsim.base.settings import CALIBRATED, DEFAULT, GIVEN, Settings
from ssdsim.hardware.catalog import (
    draft_in_family,
    find_transformer,
    one_vocabulary,
    other_vocabulary,
    plain_name,
)
from ssdsim.hardware.engine_versions import Runs
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.pricing.drafter import Draft, Drafter
from ssdsim.pricing.site import Site
from ssdsim.question.options import ALL, DEFAULTS
from ssdsim.question.supposed import PRIOR, PUBLISHED, supposed
from ssdsim.strategies import drafters
from ssdsim.strategies.drafters.eagle import Eagle3
from ssdsim.strategies.drafters.model import ModelDrafter
from ssdsim.strategies.drafters.mtp import MTP
from ssdsim.tokens.drafter_card import drafters_of
from ssdsim.tokens.priors import priors
from ssdsim.transformer.card import Transformer


def draft_of(options: Mapping[str, Any]) -> Draft:
    """The draft of the settings' drafter for their target."""
    return _draft(options, options["draft"])


def _draft(options: Mapping[str, Any], named: str | None) -> Draft:
    """The draft called ``named``; the drafter's own where nothing is named."""
    return drafters.ALL.named(options["drafter"]).draft(find_transformer(options["target"]), named, options)


def drafter_by_options(given: Mapping[str, Any]) -> str:
    """What drafts, from the options that were given alone."""
    said = {name: value for name, value in given.items() if value is not None}
    if "drafter" in said:
        return str(ALL["drafter"].checked(said["drafter"]))
    return _head_of({**DEFAULTS, **said}, "draft" in said)[0]


def settle_drafter(settings: Settings) -> None:
    """Derive what drafts, where nobody named a drafter or a draft and the target has a head."""
    if settings.source("drafter") == DEFAULT:
        drafter, why = _head_of(settings, _is_named(settings))
        if why:
            settings.settle("drafter", drafter, why)


def _is_named(settings: Settings) -> bool:
    """Say whether somebody named the draft, or the profile was calibrated for it."""
    return settings.source("draft") in (GIVEN, CALIBRATED)


def _head_of(options: Mapping[str, Any], named: bool) -> tuple[str, str]:
    """The drafter of a target, and why it is not the default: its own MTP layers; where no smaller model of its family
    is known, a head that was made for it. An engine that is named must be able to run it.
    """
    if options["t_sd"] is None and not named and isinstance(options["target"], str):
        target, engine = find_transformer(options["target"]), options["engine"]
        runs = find_runtime(engine).runs if isinstance(engine, str) else None  # a grid may have several
        if target.mtp_layers and (runs is None or MTP.name in runs.drafters):
            return MTP.name, f"the MTP layers of {target.name}"
        heads = _heads_for(target.name, runs) if draft_in_family(target) is None else []
        if heads:
            return heads[0], f"no smaller model of the family of {target.name} is known"
    return DEFAULTS["drafter"], ""


def published_head(given: Mapping[str, Any]) -> str | None:
    """The kind of head that is published for the target beside the drafter that is assumed, which nobody named.

    So is one beside a drafter that the named engine does not run. None where there is no such card, or the engine does
    not run the kind.
    """
    said = {name: value for name, value in given.items() if value is not None}
    runs = find_runtime(said["engine"]).runs if "engine" in said else None
    named = said.pop("drafter", None)
    if {"draft", "t_sd"} & said.keys() or (named is not None and (runs is None or named in runs.drafters)):
        return None
    own = drafter_by_options(said)
    heads = _heads_for(find_transformer({**DEFAULTS, **said}["target"]).name, runs)
    if named is not None and own != ModelDrafter.name:
        return own
    return next((kind for kind in heads if kind != own), None)


def _heads_for(target: str, runs: Runs | None) -> list[str]:
    """The kinds of heads that are published for a target and that an engine, if any, runs; EAGLE-3 comes first."""
    kinds = {card.drafter for card in drafters_of() if card.target == plain_name(target)} & set(priors().context.kinds)
    ordered = sorted(kinds, key=lambda kind: (kind != Eagle3.name, kind))
    return [kind for kind in ordered if runs is None or kind in runs.drafters]


def draft_by_options(given: Mapping[str, Any]) -> Transformer:
    """The card of what drafts, from the options that were given alone; raises as :func:`draft_of` does."""
    said = {name: value for name, value in given.items() if value is not None}
    return _draft({**DEFAULTS, **said, "drafter": drafter_by_options(said)}, said.get("draft")).card


def settle_draft(settings: Settings) -> None:
    """Derive the draft that nobody named, and its published acceptance where nothing else says what is accepted."""
    if settings["t_sd"] is not None:
        _settle_acceptance(settings, None)
        return
    named = _is_named(settings)
    draft = _draft(settings, settings["draft"] if named else None)
    if not named and draft.card.name != settings["draft"]:
        settings.settle("draft", draft.card.name, "the drafter's for the target")
    known = draft.published
    if known is not None and known.found < 1.0 and settings["found"] is None:
        settings.settle("found", known.found, f"{PUBLISHED}{draft.card.name}")
    _settle_acceptance(settings, draft)
    positions = None if known is None or not settings.source("alpha").startswith(PUBLISHED) else len(known.by_position)
    if positions is not None and settings.source("k") == DEFAULT and positions < settings["k"]:
        settings.settle("k", positions, f"as far as acceptance of {draft.card.name} was published")


def _settle_acceptance(settings: Settings, draft: Draft | None) -> None:
    """Suppose acceptance, and where it may lie, where nothing else says what is accepted."""
    if settings["acceptance"] is not None or settings.source("alpha") != DEFAULT:
        return
    found = supposed(settings, draft)
    if found is not None:
        others = [each for each in settings["ranges"] or () if each[0] != "alpha"]
        settings.settle("alpha", found.value, found.source)
        settings.settle("ranges", (("alpha", *found.within), *others), found.source)


def check_vocabularies(settings: Settings, names: Iterable[str], site: Site | None) -> None:
    """Raise :class:`InputError` where engines refuse the pair, unless a draft of any vocabulary is asked for."""
    if site is None or one_vocabulary(site.draft, site.target) or not any(_drafting(names)):
        return
    if settings["any_vocabulary"]:
        return
    target, draft, smaller = site.target, site.draft, draft_in_family(site.target)
    others = [f"--drafter {card.drafter} ({card.name})" for card in drafters_of() if card.target == target.name]
    if _is_named(settings):
        fitting = [f"--draft {smaller.name}"] if smaller and settings["drafter"] == ModelDrafter.name else []
        give = [*fitting, *others, "--any-vocabulary to price it all the same"]
        raise InputError(f"{other_vocabulary(draft, target)}; give {' or '.join(give)}")
    family = f"the {target.family} family" if target.family else f"{target.vocab_size} tokens"
    give = ["--draft", *others, "--strategies ar"]
    raise InputError(
        f"no draft model of {family} is known that is smaller than {target.name}; give {' or '.join(give)}"
    )


def vocabulary_warnings(names: Iterable[str], site: Site | None) -> Iterator[str]:
    """A warning that a pair is priced which engines refuse, because somebody asked for it."""
    if site is not None and not one_vocabulary(site.draft, site.target) and any(_drafting(names)):
        yield f"{other_vocabulary(site.draft, site.target)}; priced all the same"


def _drafting(names: Iterable[str]) -> Iterator[bool]:
    return (strategies.ALL.named(name).drafts for name in names)


def ahead_warnings(names: Iterable[str], drafter: Drafter) -> Iterator[str]:
    """Warnings of tokens that a drafter makes from its own states, priced as if from the target's."""
    ahead = [strategies.ALL.named(name).title for name in names if strategies.ALL.named(name).drafts_ahead]
    if ahead and drafter.self_conditions:
        yield (
            f"{drafter.title} drafts from the target's hidden states, but in {', '.join(ahead)} it drafts on before "
            "they are there; tokens are taken as if they were: fewer are accepted than predicted"
        )


def published_warnings(settings: Settings) -> Iterator[str]:
    """Warnings of what a published acceptance leaves open; where a head has none, of which others one is known. Where
    nobody drafts, none.
    """
    if not any(_drafting(settings["strategies"])):
        return
    if not settings.source("alpha").startswith(PUBLISHED):
        yield from _unpublished(settings)
        return
    draft = draft_of(settings)
    known = draft.published
    assert known is not None  # the source says so
    if draft.published_for:
        whose = f"{settings['draft']}, of {draft.published_for} and not of {settings['target']}"
        yield f"acceptance was published for another model: {whose}, {known.about}"
    else:
        yield f"acceptance of {draft.card.name} is published, not measured here: {known.about}"
    if known.temperature is not None and known.temperature != settings["temperature"]:
        yield f"{draft.card.name}: its acceptance was measured at temperature {known.temperature:g}"
    most = max((settings[name] or 0 for name in ("k", "sd_k")), default=0)
    if most > len(known.by_position):
        known_at = f"acceptance is known at {len(known.by_position)} positions"
        yield f"{draft.card.name}: {known_at}, the last rate is continued"


def _unpublished(settings: Settings) -> Iterator[str]:
    """A warning that acceptance is supposed, since nothing was published of the drafter; and what of."""
    source = settings.source("alpha")
    if settings["t_sd"] is not None or settings["acceptance"] is not None:
        return
    if not source.startswith((DEFAULT, PRIOR)) or (settings["drafter"] == ModelDrafter.name and ";" not in source):
        return
    ends = next((f" ({low:g}-{high:g})" for name, low, high in settings["ranges"] or () if name == "alpha"), "")
    rests_on = f", {source}" if source.startswith(PRIOR) else ""
    title = drafters.ALL.named(settings["drafter"]).title
    said = f"no acceptance of {title} for {find_transformer(settings['target']).name} was published here"
    yield f"{said}: alpha {settings['alpha']:g}{ends} is a placeholder{rests_on}"
