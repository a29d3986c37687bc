"""Every option of a scenario, a record each, and the checks of those that are given together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

from ssdsim import drafters, strategies
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.kinds import (
    SHARE,
    Flag,
    HitRates,
    ListOf,
    Member,
    Name,
    Names,
    Number,
    NumberOrWord,
    OneOf,
    OneOrByPosition,
    PassTimes,
    Ranges,
    Whole,
)
from ssdsim.base.option import Excludes, Group, Needs, Option, Searcher, Section, by_name, spelled
from ssdsim.drafters.model import DRAFT
from ssdsim.hardware.catalog import full_hardware_name, full_transformer_name
from ssdsim.transformer.forward import DATA_PARALLEL
from ssdsim.transformer.operations import DTYPES, KEEPINGS
from ssdsim.transformer.precision import FORMATS, KV_DTYPES, SPELLINGS

MOST_OUTPUT_TOKENS = 131_072
SD_DRAFT_PLACES = ("colocated", "separate")

# Plausible ranges are those of docs/real-pair.md (a 135M model with two drafts, temperatures 0 to 1), and the 0.81 to
# 0.92 that the SSD paper fitted to the acceptance of its four data sets. No law of nature.
# In the order of --help and of the axes of a grid (the last varies fastest).
SHARED: tuple[Option, ...] = (
    Option(
        name="strategies",
        section=Section.START,
        prominence=3,
        default=strategies.default(),
        kind=Names(strategies.ALL),
        about="strategies to compare",
        axis="strategies",
        spellings=("--strategy",),
        varied_by=("schedule",),
    ),
    Option(
        name="subject",
        section=Section.START,
        kind=Member(strategies.ALL),
        about="the strategy that the verdict is about, held against the others",
        axis="subject",
        otherwise=f"{strategies.SUBJECT} where it is among --strategies, else the last of them",
    ),
    Option(
        name="drafter",
        section=Section.MODELS,
        prominence=1,
        default="model",
        kind=Member(drafters.ALL),
        about="what drafts: a model, a head, a look-up (ssdsim models drafters)",
        axis="drafter",
    ),
    Option(
        name="b",
        section=Section.START,
        prominence=7,
        default=1,
        kind=Whole(),
        about="batch: sequences decoded together",
        axis="batch size b (sequences)",
        spellings=("-b", "--batch-size", "--batch", "--bs"),
        doubling=True,
        varied_by=("recommend", "schedule"),
        groups=(Group.CHOICE,),
    ),
    Option(
        name="k",
        section=Section.START,
        prominence=7,
        default=6,
        kind=Whole(most=1_000),
        about="lookahead K: drafted tokens that a round verifies",
        axis="lookahead K (tokens)",
        spellings=("--num-speculative-tokens",),
        symbol="K",
        varied_by=("recommend", "schedule"),
        groups=(Group.CHOICE,),
    ),
    Option(
        name="sd_k",
        section=Section.START,
        kind=Whole(most=1_000),
        about="SD's own lookahead",
        axis="SD's lookahead (tokens)",
        otherwise="the same as --k",
        varied_by=("recommend", "schedule"),
        groups=(Group.CHOICE,),
    ),
    Option(
        name="alpha",
        section=Section.ACCEPTANCE,
        prominence=7,
        default=0.8,
        kind=OneOrByPosition(SHARE),
        about="acceptance rate of a drafted token, or K rates by position (0.9,0.8,...)",
        axis="acceptance rate α",
        plausible=(0.5, 0.9),
        groups=(Group.ACCEPTANCE,),
    ),
    Option(
        name="alpha_concentration",
        section=Section.ACCEPTANCE,
        kind=Number(),
        about="requests differ: their rates are Beta with mean --alpha and this a + b (by position: of all rounds)",
        axis="concentration of acceptance rates (a + b)",
        groups=(Group.ACCEPTANCE,),
    ),
    Option(
        name="pair",
        section=Section.ACCEPTANCE,
        prominence=3,
        example="smollm2-135m.json",
        kind=Name(),
        about="measured target and draft (ssdsim measure, ssdsim import acceptance): acceptance, hits, backup",
        axis="measured pair",
        excludes=(Excludes(("acceptance",), "{it} has no effect with --pair (the pair says what is accepted)"),),
    ),
    Option(
        name="pair_set",
        section=Section.ACCEPTANCE,
        kind=Name(files=False),
        about="the pair's set of requests to take",
        axis="set of the measured pair",
        otherwise="all requests together",
        needs=Needs(("pair",), "(which has the sets)"),
    ),
    Option(
        name="pair_backup",
        section=Section.ACCEPTANCE,
        kind=Name(files=False),
        about="the backup that the pair was measured with, such as random or ngram:3",
        axis="backup of the measured pair",
        otherwise="random",
        groups=(Group.BACKUP_QUALITY,),
        needs=Needs(("pair",), "(which has the backups)"),
    ),
    Option(
        name="extrapolate",
        section=Section.ACCEPTANCE,
        default=False,
        kind=Flag(),
        about="use the pair beyond the K, the temperature and the fan-outs that it was measured at",
        axis="pairs beyond what was measured",
        needs=Needs(("pair",), "(which says how far it was measured)"),
    ),
    Option(
        name="acceptance",
        section=Section.ACCEPTANCE,
        prominence=1,
        example="synthetic:3.3",
        kind=Name(),
        about="what is accepted: a card of rates (.toml), a trace of lengths (.csv, .jsonl), or a mean length",
        axis="acceptance file",
        groups=(Group.ACCEPTANCE,),
        excludes=(
            Excludes(
                ("alpha", "alpha_concentration"),
                "{it} has no effect with --acceptance (the file says what is accepted)",
            ),
        ),
    ),
    Option(
        name="output_tokens",
        section=Section.START,
        default=512,
        kind=Whole(most=MOST_OUTPUT_TOKENS),
        about="tokens of a request, where requests differ",
        axis="output tokens of a request",
        spellings=("--osl",),
        needs=Needs(("acceptance", "alpha_concentration", "pair"), "(requests that are alike need no length)"),
    ),
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
    Option(
        name="ranges",
        section=Section.ACCEPTANCE,
        kind=Ranges(),
        about="where a rate of acceptance or hits may lie, alpha=0.75:0.85, again for each; --alpha 0.75:0.85 says the "
        "same",
        axis="ranges of acceptance and hits",
        spellings=("--range",),
        otherwise="a rate that is given is exact",
    ),
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
    Option(
        name="target",
        section=Section.START,
        prominence=9,
        default="llama-3.1-70b",
        kind=Name(full=full_transformer_name),
        about="target model: a card (ssdsim models list), a config.json, or transformer-shaped-HxL",
        axis="target",
        spellings=("--model",),
        groups=(Group.HARDWARE,),
    ),
    Option(
        name="draft",
        section=Section.MODELS,
        prominence=4,
        default=DRAFT,
        kind=Name(full=full_transformer_name),
        about="draft model's card; with another --drafter, its own card or a config.json",
        axis="draft",
        groups=(Group.HARDWARE,),
    ),
    Option(
        name="any_vocabulary",
        section=Section.MODELS,
        default=False,
        kind=Flag(),
        about="price a draft of another vocabulary than the target's, which engines refuse",
        axis="drafts of any vocabulary",
        groups=(Group.HARDWARE,),
    ),
    Option(
        name="draft_set",
        section=Section.MODELS,
        kind=Name(files=False),
        about="the set of a drafter card whose published acceptance is taken",
        axis="set of the drafter card",
        otherwise="its first",
        groups=(Group.HARDWARE,),
    ),
    Option(
        name="hardware",
        section=Section.START,
        prominence=8,
        default="h100-sxm",
        kind=Name(full=full_hardware_name),
        about="hardware profile (ssdsim hardware list)",
        axis="hardware",
        spellings=("--system",),
        groups=(Group.HARDWARE, Group.CHOICE),
    ),
    Option(
        name="draft_hardware",
        section=Section.MACHINE,
        kind=Name(full=full_hardware_name),
        about="profile of SSD's draft device",
        axis="draft hardware",
        otherwise="--hardware",
        groups=(Group.HARDWARE, Group.CHOICE),
    ),
    Option(
        name="draft_link_us",
        section=Section.MACHINE,
        kind=Number(1e9),
        about="latency of a message between target and draft over a network (us)",
        axis="latency to the draft (us)",
        otherwise="the profile's link",
        groups=(Group.HARDWARE,),
        needs=Needs(("draft_link_gbs",), "(its bandwidth)"),
    ),
    Option(
        name="draft_link_gbs",
        section=Section.MACHINE,
        kind=Number(1e6),
        about="bandwidth of that network (GB/s)",
        axis="bandwidth to the draft (GB/s)",
        otherwise="the profile's link",
        groups=(Group.HARDWARE,),
        needs=Needs(("draft_link_us",), "(its latency)"),
    ),
    Option(
        name="runtime",
        section=Section.MACHINE,
        prominence=4,
        kind=Name(),
        about="engine that runs the kernels: a card (ssdsim runtimes list) or a .toml; kernels adds nothing",
        axis="runtime",
        otherwise="the one beside the profile, else ssd-engine",
        groups=(Group.HARDWARE, Group.CHOICE),
    ),
    Option(
        name="tp",
        section=Section.MACHINE,
        prominence=7,
        spellings=("--tensor-parallel-size",),
        default=4,
        kind=Whole(),
        about="tensor-parallel degree of the target",
        axis="target GPUs (tensor parallel)",
        doubling=True,
        varied_by=("recommend",),
        groups=(Group.HARDWARE, Group.CHOICE),
    ),
    Option(
        name="ep",
        section=Section.MACHINE,
        default=1,
        kind=Whole(),
        about="groups of the target's devices that hold different experts (expert parallel); 1: all share each expert",
        axis="groups of experts (expert parallel)",
        doubling=True,
        groups=(Group.HARDWARE, Group.CHOICE),
    ),
    Option(
        name="attention",
        section=Section.MACHINE,
        default="tensor-parallel",
        kind=OneOf((DATA_PARALLEL, "tensor-parallel")),
        about="the target's devices share every sequence, or each has its own (data-parallel) and all-to-alls bring "
        "tokens to experts that lie apart on all of them",
        axis="attention of the target",
        groups=(Group.HARDWARE, Group.CHOICE),
        excludes=(
            Excludes(
                ("ep",),
                "{it} has no effect with --attention data-parallel (experts lie apart on all devices)",
                being=DATA_PARALLEL,
            ),
        ),
    ),
    Option(
        name="placement",
        section=Section.MACHINE,
        kind=ListOf(Whole(0)),
        about="devices of the target's node for its ranks, then the draft, where pairs are linked unlike: 0,2,3,1,4",
        axis="placement",
        otherwise="in the node's order",
        groups=(Group.HARDWARE,),
    ),
    Option(
        name="draft_gpus",
        section=Section.MACHINE,
        prominence=2,
        default=1,
        kind=Whole(),
        about="draft devices of SSD, which share the branches",
        axis="draft GPUs",
        doubling=True,
        varied_by=("recommend",),
        groups=(Group.HARDWARE, Group.CHOICE),
    ),
    Option(
        name="sd_draft",
        section=Section.MACHINE,
        default="colocated",
        kind=OneOf(SD_DRAFT_PLACES),
        about="the draft of SD and of a tree on the target's devices, or on its own as in SSD",
        axis="SD's draft",
        varied_by=("recommend",),
        groups=(Group.HARDWARE, Group.CHOICE),
    ),
    Option(
        name="context",
        section=Section.START,
        prominence=4,
        default=1024,
        kind=Whole(most=1_000_000_000),
        about="tokens of a sequence in the KV cache",
        axis="context (tokens)",
        doubling=True,
        varied_by=("schedule",),
        groups=(Group.HARDWARE,),
    ),
    Option(
        name="temperature",
        section=Section.MODELS,
        prominence=1,
        default=0.0,
        kind=Number(1e6),
        about="sampling temperature; above 0 the draft's logits go to the target; a pair has rates of its own at each",
        axis="temperature",
        spellings=("--temp",),
    ),
    Option(
        name="dtype",
        section=Section.MODELS,
        prominence=2,
        kind=OneOf(FORMATS, tuple(SPELLINGS.items())),
        about="weight format; an unquantised one also sets activations and KV cache",
        axis="dtype",
        otherwise="the card's",
        groups=(Group.HARDWARE, Group.CHOICE),
    ),
    Option(
        name="kv_dtype",
        section=Section.MODELS,
        kind=OneOf(KV_DTYPES, tuple((also, word) for also, word in SPELLINGS.items() if word in KV_DTYPES)),
        about="of the models' caches",
        axis="dtype of the cache",
        otherwise="the card's, or that of the activations",
        groups=(Group.HARDWARE, Group.CHOICE),
    ),
    Option(
        name="state_dtype",
        section=Section.MODELS,
        kind=OneOf(DTYPES, tuple((also, word) for also, word in SPELLINGS.items() if word in DTYPES)),
        about="of the states of recurrent layers",
        axis="dtype of recurrent states",
        otherwise="the card's",
        groups=(Group.HARDWARE, Group.CHOICE),
    ),
    Option(
        name="states",
        section=Section.MODELS,
        kind=OneOf(KEEPINGS),
        about="of recurrent layers while tokens are verified: each token's state, copies, or inputs to be replayed",
        axis="recurrent states kept",
        otherwise="the runtime's",
        groups=(Group.HARDWARE, Group.CHOICE),
    ),
    Option(
        name="draft_dtype",
        section=Section.MODELS,
        kind=OneOf(FORMATS, tuple(SPELLINGS.items())),
        about="of the draft's weights",
        axis="dtype of the draft",
        otherwise="--dtype",
        groups=(Group.HARDWARE, Group.CHOICE),
    ),
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
    Option(
        name="spread",
        section=Section.START,
        default=0.0,
        kind=NumberOrWord(Number(2.0), "profile"),
        about="standard deviation of the logarithm of every duration (0.1: about 10 %); or profile: as it was measured",
        axis="log-sd of durations",
        groups=(Group.GIVEN_DURATIONS,),
        excludes=(Excludes(("t_sd",), "--spread profile needs hardware (unit-free mode reads none)", being="profile"),),
    ),
    Option(
        name="t_sd",
        section=Section.UNIT_FREE,
        kind=Number(1e6),
        about="unit-free mode: SD's drafting time in units of T_v; no hardware is read",
        axis="drafting time T_SD (T_v)",
        groups=(Group.UNIT_FREE, Group.GIVEN_DURATIONS),
        excludes=(
            Excludes((Group.HARDWARE,), "{it} has no effect with --t-sd (unit-free mode reads no hardware)"),
            Excludes(
                ("budget",),
                "{it} has no effect with --t-sd and --p-hit (the draft's time and hits are given)",
                beside=("p_hit",),
            ),
        ),
    ),
    Option(
        name="t_v",
        section=Section.UNIT_FREE,
        kind=PassTimes(),
        about="unit-free mode: time of a target pass by its rows, over the whole batch; linear between and beyond",
        axis="pass times T_v (by rows)",
        otherwise="1, whatever its rows",
        groups=(Group.UNIT_FREE, Group.GIVEN_DURATIONS),
        needs=Needs(("t_sd",), "(unit-free mode)"),
    ),
    Option(
        name="t_p",
        section=Section.UNIT_FREE,
        kind=Number(1e6),
        about="unit-free mode: pre-speculation time",
        axis="pre-speculation time T_p (T_v)",
        otherwise="--t-sd",
        groups=(Group.UNIT_FREE, Group.GIVEN_DURATIONS),
        needs=Needs(("t_sd",), "(unit-free mode)"),
    ),
    Option(
        name="t_b",
        section=Section.UNIT_FREE,
        kind=Number(1e6),
        about="unit-free mode: the backup's time",
        axis="backup's time T_b (T_v)",
        otherwise="--t-sd with jit, 0 with fast",
        groups=(Group.UNIT_FREE, Group.GIVEN_DURATIONS),
        needs=Needs(("t_sd",), "(unit-free mode)"),
    ),
)

ALL: dict[str, Option] = {}
"""By name: those above, then each strategy's and each drafter's own."""

DEFAULTS: dict[str, Any] = {}
_exclusions: list[tuple[str, Excludes, tuple[str, ...]]] = []
_needs: list[tuple[str, Needs]] = []


def _read_records() -> None:
    """Make the tables anew: a strategy or a drafter came or went."""
    found = by_name(SHARED, *(owner.options for owner in (*strategies.ALL, *drafters.ALL)))
    ALL.clear()
    ALL.update(found)
    DEFAULTS.clear()
    DEFAULTS.update({name: option.default for name, option in ALL.items()})
    defaults.cache_clear()
    _exclusions[:] = [(name, each, names_of(each.others)) for name, option in ALL.items() for each in option.excludes]
    _needs[:] = [(name, option.needs) for name, option in ALL.items() if option.needs is not None]


@cache
def defaults() -> Mapping[str, Any]:
    """Every option's default, which settings share and nobody changes: a later registration makes others."""
    return dict(DEFAULTS)


def members(group: Group) -> tuple[str, ...]:
    """The names of a group."""
    return tuple(name for name, option in ALL.items() if group in option.groups)


def varied_by(searcher: Searcher) -> tuple[str, ...]:
    """The names of what an answer varies by itself."""
    return tuple(name for name, option in ALL.items() if searcher in option.varied_by)


def names_of(others: Iterable[str | Group]) -> tuple[str, ...]:
    """Names, and groups as the names of their members; KeyError at one that no option has."""
    named = (members(other) if isinstance(other, Group) else (ALL[other].name,) for other in others)
    return tuple(name for names in named for name in names)


for registry in (strategies.ALL, drafters.ALL):
    registry.on_change(_read_records)
_read_records()


def files() -> tuple[str, ...]:
    """Options whose value may name a file."""
    return tuple(name for name, option in ALL.items() if isinstance(option.kind, Name) and option.kind.files)


def owners(name: str) -> tuple[str, tuple[str, ...]] | None:
    """The option that chooses who has an option of that name, and their names; None where it is everybody's."""
    for chooser, registry in (("strategies", strategies.ALL), ("drafter", drafters.ALL)):
        found = tuple(each.name for each in registry if any(option.name == name for option in each.options))
        if found:
            return chooser, found
    return None


def heading(option: Option) -> str:
    """What help lists an option below: its section, or the titles of the strategies or drafters that have it."""
    if option.section is not None:
        return option.section.value
    who = [each for each in (*strategies.ALL, *drafters.ALL) if option in each.options]
    return f"Options of {', '.join(each.title for each in who)}"


def refuse_others(verb: str, given: Iterable[str], allowed: Collection[str]) -> None:
    """Raise :class:`InputError` for a name that ``verb`` does not take."""
    for name in given:
        if name not in allowed:
            raise InputError(f"{verb} has no option '{name}'{nearest(name, allowed)} Allowed: {', '.join(allowed)}")


def check_names(given: Iterable[str]) -> None:
    """Raise :class:`InputError` at an option that does not exist, naming the nearest one."""
    for name in given:
        if name not in ALL:
            raise InputError(f"unknown option '{name}'{nearest(name, ALL)} Allowed: {', '.join(ALL)}")


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of what is given.

    Raises
    ------
    InputError : an unknown name, a value out of its range, or an option that means nothing in this combination.
    """
    check_names(given)
    given = {name: _as_python(value) for name, value in with_ranges(given).items()}
    for name, value in given.items():
        if isinstance(value, list | tuple) and None in value:
            raise InputError(f"{spelled(name)} must not have None in its list")
    _check_combination(given)
    named = {name: ALL[name].checked(value) for name, value in given.items() if value is not None}
    return {**given, **named}


def ranged() -> tuple[str, ...]:
    """Rates of acceptance and of hits, of which a range may be given: plain numbers."""
    return tuple(name for name in members(Group.ACCEPTANCE) if isinstance(ALL[name].kind, Number | OneOrByPosition))


def with_ranges(given: Mapping[str, Any]) -> dict[str, Any]:
    """``given``, where a rate said as ``0.75:0.85`` is its middle and a range; so is one that has but a range.

    Raises
    ------
    InputError : a range of what is no such rate, that falls, or that does not hold the rate that is given.
    """
    found = dict(given)
    ranges = {} if found.get("ranges") is None else _by_name(ALL["ranges"].checked(found["ranges"]))
    for name in ranged():
        if isinstance(found.get(name), str):
            ranges[name] = _ends(name, found.pop(name))
    if not ranges:
        return found
    for name, (low, high) in ranges.items():
        if found.get(name) is None:
            found[name] = (low + high) / 2.0
        elif not (isinstance(found[name], int | float) and low <= found[name] <= high):
            raise InputError(f"--ranges {name}={low:g}:{high:g} must hold {spelled(name)}, which is {found[name]}")
    return {**found, "ranges": tuple((name, *ranges[name]) for name in ALL if name in ranges)}


def _by_name(triples: Iterable[tuple[str, float, float]]) -> dict[str, tuple[float, float]]:
    allowed, found = ranged(), dict[str, tuple[float, float]]()
    for name, low, high in triples:
        if name not in allowed:
            raise InputError(f"--ranges: no such number '{name}'{nearest(name, allowed)} Allowed: {', '.join(allowed)}")
        for end in (low, high):
            ALL[name].checked(end)
        if not low <= high:
            raise InputError(f"--ranges {name}={low:g}:{high:g} must not fall")
        found[name] = low, high
    return found


def _ends(name: str, text: str) -> tuple[float, float]:
    """Of ``0.75:0.85``."""
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise InputError(
            f"{spelled(name)} must {ALL[name].kind.must}, or be a range such as 0.75:0.85, got '{text}'"
        ) from None
    return _by_name([(name, low, high)])[name]


def beside(options: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` but for those that have no effect beside the chosen ones."""
    both = {**options, **chosen}
    idle = {
        other
        for name in chosen
        for each in ALL[name].excludes
        if each.holds(name, both)
        for other in names_of(each.others)
    }
    return {name: value for name, value in options.items() if name not in idle}


def _as_python(value: Any) -> Any:
    """A number of numpy's, as a DataFrame gives them, as Python's own; an array as a list."""
    return value.tolist() if type(value).__module__ == "numpy" and hasattr(value, "tolist") else value


def _check_combination(given: Mapping[str, Any]) -> None:
    """An option that changes nothing in this call is a mistake, not a preference."""
    for name, exclusion, others in _exclusions:
        if name in given and exclusion.holds(name, given):
            for other in others:
                if other in given:
                    raise InputError(exclusion.says.format(it=spelled(other)))
    for name, needs in _needs:
        if name in given and not any(other in given for other in needs.any_of):
            raise InputError(f"{spelled(name)} needs {' or '.join(map(spelled, needs.any_of))} {needs.why}")
