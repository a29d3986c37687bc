"""A smaller transformer as draft."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssdsim.hardware.catalog import find_transformer
from ssdsim.option import Option
from ssdsim.pricing.drafter import Draft, Proposed
from ssdsim.pricing.memory import Demand, draft_demand
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece
from ssdsim.speculation.accepted import Accepted, accepted_by_options
from ssdsim.transformer.card import Transformer

DRAFT = "llama-3.2-1b"
"""The card where nobody names one."""


class ModelDrafter:
    """The card that ``--draft`` names, one pass a token; pre-speculation is batched (SSD paper, appendix B)."""

    name = "model"
    title = "draft model"
    source = "Leviathan et al., 2023; pre-speculation: SSD paper, appendix B"
    options: tuple[Option, ...] = ()
    needs_device = True
    needs_target = False
    self_conditions = False

    def draft(self, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
        return Draft(find_transformer(named or DRAFT))

    def speculate(self, site: Site, tokens: int, beside: bool) -> tuple[Piece, ...]:
        step = site.draft_beside_target("draft step") if beside else site.draft_pass("draft step")
        return (site.piece(step, tokens),)

    def prespeculate(self, site: Site, tokens: int, branches: int) -> tuple[Piece, ...]:
        """A glue pass over K+1 tokens a sequence, then K steps over the branches, which see the verified ones too."""
        glue = site.draft_pass("glue", tokens + 1)
        branch = site.draft_pass("branch step", branches, extra_context=tokens + 1, masked=True)
        return site.piece(glue), site.piece(branch, tokens)

    def accepted(self, options: Mapping[str, Any], tokens: int, unseen: int = 0) -> Accepted:
        return accepted_by_options(options, tokens)

    def proposes(self, options: Mapping[str, Any], tokens: int) -> Proposed:
        return Proposed(1.0, tokens)

    def demand(self, site: Site, tokens: int, branches: int, beside: bool = False) -> Demand:
        logits = site.sampling and branches > 0
        return draft_demand(site.draft, 1, site.context, tokens, branches, site.precision_of("draft"), logits)
