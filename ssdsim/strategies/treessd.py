"""SSD whose target verifies trees: while it does, the draft grows one for each likely outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.errors import CannotRun
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter, branches_per_device, expand, preexpand
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.kernel import Kernel, Tokens
from ssdsim.strategies.protocols.axes import SizesAxis
from ssdsim.strategies.protocols.cached import DRAFT_DEVICES, DRAFT_GPUS, MOST_RUN, OUTCOMES, Cached
from ssdsim.strategies.protocols.hits import TREES, settle_budget
from ssdsim.strategies.protocols.trees import AXES, OPTIONS, RoundTime, drafted, mean_model, settle_tree, tree_tokens
from ssdsim.tokens.trees.drafted import Drafted, RankModel, StaticTree
from ssdsim.tokens.trees.outcome_cache import FanOuts, hits_by_accepted, likeliest_fan_outs


class TreeSSD(Cached):
    """SSD's round with trees in the place of chains: ``m + 1`` rows verified, ``B`` trees of m tokens prepared.

    An outcome is the node at which the path ends and the bonus token after it, none of whose verified children it is;
    guesses are the next siblings, the ``--budget`` likeliest of all nodes. On a miss the tree is drafted just in time.
    The draft's work: a glue pass over m + 1 rows, then D passes over B times the rows of a level. The SSD paper names
    the combination (appendix E) and measures nothing of it: costs and hit rates are settled here. One tree for all
    rounds; the draft's memory is that of B m tokens with their distributions, a little more than are drawn from.
    """

    name = "treessd"
    caches = "trees"
    title = "Tree SSD"
    source = "SSD paper, arXiv 2603.03251, appendix E; settled here"
    rival = "ssd"
    drafted = "tree_nodes"
    drafts_ahead = True
    searched = (
        DRAFT_DEVICES,
        *AXES,
        SizesAxis(
            option="budget",
            about=OUTCOMES.about,
            says=OUTCOMES.says,
            idle_with=OUTCOMES.idle_with,
            first=(4, 12, MOST_RUN),
            most=MOST_RUN,
        ),
    )
    shown_settings = ("tree_nodes", "tree_depth", "budget")
    options = (DRAFT_GPUS, *TREES, *OPTIONS)

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        """Derive budget and tree.

        Raises
        ------
        CannotRun : a tree for each round, whose outcomes nobody can prepare a tree for.
        """
        if settings["tree_beam"] is not None:
            raise CannotRun(f"{self.title} takes one tree for all rounds: give no --tree-beam")
        settle_budget(settings)
        settle_tree(settings, site, drafter, _round_s(settings, site, drafter))

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        tree = drafted(settings, drafter)
        guesses = _fan_outs(settings, tree, mean_model(settings, drafter, int(settings["tree_depth"])))

        def kernel(model: RankModel) -> Kernel:
            pmf = tree.accepted_pmf(model)
            hits = _hits(settings, tree, model, guesses)
            row = {"hit": np.minimum(hits, pmf), "miss": np.maximum(0.0, pmf - hits)}
            return Kernel.by_state({"hit": row, "miss": row})

        return tree_tokens(settings, drafter, kernel)

    def guesses(self, settings: Mapping[str, Any]) -> tuple[int, ...] | None:
        """Guesses by depth, at least one where something may be cached; a cache does not care which node has them."""
        each, left = divmod(int(settings["budget"]), int(settings["tree_depth"]) + 1)
        return tuple(max(1, each + (depth < left)) for depth in range(int(settings["tree_depth"]) + 1))

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        tree = drafted(site.options, drafter)
        messages = site.outcome_message(), site.speculation_message(tree.nodes, distributions=sum(tree.rows))
        return self.round_steps(site, *_passes(site, drafter, tree), *messages)


def _passes(site: Site, drafter: Drafter, tree: Drafted) -> tuple[Step, Step, Step]:
    """Verification, pre-speculation and fallback."""
    verify = site.verify_step("verify", tree.nodes + 1, not tree.is_chain)
    devices = site.options["draft_gpus"]
    branches = branches_per_device(site.options["budget"], devices)
    prespeculate = Step("draft", preexpand(site, drafter, tree.rows, tree.nodes, branches), devices)
    again = Step("fallback", expand(site, drafter, tree.rows, beside=False)).with_piece_name("fallback step")
    return verify, site.override("t_p", prespeculate), site.override("t_b", again, "fallback step")


def _fan_outs(settings: Settings, tree: Drafted, model: RankModel) -> FanOuts:
    """The guesses at each node that are right the most often in the mean round."""
    assert isinstance(tree, StaticTree)  # settled
    return likeliest_fan_outs(tree.tree, model.one_deeper.rates, settings["budget"])


def _hits(settings: Settings, tree: Drafted, model: RankModel, guesses: FanOuts) -> Array:
    """P(j tokens are accepted and the outcome is cached), shape ``(depth+1,)``."""
    if settings["p_hit"] is not None:
        return tree.accepted_pmf(model) * float(settings["p_hit"])
    assert isinstance(tree, StaticTree)  # settled
    return hits_by_accepted(tree.tree, model.one_deeper.rounds, guesses)


def _round_s(settings: Settings, site: Site, drafter: Drafter) -> RoundTime:
    """Seconds of a round, each tree's passes priced once, without contention between the two devices."""

    def round_s(tree: Drafted, model: RankModel) -> float:
        verify, prespeculate, again = (step.seconds for step in _passes(site, drafter, tree))
        window = verify + site.sampling_step().seconds + site.outcome_message().seconds
        hit = min(1.0, float(_hits(settings, tree, model, _fan_outs(settings, tree, model)).sum()))
        return max(window, prespeculate) + (1.0 - hit ** int(settings["b"])) * again

    return round_s
