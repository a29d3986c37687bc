"""Drafters that read their target's cache: GliDe and LongSpec."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ssdsim.base.errors import CannotRun
from ssdsim.base.kinds import Whole
from ssdsim.base.option import Option
from ssdsim.base.record import replace
from ssdsim.pricing.drafter import Draft
from ssdsim.pricing.occupancy import Demand, draft_on
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass, Piece
from ssdsim.strategies.protocols.drafts import HeadDrafter, of_target
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.heads import cache_reader

WINDOW = 512


class _CacheReader(HeadDrafter):
    """One layer that attends to its own tokens, then to the keys and values that the target's last layer keeps.

    Beside the target it runs on all of its devices, each of which has its heads' part of these. On a device of its own
    it has a copy of that layer's cache, and every outcome brings the keys and values of the verified tokens along.
    """

    needs_verified = True

    def passes(self, site: Site) -> Callable[..., Pass]:
        return partial(_on_all, site)

    def preexpand(self, site: Site, rows: Sequence[int], nodes: int, branches: int) -> tuple[Piece, ...]:
        raise CannotRun(
            f"{self.title} drafts from keys and values of verified tokens, of which outcomes yet to come have none"
        )

    def demand(self, site: Site, tokens: int, branches: int, beside: bool = False) -> Demand:
        if beside and site.dcp > 1:
            raise CannotRun(f"{self.title} reads keys and values of all tokens, each device has a part: give --dcp 1")
        own = draft_on(site, site.tp if beside else 1, tokens, branches, beside)
        if beside:
            return own
        copied = site.feature_bytes(site.context + tokens + 1) // site.in_a_pass
        return Demand(own.weights_bytes + of_target(site), own.sequence_bytes + copied)

    def cannot_run(self, options: Mapping[str, Any]) -> str | None:
        return f"ranks have no layer that attends to another model's cache ({self.title})"


class Glide(_CacheReader):
    """A whole cache of its own tokens beside the target's, and an LM head of its own.

    CaPE verifies siblings of unsure tokens, which nothing goes on from: ``--tree-widths``, ``--tree-expanded 1``.
    """

    name = "glide"
    title = "GliDe"
    source = "Du et al., ICML 2024, arXiv 2402.02082; its glideModel.py"

    def recipe(self, target: Transformer) -> Transformer:
        return cache_reader(target, self.name, None, own_lm_head=True)


class LongSpec(_CacheReader):
    """A window of its own tokens, so that its memory does not grow with the context; the target's LM head."""

    name = "longspec"
    title = "LongSpec"
    source = "Yang et al., 2025, arXiv 2502.17421; sail-sg/LongSpec"
    options = (
        Option(
            name="longspec_window",
            kind=Whole(),
            default=WINDOW,
            about="tokens that LongSpec's own attention sees (its code: 512)",
            axis="LongSpec's window (tokens)",
            doubling=True,
        ),
    )

    def draft(self, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
        draft = super().draft(target, named, options)
        return replace(draft, card=_windowed(draft.card, options))

    def recipe(self, target: Transformer) -> Transformer:
        return cache_reader(target, self.name, WINDOW, own_lm_head=False)


def _windowed(card: Transformer, options: Mapping[str, Any]) -> Transformer:
    tokens = options.get("longspec_window", WINDOW)
    if card.window is None or card.window.tokens == tokens:
        return card
    return card.changed(window=card.window.changed(tokens=tokens))


def _on_all(site: Site, name: str, queries: int = 1, **of: Any) -> Pass:
    """A pass beside the target, on all of its devices."""
    return site.draft_on_target(name, site.tp, queries, **of)
