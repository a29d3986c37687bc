"""Speculative decoding with a tree: several guesses of a token, all verified in one pass under a mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

from ssdsim.pricing.drafter import Drafter, TreeDrafter
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step, unit_free
from ssdsim.protocols.alternate import PLACES, Alternate, is_apart
from ssdsim.protocols.trees import AXES, OPTIONS, Round, drafted, settle_tree, tree_tokens
from ssdsim.rounds.kernel import Kernel, Tokens
from ssdsim.settings import Settings


class TreeSpeculative(Alternate):
    """``sum of scores / (sum of T_d(rows of a level) + T_v(m + 1) + overheads)``.

    A node's score is the product of P(right) on its path. D levels take D passes of the draft, over the nodes that get
    children; the root and m nodes are verified under a mask in one pass, and the accepted path stays in the caches (by
    indices: nothing is copied). The tree is by default the one of the most tokens/s on this hardware, of those that are
    optimal for their size and depth.
    """

    name = "tree"
    title = "Tree SD"
    called = "tree speculative decoding"
    source = "Miao et al., ASPLOS 2024, arXiv 2305.09781; Chen et al., NeurIPS 2024, arXiv 2402.12374"
    rival = "sd"
    searched = (PLACES, *AXES)
    told = ("tree_nodes", "tree_depth")
    options = OPTIONS

    def settle(self, settings: Settings, site: Site | None, drafter: Drafter) -> None:
        settle_tree(settings, site, drafter, _unit_free_s(settings) if site is None else _seconds(site, drafter))

    def lookahead(self, options: Mapping[str, Any]) -> int:
        return int(options["tree_nodes"])

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        return tree_tokens(settings, drafter, lambda tree, model: Kernel.of_tokens(tree.accepted_pmf(model)))

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        tree = drafted(site.options, drafter)
        draft = _draft(site, drafter, tree.rows)
        return {
            "verify": _verify(site, tree.nodes, not tree.is_chain),
            "draft": draft,
            "sample": site.sampling_step(),
            **self.messages(site, drafter, draft, distributions=sum(tree.rows)),
        }

    def unit_free_steps(self, settings: Settings) -> Mapping[str, Step]:
        passes = len(settings["tree_rows"])
        return {
            "draft": unit_free("draft", ("draft step", settings["t_sd"] / settings["k"], passes)),
            "speculation": Step("communicate"),
            "verify": unit_free("verify", ("verify", 1.0, 1)),
            "sample": Step("host"),
            "outcome": Step("communicate"),
        }


def _draft(site: Site, drafter: Drafter, rows: Sequence[int]) -> Step:
    return Step("draft", cast(TreeDrafter, drafter).expand(site, rows, beside=not is_apart(site.options, drafter)))


def _verify(site: Site, nodes: int, masked: bool) -> Step:
    return Step("verify", (site.piece(site.target_pass("verify", nodes + 1, masked)),))


def _unit_free_s(settings: Settings) -> Round:
    draft_step = settings["t_sd"] / settings["k"]
    return lambda tree, model: 1.0 + draft_step * len(tree.rows)


def _seconds(site: Site, drafter: Drafter) -> Round:
    """Of a round with a tree, each pass priced once; without messages, which are much alike for all trees."""
    verify_s = cache(lambda nodes, masked: _verify(site, nodes, masked).seconds)
    draft_s = cache(lambda rows: _draft(site, drafter, rows).seconds)
    sample_s = site.sampling_step().seconds
    return lambda tree, model: verify_s(tree.nodes, not tree.is_chain) + draft_s(tree.rows) + sample_s
