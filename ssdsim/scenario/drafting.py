"""What drafts in a scenario, and what was published of how much of it is accepted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ssdsim import drafters, strategies
from ssdsim.hardware.catalog import find_transformer
from ssdsim.pricing.drafter import Draft, Drafter
from ssdsim.scenario.options import DEFAULTS
from ssdsim.settings import DEFAULT, GIVEN, Settings
from ssdsim.transformer.card import Transformer

PUBLISHED = "published: "
"""How the source of a published acceptance begins."""


def draft_of(options: Mapping[str, Any]) -> Draft:
    """What the settings' drafter drafts with for their target.

    Raises
    ------
    InputError : no such card, or the drafter has none for the target.
    """
    return _draft(options, options["draft"])


def _draft(options: Mapping[str, Any], named: str | None) -> Draft:
    """The drafter's own where nothing is named."""
    return drafters.ALL.named(options["drafter"]).draft(find_transformer(options["target"]), named, options)


def draft_by_options(given: Mapping[str, Any]) -> Transformer:
    """The card of what drafts, from the options that were given alone; raises as :func:`draft_of` does."""
    said = {name: value for name, value in given.items() if value is not None}
    return _draft({**DEFAULTS, **said}, said.get("draft")).card


def settle_draft(settings: Settings) -> None:
    """Derive the draft that nobody named, and its published acceptance where nothing else says what is accepted.

    Raises
    ------
    InputError : as of :func:`draft_of`.
    """
    if settings["t_sd"] is not None:
        return
    named = settings.source("draft") == GIVEN
    draft = _draft(settings, settings["draft"] if named else None)
    if not named and draft.card.name != settings["draft"]:
        settings.settle("draft", draft.card.name, "the drafter's for the target")
    known = draft.published
    if known is not None and known.found < 1.0 and settings["found"] is None:
        settings.settle("found", known.found, f"{PUBLISHED}{draft.card.name}")
    if known is None or settings["acceptance"] is not None or settings.source("alpha") != DEFAULT:
        return
    rates = known.by_position
    settings.settle("alpha", rates, f"{PUBLISHED}{draft.card.name} on {known.about}")
    if settings.source("k") == DEFAULT and len(rates) < settings["k"]:
        settings.settle("k", len(rates), f"as far as acceptance of {draft.card.name} was published")


def ahead_warnings(names: Iterable[str], drafter: Drafter) -> Iterator[str]:
    """Where tokens that a drafter makes from its own states are priced as if the target's states had been there."""
    ahead = [strategies.ALL.named(name).title for name in names if strategies.ALL.named(name).drafts_ahead]
    if ahead and drafter.self_conditions:
        yield (
            f"{drafter.title} drafts from the target's hidden states, but in {', '.join(ahead)} it drafts on before "
            "they are there; tokens are taken as if they were: fewer are accepted than predicted"
        )


def published_warnings(settings: Settings) -> Iterator[str]:
    """What a published acceptance does not say."""
    if not settings.source("alpha").startswith(PUBLISHED):
        return
    draft = draft_of(settings)
    known = draft.published
    assert known is not None  # the source says so
    yield f"acceptance of {draft.card.name} is published, not measured here: {known.about}"
    if known.temperature is not None and known.temperature != settings["temperature"]:
        yield f"{draft.card.name}: its acceptance was measured at temperature {known.temperature:g}"
    most = max((settings[name] or 0 for name in ("k", "sd_k")), default=0)
    if most > len(known.by_position):
        known_at = f"acceptance is known at {len(known.by_position)} positions"
        yield f"{draft.card.name}: {known_at}, the last rate is continued"
