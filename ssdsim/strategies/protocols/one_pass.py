"""Shared by drafters that propose all K tokens in one pass, in which no position sees what others propose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece
from ssdsim.tokens.accepted import Accepted, accepted_by_options


class OnePass(Drafter):
    """One pass over the verified tokens and a masked one for each proposal but the first."""

    self_conditions = False

    def rows(self, tokens: int) -> int:
        """Rows of each sequence in the pass: K + 1 verified tokens, of which the last proposes, and K - 1 masks."""
        return 2 * tokens

    def speculate(self, site: Site, tokens: int, beside: bool) -> tuple[Piece, ...]:
        make = site.draft_beside_target if beside else site.draft_pass
        return (site.piece(make("draft pass", self.rows(tokens), fused=tokens + 1, logits=tokens)),)

    def prespeculate(self, site: Site, tokens: int, branches: int) -> tuple[Piece, ...]:
        """The tokens being verified, then one pass over all branches, each with its masks."""
        glue = site.draft_pass("glue", 2 * tokens + 1, fused=tokens + 1, logits=1)
        branch = site.draft_pass(
            "branch pass", branches * tokens, extra_context=tokens + 1, masked=True, drafts=branches
        )
        return site.piece(glue), site.piece(branch)

    def accepted(self, options: Mapping[str, Any], tokens: int, unseen: int = 0) -> Accepted:
        """The rates by position; beyond the last known it is taken to stay."""
        return accepted_by_options(options, tokens, last_continues=True)
