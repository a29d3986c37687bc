"""A smaller transformer as draft."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ssdsim.base.record import replace
from ssdsim.hardware.vocabularies import draft_for
from ssdsim.pricing.drafter import Draft, Drafter, passes_over
from ssdsim.pricing.occupancy import Demand, DoesNotFit, draft_on
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass, Piece
from ssdsim.strategies.protocols.staged import NGRAMS, OPTIONS, PassOver, Stage, stage_site, staged, stages_of
from ssdsim.transformer.card import Transformer


class ModelDrafter(Drafter):
    """The card that ``--draft`` names, else the smallest of the target's family, one pass a token.

    Pre-speculation is batched (SSD paper, appendix B).
    """

    name = "model"
    title = "draft model"
    source = (
        "Leviathan et al., 2023; pre-speculation: SSD paper, appendix B; staged: Spector & Re, 2023, arXiv 2308.04623"
    )
    options = OPTIONS

    def draft(self, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
        card = draft_for(target, named)
        stages_of(options, card)  # refused here, before anything is priced
        return Draft(card)

    def speculate(self, site: Site, tokens: int, beside: bool) -> tuple[Piece, ...]:
        """Draft by a pass a token, or with stages one a round of theirs."""
        stages = stages_of(site.options, site.draft)

        def steps(of: Site) -> PassOver:
            make = of.draft_beside_target if beside else of.draft_pass
            return lambda queries: make("draft step", queries)

        pieces = staged(site, [steps(each) for each in _models(site, stages)], stages, tokens, site.batch)
        if not beside:
            return pieces
        own = pieces[-1]
        assert isinstance(own.work, Pass)
        return (*pieces, *site.launches(own.work, math.ceil(own.times)))

    def prespeculate(self, site: Site, tokens: int, branches: int) -> tuple[Piece, ...]:
        """A glue pass over K+1 tokens a sequence, then K steps over the branches, which see the verified ones too.

        With stages all branches of a batch wait for the one whose tokens take the most rounds.
        """
        stages = stages_of(site.options, site.draft)

        def steps(of: Site) -> PassOver:
            return lambda queries: of.draft_pass(
                "branch step", branches * queries, extra_context=tokens + 1, masked=True
            )

        models = _models(site, stages)
        glues = [each.piece(each.draft_pass("glue", tokens + 1)) for each in models]
        chains = site.batch * branches
        return *glues[::-1], *staged(site, [steps(each) for each in models], stages, tokens, chains)

    def expand(self, site: Site, rows: Sequence[int], beside: bool) -> tuple[Piece, ...]:
        """Passes over a tree: over one row that of a chain; over more they are branches that share what is cached."""
        _check_no_tree(site)
        passes = site.draft_beside_target if beside else site.draft_pass
        return tuple(
            site.piece(passes("draft step", queries=each, masked=each > 1), times) for each, times in passes_over(rows)
        )

    def preexpand(self, site: Site, rows: Sequence[int], nodes: int, branches: int) -> tuple[Piece, ...]:
        """Passes as of :meth:`prespeculate`, with a glue pass over a tree and ``rows`` of each branch."""
        _check_no_tree(site)
        glue = site.draft_pass("glue", nodes + 1, masked=any(each > 1 for each in rows))
        steps = (
            (site.draft_pass("branch step", branches * each, extra_context=nodes + 1, masked=True), times)
            for each, times in passes_over(rows)
        )
        return site.piece(glue), *(site.piece(step, times) for step, times in steps)

    def demand(self, site: Site, tokens: int, branches: int, beside: bool = False) -> Demand:
        # of the devices that share the target, one has the whole draft
        tp = site.tp if beside and site.data_parallel else 1
        models = _models(site, stages_of(site.options, site.draft))
        own, *below = (draft_on(each, tp, tokens, branches, beside) for each in models)
        if not below:
            return own
        weights_bytes = own.weights_bytes + sum(each.weights_bytes for each in below)
        sequence_bytes = own.sequence_bytes + sum(each.sequence_bytes for each in below)
        return replace(own, weights_bytes=weights_bytes, sequence_bytes=sequence_bytes)

    def cannot_run(self, options: Mapping[str, Any]) -> str | None:
        by = options.get("staged_by")
        return None if by in (None, NGRAMS) else f"ranks hold a target and a draft, no models of stages: {by}"


def _models(site: Site, stages: Sequence[Stage]) -> list[Site]:
    """The site with the draft, then with each of the models below it in its place."""
    return [site, *(made for stage in stages if (made := stage_site(site, stage)) is not None)]


def _check_no_tree(site: Site) -> None:
    """Raise :class:`DoesNotFit` at stages that would draft for a tree."""
    if site.options.get("staged_by") is not None:
        raise DoesNotFit("--staged-by drafts for a chain: what it would do for a tree is not described")
