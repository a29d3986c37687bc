"""Options as types, for editors and mypy: ``**options: Unpack[Options]``.

Made by ``python -m site_generator.typed_options`` from the option records; change those.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict, TypeVar

T = TypeVar("T")
Several: TypeAlias = T | Collection[T]
"""A value, or all values to try."""

Ranges = Mapping[str, tuple[float, float]] | Sequence[tuple[str, float, float]]
Dtype = Literal[
    "float32",
    "bfloat16",
    "float16",
    "float8",
    "float8-block",
    "nvfp4",
    "mxfp4",
    "int4",
    "int8",
    "fp32",
    "bf16",
    "fp16",
    "half",
    "fp8",
    "fp8_block",
    "fp8-block",
    "float8_block",
]
KvDtype = Literal["bfloat16", "float16", "float8", "bf16", "fp16", "half", "fp8"]
StateDtype = Literal["float32", "bfloat16", "float16", "fp32", "bf16", "fp16", "half"]


class SharedOptions(TypedDict, total=False):
    """A scenario's options that serving takes too, where load and time decide the others."""

    strategies: str | Sequence[str]
    """which ones, or all [default: ar,sd,ssd]"""
    subject: str
    """the strategy that the verdict is about, held against the others [default: ssd where it is among --strategies,
    else the last of them]"""
    drafter: str
    """what drafts: a model, a head, a look-up (ssdsim models drafters) [default: model]"""
    k: int
    """lookahead K: drafted tokens that a round verifies [default: 6]"""
    alpha: float | Sequence[float] | str
    """acceptance rate of a drafted token, or K rates by position (0.9,0.8,...) [default: 0.8]"""
    alpha_concentration: float | str
    """requests differ: their rates are Beta with mean --alpha and this a + b (by position: of all rounds)"""
    pair: str
    """measured target and draft (ssdsim measure, ssdsim import acceptance): acceptance, hits, backup [such as
    smollm2-135m.json]"""
    pair_set: str
    """the pair's set of requests to take [default: all requests together]"""
    pair_backup: str
    """the backup that the pair was measured with, such as random or ngram:3 [default: random]"""
    extrapolate: bool
    """use the pair beyond the K, the temperature and the fan-outs that it was measured at"""
    acceptance: str
    """what is accepted: a card of rates (.toml), a trace of lengths (.csv, .jsonl), or a mean length [such as
    synthetic:3.3]"""
    sd_k: int
    """SD's own lookahead [default: the same as --k]"""
    sd_draft: Literal["colocated", "separate"]
    """the draft of SD and of a tree on the target's devices, or on its own as in SSD [default: colocated]"""
    draft_gpus: int
    """draft devices of SSD, which share the branches [default: 1]"""
    alpha_backup: float | str
    """acceptance rate of the fast backup's tokens (0: random tokens) [default: 0.0]"""
    p_hit: float | str
    """cache hit rate, after a round that the primary speculated for [default: from --f; such as 0.85]"""
    p_hit_backup: float | str
    """cache hit rate after a speculation by the backup [default: --p-hit]"""
    f: int | Literal["window"]
    """fan-out F: guesses of the bonus token at each position, so F (K+1) cached outcomes; or window [default: 3]"""
    fl: Sequence[int]
    """the K+1 fan-outs themselves (after a hit)"""
    flm: Sequence[int]
    """the K+1 fan-outs after a miss [default: --fl; without it, as --fan-out-policy spreads them at --alpha-backup]"""
    fan_out_policy: Literal["uniform", "geometric", "optimal"]
    """how the outcomes are spread over accepted lengths; geometric is uniform where that hits more [default:
    geometric]"""
    hit_c: float | str
    """miss rate of a single guess, c of h(F) = 1 - c F^-r [default: 0.4]"""
    hit_r: float | str
    """exponent of the miss rate, r of h(F) = 1 - c F^-r [default: 0.7]"""
    hit_c_all: float | str
    """c where all K tokens were accepted [default: --hit-c]"""
    hit_r_all: float | str
    """r where all K tokens were accepted [default: --hit-r]"""
    hit_curve: Sequence[Sequence[float]]
    """measured hit rates by fan-out, in place of c and r [such as 1:0.6,2:0.7]"""
    hit_curve_all: Sequence[Sequence[float]]
    """measured hit rates where all K tokens were accepted [default: --hit-curve]"""
    hit_fan_out: int
    """guesses a position beyond which hit rates rise no more [default: the largest that --pair saw, else none]"""
    hit_c_backup: float | str
    """c after a speculation by the fast backup [default: the primary's]"""
    hit_r_backup: float | str
    """r after a speculation by the fast backup [default: the primary's]"""
    hit_curve_backup: Sequence[Sequence[float]]
    """measured hit rates after a speculation by the fast backup [default: the primary's]"""
    budget: int
    """cached outcomes a sequence, in place of --f"""
    hit_concentration: float | str
    """misses of a batch go together: its hit rate is drawn each round, Beta with this a + b [default: independent
    sequences]"""
    backup: Literal["jit", "fast", "auto"]
    """on a cache miss: draft just in time, take a fast backup's tokens, or the better of the two [default: auto]"""
    backup_ms: float
    """latency of the fast backup [default: 0.0]"""
    ranges: Ranges
    """where a rate of acceptance or hits may lie, alpha=0.75:0.85, again for each; --alpha 0.75:0.85 says the same
    [default: a rate that is given is exact]"""
    target: str
    """target model: a card (ssdsim models list), a config.json, or transformer-shaped-HxL [default: llama-3.1-70b]"""
    draft: str
    """draft model's card; with another --drafter, its own card or a config.json [default: llama-3.2-1b]"""
    any_vocabulary: bool
    """price a draft of another vocabulary than the target's, which engines refuse"""
    draft_set: str
    """the set of a drafter card whose published acceptance is taken [default: its first]"""
    hardware: str
    """hardware profile (ssdsim hardware list) [default: h100-sxm]"""
    draft_hardware: str
    """profile of SSD's draft device [default: --hardware]"""
    draft_link_us: float
    """latency of a message between target and draft over a network (us) [default: the profile's link]"""
    draft_link_gbs: float
    """bandwidth of that network (GB/s) [default: the profile's link]"""
    runtime: str
    """engine that runs the kernels: a card (ssdsim runtimes list) or a .toml; kernels adds nothing [default: the one
    beside the profile, else ssd-engine]"""
    tp: int
    """tensor-parallel degree of the target [default: 4]"""
    ep: int
    """groups of the target's devices that hold different experts (expert parallel); 1: all share each expert [default:
    1]"""
    attention: Literal["data-parallel", "tensor-parallel"]
    """the target's devices share every sequence, or each has its own (data-parallel) and all-to-alls bring tokens to
    experts that lie apart on all of them [default: tensor-parallel]"""
    placement: Sequence[int]
    """devices of the target's node for its ranks, then the draft, where pairs are linked unlike: 0,2,3,1,4 [default: in
    the node's order]"""
    temperature: float
    """sampling temperature; above 0 the draft's logits go to the target; a pair has rates of its own at each [default:
    0.0]"""
    dtype: Dtype
    """weight format; an unquantised one also sets activations and KV cache [default: the card's]"""
    kv_dtype: KvDtype
    """of the models' caches [default: the card's, or that of the activations]"""
    state_dtype: StateDtype
    """of the states of recurrent layers [default: the card's]"""
    states: Literal["each", "copied", "replayed"]
    """of recurrent layers while tokens are verified: each token's state, copies, or inputs to be replayed [default: the
    runtime's]"""
    draft_dtype: Dtype
    """of the draft's weights [default: --dtype]"""
    targets: int
    """targets that share the draft's devices, each with a batch of its own [default: 1]"""
    draft_serves: Literal["auto", "together", "in-turn"]
    """targets that share a draft: one after the other; all that wait, in a pass as of all of them; or the faster
    [default: auto]"""
    gamma: int
    """PEARL's tokens a draft [default: the same as --k]"""
    branch_gamma: int
    """SpecBranch's tokens a branch [default: the same as --k]"""
    branches: int
    """SpecBranch's branches [default: 3]"""
    branch_hit: float | str
    """P(one of SpecBranch's branches is right) [default: 1 - (1 - alpha) branches^-r, with the r of --hit-r]"""
    hrad_low: float
    """share of tokens that H-RAD makes SpecBranch branch at (0: as released) [default: 0.0]"""
    hrad_hit: float | str
    """P(one of the branches is right) at those tokens [default: --branch-hit]"""
    dsi_k: int
    """DSI's tokens a block [default: the same as --k]"""
    dsi_targets: int
    """DSI's copies of the target [default: as many as never let a block wait, or as the node holds]"""
    amusd_least: int
    """drafted tokens that AMUSD's target waits for (its code: 2) [default: 2]"""
    amusd_most: int
    """most drafted tokens that AMUSD's target verifies in a pass [default: twice what is drafted during a pass, at most
    64]"""
    amusd_handshake: Literal["ideal", "code"]
    """how AMUSD's sides come to agree again: ideal, or as in its released code, which races [default: ideal]"""
    amusd_hit: float | str
    """P(AMUSD's draft guesses the bonus token) [default: --alpha, which greedy decoding makes it]"""
    tree_nodes: int | Literal["auto"]
    """drafted tokens of a tree, without its root (auto: the fastest here of up to 256; 32 without hardware) [default:
    auto]"""
    tree_depth: int | Literal["auto"]
    """levels of a tree, each a pass of the draft (auto: the fastest here of up to 16) [default: auto]"""
    tree_children: Sequence[int]
    """the tree itself: how many children each node of a level has (SpecInfer: 1,1,3,1,1,1,1,1)"""
    tree_widths: Sequence[int]
    """nodes of each level of the tree, the likeliest that are proposed there (LongSpec: 4,16,16,16,16)"""
    tree_expanded: int
    """of each level of --tree-widths, the likeliest nodes that have children (CaPE: 1) [default: all]"""
    tree_beam: int
    """a tree of its own for each round (EAGLE-2), of so many nodes a pass of the draft [default: the same tree in every
    round]"""
    tree_ranks: Sequence[float]
    """P(right) of the draft's guesses of a token, by rank; with --alpha by position its first is of each depth
    [default: --alpha, then the hit curve of the guesses after it]"""
    tree_concentration: float
    """rounds differ: the first guess's rate in each is Beta with this a + b (--tree-beam's trees know it)"""
    swift_width: int
    """nodes a pass of SwiftSpec's draft [default: 4]"""
    swift_nodes: int
    """nodes that SwiftSpec verifies, root included (its source: 8) [default: 8]"""
    swift_guesses: int
    """guesses of a token in SwiftSpec's tree [default: 3]"""
    swift_passes: int
    """passes of SwiftSpec's draft beside a verification [default: as many as a verification takes, at least 1 and at
    most 16]"""
    swift_lost: Literal["wait", "verify_root"]
    """what SwiftSpec's target does while a lost tree is grown anew [default: wait]"""
    minedraft_k: int
    """MineDraft's lookahead [default: the same as --k]"""
    minedraft_groups: int
    """groups of the batch that MineDraft drafts for and verifies in turn [default: 2]"""
    adaptive_k: int
    """tokens that adaptive SD drafts [default: the same as --k]"""
    adaptive_rows: float
    """drafted tokens a sequence that adaptive SD verifies on average [default: those of the most tokens/s]"""
    confidence_spread: float | str
    """a + b of the Beta of a drafter's confidences: 0.05 knows the outcome, 1000 knows nothing [default: 2.8]"""
    adaptive_lag: int
    """age in rounds of the confidences that say how many rows there are (of drawn rounds; vLLM: 1) [default: 1]"""
    adaptive_ms: float
    """time a round in which adaptive SD chooses rows (ms; T_v with --t-sd) [default: 0.0]"""
    lookahead_window: int
    """Jacobi positions that Lookahead guesses from side by side (its README's WINDOW_SIZE) [default: 7]"""
    lookahead_ngram: int
    """tokens of Lookahead's n-grams, the one that they go on from among them (LEVEL) [default: 5]"""
    lookahead_guesses: int
    """n-grams of the pool that Lookahead verifies at most (GUESS_SET_SIZE) [default: 7]"""
    lookahead_alpha: float | str
    """P(a token of a pooled n-gram is right | those before it are) [default: 0.4]"""
    lookahead_found: float | str
    """share of rounds in which Lookahead's pool has n-grams that go on from the last token [default: 0.3]"""
    hybrid_k: int
    """tokens that look-up first's drafter makes where nothing was found [default: the same as --k]"""
    hybrid_by: Literal["ngram", "suffix"]
    """what look-up first looks up: n-grams of the context, or suffixes of all past outputs [default: suffix]"""
    hybrid_lookup_k: int
    """tokens that look-up first verifies of what it found [default: 8]"""
    hybrid_alpha: float | str
    """P(a looked-up token is right | those before it are) [default: 0.7]"""
    hybrid_found: float | str
    """share of rounds in which look-up first finds anything [default: 0.3]"""
    spectre_k: int
    """SPECTRE's tokens a draft [default: the same as --k]"""
    spectre_ratio: float
    """share of a batch that may fail before all wait for new drafts (1: never) [default: 0.5]"""
    spectre_least: int
    """sequences up to which SPECTRE never drafts anew for a batch [default: 4]"""
    spectre_load: float
    """share of the draft's time that its own tenant takes: drafts take 1 / (1 - load) as long [default: 0.0]"""
    specactor_window: int
    """SpecActor's tokens a window [default: the same as --k]"""
    specactor_targets: int
    """copies of the target that verify parts of SpecActor's batch [default: 1]"""
    specactor_drafts: int
    """draft devices that work for SpecActor's targets [default: 1]"""
    enum_rows: Literal["padded", "ragged"]
    """rows of enumeration's sequences without a draft: K + 1 (padded, as graphs need), or one (ragged) [default:
    padded]"""
    enum_late: float
    """share of enumeration's buffers that come too late, which makes misses of them [default: 0.0]"""
    staged_by: str
    """what drafts for the draft model: ngram, a smaller model's card, or card+ngram, card+card [default: nothing]"""
    staged_k: Sequence[int]
    """tokens that each stage drafts for the model above it; 0 none [default: 4 each]"""
    staged_alpha: Sequence[float]
    """P(the model above accepts a token of a stage | those before it); of n-grams over all rounds [default: must be
    given: nobody has published one]"""
    mtp_modules: int
    """MTP modules, each drafts one token and the last one all further ones (Inkling has up to 8) [default: 1]"""
    found: float
    """share of rounds in which a look-up finds anything to propose [default: the drafter card's]"""
    ngram_lookup_us: float
    """microseconds of an n-gram look-up (no source tells it apart from the verification) [default: 0.0]"""
    suffix_us: float
    """microseconds a token that is looked up in suffix trees (their authors' blog) [default: 20.0]"""
    suffix_match: float
    """mean length of a match in suffix trees [default: long enough for K tokens]"""
    draft_budget: int
    """tokens of the context that the target keeps in the cache that it drafts with [default: 512]"""
    longspec_window: int
    """tokens that LongSpec's own attention sees (its code: 512) [default: 512]"""


class Options(SharedOptions, total=False):
    """One scenario: a value for each option that is given."""

    b: int
    """batch: sequences decoded together [default: 1]"""
    output_tokens: int
    """tokens of a request, where requests differ [default: 512]"""
    context: int
    """tokens of a sequence in the KV cache [default: 1024]"""
    spread: float | Literal["profile"]
    """standard deviation of the logarithm of every duration (0.1: about 10 %); or profile: as it was measured [default:
    0.0]"""
    t_sd: float
    """unit-free mode: SD's drafting time in units of T_v; no hardware is read"""
    t_v: Sequence[Sequence[float]]
    """unit-free mode: time of a target pass by its rows, over the whole batch; linear between and beyond [default: 1,
    whatever its rows]"""
    t_p: float
    """unit-free mode: pre-speculation time [default: --t-sd]"""
    t_b: float
    """unit-free mode: the backup's time [default: --t-sd with jit, 0 with fast]"""


class Searched(TypedDict, total=False):
    """Several scenarios: for each option that is given a value, or all values to try."""

    strategies: Several[str | Sequence[str]]
    subject: Several[str]
    drafter: Several[str]
    k: Several[int]
    alpha: Several[float | Sequence[float] | str]
    alpha_concentration: Several[float | str]
    pair: Several[str]
    pair_set: Several[str]
    pair_backup: Several[str]
    extrapolate: Several[bool]
    acceptance: Several[str]
    output_tokens: Several[int]
    sd_k: Several[int]
    sd_draft: Several[Literal["colocated", "separate"]]
    draft_gpus: Several[int]
    alpha_backup: Several[float | str]
    p_hit: Several[float | str]
    p_hit_backup: Several[float | str]
    f: Several[int | Literal["window"]]
    fl: Several[Sequence[int]]
    flm: Several[Sequence[int]]
    fan_out_policy: Several[Literal["uniform", "geometric", "optimal"]]
    hit_c: Several[float | str]
    hit_r: Several[float | str]
    hit_c_all: Several[float | str]
    hit_r_all: Several[float | str]
    hit_curve: Several[Sequence[Sequence[float]]]
    hit_curve_all: Several[Sequence[Sequence[float]]]
    hit_fan_out: Several[int]
    hit_c_backup: Several[float | str]
    hit_r_backup: Several[float | str]
    hit_curve_backup: Several[Sequence[Sequence[float]]]
    budget: Several[int]
    hit_concentration: Several[float | str]
    backup: Several[Literal["jit", "fast", "auto"]]
    backup_ms: Several[float]
    ranges: Several[Ranges]
    target: Several[str]
    draft: Several[str]
    any_vocabulary: Several[bool]
    draft_set: Several[str]
    hardware: Several[str]
    draft_hardware: Several[str]
    draft_link_us: Several[float]
    draft_link_gbs: Several[float]
    runtime: Several[str]
    tp: Several[int]
    ep: Several[int]
    attention: Several[Literal["data-parallel", "tensor-parallel"]]
    placement: Several[Sequence[int]]
    context: Several[int]
    temperature: Several[float]
    dtype: Several[Dtype]
    kv_dtype: Several[KvDtype]
    state_dtype: Several[StateDtype]
    states: Several[Literal["each", "copied", "replayed"]]
    draft_dtype: Several[Dtype]
    spread: Several[float | Literal["profile"]]
    t_sd: Several[float]
    t_v: Several[Sequence[Sequence[float]]]
    t_p: Several[float]
    t_b: Several[float]
    targets: Several[int]
    draft_serves: Several[Literal["auto", "together", "in-turn"]]
    gamma: Several[int]
    branch_gamma: Several[int]
    branches: Several[int]
    branch_hit: Several[float | str]
    hrad_low: Several[float]
    hrad_hit: Several[float | str]
    dsi_k: Several[int]
    dsi_targets: Several[int]
    amusd_least: Several[int]
    amusd_most: Several[int]
    amusd_handshake: Several[Literal["ideal", "code"]]
    amusd_hit: Several[float | str]
    tree_nodes: Several[int | Literal["auto"]]
    tree_depth: Several[int | Literal["auto"]]
    tree_children: Several[Sequence[int]]
    tree_widths: Several[Sequence[int]]
    tree_expanded: Several[int]
    tree_beam: Several[int]
    tree_ranks: Several[Sequence[float]]
    tree_concentration: Several[float]
    swift_width: Several[int]
    swift_nodes: Several[int]
    swift_guesses: Several[int]
    swift_passes: Several[int]
    swift_lost: Several[Literal["wait", "verify_root"]]
    minedraft_k: Several[int]
    minedraft_groups: Several[int]
    adaptive_k: Several[int]
    adaptive_rows: Several[float]
    confidence_spread: Several[float | str]
    adaptive_lag: Several[int]
    adaptive_ms: Several[float]
    lookahead_window: Several[int]
    lookahead_ngram: Several[int]
    lookahead_guesses: Several[int]
    lookahead_alpha: Several[float | str]
    lookahead_found: Several[float | str]
    hybrid_k: Several[int]
    hybrid_by: Several[Literal["ngram", "suffix"]]
    hybrid_lookup_k: Several[int]
    hybrid_alpha: Several[float | str]
    hybrid_found: Several[float | str]
    spectre_k: Several[int]
    spectre_ratio: Several[float]
    spectre_least: Several[int]
    spectre_load: Several[float]
    specactor_window: Several[int]
    specactor_targets: Several[int]
    specactor_drafts: Several[int]
    enum_rows: Several[Literal["padded", "ragged"]]
    enum_late: Several[float]
    staged_by: Several[str]
    staged_k: Several[Sequence[int]]
    staged_alpha: Several[Sequence[float]]
    mtp_modules: Several[int]
    found: Several[float]
    ngram_lookup_us: Several[float]
    suffix_us: Several[float]
    suffix_match: Several[float]
    draft_budget: Several[int]
    longspec_window: Several[int]


class Axes(Searched, total=False):
    """The options of :class:`Searched`, of a verb that has no batch of its own."""

    b: Several[int]
