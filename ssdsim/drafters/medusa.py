"""Medusa: heads on the target's last hidden state, each of which guesses a token further ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ssdsim.option import Option
from ssdsim.pricing.drafter import Draft, Proposed
from ssdsim.pricing.memory import Demand
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass, Piece
from ssdsim.protocols.published import without_a_model
from ssdsim.speculation.accepted import Accepted, accepted_by_options
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.heads import medusa_heads, medusa_parameters
from ssdsim.transformer.operations import WEIGHT_BYTES


class Medusa:
    """One small pass for all K tokens; a head does not see what the others guessed, so later ones guess worse.

    Its own tree of 63 nodes takes the heads' further guesses, whose accuracies are in the drafter cards.
    """

    name = "medusa"
    title = "Medusa"
    source = "Cai et al., 2024, arXiv 2401.10774"
    options: tuple[Option, ...] = ()
    needs_device = True
    needs_target = True
    self_conditions = False

    def draft(self, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
        return without_a_model(self.name, target, named, options)

    def speculate(self, site: Site, tokens: int, beside: bool) -> tuple[Piece, ...]:
        precision = site.precision_of("draft")
        forward = medusa_heads(site.target, tokens, site.own_sequences, site.sharing, precision)
        return (site.piece(Pass("heads", "draft", forward, site.tp, site.profile, site.runtime)),)

    def prespeculate(self, site: Site, tokens: int, branches: int) -> tuple[Piece, ...]:
        raise NotImplementedError("heads of the target draft beside it only")

    def expand(self, site: Site, rows: Sequence[int], beside: bool) -> tuple[Piece, ...]:
        """A head a level, all in one pass: a level's guesses are the same whatever comes before."""
        return self.speculate(site, len(rows), beside)

    def preexpand(self, site: Site, rows: Sequence[int], nodes: int, branches: int) -> tuple[Piece, ...]:
        raise NotImplementedError("heads of the target draft beside it only")

    def accepted(self, options: Mapping[str, Any], tokens: int, unseen: int = 0) -> Accepted:
        return accepted_by_options(options, tokens)

    def proposes(self, options: Mapping[str, Any], tokens: int) -> Proposed:
        return Proposed(1.0, tokens)

    def demand(self, site: Site, tokens: int, branches: int, beside: bool = False) -> Demand:
        weights = medusa_parameters(site.target, tokens) * WEIGHT_BYTES[site.precision_of("draft").activations]
        return Demand(int(-(-weights // site.sharing)), 0)
