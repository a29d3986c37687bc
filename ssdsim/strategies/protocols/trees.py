"""Shared by strategies that verify a tree of drafted tokens: its options, and which tree is drafted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.errors import CannotRun, InputError
from ssdsim.base.kinds import SHARE, Number, NumberOrWord, Whole
from ssdsim.base.kinds_of_lists import ListOf
from ssdsim.base.option import Excludes, Needs, Option, choice, searched_choice
from ssdsim.base.settings import GIVEN, Settings
from ssdsim.hardware.catalog import find_transformer
from ssdsim.pricing.drafter import Drafter, TreeDrafter
from ssdsim.pricing.site import Site
from ssdsim.rounds.kernel import Kernel, Tokens, each_kind, tokens_of
from ssdsim.strategies.protocols.axes import WordAxis
from ssdsim.tokens.acceptance import rates_of
from ssdsim.tokens.hit_rates import hit_curves
from ssdsim.tokens.pair_choice import positions_known
from ssdsim.tokens.rules import TOKEN
from ssdsim.tokens.trees.drafted import (
    RANKS,
    Drafted,
    DynamicTrees,
    RankModel,
    StaticTree,
    best_tree,
    best_trees_of_sizes,
    tree_of_widths,
)
from ssdsim.tokens.trees.shape import Tree

_DEPTHS = 16
_MOST = 4096
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
_UNIT_FREE = 32
_MOST_WIDE = 256
_EAGLE_2 = (60, 6)  # nodes and depth of its paper, for targets of 7 to 8 billion weights
AUTO = "auto"
_BEST = "auto: more tokens/s than the others"

RANKS_OPTION = Option(
    name="tree_ranks",
    kind=ListOf(SHARE),
    about="P(right) of the draft's guesses of a token, by rank; with --alpha by position its first is of each depth",
    axis="acceptance by rank",
    default_note="--alpha, then the hit curve of the guesses after it",
)

OPTIONS = (
    searched_choice(
        name="tree_nodes",
        kind=NumberOrWord(Whole(most=_MOST), AUTO),
        default=AUTO,
        about="drafted tokens of a tree, without its root (auto: the fastest here of up to 256; 32 without hardware)",
        axis="drafted tokens of a tree",
        symbol="m",
        doubling=True,
    ),
    searched_choice(
        name="tree_depth",
        kind=NumberOrWord(Whole(most=64), AUTO),
        default=AUTO,
        about="levels of a tree, each a pass of the draft (auto: the fastest here of up to 16)",
        axis="levels of a tree D",
        symbol="D",
    ),
    choice(
        name="tree_children",
        kind=ListOf(Whole(most=64)),
        about="the tree itself: how many children each node of a level has (SpecInfer: 1,1,3,1,1,1,1,1)",
        axis="children of a level's nodes",
        excludes=(
            Excludes(
                ("tree_nodes", "tree_depth", "tree_beam"), "{it} has no effect with --tree-children (the tree is given)"
            ),
        ),
    ),
    choice(
        name="tree_widths",
        kind=ListOf(Whole(most=_MOST_WIDE)),
        about="nodes of each level of the tree, the likeliest that are proposed there (LongSpec: 4,16,16,16,16)",
        axis="nodes of each level",
        excludes=(
            Excludes(
                ("tree_nodes", "tree_depth", "tree_beam", "tree_children"),
                "{it} has no effect with --tree-widths (the tree is given)",
            ),
        ),
    ),
    choice(
        name="tree_expanded",
        kind=Whole(most=_MOST_WIDE),
        about="of each level of --tree-widths, the likeliest nodes that have children (CaPE: 1)",
        axis="nodes of a level with children",
        default_note="all",
        needs=Needs(("tree_widths",), "the levels"),
    ),
    choice(
        name="tree_beam",
        kind=Whole(most=_MOST_WIDE),
        about="a tree of its own for each round (EAGLE-2), of so many nodes a pass of the draft",
        axis="nodes a pass of the draft",
        default_note="the same tree in every round",
    ),
    RANKS_OPTION,
    Option(
        name="tree_concentration",
        kind=Number(),
        about="rounds differ: the first guess's rate in each is Beta with this a + b (--tree-beam's trees know it)",
        axis="concentration of rounds (a + b)",
    ),
)


AXES = (
    WordAxis(
        option="tree_nodes",
        about="drafted tokens of a tree that may be chosen [default: auto, the fastest]",
        says="{symbol} {value}",
        words=(AUTO,),
    ),
    WordAxis(
        option="tree_depth",
        about="levels of a tree that may be chosen [default: auto, the fastest]",
        says="{symbol} {value}",
        words=(AUTO,),
    ),
)


RoundTime = Callable[[Drafted, RankModel], float]
"""Seconds of a round (units of T_v without hardware) with what is drafted, where guesses are right so often."""


def check_drafts_trees(drafter: Drafter) -> None:
    """Raise :class:`CannotRun` at a drafter that makes one guess a token."""
    if not isinstance(drafter, TreeDrafter):
        raise CannotRun(f"{drafter.title} drafts chains: a tree needs several guesses of a token")


def drafted(settings: Mapping[str, Any], drafter: Drafter) -> Drafted:
    """The tree, or trees, that the settings describe."""
    if settings["tree_children"] is not None:
        return StaticTree(Tree.expanded_by(settings["tree_children"]))
    widths = settings["tree_widths"]
    if widths is not None:
        rates = mean_model(settings, drafter, len(widths)).rates
        return tree_of_widths(rates, widths, settings["tree_expanded"])
    nodes, depth, beam = (settings[name] for name in ("tree_nodes", "tree_depth", "tree_beam"))
    if beam is not None:
        return DynamicTrees(min(nodes, _proposed(depth, beam)), depth, beam)
    return best_tree(mean_model(settings, drafter, depth), nodes, depth)


def tree_tokens(settings: Settings, drafter: Drafter, kernel_of: Callable[[RankModel], Kernel]) -> Tokens:
    """Tokens of a round; where requests differ the tree is that of their mean."""
    accepted = drafter.accepted(settings, int(settings["tree_depth"]))
    if settings["tree_ranks"] is not None and accepted.kinds is not None:
        raise InputError("--tree-ranks are those of all requests: give no --acceptance or --alpha-concentration")
    return tokens_of(accepted, each_kind(lambda pmf: kernel_of(_model(settings, drafter, rates_of(pmf)))))


def mean_model(settings: Mapping[str, Any], drafter: Drafter, depth: int) -> RankModel:
    """The model of all requests together."""
    return _model(settings, drafter, rates_of(drafter.accepted(settings, depth).pmf))


def settle_tree(settings: Settings, site: Site, drafter: Drafter, round_s: RoundTime) -> None:
    """Derive nodes and depth as far as nobody gives them: those of the most tokens per ``round_s``, or EAGLE-2's.

    Derives ``tree_rows``, too, of each pass of the draft: no more passes than the tree that is best is deep.
    """
    check_drafts_trees(drafter)
    check_ranks(settings["tree_ranks"])
    _choose(settings, site, drafter, round_s)
    settings.settle("tree_rows", list(drafted(settings, drafter).rows), "of the tree")


def _choose(settings: Settings, site: Site, drafter: Drafter, round_s: RoundTime) -> None:
    if settings["tree_children"] is not None:
        _check_children(settings)
        tree = Tree.expanded_by(settings["tree_children"])
        chosen, why = (tree.nodes, tree.depth), "of --tree-children"
    elif settings["tree_widths"] is not None:
        given = drafted(settings, drafter)
        chosen, why = (given.nodes, len(settings["tree_widths"])), "of --tree-widths"
    elif settings["tree_beam"] is not None:
        depth = settings["tree_depth"] if settings["tree_depth"] != AUTO else min(_EAGLE_2[1], _known(settings))
        chosen, why = (min(_EAGLE_2[0], _proposed(depth, settings["tree_beam"])), depth), "auto: EAGLE-2's"
    elif AUTO in (settings["tree_nodes"], settings["tree_depth"]):
        most = _UNIT_FREE if site.unit_free else _SIZES[-1]
        chosen, why = _best(settings, drafter, most, round_s), _BEST
    else:
        return
    for name, value in zip(("tree_nodes", "tree_depth"), chosen, strict=True):
        if settings[name] == AUTO:
            settings.settle(name, value, why)


def check_ranks(ranks: Sequence[float] | None) -> None:
    """Raise :class:`InputError` at ranks that are given (None is not) and no distribution."""
    if ranks is not None and sum(ranks) > 1.0 + 1e-9:
        raise InputError(f"--tree-ranks must sum to at most 1 (one guess at most is right), got {sum(ranks):g}")


def _check_children(settings: Mapping[str, Any]) -> None:
    children: Sequence[int] = settings["tree_children"]
    known = RANKS if settings["tree_ranks"] is None else len(settings["tree_ranks"])
    if max(children) > known:
        raise InputError(f"--tree-children must be at most {known}, the ranks that are known, got {max(children)}")
    if (nodes := sum(accumulate(children, mul))) > _MOST:
        raise InputError(f"--tree-children must make at most {_MOST} nodes, got {nodes}")


def _best(settings: Settings, drafter: Drafter, most: int, round_s: RoundTime) -> tuple[int, int]:
    """Nodes and depth of the most tokens a second."""
    depths: Sequence[int] = range(1, min(_DEPTHS, _known(settings)) + 1)
    depths = depths if settings["tree_depth"] == AUTO else [settings["tree_depth"]]
    sizes = [size for size in _SIZES if size <= most]
    sizes = sizes if settings["tree_nodes"] == AUTO else [settings["tree_nodes"]]
    model = mean_model(settings, drafter, max(depths))
    if round_s(StaticTree(Tree.chain(1)), model) == 0.0:  # a plan of what to time: nothing has a price yet
        return 4 * int(settings["k"]), int(settings["k"])

    fastest, chosen = 0.0, (1, 1)
    least_s = dict.fromkeys(depths, 0.0)  # of a smaller tree as deep, whose round takes no longer
    at_most_so_deep = cache(lambda depth: best_trees_of_sizes(model, sizes, depth))
    for number, size in enumerate(sizes):
        for depth in depths:
            tree, tokens = at_most_so_deep(depth)[number]
            if tree.tree.depth < depth > depths[0]:  # it leaves a level empty, and so is that of the depth before
                break
            if tokens > fastest * least_s[depth]:
                least_s[depth] = round_s(tree, model)
                if tokens > fastest * least_s[depth]:
                    fastest, chosen = tokens / least_s[depth], (size, depth)
    return chosen


def _known(settings: Mapping[str, Any]) -> int:
    """Number of depths at which acceptance is known."""
    return positions_known(settings) or (settings["k"] if settings["acceptance"] is not None else _DEPTHS)


def _proposed(depth: int, beam: int) -> int:
    """Nodes that so many passes propose."""
    return beam + (depth - 1) * beam**2


def _model(settings: Mapping[str, Any], drafter: Drafter, first: Array) -> RankModel:
    if settings["acceptance_rule"] != TOKEN:
        raise CannotRun(f"--acceptance-rule {settings['acceptance_rule']} is known of chains, not of trees")
    concentration = settings["tree_concentration"]
    if concentration == 0.0:
        raise InputError("--tree-concentration must be above 0, got 0")
    if settings["tree_ranks"] is not None:
        by_depth = isinstance(settings["alpha"], list | tuple)  # deeper guesses are not those of the ranks
        known = first if by_depth else np.full(first.size, settings["tree_ranks"][0])
        return RankModel.of_ranks(settings["tree_ranks"], known, concentration)
    published = _published_ranks(settings, drafter)[: first.size]
    if len(published) == first.size:
        return RankModel.of_levels(published, concentration)
    return RankModel.of_hits(first, hit_curves(settings)[0], concentration)


def _published_ranks(settings: Mapping[str, Any], drafter: Drafter) -> tuple[tuple[float, ...], ...]:
    """Ranks of the drafter's card, moved with its acceptance; none where that is not the card's."""
    alpha = settings["alpha"]
    if settings["t_sd"] is not None or not isinstance(alpha, tuple):
        return ()
    draft = drafter.draft(find_transformer(settings["target"]), settings["draft"], settings)
    rates = () if draft.published is None else draft.published.by_position
    if alpha == rates:
        return draft.ranks
    given = isinstance(settings, Settings) and settings.source("alpha") == GIVEN
    if given or len(alpha) != len(rates):
        return ()
    others = ((1.0 - now) / (1.0 - then) for now, then in zip(alpha, rates, strict=True))
    return tuple(
        (now, *(by * rank for rank in ranks[1:])) for ranks, now, by in zip(draft.ranks, alpha, others, strict=False)
    )
