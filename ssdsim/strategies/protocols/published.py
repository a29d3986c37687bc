"""Shared by published drafters: a card of each, with the acceptance that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import plain_name
from ssdsim.hardware.vocabularies import siblings
from ssdsim.pricing.drafter import Draft
from ssdsim.tokens.drafter_card import DRAFTERS, DrafterCard, PublishedAcceptance, drafters_for, find_drafter
from ssdsim.transformer.card import Transformer


def without_a_model(kind: str, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
    """A drafter that is no model: the target's shape, under the name of the published card."""
    card = published_drafter(kind, target, named)
    own = _shaped(target, f"{kind}-{target.name}", "", "no checkpoint is known", ())
    if card is not None:
        return as_published(own, target, card, options)
    if named not in (None, own.name):
        raise DRAFTERS.unknown(named, str(named))
    return Draft(own)


def as_published(recipe: Transformer, target: Transformer, card: DrafterCard, options: Mapping[str, Any]) -> Draft:
    """The draft of this recipe that a card describes.

    A card of a sibling, another model of the target's family, gives its acceptance alone: checkpoint and shape are the
    sibling's.
    """
    return published(recipe if of_sibling(card, target) else shaped(recipe, card), target, card, options)


def published(shape: Transformer, target: Transformer, card: DrafterCard, options: Mapping[str, Any]) -> Draft:
    """A draft of this shape, with the acceptance of its card, which may be a sibling's."""
    return Draft(shape, chosen(card, options), card.ranks, card.target if of_sibling(card, target) else "")


def of_sibling(card: DrafterCard, target: Transformer) -> bool:
    """Tell whether a card is of a drafter for another model of the target's family."""
    return bool(card.target) and card.target != plain_name(target.name) and siblings(card.target, target)


def published_drafter(kind: str, target: Transformer, named: str | None) -> DrafterCard | None:
    """The card of a published drafter: the one ``named``, or the first for the target where nothing is named."""
    if named is None:
        return next(drafters_for(kind, plain_name(target.name)), None)
    card = find_drafter(named)
    if card is None:
        return None
    if card.drafter != kind:
        raise InputError(f"--draft {named} is of the kind {card.drafter}: give --drafter {card.drafter}")
    if card.target and card.target != plain_name(target.name) and not siblings(card.target, target):
        raise InputError(f"--draft {named} was made for {card.target}, not for {target.name}")
    return card


def shaped(recipe: Transformer, card: DrafterCard) -> Transformer:
    """The recipe with what the card has otherwise."""
    return _shaped(recipe, card.name, card.checkpoint, card.checkpoint or card.source, tuple(card.shape.items()))


@lru_cache(maxsize=256)
def _shaped(
    recipe: Transformer, name: str, checkpoint: str, source: str, shape: tuple[tuple[str, int], ...]
) -> Transformer:
    return recipe.model_copy(update={**dict(shape), "name": name, "checkpoint": checkpoint, "source": source})


def chosen(card: DrafterCard, options: Mapping[str, Any]) -> PublishedAcceptance | None:
    """The acceptance of the set that ``--draft-set`` names, or the card's first."""
    asked = options["draft_set"]
    if asked is None:
        return card.acceptance[0] if card.acceptance else None
    for published in card.acceptance:
        if published.data.lower() == asked.lower():
            return published
    sets = ", ".join(published.data for published in card.acceptance) or "none"
    raise InputError(f"--draft-set {asked}: {card.name} has no such set; it has {sets}")
