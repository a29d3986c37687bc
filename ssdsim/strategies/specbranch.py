"""SpecBranch: PEARL whose draft goes on from several candidates of the token that it cannot be sure of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.kinds import SHARE, Whole
from ssdsim.base.option import Option, searched_choice
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter, prespeculate
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece
from ssdsim.rounds.kernel import Kernel, Tokens, tokens_of
from ssdsim.strategies.protocols.alternate import PrePost
from ssdsim.strategies.protocols.axes import LookaheadAxis, NumberAxis
from ssdsim.strategies.protocols.hits import R, hit_rate
from ssdsim.strategies.protocols.strategy import own_lookahead


class SpecBranch(PrePost):
    """``R = [(1 - a^(g-1) h) + h E(a, g-1)] / [(1 + h - a^(g-1) h) max(g T_d(k), 1)]`` tokens per T_v.

    As PEARL, but that the first new token is tested in k versions, one of which is right with probability
    ``h = 1 - (1 - a) k^-r`` (the power law of the hit curve; settled here, the paper has none), and that each of them
    is drafted on: g steps over k branches. Tokens that the draft is unsure of (a share ``hrad_low`` of all, alike and
    independent: settled here for H-RAD) end what is pending and become the next branch point. In the released code
    H-RAD is switched off, and k is a constant. That the branch of highest target probability may be taken is lossless
    for greedy decoding only. Every step costs what verifying g tokens does, also where fewer are pending.
    """

    name = "specbranch"
    title = "SpecBranch"
    source = "Shen et al., ICLR 2026, arXiv 2506.01979"
    rival = "pearl"
    drafted = "branch_gamma"
    searched = (
        LookaheadAxis(option="branch_gamma", about="SpecBranch's tokens a branch that may be chosen [default: 1:16]"),
        NumberAxis(
            option="branches",
            about="SpecBranch's branches that may be chosen [default: 1:8]",
            says="{value} branches",
            most=8,
            tabled=(1, 2, 3, 4, 6, 8),
        ),
    )
    options = (
        R,
        own_lookahead(
            name="branch_gamma", about="SpecBranch's tokens a branch", axis="SpecBranch's tokens a branch γ", symbol="γ"
        ),
        searched_choice(
            name="branches",
            kind=Whole(most=1_000),
            default=3,
            about="SpecBranch's branches",
            axis="SpecBranch's branches",
        ),
        hit_rate(
            name="branch_hit",
            about="P(one of SpecBranch's branches is right)",
            axis="hit rate of the branches",
            default_note="1 - (1 - alpha) branches^-r, with the r of --hit-r",
        ),
        Option(
            name="hrad_low",
            kind=SHARE,
            default=0.0,
            about="share of tokens that H-RAD makes SpecBranch branch at (0: as released)",
            axis="share of branch points by H-RAD",
        ),
        hit_rate(
            name="hrad_hit",
            about="P(one of the branches is right) at those tokens",
            axis="hit rate at H-RAD's branch points",
            default_note="--branch-hit",
        ),
    )

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        branches, r = settings["branches"], settings["hit_r"]
        given, low, low_hit = settings["branch_hit"], settings["hrad_low"], settings["hrad_hit"]

        def kernel(accepted_pmf: Array) -> Kernel:
            hit = 1.0 - accepted_pmf[..., :1] * branches**-r if given is None else np.array([given])
            last = accepted_pmf[..., -2:].sum(axis=-1, keepdims=True)
            pending = np.concatenate([accepted_pmf[..., :-2], last], axis=-1)  # of one token less
            return _kernel(pending, hit, low, hit if low_hit is None else low_hit)

        return tokens_of(drafter.accepted(settings, settings["branch_gamma"]), kernel)

    def branches(self, options: Mapping[str, Any]) -> int:
        return int(options["branches"])

    def drafting(self, site: Site, drafter: Drafter) -> tuple[Piece, ...]:
        """Steps over branches, without the pass before them."""
        return prespeculate(site, drafter, self.lookahead(site.options), site.options["branches"])[-1:]

    def draft_holds(self, site: Site) -> tuple[str, int, int]:
        branches = site.options["branches"]
        return f"with {branches} branches a sequence", self.lookahead(site.options), branches


def _kernel(pending_pmf: Array, hit: Array, low: float, low_hit: FloatOrArray) -> Kernel:
    """The kernel from P(exactly k of the g - 1 tokens that may be pending are accepted).

    ``hit`` is that of the branches after a rejection, and at a window's end or another token that the draft is sure of;
    ``low_hit`` at those that it is unsure of, a share ``low`` of all.
    """
    longest = pending_pmf.shape[-1] - 1
    lengths = low * (1.0 - low) ** np.arange(longest + 1)  # P(so many are pending)
    lengths[longest] = (1.0 - low) ** longest
    at_any = low * low_hit + (1.0 - low) * hit
    right = np.where(np.arange(longest + 1) < longest, low_hit, at_any)  # by how many are pending
    pends_more = np.append(1.0 - np.cumsum(lengths)[:-1], 0.0)
    all_accepted = lengths * np.cumsum(pending_pmf[..., ::-1], axis=-1)[..., ::-1]
    rejected = pending_pmf * np.maximum(0.0, pends_more)
    return Kernel.by_state(
        {
            "pre": {"pre": 1.0 - at_any, "post": at_any},
            "post": {"pre": rejected + all_accepted * (1.0 - right), "post": all_accepted * right},
        }
    )
