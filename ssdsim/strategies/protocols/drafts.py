"""Shared by drafters: published cards, heads in the shape of their target, drafts in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_transformer, plain_name, siblings
from ssdsim.pricing.drafter import Draft, Drafter, passes_over
from ssdsim.pricing.occupancy import Demand, draft_on
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass, Piece
from ssdsim.tokens.accepted import Accepted, accepted_by_options
from ssdsim.tokens.drafter_card import (
    DRAFTERS,
    DrafterCard,
    PublishedAcceptance,
    drafters_for,
    find_drafter,
    middle_set,
)
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.operations import WEIGHT_BYTES


def without_a_model(kind: str, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
    """The draft of a drafter without a model: the target's shape, named as the published card."""
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
    of = card.target if of_sibling(card, target) else ""
    return Draft(shape, chosen(card, options), card.ranks, of, card.acceptance)


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
    """The recipe with the fields that the card overrides."""
    return _shaped(recipe, card.name, card.checkpoint, card.checkpoint or card.source, tuple(card.shape.items()))


@lru_cache(maxsize=256)
def _shaped(
    recipe: Transformer, name: str, checkpoint: str, source: str, shape: tuple[tuple[str, int], ...]
) -> Transformer:
    return recipe.changed(**dict(shape), name=name, checkpoint=checkpoint, source=source)


def chosen(card: DrafterCard, options: Mapping[str, Any]) -> PublishedAcceptance | None:
    """The acceptance of the set that ``--draft-set`` names, or of the one in the middle of those on ``--text``."""
    asked = options["draft_set"]
    if asked is None:
        return middle_set(card.acceptance, options["text"], options["temperature"]) if card.acceptance else None
    for published in card.acceptance:
        if published.data.lower() == asked.lower():
            return published
    sets = ", ".join(published.data for published in card.acceptance) or "none"
    raise InputError(f"--draft-set {asked}: {card.name} has no such set; it has {sets}")


class HeadDrafter(Drafter):
    """A head that drafts a token a pass. A drafter derives from it and says its recipe.

    The first pass of a draft catches up with the tokens that were verified (K + 1 of them, as engines pad it), with
    the target's hidden states; each later one reads what the head itself made of the token before (self-conditioning).
    """

    self_conditions = True

    def recipe(self, target: Transformer) -> Transformer:
        """A head of this kind in the shape of ``target``."""
        raise NotImplementedError

    def draft(self, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
        card, recipe = published_drafter(self.name, target, named), self.recipe(target)
        if card is not None:
            return as_published(recipe, target, card, options)
        return Draft(recipe if named in (None, recipe.name) else self._read(target, str(named)))

    def _read(self, target: Transformer, named: str) -> Transformer:
        """Shape of a checkpoint; a config that does not say that it is a head counts as one of this kind."""
        copy, recipe = find_transformer(named), self.recipe(target)
        assert recipe.head is not None  # all recipes are heads'
        if copy.head is None and copy.layers != recipe.layers:
            raise InputError(f"--draft {named} is a model of {copy.layers} layers, no head (--drafter {self.name})")
        if copy.head is None:
            copy = copy.changed(head=recipe.head.changed(vocabulary=copy.vocab_size))
        assert copy.head is not None
        if copy.head.reads != recipe.head.reads:
            raise InputError(f"--draft {named} is no head of the kind --drafter {self.name}")
        if copy.head.feature_size != recipe.head.feature_size:
            sizes = f"{copy.head.feature_size} values wide, those of {target.name} are {target.hidden_size}"
            raise InputError(f"--draft {named} reads hidden states {sizes}")
        return copy.changed(max_context=target.max_context)  # engines run it as far as its target

    def passes(self, site: Site) -> Callable[..., Pass]:
        """Factory of its passes beside the target."""
        return site.draft_beside_target

    def speculate(self, site: Site, tokens: int, beside: bool) -> tuple[Piece, ...]:
        return self.expand(site, (1,) * tokens, beside)

    def prespeculate(self, site: Site, tokens: int, branches: int) -> tuple[Piece, ...]:
        """The glue pass repairs the verified tokens with the target's states, and runs those being verified.

        As the SSD paper's engine (``6ed3022``) does: K + 1 ... 2K + 1 tokens a sequence, taken as the most.
        """
        return self.preexpand(site, (1,) * tokens, tokens, branches)

    def expand(self, site: Site, rows: Sequence[int], beside: bool) -> tuple[Piece, ...]:
        """Each pass after the first is over the nodes of a level, under a mask where these are several.

        What the first one catches up with is a path of the tree that was verified: a token a level, and one more.
        """
        make = self.passes(site) if beside else site.draft_pass
        path = len(rows) + 1
        levels = (
            site.piece(make("draft step", queries=each, masked=each > 1), times)
            for each, times in passes_over(rows[1:])
        )
        return site.piece(make("catch up", path, fused=path, logits=1)), *levels

    def preexpand(self, site: Site, rows: Sequence[int], nodes: int, branches: int) -> tuple[Piece, ...]:
        """Passes as of :meth:`prespeculate`: the glue pass repairs a verified path and runs the tree being verified."""
        path = len(rows) + 1
        glue = site.draft_pass("glue", path + nodes, fused=path, masked=any(each > 1 for each in rows))
        levels = (
            site.piece(site.draft_pass("branch step", branches * each, extra_context=nodes + 1, masked=True), times)
            for each, times in passes_over(rows)
        )
        return site.piece(glue), *levels

    def accepted(self, options: Mapping[str, Any], tokens: int, unseen: int = 0) -> Accepted:
        """Acceptance by how many states of its own each token was drafted from: the n-alpha of EAGLE, ``a(n)``.

        Beyond the last that is known the rate is taken to stay (no source says how it goes on).
        """
        return accepted_by_options(options, tokens, first=unseen, last_continues=True)

    def demand(self, site: Site, tokens: int, branches: int, beside: bool = False) -> Demand:
        tp = site.draft_beside_target("draft step").tp if beside else 1
        own = draft_on(site, tp, tokens, branches, beside)
        return own if beside else Demand(own.weights_bytes + of_target(site), own.sequence_bytes)


def of_target(site: Site) -> int:
    """Bytes of the target's that a head has on devices of its own: embedding, and the LM head if it lacks one."""
    precision, head = site.precision_of("target"), site.draft.head
    matrix = site.target.vocab_size * site.target.hidden_size
    embedding = matrix * WEIGHT_BYTES[precision.activations]
    lm_head = 0 if head is None or head.own_lm_head else matrix * WEIGHT_BYTES[precision.lm_head]
    return int(embedding + lm_head)


class OnePass(Drafter):
    """One pass over the verified tokens and a masked one for each proposal but the first."""

    self_conditions = False

    def rows(self, tokens: int) -> int:
        """Rows of each sequence in the pass: K + 1 verified tokens, of which the last proposes, and K - 1 masks."""
        return 2 * tokens

    def speculate(self, site: Site, tokens: int, beside: bool) -> tuple[Piece, ...]:
        make = site.draft_beside_target if beside else site.draft_pass
        return (site.piece(make("draft pass", self.rows(tokens), fused=tokens + 1, logits=tokens)),)

    def prespeculate(self, site: Site, tokens: int, branches: int) -> tuple[Piece, ...]:
        """The tokens being verified, then one pass over all branches, each with its masks."""
        glue = site.draft_pass("glue", 2 * tokens + 1, fused=tokens + 1, logits=1)
        branch = site.draft_pass(
            "branch pass", branches * tokens, extra_context=tokens + 1, masked=True, drafts=branches
        )
        return site.piece(glue), site.piece(branch)

    def accepted(self, options: Mapping[str, Any], tokens: int, unseen: int = 0) -> Accepted:
        """The rates by position; beyond the last known it is taken to stay."""
        return accepted_by_options(options, tokens, last_continues=True)
