"""Medusa: heads on the target's last hidden state, each of which guesses a token further ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ssdsim.pricing.drafter import Draft, Drafter
from ssdsim.pricing.occupancy import Demand
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass, Piece
from ssdsim.strategies.protocols.drafts import without_a_model
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.heads import medusa_heads, medusa_parameters
from ssdsim.transformer.operations import WEIGHT_BYTES


class Medusa(Drafter):
    """One small pass for all K tokens. Heads do not see each other's guesses, so later ones guess worse.

    Its own tree of 63 nodes takes the heads' further guesses, whose accuracies are in the drafter cards.
    """

    name = "medusa"
    title = "Medusa"
    source = "Cai et al., 2024, arXiv 2401.10774"
    needs_target = True

    def draft(self, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
        return without_a_model(self.name, target, named, options)

    def speculate(self, site: Site, tokens: int, beside: bool) -> tuple[Piece, ...]:
        precision = site.precision_of("draft")
        forward = medusa_heads(site.target, tokens, site.own_sequences, site.sharing, precision)
        return (site.piece(Pass("heads", "draft", forward, site.tp, site.profile, site.runtime)),)

    def expand(self, site: Site, rows: Sequence[int], beside: bool) -> tuple[Piece, ...]:
        """One head a level, all in one pass: a level's guesses do not depend on the tokens before."""
        return self.speculate(site, len(rows), beside)

    def preexpand(self, site: Site, rows: Sequence[int], nodes: int, branches: int) -> tuple[Piece, ...]:
        raise NotImplementedError("heads of the target draft beside it only")

    def demand(self, site: Site, tokens: int, branches: int, beside: bool = False) -> Demand:
        weights = medusa_parameters(site.target, tokens) * WEIGHT_BYTES[site.precision_of("draft").activations]
        return Demand(int(-(-weights // site.sharing)), 0)
