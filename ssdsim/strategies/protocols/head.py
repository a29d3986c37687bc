"""Shared by drafters that are heads of their target: they read its hidden states, and are shaped as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_transformer
from ssdsim.pricing.drafter import Draft, Drafter, passes_over
from ssdsim.pricing.occupancy import Demand, draft_on
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass, Piece
from ssdsim.strategies.protocols.published import as_published, published_drafter
from ssdsim.tokens.accepted import Accepted, accepted_by_options
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.operations import WEIGHT_BYTES


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
        """A checkpoint's own shape; a config that does not say that it is a head is one of this kind."""
        copy, recipe = find_transformer(named), self.recipe(target)
        if copy.head is None and copy.layers != recipe.layers:
            raise InputError(f"--draft {named} is a model of {copy.layers} layers, no head (--drafter {self.name})")
        if copy.head is None:
            copy = copy.model_copy(update={"head": recipe.head})
        assert copy.head is not None
        assert recipe.head is not None  # all recipes are heads'
        if copy.head.reads != recipe.head.reads:
            raise InputError(f"--draft {named} is no head of the kind --drafter {self.name}")
        if copy.head.feature_size != recipe.head.feature_size:
            sizes = f"{copy.head.feature_size} values wide, those of {target.name} are {target.hidden_size}"
            raise InputError(f"--draft {named} reads hidden states {sizes}")
        return copy.model_copy(update={"max_context": target.max_context})  # engines run it as far as its target

    def passes(self, site: Site) -> Callable[..., Pass]:
        """The maker of its passes beside the target."""
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
    """Bytes of the target that a head has with it on devices of its own: embedding, and an LM head it lacks."""
    precision, head = site.precision_of("target"), site.draft.head
    matrix = site.target.vocab_size * site.target.hidden_size
    embedding = matrix * WEIGHT_BYTES[precision.activations]
    lm_head = 0 if head is None or head.own_lm_head else matrix * WEIGHT_BYTES[precision.lm_head]
    return int(embedding + lm_head)
