"""Options of the speculation cache: what is cached, how often that hits, and what happens on a miss."""

from __future__ import annotations

from ssdsim.base.kinds import SHARE, Number, NumberOrWord, OneOf, Whole
from ssdsim.base.kinds_of_lists import HitRates, ListOf
from ssdsim.base.option import Excludes, Group, Needs, Option, Section

# Plausible ranges are those of docs/real-pair.md (a 135M model with two drafts, temperatures 0 to 1), and the 0.81 to
# 0.92 that the SSD paper fitted to the acceptance of its four data sets. No law of nature.
HITS = (
    Option(
        name="alpha_backup",
        section=Section.ACCEPTANCE,
        default=0.0,
        kind=SHARE,
        about="acceptance rate of the fast backup's tokens (0: random tokens)",
        axis="backup's acceptance rate",
        groups=(Group.ACCEPTANCE, Group.BACKUP_QUALITY),
    ),
    Option(
        name="p_hit",
        section=Section.HITS,
        prominence=6,
        example="0.85",
        kind=SHARE,
        about="cache hit rate, after a round that the primary speculated for",
        axis="cache hit rate p_hit",
        groups=(Group.ACCEPTANCE, Group.HITS),
        otherwise="from --f",
        excludes=(
            Excludes(
                (Group.CACHE_SHAPE,),
                "{it} has no effect with --p-hit (the hit rate is given); use --budget for the draft's work",
            ),
        ),
    ),
    Option(
        name="p_hit_backup",
        section=Section.HITS,
        kind=SHARE,
        about="cache hit rate after a speculation by the backup",
        axis="cache hit rate after a backup",
        otherwise="--p-hit",
        groups=(Group.ACCEPTANCE, Group.HITS, Group.BACKUP_QUALITY),
        needs=Needs(("p_hit",), "(without it both hit rates follow from the fan-out)"),
    ),
    Option(
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
        groups=(Group.CACHE_SHAPE, Group.CHOICE),
        excludes=(
            Excludes(
                ("t_sd",),
                "--f window needs hardware: without it nothing says what a branch token costs",
                being="window",
            ),
        ),
    ),
    Option(
        name="fl",
        section=Section.HITS,
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
    Option(
        name="flm",
        section=Section.HITS,
        kind=ListOf(Whole(0)),
        about="the K+1 fan-outs after a miss",
        axis="fan-outs after a miss",
        otherwise="--fl; without it, as --fan-out-policy spreads them at --alpha-backup",
        varied_by=("recommend", "schedule"),
        groups=(Group.CACHE_SHAPE, Group.BACKUP_QUALITY),
        needs=Needs(("fl",), "(the fan-outs after a hit)"),
    ),
    Option(
        name="fan_out_policy",
        section=Section.HITS,
        default="geometric",
        kind=OneOf(("uniform", "geometric", "optimal")),
        about="how the outcomes are spread over accepted lengths; geometric is uniform where that hits more",
        axis="fan-out policy",
        groups=(Group.CACHE_SHAPE, Group.CHOICE),
    ),
    Option(
        name="hit_c",
        section=Section.HITS,
        default=0.4,
        kind=SHARE,
        about="miss rate of a single guess, c of h(F) = 1 - c F^-r",
        axis="miss rate of a guess c",
        plausible=(0.3, 1.0),
        groups=(Group.ACCEPTANCE, Group.HITS, Group.CACHE_SHAPE, Group.POWER_LAW),
    ),
    Option(
        name="hit_r",
        section=Section.HITS,
        default=0.7,
        kind=Number(100.0),
        about="exponent of the miss rate, r of h(F) = 1 - c F^-r",
        axis="miss rate's exponent r",
        plausible=(0.2, 0.9),
        groups=(Group.ACCEPTANCE, Group.HITS, Group.CACHE_SHAPE, Group.POWER_LAW),
    ),
    Option(
        name="hit_c_all",
        section=Section.HITS,
        kind=SHARE,
        about="c where all K tokens were accepted",
        axis="miss rate of a guess c where all were accepted",
        otherwise="--hit-c",
        groups=(Group.ACCEPTANCE, Group.HITS, Group.CACHE_SHAPE, Group.POWER_LAW),
    ),
    Option(
        name="hit_r_all",
        section=Section.HITS,
        kind=Number(100.0),
        about="r where all K tokens were accepted",
        axis="miss rate's exponent r where all were accepted",
        otherwise="--hit-r",
        groups=(Group.ACCEPTANCE, Group.HITS, Group.CACHE_SHAPE, Group.POWER_LAW),
    ),
    Option(
        name="hit_c_backup",
        section=Section.HITS,
        kind=SHARE,
        about="c after a speculation by the fast backup",
        axis="miss rate of a guess c after a backup",
        otherwise="the primary's",
        groups=(Group.ACCEPTANCE, Group.HITS, Group.CACHE_SHAPE, Group.BACKUP_QUALITY),
    ),
    Option(
        name="hit_r_backup",
        section=Section.HITS,
        kind=Number(100.0),
        about="r after a speculation by the fast backup",
        axis="miss rate's exponent r after a backup",
        otherwise="the primary's",
        groups=(Group.ACCEPTANCE, Group.HITS, Group.CACHE_SHAPE, Group.BACKUP_QUALITY),
    ),
    Option(
        name="hit_curve",
        section=Section.HITS,
        prominence=1,
        example="1:0.6,2:0.7",
        kind=HitRates(),
        about="measured hit rates by fan-out, in place of c and r",
        axis="hit curve",
        groups=(Group.ACCEPTANCE, Group.HITS, Group.CACHE_SHAPE),
        excludes=(Excludes((Group.POWER_LAW,), "{it} has no effect with --hit-curve (the hit rates are given)"),),
    ),
    Option(
        name="hit_curve_all",
        section=Section.HITS,
        kind=HitRates(),
        about="measured hit rates where all K tokens were accepted",
        axis="hit curve where all were accepted",
        otherwise="--hit-curve",
        groups=(Group.ACCEPTANCE, Group.HITS, Group.CACHE_SHAPE),
        excludes=(
            Excludes(
                ("hit_c_all", "hit_r_all"), "{it} has no effect with --hit-curve-all (the hit rates there are given)"
            ),
        ),
    ),
    Option(
        name="hit_curve_backup",
        section=Section.HITS,
        kind=HitRates(),
        about="measured hit rates after a speculation by the fast backup",
        axis="hit curve after a backup",
        otherwise="the primary's",
        groups=(Group.ACCEPTANCE, Group.HITS, Group.CACHE_SHAPE, Group.BACKUP_QUALITY),
        excludes=(
            Excludes(
                ("hit_c_backup", "hit_r_backup"),
                "{it} has no effect with --hit-curve-backup (the hit rates there are given)",
            ),
        ),
    ),
    Option(
        name="hit_fan_out",
        section=Section.HITS,
        kind=Whole(),
        about="guesses a position beyond which hit rates rise no more",
        axis="fan-out up to which hits are known",
        groups=(Group.CACHE_SHAPE,),
        otherwise="the largest that --pair saw, else none",
    ),
    Option(
        name="hit_concentration",
        section=Section.HITS,
        kind=Number(),
        about="misses of a batch go together: its hit rate is drawn each round, Beta with this a + b",
        axis="concentration of a batch's hit rates (a + b)",
        groups=(Group.ACCEPTANCE, Group.HITS),
        otherwise="independent sequences",
    ),
)

FALLBACK = (
    Option(
        name="backup",
        section=Section.START,
        prominence=5,
        spellings=("--fallback",),
        default="auto",
        kind=OneOf(("jit", "fast", "auto")),
        about="on a cache miss: draft just in time, take a fast backup's tokens, or the better of the two",
        axis="backup",
        varied_by=("recommend", "schedule"),
        groups=(Group.CHOICE,),
        excludes=(
            Excludes(
                (Group.BACKUP_QUALITY,),
                "{it} has no effect with --backup jit (the backup is the primary)",
                being="jit",
            ),
        ),
    ),
    Option(
        name="backup_ms",
        section=Section.HITS,
        default=0.0,
        kind=Number(),
        about="latency of the fast backup",
        axis="backup's latency (ms)",
        groups=(Group.BACKUP_QUALITY, Group.HARDWARE),
    ),
)

BUDGET = (
    Option(
        name="budget",
        section=Section.HITS,
        kind=Whole(),
        about="cached outcomes a sequence, in place of --f",
        axis="cached outcomes a sequence",
        doubling=True,
        varied_by=("recommend", "schedule"),
        groups=(Group.CHOICE,),
        excludes=(
            Excludes(("f",), "{it} has no effect with --budget (--f F caches F (K+1) outcomes): give one of them"),
        ),
    ),
)
