"""Speculative decoding with a tree: several guesses of a token, all verified in one pass under a mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter, expand
from ssdsim.pricing.site import Site
from ssdsim.pricing.stages import in_stages
from ssdsim.pricing.step import Step
from ssdsim.rounds.kernel import Kernel, Tokens
from ssdsim.strategies.protocols.alternate import PLACES, SD_DRAFT, Alternate, is_apart
from ssdsim.strategies.protocols.hits import LAWS
from ssdsim.strategies.protocols.trees import AXES, OPTIONS, RoundTime, drafted, settle_tree, tree_tokens
from ssdsim.tokens.trees.drafted import Drafted


class TreeSpeculative(Alternate):
    """``sum of scores / (sum of T_d(rows of a level) + T_v(m + 1) + overheads)``.

    A node's score is the product of P(right) on its path. D levels take D passes of the draft, over the nodes that get
    children; the root and m nodes are verified under a mask in one pass, and the accepted path stays in the caches (by
    indices: nothing is copied). The tree is by default the one of the most tokens/s on this hardware, of those that are
    optimal for their size and depth.
    """

    name = "tree"
    title = "Tree SD"
    winner_name = "tree speculative decoding"
    source = "Miao et al., ASPLOS 2024, arXiv 2305.09781; Chen et al., NeurIPS 2024, arXiv 2402.12374"
    rival = "sd"
    drafted = "tree_nodes"
    staged = True
    searched = (PLACES, *AXES)
    shown_settings = ("tree_nodes", "tree_depth")
    options = (SD_DRAFT, *LAWS, *OPTIONS)

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        settle_tree(settings, site, drafter, _seconds(site, drafter))

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        tree = drafted(settings, drafter)
        return tree_tokens(settings, drafter, lambda model: Kernel.of_tokens(tree.accepted_pmf(model)))

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        tree = drafted(site.options, drafter)
        draft = _draft(site, drafter, tree.rows)
        verify = site.verify_step("verify", tree.nodes + 1, not tree.is_chain)
        return self.round_steps(site, drafter, draft, verify, distributions=sum(tree.rows))


def _draft(site: Site, drafter: Drafter, rows: Sequence[int]) -> Step:
    return Step("draft", expand(site, drafter, rows, beside=not is_apart(site.options, drafter)))


def _over_stages_s(site: Site, drafter: Drafter, tree: Drafted) -> float:
    """Seconds of a round with a tree, where the last of the target's stages drafts for all microbatches."""
    verify = site.verify_step("verify", tree.nodes + 1, not tree.is_chain)
    steps = {"verify": verify, "draft": _draft(site, drafter, tree.rows), "sample": site.sampling_step()}
    beside = not is_apart(site.options, drafter)
    return sum(step.seconds for step in in_stages(steps, site.microbatches, beside).values())


def _seconds(site: Site, drafter: Drafter) -> RoundTime:
    """Seconds of a round with a tree, each pass priced once, without messages: all trees' are about the same."""
    verify_s = cache(lambda nodes, masked: site.verify_step("verify", nodes + 1, masked).seconds)
    draft_s = cache(lambda rows: _draft(site, drafter, rows).seconds)
    sample_s = site.sampling_step().seconds
    if site.microbatches > 1:
        return lambda tree, model: _over_stages_s(site, drafter, tree)
    return lambda tree, model: verify_s(tree.nodes, not tree.is_chain) + draft_s(tree.rows) + sample_s
