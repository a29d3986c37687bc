"""SwiftSpec: the draft grows a tree without end; the target verifies its likeliest part, which is then re-rooted."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ssdsim.base.checks import FloatOrArray
from ssdsim.base.errors import CannotRun
from ssdsim.base.kinds import OneOf, Whole
from ssdsim.base.option import choice, searched_choice
from ssdsim.base.settings import Settings
from ssdsim.pricing.contention import beside_each_other
from ssdsim.pricing.drafter import Drafter, expand
from ssdsim.pricing.occupancy import Devices
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.kernel import Kernel, Tokens
from ssdsim.rounds.round import Seconds, States, Stationary
from ssdsim.strategies.protocols.axes import SizesAxis
from ssdsim.strategies.protocols.cached import Cached
from ssdsim.strategies.protocols.hits import LAWS
from ssdsim.strategies.protocols.strategy import late
from ssdsim.strategies.protocols.trees import RANKS_OPTION, check_drafts_trees, check_ranks, mean_model
from ssdsim.tokens.trees.rerooted import BARE, Rerooting, chain_of_trees, growth

_MOST_TREES = 300
_MOST_GROWN = 600
_MOST_PASSES = 16


class SwiftSpec(Cached):
    """``R = sum pi gain / (max(T_v(B), s T_d(w)) + P(lost) s T_d(w))`` over the trees that are reached.

    Each verification is of the B likeliest nodes of the tree (root included); meanwhile the draft runs s passes
    over the w likeliest nodes without children, each of which gets F guesses. The tree is re-rooted at the bonus
    token, with what grew there; where that token is not in it, it is lost: the draft grows a new one while the
    target waits (``wait``), or the target checks the bare root meanwhile (``verify_root``). Greedy decoding of one
    sequence, one acceptance rate by rank wherever in the text. Settled here, where the source is silent: both
    sides meet after every verification, what a loss does, nodes ordered by their true probability, one draft
    device. (The source's draft has several.)
    """

    name = "swiftspec"
    title = "SwiftSpec"
    source = "Zhang et al., 2025, arXiv 2506.11309"
    rival = "sd"
    most_sequences = 1
    drafts_ahead = True
    searched = (
        SizesAxis(
            option="swift_width",
            about="nodes a pass of SwiftSpec's draft that may be chosen [default: searched]",
            says="w {value}",
            first=(1, 4),
            tabled=(1, 2, 4, 8),
        ),
        SizesAxis(
            option="swift_nodes",
            about="nodes that SwiftSpec verifies that may be chosen [default: searched]",
            says="B {value}",
            first=(4, 12),
            tabled=(4, 8, 16),
        ),
    )
    options = (
        *LAWS,
        searched_choice(
            name="swift_width",
            kind=Whole(most=256),
            default=4,
            about="nodes a pass of SwiftSpec's draft",
            axis="nodes a pass of SwiftSpec's draft w",
        ),
        searched_choice(
            name="swift_nodes",
            kind=Whole(most=256),
            default=8,
            about="nodes that SwiftSpec verifies, root included (its source: 8)",
            axis="nodes that SwiftSpec verifies B",
        ),
        choice(
            name="swift_guesses",
            kind=Whole(most=16),
            default=3,
            about="guesses of a token in SwiftSpec's tree",
            axis="guesses of a token F",
        ),
        choice(
            name="swift_passes",
            kind=Whole(most=_MOST_PASSES),
            about="passes of SwiftSpec's draft beside a verification",
            axis="passes beside a verification s",
            default_note=f"as many as a verification takes, at least 1 and at most {_MOST_PASSES}",
        ),
        choice(
            name="swift_lost",
            kind=OneOf(("wait", "verify_root")),
            default="wait",
            about="what SwiftSpec's target does while a lost tree is grown anew",
            axis="on a lost tree",
        ),
        RANKS_OPTION,
    )

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        """Derive the passes beside a verification.

        Raises
        ------
        CannotRun : rates by position, or requests that differ: trees are re-rooted wherever a round ends.
        """
        check_drafts_trees(drafter)
        check_ranks(settings["tree_ranks"])
        differ = settings["acceptance"] is not None or settings["alpha_concentration"] is not None
        if differ or isinstance(settings["alpha"], list | tuple):
            raise CannotRun("SwiftSpec takes requests that are alike and one rate: give --alpha alone")
        if settings["swift_passes"] is None:
            steps = self._steps(site, drafter, 1)
            verify_s, pass_s = steps["verify"].seconds + steps["sample"].seconds, steps["pre-speculate"].seconds
            beside = int(verify_s / pass_s + 1e-9) if pass_s * _MOST_PASSES > verify_s else _MOST_PASSES
            settings.derive("swift_passes", max(1, beside), "as many as a verification takes")

    def lookahead(self, options: Mapping[str, Any]) -> int:
        """Nodes beside the root."""
        return int(options["swift_nodes"]) - 1

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        """Kernel over the trees that are reached, by number; the first is the one after a loss, as at the start.

        Raises
        ------
        CannotRun : too many trees are reached to look at each.
        """
        rates = mean_model(settings, drafter, 1).rates[0, : settings["swift_guesses"]]
        rates = np.sort(rates)[::-1][: max(1, np.count_nonzero(rates))]  # nobody guesses what is never right
        size = tuple(settings[f"swift_{what}"] for what in ("width", "passes", "nodes"))
        if (grown := prod((*size[:2], rates.size))) > _MOST_GROWN:
            raise CannotRun(
                f"SwiftSpec would grow {grown} nodes beside a verification, at most {_MOST_GROWN} are looked at"
            )
        tokens = _kernel(tuple(rates.tolist()), *size, _waits(settings))
        if tokens is None:
            raise CannotRun(
                f"SwiftSpec reaches more than {_MOST_TREES} trees: give less --swift-passes or --swift-nodes"
            )
        return tokens

    def guesses(self, settings: Mapping[str, Any]) -> tuple[int, ...] | None:
        return (int(settings["swift_guesses"]),) * int(settings["swift_nodes"])

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        return Devices(tp, int(drafter.needs_device))

    def draft_holds(self, site: Site) -> tuple[str, int, int]:
        grown = 2 * site.options["swift_passes"] * site.options["swift_width"] * site.options["swift_guesses"]
        return f"on a device of its own ({self.title})", grown, 0

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        return self._steps(site, drafter, site.options["swift_passes"])

    def _steps(self, site: Site, drafter: Drafter, passes: int) -> Mapping[str, Step]:
        width, nodes = site.options["swift_width"], site.options["swift_nodes"]
        draft = Step("draft", expand(site, drafter, (width,) * passes, beside=False))
        again = Step("fallback", draft.pieces if _waits(site.options) else ()).with_piece_name("regrow step")
        verify = site.verify_step("verify", nodes, masked=nodes > 2)
        root, _ = beside_each_other(site, site.verify_step("verify root", 1), draft)
        messages = site.outcome_message(), site.speculation_message(nodes)
        return {**self.round_steps(site, verify, draft, again, *messages), "verify root": root}

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        """Parts of a round; after a loss the bare root is verified where the fallback takes no time: nobody waits."""
        bare = states.any_in("miss") * (np.asarray(t["fallback"]) == 0.0)
        whole, root, beside = super().parts(t, states), t["verify root"], t["sample"] + t["outcome"]
        return {
            **whole,
            "verify": (1.0 - bare) * t["verify"] + bare * root,
            "draft": (1.0 - bare) * whole["draft"] + bare * late(t["pre-speculate"], root + beside),
        }

    def paper_round_s(self, t: Mapping[str, Seconds], states: Stationary) -> Seconds | None:
        """Return None: its source has none."""
        return None

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        programs = super().programs(options, drafter)
        return programs if _waits(options) else {**programs, "target": _checks_the_root}


def _waits(options: Mapping[str, Any]) -> bool:
    """Tell whether the target waits while a lost tree is grown anew."""
    return bool(options["swift_lost"] == "wait")


def _checks_the_root(me: Actor) -> Generator[Any, Any, None]:
    """Verify as SSD's target does; after a loss, verify what there is."""
    for _ in me.rounds():
        yield me.do("verify root" if me.any_in("miss") else "verify")
        yield me.do("sample")
        yield me.send("draft", "outcome", me.outcome())
        yield me.receive("speculation")
        me.end_round()


@lru_cache(maxsize=512)
def _kernel(ranks: tuple[float, ...], width: int, passes: int, nodes: int, waits: bool) -> Kernel | None:
    """Kernel of the chain of trees; None if it reaches too many trees."""
    how = Rerooting(growth(ranks, width, passes), nodes)
    chain = chain_of_trees(how, how.fresh if waits else BARE, _MOST_TREES)
    if chain is None:
        return None
    number = {tree: at for at, tree in enumerate(chain)}
    every = [
        (number[tree], each.accepted + 1, number[each.tree], each.probability)
        for tree, outcomes in chain.items()
        for each in outcomes
    ]
    *where, chances = zip(*every, strict=True)
    p = np.zeros((len(chain), max(where[1]) + 1, len(chain)))
    np.add.at(p, tuple(map(np.array, where)), chances)
    return Kernel(tuple("miss" if tree is None else f"tree {at}" for tree, at in number.items()), p)
