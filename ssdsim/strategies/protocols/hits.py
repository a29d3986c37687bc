"""Options of strategies that guess what comes: the outcomes they cache, how often these hit, how often any is found."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ssdsim.base.checks import Array
from ssdsim.base.kinds import SHARE, Number, NumberOrWord, OneOf, Whole
from ssdsim.base.kinds_of_lists import HitRates, ListOf
from ssdsim.base.option import Excludes, Group, Needs, Option, Section, choice, searched_choice, spelled
from ssdsim.base.settings import GIVEN, Settings
from ssdsim.rounds.kernel import ByState, Kernel
from ssdsim.strategies.protocols.axes import SAGUARO
from ssdsim.tokens.saguaro import PLAIN

hit_rate = partial(Option, kind=SHARE, groups=(Group.ACCEPTANCE, Group.HITS))
"""A share of guesses that are right."""

_hits = partial(Option, section=Section.HITS)

_LAW = (Group.ACCEPTANCE, Group.HITS, Group.CACHE_SHAPE)

# Defaults are medians of what was seen at temperature 0, ranges hold what was seen at any: after a rejection the two
# bundled pairs have, on four sets of texts each, c 0.26 to 0.85 (0.9 at temperature 1) and r 0.24 to 1.4 (0.19). The
# SSD paper's speeds ask for c 0.1 to 0.3, by what is assumed of its runs (docs/paper.md).
C = _hits(
    name="hit_c",
    default=0.4,
    kind=SHARE,
    about="miss rate of a single guess, c of h(F) = 1 - c F^-r",
    axis="miss rate of a guess c",
    plausible=(0.05, 1.0),
    groups=(*_LAW, Group.POWER_LAW),
)

R = _hits(
    name="hit_r",
    default=0.7,
    kind=Number(100.0),
    about="exponent of the miss rate, r of h(F) = 1 - c F^-r",
    axis="miss rate's exponent r",
    plausible=(0.2, 1.4),
    groups=(*_LAW, Group.POWER_LAW),
)

_CURVE = _hits(
    name="hit_curve",
    prominence=1,
    example="1:0.6,2:0.7",
    kind=HitRates(),
    about="measured hit rates by fan-out, in place of c and r",
    axis="hit curve",
    groups=_LAW,
    excludes=(Excludes((Group.POWER_LAW,), "{it} has no effect with --hit-curve (the hit rates are given)"),),
)


def _only(case: str, where: str, axis: str, otherwise: str = "", group: Group | None = None) -> tuple[Option, ...]:
    """Options for c, r and the curve of hits in one ``case``; by default those of all cases (``otherwise``)."""
    c, r, curve = (f"{law.name}_{case}" for law in (C, R, _CURVE))
    given = Excludes((c, r), f"{{it}} has no effect with {spelled(curve)} (the hit rates there are given)")
    return tuple(
        _hits(
            name=name,
            kind=law.kind,
            about=f"{what} {where}",
            axis=f"{law.axis} {axis}",
            default_note=otherwise or law.spelling,
            groups=(*_LAW, group) if group else law.groups,
            excludes=(given,) if law is _CURVE else (),
        )
        for name, law, what in ((c, C, "c"), (r, R, "r"), (curve, _CURVE, "measured hit rates"))
    )


_C_ALL, _R_ALL, _CURVE_ALL = _only("all", "where all K tokens were accepted", "where all were accepted")

LAWS = (
    *(C, R, _C_ALL, _R_ALL, _CURVE, _CURVE_ALL),
    _hits(
        name="hit_fan_out",
        kind=Whole(),
        about="guesses a position beyond which hit rates rise no more",
        axis="fan-out up to which hits are known",
        groups=(Group.CACHE_SHAPE,),
        default_note="largest fan-out measured in --pair; else no limit",
    ),
)
"""How often a draft's guesses of a token are right."""

P_HIT = hit_rate(
    name="p_hit",
    section=Section.HITS,
    prominence=6,
    example="0.85",
    about="cache hit rate, after a round that the primary speculated for",
    axis="cache hit rate p_hit",
    default_note="from --f",
    excludes=(
        Excludes(
            (Group.CACHE_SHAPE,),
            "{it} has no effect with --p-hit (the hit rate is given; --f and --budget say what the draft has to do)",
        ),
        Excludes(("f",), "{it} has no effect with --p-hit and --t-sd (both are given)", given_with=("t_sd",)),
    ),
)

F = Option(
    name="f",
    section=Section.START,
    prominence=6,
    default=3,
    kind=NumberOrWord(Whole(), "window"),
    about="fan-out F: guesses of the bonus token at each position, so F (K+1) cached outcomes; or window",
    axis="fan-out F (guesses a position)",
    spellings=("--fan-out",),
    symbol="F",
    doubling=True,
    varied_by=("recommend", "schedule"),
    groups=(Group.CHOICE,),
    excludes=(
        Excludes(
            ("t_sd",),
            "--f window needs hardware: without it nothing says what a branch token costs",
            when="window",
        ),
    ),
)

BUDGET = searched_choice(
    name="budget",
    section=Section.HITS,
    kind=Whole(),
    about="cached outcomes a sequence, in place of --f",
    axis="cached outcomes a sequence",
    doubling=True,
    excludes=(Excludes(("f",), "{it} has no effect with --budget (--f F caches F (K+1) outcomes): give one of them"),),
)

CHAINS = (
    P_HIT,
    _hits(
        name="p_hit_backup",
        kind=SHARE,
        about="cache hit rate after a speculation by the backup",
        axis="cache hit rate after a backup",
        default_note="--p-hit",
        groups=(Group.ACCEPTANCE, Group.HITS, Group.BACKUP_QUALITY),
        needs=Needs(("p_hit",), "(without it both hit rates follow from the fan-out)"),
    ),
    F,
    _hits(
        name="fl",
        kind=ListOf(Whole(0)),
        about="the K+1 fan-outs themselves (after a hit)",
        axis="fan-outs",
        spellings=("--flh",),
        varied_by=("recommend", "schedule"),
        groups=(Group.CACHE_SHAPE,),
        excludes=(
            Excludes(("f", "budget", "fan_out_policy"), "{it} has no effect with --fl (the fan-outs are given)"),
        ),
    ),
    _hits(
        name="flm",
        kind=ListOf(Whole(0)),
        about="the K+1 fan-outs after a miss",
        axis="fan-outs after a miss",
        default_note="--fl; without it, as --fan-out-policy spreads them at --alpha-backup",
        varied_by=("recommend", "schedule"),
        groups=(Group.CACHE_SHAPE, Group.BACKUP_QUALITY),
        needs=Needs(("fl",), "(the fan-outs after a hit)"),
    ),
    _hits(
        name="fan_out_policy",
        default="geometric",
        kind=OneOf(("uniform", "geometric", "optimal")),
        about="how the outcomes are spread over accepted lengths; geometric is uniform where that hits more",
        axis="fan-out policy",
        groups=(Group.CACHE_SHAPE, Group.CHOICE),
    ),
    *LAWS,
    *_only("backup", "after a speculation by the fast backup", "after a backup", "the primary's", Group.BACKUP_QUALITY),
    BUDGET,
)
"""The options of a strategy that caches chains of tokens for guessed outcomes."""

SAGUARO_C = choice(
    name="saguaro_c",
    section=Section.ACCEPTANCE,
    prominence=1,
    default=PLAIN,
    kind=NumberOrWord(Number(most=1.0), "auto"),
    unsaid="auto",
    about="Saguaro's C: the draft's F likeliest tokens are scaled by it before one is sampled, for more hits",
    default_note="auto: each strategy's own best of those that --pair knows; 1, plain sampling, without --pair",
    axis="Saguaro's C",
    symbol="C",
    varied_by=("recommend",),
    groups=(Group.CHOICE,),
    needs=Needs(("pair",), "(which knows what C changes)"),
    excludes=(
        Excludes(
            SAGUARO.idle_with,
            "{it} has no effect with --saguaro-c (the pair says what C makes of acceptance and hits)",
        ),
    ),
)
"""Of strategies whose draft samples a chain."""


def fan_out_of(settings: Mapping[str, Any]) -> float:
    """Guesses a position, on average over a list of them; the default where they follow from the machine."""
    asked, listed, outcomes = settings["f"], settings["fl"], settings["budget"]
    if listed is not None:
        return float(sum(listed) / len(listed))
    if outcomes is not None:
        return float(outcomes / (settings["k"] + 1))
    return float(asked if isinstance(asked, int) else F.default)


def settle_budget(settings: Settings) -> None:
    """Derive the cached outcomes a sequence, where nobody gave them: the sum of the fan-outs, or F (K + 1)."""
    if settings["budget"] is not None and settings.source("budget") == GIVEN:
        return  # a fan-out list was derived from it, where rows are priced again
    if settings["fl"] is not None:
        budget = max(map(sum, (settings["fl"], settings["flm"] or settings["fl"])))
        settings.derive("budget", budget, "the sum of the fan-out list")
    elif settings["budget"] is None:
        settings.derive("budget", round(fan_out_of(settings) * (settings["k"] + 1)), "f (k + 1)")


TREES = (P_HIT, F, *LAWS, BUDGET)
"""Those of one that caches trees: after a miss a tree is drafted as after a hit."""

RATES = frozenset(
    (
        "alpha",
        "alpha_backup",
        "rule_odds",
        "p_hit",
        "p_hit_backup",
        *(law.name + of for law in (C, R) for of in ("", "_all", "_backup")),
    )
)
"""Options of single rates of acceptance and hits."""

acceptance_share = partial(Option, kind=SHARE, groups=(Group.ACCEPTANCE,))
"""How often something is found, or what was found is right."""

FOUND_SOMETHING, FOUND_NOTHING = "found", "nothing"


def now_and_then(found: Array, nothing: Array, share: float, tokens: tuple[float, float]) -> Kernel:
    """The kernel of two kinds of rounds: a ``share`` finds something to verify, the others do not.

    ``tokens`` are those of a sequence in the pass of either. What a round begins with is drawn at the end of the one
    before, so that engines know it in time.
    """
    rows = {FOUND_SOMETHING: found, FOUND_NOTHING: nothing}
    made = Kernel.by_state(
        {state: {FOUND_SOMETHING: share * row, FOUND_NOTHING: (1.0 - share) * row} for state, row in rows.items()}
    )
    return ByState(made.states, made.p, rows=dict(zip(rows, tokens, strict=True)))
