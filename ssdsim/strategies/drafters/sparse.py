"""Self-speculation with a sparse cache (MagicDec): the target drafts for itself, over a part of the context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssdsim.base.errors import InputError
from ssdsim.base.kinds import Whole
from ssdsim.base.option import Option
from ssdsim.pricing.drafter import Draft, Drafter
from ssdsim.pricing.occupancy import Demand
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece
from ssdsim.strategies.protocols.drafts import published, published_drafter
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.layers import SlidingWindow


class SparseSelf(Drafter):
    """Drafting with a sparse cache: at long contexts a pass is the cache it reads, which a budget of tokens keeps
    short.
    """

    name = "self"
    title = "sparse self-draft"
    source = "Sadhukhan et al., MagicDec, 2024, arXiv 2408.11049"
    options = (
        Option(
            name="draft_budget",
            kind=Whole(),
            default=512,
            about="tokens of the context that the target keeps in the cache that it drafts with",
            axis="budget of the sparse cache (tokens)",
            doubling=True,
        ),
    )
    needs_target = True
    on_one_stage = False

    def draft(self, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
        said = ("a latent cache", "a cache of entries", "a cache of which it chooses blocks")
        kinds = zip(said, (target.latent, target.compressed, target.block_sparse), strict=True)
        if what := next((called for called, there in kinds if there is not None), None):
            raise InputError(f"--drafter self: {target.name} has {what}, of which no sparse one is described")
        if target.recurrent is not None:
            raise InputError(
                f"--drafter self: {target.name} has recurrent states, which its own drafts would overwrite"
            )
        budget, name = options["draft_budget"], f"sparse-{target.name}"
        card = published_drafter(self.name, target, None if named == name else named)
        if named is not None and card is None and named != name:
            raise InputError(f"--draft {named} is no card of the kind --drafter self")
        tokens = budget if target.window is None else min(budget, target.window.tokens)
        made = target.changed(name=name, window=SlidingWindow(tokens=tokens, layers=target.layers, gathered=True))
        return Draft(made) if card is None else published(made, target, card, options)

    def speculate(self, site: Site, tokens: int, beside: bool) -> tuple[Piece, ...]:
        """Draft on all of the target's devices, where its weights are."""
        return (site.piece(site.draft_on_target("draft step", site.tp), tokens),)

    def demand(self, site: Site, tokens: int, branches: int, beside: bool = False) -> Demand:
        """The sparse cache; the weights are the target's."""
        kept = site.precision_of("draft").kv
        each = site.draft.cache_bytes(site.context, tokens + 1, site.sharing, kept)
        return Demand(0, each, site.tp // site.sharing)
