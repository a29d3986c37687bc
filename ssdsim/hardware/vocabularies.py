"""Vocabularies that models have in common: a draft's tokens are its target's only with one."""

from __future__ import annotations

from functools import lru_cache

from ssdsim.base.documents import read_text
from ssdsim.hardware.catalog import TRANSFORMERS
from ssdsim.transformer.card import Transformer

MOST_ACTIVE = 2 / 3
"""Of the target's weights that a token uses, how many a draft's may: with more it could hardly pay (a dense 27B beside
a mixture of which a token uses 17B)."""


def one_vocabulary(draft: Transformer, target: Transformer) -> bool:
    """Tell whether engines accept the pair: of one family, or of as many tokens where a family is not known.

    A head has its target's vocabulary, or a part of it; a graph without one (``transformer-shaped``) fits any.
    """
    if draft.head is not None or 0 in (draft.vocab_size, target.vocab_size):
        return True
    if draft.family and target.family:
        return draft.family == target.family
    return draft.vocab_size == target.vocab_size


@lru_cache(maxsize=256)
def draft_in_family(target: Transformer) -> Transformer | None:
    """The smallest bundled model of the target's vocabulary, where a token of it reads much less than the target's."""
    cards = (TRANSFORMERS.find(name) for name in TRANSFORMERS.names() if may_share(name, target))
    most = MOST_ACTIVE * target.active_parameters
    smaller = [card for card in cards if card.parameters < target.parameters and card.active_parameters < most]
    smaller = [card for card in smaller if one_vocabulary(card, target)]
    return min(smaller, key=lambda card: card.parameters, default=None)


def may_share(name: str, target: Transformer) -> bool:
    """Tell whether a bundled card names the target's family or number of tokens: where not, it need not be parsed."""
    file = TRANSFORMERS.file(name)
    text = "" if file is None else read_text(file, "card").replace("_", "")
    said = (target.family.replace("_", ""), str(target.vocab_size))
    return file is None or target.vocab_size == 0 or any(each in text for each in said if each)


def siblings(name: str, other: Transformer) -> bool:
    """Tell whether the bundled card of that name is another model of the other's family."""
    card = TRANSFORMERS.bundled(name)
    return card is not None and card.name != other.name and bool(card.family) and card.family == other.family


def other_vocabulary(draft: Transformer, target: Transformer) -> str:
    """The complaint of a pair that does not speak one vocabulary."""
    sizes = f"{draft.name} has {draft.vocab_size} tokens, {target.name} {target.vocab_size}"
    return f"{sizes}: speculation needs one vocabulary, and engines refuse such pairs"
