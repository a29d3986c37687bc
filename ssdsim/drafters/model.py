"""A smaller transformer as draft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.vocabularies import draft_in_family
from ssdsim.pricing.drafter import Draft, Drafter, passes_over
from ssdsim.pricing.memory import Demand
from ssdsim.pricing.occupancy import draft_on
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece
from ssdsim.transformer.card import Transformer

DRAFT = "llama-3.2-1b"
"""The card where nobody names one, and the target's family has none that is smaller."""


class ModelDrafter(Drafter):
    """The card that ``--draft`` names, else the smallest of the target's family, one pass a token.

    Pre-speculation is batched (SSD paper, appendix B).
    """

    name = "model"
    title = "draft model"
    source = "Leviathan et al., 2023; pre-speculation: SSD paper, appendix B"

    def draft(self, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
        if named is not None:
            return Draft(find_transformer(named))
        return Draft(draft_in_family(target) or find_transformer(DRAFT))

    def speculate(self, site: Site, tokens: int, beside: bool) -> tuple[Piece, ...]:
        if not beside:
            return (site.piece(site.draft_pass("draft step"), tokens),)
        step = site.draft_beside_target("draft step")
        return (site.piece(step, tokens), *site.launches(step, tokens))

    def prespeculate(self, site: Site, tokens: int, branches: int) -> tuple[Piece, ...]:
        """A glue pass over K+1 tokens a sequence, then K steps over the branches, which see the verified ones too."""
        return self.preexpand(site, (1,) * tokens, tokens, branches)

    def expand(self, site: Site, rows: Sequence[int], beside: bool) -> tuple[Piece, ...]:
        """Over one row the pass of a chain; over more they are branches that share what is cached."""
        passes = site.draft_beside_target if beside else site.draft_pass
        return tuple(
            site.piece(passes("draft step", queries=each, masked=each > 1), times) for each, times in passes_over(rows)
        )

    def preexpand(self, site: Site, rows: Sequence[int], nodes: int, branches: int) -> tuple[Piece, ...]:
        """As :meth:`prespeculate`, but that the glue pass is over a tree, and that each branch has ``rows``."""
        glue = site.draft_pass("glue", nodes + 1, masked=any(each > 1 for each in rows))
        steps = (
            (site.draft_pass("branch step", branches * each, extra_context=nodes + 1, masked=True), times)
            for each, times in passes_over(rows)
        )
        return site.piece(glue), *(site.piece(step, times) for step, times in steps)

    def demand(self, site: Site, tokens: int, branches: int, beside: bool = False) -> Demand:
        # of the devices that share the target, one has the whole draft
        tp = site.tp if beside and site.data_parallel else 1
        return draft_on(site, tp, tokens, branches, beside)
