"""Multi-token prediction: layers of the target's own kind, trained with it, used as a drafter."""

from __future__ import annotations

from collections.abc import Sequence

from ssdsim.base.errors import CannotRun
from ssdsim.base.kinds import Whole
from ssdsim.base.option import choice
from ssdsim.base.record import replace
from ssdsim.pricing.drafter import passes_over
from ssdsim.pricing.occupancy import Demand
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece
from ssdsim.strategies.protocols.drafts import HeadDrafter, of_target
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.heads import mtp_head


class MTP(HeadDrafter):
    """The layer that was trained to predict one more token, run once for each drafted token.

    With several modules the i-th drafts the i-th token, and the last one those after it. Each has a cache of its own,
    in which the tokens that the last round rejected are stale: it runs R - 1 of them again after R rejections, padded
    here to the most (vLLM PR 48892). Each pass reads the weights of one module, so that these cost memory, not time.
    """

    name = "mtp"
    title = "MTP"
    source = "DeepSeek-V3 report, arXiv 2412.19437; Gloeckle et al., arXiv 2404.19737; several modules: vLLM PR 48892"
    options = (
        choice(
            name="mtp_modules",
            kind=Whole(most=64),
            default=1,
            about="MTP modules, each drafts one token and the last one all further ones (Inkling has up to 8)",
            axis="MTP modules",
        ),
    )

    def recipe(self, target: Transformer) -> Transformer:
        return mtp_head(target)

    def expand(self, site: Site, rows: Sequence[int], beside: bool) -> tuple[Piece, ...]:
        whole = super().expand(site, rows, beside)
        others = min(_modules(site), len(rows)) - 1
        if not others:
            return whole
        if any(each > 1 for each in rows):
            raise CannotRun("--mtp-modules draft a chain: what several would do for a tree is not described")
        make = self.passes(site) if beside else site.draft_pass
        catching_up = site.piece(make("draft step", len(rows), logits=1), others)
        last = (site.piece(make("draft step"), times) for _, times in passes_over(rows[1 + others :]))
        return whole[0], catching_up, *last

    def preexpand(self, site: Site, rows: Sequence[int], nodes: int, branches: int) -> tuple[Piece, ...]:
        if _modules(site) > 1:
            raise CannotRun("--mtp-modules: what several cache for outcomes yet to come is not described")
        return super().preexpand(site, rows, nodes, branches)

    def demand(self, site: Site, tokens: int, branches: int, beside: bool = False) -> Demand:
        one, modules = super().demand(site, tokens, branches, beside), _modules(site)
        shared = 0 if beside else of_target(site)
        weights_bytes = shared + modules * (one.weights_bytes - shared)
        return replace(one, weights_bytes=weights_bytes, sequence_bytes=modules * one.sequence_bytes)


def _modules(site: Site) -> int:
    return int(site.options.get("mtp_modules", 1))
