"""Drafters that propose all K tokens in one pass over masked tokens: PARD and P-EAGLE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssdsim.hardware.catalog import draft_for
from ssdsim.pricing.drafter import Draft
from ssdsim.pricing.occupancy import Demand, draft_on
from ssdsim.pricing.site import Site
from ssdsim.strategies.protocols.drafts import HeadDrafter, OnePass, published, published_drafter, shaped
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.heads import PEAGLE_LAYERS, eagle3_head


class Pard(OnePass):
    """A small model adapted to mask tokens; one drafts for all targets of its family."""

    name = "pard"
    title = "PARD"
    source = "An et al., 2025, arXiv 2504.18583"

    def draft(self, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
        card = published_drafter(self.name, target, named)
        if card is not None:  # one drafts for all of its family, so that a sibling's is this target's too
            return published(shaped(draft_for(target, None), card), target, card, options)
        return Draft(draft_for(target, named))

    def demand(self, site: Site, tokens: int, branches: int, beside: bool = False) -> Demand:
        tp = site.draft_beside_target("draft pass").tp if beside else 1
        return draft_on(site, tp, tokens, branches, beside)


class PEagle(OnePass, HeadDrafter):
    """EAGLE-3's layers, four of them, trained on masked positions."""

    name = "p-eagle"
    title = "P-EAGLE"
    source = "Hui et al., 2026, arXiv 2602.01469; SpecForge qwen3-8b-peagle.json"

    def recipe(self, target: Transformer) -> Transformer:
        return eagle3_head(target, PEAGLE_LAYERS)
