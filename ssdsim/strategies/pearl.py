"""PEARL: both models work in every step and meet at its end, so a draft is verified while the next one is made."""

from __future__ import annotations

from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter, speculate
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece
from ssdsim.rounds.kernel import Kernel, Tokens, tokens_of
from ssdsim.strategies.protocols.alternate import PrePost
from ssdsim.strategies.protocols.axes import LookaheadAxis
from ssdsim.strategies.protocols.strategy import own_lookahead


class PEARL(PrePost):
    """``R = (1 - a^g) / [(1 - a) (1 + a - a^g) max(g d, 1)]`` tokens per T_v, for g tokens a draft and d = T_d / T_v.

    In the state ``pre`` the target checks the draft's first new token while g are drafted, in ``post`` also the g - 1
    that are pending from the step before. A rejection yields its correction and leads to ``pre``. The first new token
    is tested by rejection sampling in place of a bonus token. The draft sends while the target verifies. In a batch a
    step is a ``post`` step where it is one for some sequence.
    """

    name = "pearl"
    title = "PEARL"
    source = "Liu et al., ICLR 2025, arXiv 2408.11850"
    rival = "sd"
    drafted = "gamma"
    in_columns = True
    searched = (LookaheadAxis(option="gamma", about="PEARL's tokens a draft that may be chosen [default: 1:16]"),)
    options = (
        own_lookahead(name="gamma", about="PEARL's tokens a draft", axis="PEARL's tokens a draft γ", symbol="γ"),
    )

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        return tokens_of(drafter.accepted(settings, settings["gamma"]), Kernel.of_windows)

    def drafting(self, site: Site, drafter: Drafter) -> tuple[Piece, ...]:
        return speculate(site, drafter, self.lookahead(site.options), beside=False)
