"""A runtime card: what an engine, in a range of versions, adds to kernels (fused and hidden ones, host work), and its
error.
"""

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Literal, get_args

from msgspec import Meta, field
from msgspec.structs import asdict

from ssdsim.base.card import Card, Coefficient, LogSd, NotNegative, Seconds
from ssdsim.base.conversion import FieldError
from ssdsim.base.errors import nearest
from ssdsim.base.record import Record
from ssdsim.hardware.extrapolation import ExtrapolationError, OperatingPoint, TrainingDomain, distance
from ssdsim.hardware.profile import Device
from ssdsim.transformer.cache_memory import Caching, Keeps
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.layers import Head
from ssdsim.transformer.operations import DTYPES
from ssdsim.transformer.precision import Precision
from ssdsim.transformer.recurrences import StateKeeping

Factor = Annotated[float, Meta(ge=0.01, le=100.0)]
"""A factor on the seconds of kernels."""

DraftDegree = Literal["one", "all", "faster"]
DRAFT_DEGREES: tuple[DraftDegree, ...] = get_args(DraftDegree)
CacheDtype = Literal["bfloat16", "float16", "float8"]


class FieldInfo(Record):
    """Metadata of a card field: description and uncertainty.

    ``prior_sd`` is the standard deviation between engines of a kind, the prior of a fit of few rows (None: the field is
    not fitted). The host's seconds of one ``term`` share an error, which is the log-sd ``error`` of
    :class:`CardErrors`. :func:`ssdsim.pricing.passes.units` says how often a number is paid.
    """

    about: str
    prior_sd: float | None = None
    term: str = "pass"
    error: str = "host_log_sd"

    @property
    def has_own_error(self) -> bool:
        """Tell whether its seconds have another error than the host's in passes and steps."""
        return self.error != "host_log_sd"


class Kernels(Card):
    """Differences of the engine's kernels from those that were timed one by one on an idle device.

    ``gemm``, ``attention``, ``communication``, ``elementwise``, ``experts`` (of 8 bits a weight), ``experts_16_bit``,
    ``experts_4_bit`` (MXFP4 and int4, which other kernels unpack as they read them) and ``experts_nvfp4`` multiply
    their seconds. ``overlap`` is the share of what GEMMs, attention and element-wise kernels take beyond their bytes
    and flops at the device's peaks that their neighbours hide: launches, first loads and last waves (CUDA graphs,
    programmatic dependent launch, fusion). Products of 4 bits hide nothing: quantising their inputs takes that time.

    Passes over prompts have no factors but these. ``prompt_experts_4_bit`` multiplies their experts of 4 bits.
    ``prompts`` is the share of other requests' prompts that tokens of a served request wait for; the rest is in their
    first token's time (an engine that processes prompts first, of requests that arrive together).

    Where the engine has kernels of its own, what another library's took says little. ``streaming_attention``: decode
    attention takes its launch and its bytes, as fast as the profile's kernels or memory give them at best; what the
    engine's take besides is of each layer. Messages of an all-reduce up to
    ``one_shot_bytes`` are read by every rank from each other one, which takes the latency and ``(ranks - 1) bytes``
    over the link; larger ones take no less, and at most what the profile's do or what they take in one shot or in two,
    each rank adding up its part for all others. Both kernels are multiplied by their factors. Engines of 2024 read keys
    and values for each query head: one more that shares them adds ``attention_sharing`` of attention's seconds.
    """

    gemm: Annotated[Factor, FieldInfo("matrix multiplications", 0.2)] = 1.0
    attention: Annotated[Factor, FieldInfo("attention", 0.25)] = 1.0
    attention_sharing: Annotated[NotNegative, FieldInfo("attention, a query head more of a KV head", 0.2)] = 0.0
    communication: Annotated[Factor, FieldInfo("all-reduces", 0.3)] = 1.0
    elementwise: Annotated[Factor, FieldInfo("element-wise kernels", 0.5)] = 1.0
    experts: Annotated[Factor, FieldInfo("layers of experts of 8 bits", 0.15)] = 1.0
    experts_16_bit: Annotated[Factor, FieldInfo("of 16 bits", 0.15)] = 1.0
    experts_4_bit: Annotated[Factor, FieldInfo("of 4 bits, unpacked", 0.25)] = 1.0
    experts_nvfp4: Annotated[Factor, FieldInfo("of 4 bits, multiplied as such", 0.25)] = 1.0
    prompt_experts_4_bit: Annotated[Factor, FieldInfo("of 4 bits, unpacked, in passes over prompts", 0.5)] = 1.0
    prompts: Annotated[Factor, FieldInfo("share of others' prompts that a served token waits for", 0.3)] = 1.0
    overlap: Annotated[float, FieldInfo("share beyond the roofs that is hidden", 0.3), Meta(ge=0.0, le=0.9)] = 0.0
    streaming_attention: Annotated[bool, FieldInfo("attention at the bandwidth")] = False
    one_shot_bytes: Annotated[int, FieldInfo("all-reduces read by every rank"), Meta(ge=0, le=10**12)] = 0


_DRAFTING, _ROUND = "draft_step_log_sd", "per_round_log_sd"


class Host(Card):
    """Seconds that belong to no kernel.

    ``per_layer_s``: gaps, of every pass and layer. ``per_expert_layer_s``: of those with experts besides, and
    ``per_expert_token_s`` for every token there: choosing experts, sorting tokens to them and adding up;
    ``per_expert_prompt_s`` of such a layer in a pass with parts of prompts, which no captured graph holds.
    ``per_recurrent_layer_s``: of those with a recurrent state besides (what splits its inputs, decays and gates).
    ``per_pass_s``: of a target pass. ``per_step_s``: after each target pass (scheduling, sampling, detokenising), and
    ``per_sequence_s`` of it for every sequence of the batch. ``per_draft_step_s``: of every pass of a draft.
    ``per_round_s``: of a round that verifies drafted tokens, more than of a step without. Of it are
    ``per_round_sequence_s`` for every sequence (what was accepted of it, its cache cut back, its next draft) and
    ``per_round_layer_s`` for every layer of the target (shapes for which no graph was captured).
    ``per_tree_layer_s``: of every layer without experts of a pass over a tree, of target and draft, whose attention
    takes a kernel over what all nodes see, one over the nodes under a mask, and one that merges both; a layer with
    experts took no longer in any published tree. ``per_tree_token_s``: of every node in a draft's pass over a tree,
    whose likeliest children are sorted out of its vocabulary.
    ``per_mask_s``: of a draft's pass over branches or a tree, whose mask depends on the step and on the prefix and is
    built anew. Only rows of rounds that wait for such passes tell what it takes: SSD's whose draft is late.
    """

    per_layer_s: Annotated[Seconds, FieldInfo("of every pass and layer", 10e-6, "layers")] = 0.0
    per_pass_s: Annotated[Seconds, FieldInfo("of a target pass", 1e-3, "pass")] = 0.0
    per_step_s: Annotated[Seconds, FieldInfo("after each target pass", 1e-3, "step")] = 0.0
    per_sequence_s: Annotated[Seconds, FieldInfo("of it, a sequence of the batch", 20e-6, "step")] = 0.0
    per_draft_step_s: Annotated[Seconds, FieldInfo("of every pass of a draft", 1.5e-3, "draft step", _DRAFTING)] = 0.0
    per_round_s: Annotated[Seconds, FieldInfo("of a round that speculates", 3e-3, "round", _ROUND)] = 0.0
    per_round_layer_s: Annotated[Seconds, FieldInfo("of it, a layer of the target", 50e-6, "round", _ROUND)] = 0.0
    per_round_sequence_s: Annotated[Seconds, FieldInfo("of it, a sequence of the batch", 0.1e-3, "round", _ROUND)] = 0.0
    per_tree_layer_s: Annotated[Seconds, FieldInfo("of a dense layer over a tree", 20e-6, "tree", _ROUND)] = 0.0
    per_tree_token_s: Annotated[Seconds, FieldInfo("of a draft's node in it", 5e-6, "tree step", _DRAFTING)] = 0.0
    per_mask_s: Annotated[Seconds, FieldInfo("of a branch step, for its mask", 0.3e-3, "masks", _DRAFTING)] = 0.0
    per_expert_layer_s: Annotated[Seconds, FieldInfo("of every layer with experts", 10e-6, "expert layers")] = 0.0
    per_expert_token_s: Annotated[Seconds, FieldInfo("of it, a token", 1e-6, "expert layers")] = 0.0
    per_expert_prompt_s: Annotated[Seconds, FieldInfo("of it, in a pass over prompts", 1e-3, "expert layers")] = 0.0
    per_recurrent_layer_s: Annotated[Seconds, FieldInfo("of every layer with a state", 10e-6, "recurrent layers")] = 0.0


class CardErrors(Card):
    """Errors of the card.

    ``pass_log_sd``: standard deviation of log(real / predicted) of a target pass with its step, from series that were
    left out; all strategies on the engine share it. ``beside_log_sd``: besides, of those of its seconds in which no
    matrices are multiplied (attention, messages, element-wise work, the host), which are known worse than matrices
    timed one by one. ``experts_log_sd``: added to a pass's (in quadrature) where the model is a mixture of experts.
    ``host_log_sd``: of the host's seconds. ``draft_step_log_sd``: of those of a draft step. ``per_round_log_sd``: of
    those of a round. ``round_log_sd``: of a whole round that speculates, each strategy's its own.
    """

    pass_log_sd: Annotated[LogSd, FieldInfo("error of a target pass and step")] = 0.0
    beside_log_sd: Annotated[LogSd, FieldInfo("of its seconds beside matrices, besides")] = 0.0
    experts_log_sd: Annotated[LogSd, FieldInfo("error of a mixture's, besides")] = 0.0
    host_log_sd: Annotated[LogSd, FieldInfo("error of the host's seconds")] = 0.0
    draft_step_log_sd: Annotated[LogSd, FieldInfo("error of a draft step")] = 0.0
    per_round_log_sd: Annotated[LogSd, FieldInfo("error of the cost of a round")] = 0.0
    round_log_sd: Annotated[LogSd, FieldInfo("error of a speculating round")] = 0.0


def _numbers(*parts: type[Card]) -> dict[str, FieldInfo]:
    return {
        name: next(each for each in part.__annotations__[name].__metadata__ if isinstance(each, FieldInfo))
        for part in parts
        for name in part.__struct_fields__
    }


NUMBERS = _numbers(Kernels, Host)
"""Every field that belongs to kernels or to the host, in the order of the card."""

ERRORS = _numbers(CardErrors)


class Launches(Card):
    """Host time of a draft model whose kernels are launched one by one and not as a CUDA graph.

    ``per_layer_s``: of every layer of each of its passes; ``per_round_s``: of a round besides (scheduling, launching
    the target, sampling). The host runs ahead of the devices: it launches drafts while these still verify, so that a
    round takes as long as the slower of both and not their sum.
    """

    per_round_s: Seconds
    per_layer_s: Seconds


class Newer(Card):
    """What of a strategy is newer than its card's first version: whom it takes as drafters from ``version`` on."""

    version: Annotated[str, Meta(pattern=r"^\d{1,9}\.\d{1,9}$")]
    strategy: str
    drafters: Annotated[tuple[str, ...], Meta(min_length=1)]
    source: Annotated[str, Meta(min_length=1)]


class Runs(Card):
    """The strategies that the engine can run; no number of a prediction follows from it.

    ``called`` is the engine's name in sentences. ``strategies`` has a strategy's name for each that it runs, with the
    drafters that may draft for it there (none for one that drafts nothing). ``k_by_batch``: its K may follow the batch
    size by a table. ``over_stages`` are the drafters that may draft for a target on pipeline stages (None: it keeps no
    batches in flight on stages at all). ``saguaro`` are the strategies whose draft samples by Saguaro's C there.
    ``draft_gpus`` is how many devices of its own a draft may have (None: any number). ``dcp`` are the strategies that
    it runs with devices that share each sequence's cache. ``tests`` are the rules of acceptance beside the token rule,
    and the other options of how drafts are tested, that it can be told. ``since`` says from which version on it has a
    strategy, a drafter, one over stages, the table or ``dcp``, where that is not as old as the card, and how far.
    ``newer`` is what a stated version may be too old for, and ``too_new`` what it is.
    """

    called: Annotated[str, Meta(min_length=1)]
    strategies: Annotated[dict[str, tuple[str, ...]], Meta(min_length=1)]
    k_by_batch: bool = False
    over_stages: tuple[str, ...] | None = None
    saguaro: tuple[str, ...] = ()
    draft_gpus: Annotated[int, Meta(ge=0)] | None = None
    dcp: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    since: dict[str, str] = field(default_factory=dict)
    newer: tuple[Newer, ...] = ()
    too_new: tuple[Newer, ...] = ()
    source: Annotated[str, Meta(min_length=1)]

    def of_version(self, version: str) -> "Runs":
        """The engine's abilities in a version; all of them where it begins with no number."""
        too_new = tuple(each for each in self.newer if version_numbers(version) < version_numbers(each.version))
        if not too_new:
            return self
        without = [(each.strategy, drafter) for each in too_new for drafter in each.drafters]
        left = {
            name: tuple(drafter for drafter in drafters if (name, drafter) not in without)
            for name, drafters in self.strategies.items()
        }
        kept = {name: drafters for name, drafters in left.items() if drafters or not self.strategies[name]}
        return self.changed(strategies=kept, newer=(), too_new=too_new)

    def comes_with(self, strategy: str, drafter: str) -> str | None:
        """The version that has what the stated one is too old for."""
        return next((n.version for n in self.too_new if n.strategy == strategy and drafter in n.drafters), None)

    def has(self, strategy: str, drafter: str) -> bool:
        """Tell whether it runs a strategy, drafted for by that drafter where the strategy has one."""
        return strategy in self.strategies and drafter in (self.strategies[strategy] or (drafter,))

    @property
    def drafters(self) -> tuple[str, ...]:
        """The drafters of all strategies, each once."""
        return tuple(dict.fromkeys(name for each in self.strategies.values() for name in each))


class Evidence(Card):
    """Rows that the numbers rest on; mean absolute relative errors, of rows fitted and of series left out."""

    source: str
    rows: Annotated[int, Meta(ge=0)] = 0
    series: Annotated[int, Meta(ge=0)] = 0
    error: NotNegative | None = None
    left_out_error: NotNegative | None = None
    note: str = ""


def version_numbers(version: str) -> tuple[float, ...]:
    """The numbers of a version such as 0.24 or v0.9.1rc2, to compare by; beyond all of one that begins with none."""
    matched = re.match(r"v?(\d{1,9})\.(\d{1,9})(?!\d)", version)
    return (math.inf,) if matched is None else (int(matched[1]), int(matched[2]))


def _check_numbers(key: str, named: Mapping[str, float]) -> None:
    """FieldError unless all names under a key are those of numbers of a card."""
    for name in named:
        if name not in NUMBERS:
            raise FieldError(key, f"unknown number '{name}'{nearest(name, NUMBERS)} Allowed: {', '.join(NUMBERS)}")


BEFORE_PASS_LOG_SD, BEFORE_ROUND_LOG_SD = 0.14, 1.0
"""Of a version before every card: of a pass, and of a round that speculates. They are the root mean squares of the only
such rows at hand, OPT-30B on vLLM 0.4.2 (PR 4840): a pass took 5, 14 and 18 % longer on one, two and four A100s than on
vLLM 0.5's card, a token with a draft model 1.7, 2.9 and 3.7 times as long at an acceptance rate of 0.6."""

UNSEEN_ROUND_LAYER_S = 1.2e-4
"""A layer of a round's verification on an engine that was never seen to verify such layers: one standard deviation.

Where no captured graph holds it, the host launches its kernels: 0.41 ms a layer (vLLM 0.16's draft model), which is
what 95 of 100 draws reach for a model of small passes. The one such row at hand asks for 0.47 ms: Qwen3.5-0.8B with its
MTP head decoded at 128 tokens/s where it had 342 without (vLLM, issue 39680)."""

Directions = tuple[dict[str, Coefficient], ...]
"""Independent directions, each of which moves numbers of a card together, by one standard deviation."""


class Deviation(Card):
    """What one ``version`` adds to its engine's numbers (seconds, below 0 where it is faster), and what is ``open``."""

    version: Annotated[str, Meta(min_length=1)]
    adds: dict[str, Coefficient]
    open: dict[str, NotNegative] = field(default_factory=dict)


class ByVersion(Card):
    """How an engine's versions differ: seconds of the host that a version adds to the card's numbers.

    ``spread`` is the standard deviation over versions of each number that differs: ``per_layer_s`` and
    ``per_sequence_s`` (all models), ``per_expert_layer_s`` (mixtures besides), ``per_recurrent_layer_s`` (hybrids). It
    is open where nobody says a version, or one that is not ``known``. ``stated`` is the one that somebody said.
    """

    spread: dict[str, NotNegative]
    known: tuple[Deviation, ...] = ()
    stated: Deviation | None = None

    def __post_init__(self) -> None:
        _check_numbers("spread", self.spread)
        for number, each in enumerate(self.known):
            _check_numbers(f"known.{number}", each.adds)

    @property
    def adds(self) -> Mapping[str, float]:
        """What the stated version adds to each number."""
        return {} if self.stated is None else self.stated.adds

    @property
    def open(self) -> Mapping[str, float]:
        """The standard deviation of what is added to each number."""
        return self.spread if self.stated is None else {**self.spread, **self.stated.open}

    def of(self, version: str) -> Deviation | None:
        """The known version that a version is: the same release, or the only one that it begins (``0.17``)."""
        asked = parts_of(version)
        same = [each for each in self.known if parts_of(each.version) == asked]
        begun = [each for each in self.known if asked and parts_of(each.version)[: len(asked)] == asked]
        return next(iter(same), begun[0] if len(begun) == 1 else None)

    def saying(self, version: str) -> "ByVersion":
        """What is known where somebody says a version."""
        found = self.of(version)
        return self if found is None else self.changed(known=(), stated=found)


def parts_of(version: str) -> tuple[str, ...]:
    """The parts of a release that say how it differs: ``1.2.0rc6.post2`` is 1, 2, 0, rc, 6. Of no number: itself."""
    if re.match(r"v?\d", version) is None:
        return (version,) if version else ()
    return tuple(re.findall(r"\d+|[a-z]+", version.lower().removeprefix("v").partition(".post")[0]))


class Fp4Overrides(Card):
    """Differences where an engine has other kernels: its ``numbers``, with what is open of all, its cache, versions."""

    cache_dtype: CacheDtype | None = None
    numbers: dict[str, NotNegative] = field(default_factory=dict)
    wander: Directions = ()
    by_version: ByVersion | None = None

    def __post_init__(self) -> None:
        _check_numbers("numbers", self.numbers)
        for number, direction in enumerate(self.wander):
            _check_numbers(f"wander.{number}", direction)


Version = Annotated[str, Meta(pattern=r"\A(\d{1,9}\.\d{1,9})?\Z")]

OF_ENGINE = ("runs", "states", "pages_of_states", "keeps", "captured_rows", "mixes_prompts")
"""What a card says of its engine itself: no fit of its numbers knows it, and another engine's card does not have it."""


class Runtime(Card):
    """An engine in a range of ``versions``; what it adds to a hardware profile, which holds kernels only.

    ``since`` is the first of them, where cards of one engine follow each other (empty: the card is of a kind apart);
    ``until`` the last (empty: all that follow). ``by_version`` is how they differ (None: the card is of
    one, or of one's own rows).

    ``mixes_prompts``: parts of prompts join the passes that decode, up to the tokens that a pass holds. An engine
    without it processes prompts in passes of their own, for which decoding waits.

    ``draft_tp`` says on how many of the target's devices a draft beside it runs: on one, on all (each step then pays
    all-reduces), or on the faster of both. ``cache_dtype`` is that of its cache
    beside quantised weights, where neither a user nor the checkpoint says (None: the activations'). ``head_step_s`` is
    the host's ``per_draft_step_s`` where the draft is a head of its target (None: the same), ``own_lm_head_step_s``
    where that has an LM head of its own, whose tokens are then told in the target's vocabulary (None: a head's).

    ``captured_rows`` are the sizes of passes that it captures, in rows of the whole batch: a pass whose sequences have
    different numbers of rows is padded to the next of them. None are known by default.

    ``states`` says what it keeps of recurrent layers while it verifies tokens, which sets what verification moves and
    what a sequence takes in memory. ``pages_of_states``: keys, values and states of a hybrid model lie in pages of one
    size (:func:`ssdsim.transformer.cache_memory.paged_bytes`). ``keeps``: what it keeps from caches of the share
    of memory that it takes (None: nothing is known).

    ``launches`` is there where a draft model beside the target runs without graphs. ``runs`` is what the engine can
    run (None: nothing is known to be missing); a fit of the card's numbers leaves it as it is.

    ``wander`` holds what the rows that the card was fitted to leave open of its numbers: independent directions, each
    of which moves fields of ``kernels`` and ``host`` together, by one standard deviation.

    ``covered`` are the settings that the rows had, and ``away`` what being elsewhere adds to its errors.

    ``four_bits`` is there where the engine is another one on devices that multiply 4 bits themselves (Blackwell):
    other kernels for experts, all-reduces fused with what comes after them.
    """

    schema_: Literal[1] = field(default=1, name="schema")
    name: Annotated[str, Meta(min_length=1)]
    engine: str
    versions: str = ""
    since: Version = ""
    until: Version = ""
    about: str = ""
    draft_tp: DraftDegree = "faster"
    cache_dtype: CacheDtype | None = None
    head_step_s: Seconds | None = None
    own_lm_head_step_s: Seconds | None = None
    states: StateKeeping = "each"
    pages_of_states: bool = False
    keeps: Keeps | None = None
    mixes_prompts: bool = False
    kernels: Kernels = Kernels()
    host: Host = Host()
    errors: CardErrors = CardErrors()
    captured_rows: tuple[Annotated[int, Meta(ge=1)], ...] = ()
    launches: Launches | None = None
    runs: Runs | None = None
    wander: Directions = ()
    away: ExtrapolationError = ExtrapolationError()
    covered: tuple[TrainingDomain, ...] = ()
    four_bits: Fp4Overrides | None = None
    by_version: ByVersion | None = None
    evidence: Evidence

    def __post_init__(self) -> None:
        for number, direction in enumerate(self.wander):
            _check_numbers(f"wander.{number}", direction)

    def __hash__(self) -> int:
        return hash(self.name)  # of all fields it takes longer than finding a pass that is known

    def cache_beside(self, weights: Precision) -> str | None:
        """The dtype of the cache that it keeps beside quantised weights; None where it is the model's own."""
        return self.cache_dtype if weights.mlp not in DTYPES and weights.kv == weights.activations else None

    @property
    def caching(self) -> Caching:
        """The way in which it keeps caches."""
        return Caching(self.states, self.pages_of_states, keeps=self.keeps)

    def holding(self, tokens: int, sequences: int) -> "Runtime":
        """The runtime whose passes hold at most so many tokens of so many sequences."""
        keeps = self.keeps
        return self if keeps is None else self.changed(keeps=keeps.changed(tokens=tokens, sequences=sequences))

    def keeping(self, states: StateKeeping | None) -> "Runtime":
        """The runtime where it is told to keep states in another way than it does by itself."""
        return self if states in (None, self.states) else self.changed(states=states)

    def on(self, device: Device) -> "Runtime":
        """The runtime as it is on ``device``."""
        return self if self.four_bits is None else _on(self, device.multiplies_4_bits)

    def knows_rounds_of(self, target: Transformer) -> bool:
        """Whether rows tell what a round of such a model takes: dense ones with recurrent layers are in few cards.

        Those of mixtures are known (docs/hybrids.md). Kernels alone have no rounds.
        """
        if target.recurrent is None or target.experts is not None or not self.errors.per_round_log_sd:
            return True
        return self.host.per_recurrent_layer_s > 0.0 or any("per_recurrent_layer_s" in way for way in self.wander)

    def verifying(self, target: Transformer) -> "Runtime":
        """The runtime with what it leaves open of such a target's rounds."""
        if self.knows_rounds_of(target):
            return self
        return self.changed(wander=(*self.wander, {"per_round_layer_s": UNSEEN_ROUND_LAYER_S}))

    def of_before(self) -> "Runtime":
        """The runtime as of a version before all that it covers: no row says what a pass or a round took there."""
        own = self.errors
        wider = {"pass_log_sd": BEFORE_PASS_LOG_SD, "round_log_sd": BEFORE_ROUND_LOG_SD}
        return self.changed(
            errors=own.changed(**{name: math.hypot(getattr(own, name), sd) for name, sd in wider.items()})
        )

    def of_version(self, version: str) -> "Runtime":
        """The runtime as one of its versions is; itself where nobody said one that is known."""
        own = None if self.by_version is None else self.by_version.saying(version)
        there = self.four_bits
        if there is not None and there.by_version is not None:
            there = there.changed(by_version=there.by_version.saying(version))
        runs = None if self.runs is None else self.runs.of_version(version)
        same = own == self.by_version and there == self.four_bits and runs == self.runs
        return self if same else self.changed(by_version=own, four_bits=there, runs=runs)

    @property
    def _of_versions(self) -> tuple[ByVersion, ...]:
        there = None if self.four_bits is None else self.four_bits.by_version
        return tuple(each for each in (self.by_version, there) if each is not None)

    @property
    def known_versions(self) -> frozenset[str]:
        """The versions that it tells apart."""
        return frozenset(known.version for each in self._of_versions for known in each.known)

    @property
    def stated_version(self) -> str:
        """The known version that somebody said; empty where nobody did."""
        return next((each.stated.version for each in self._of_versions if each.stated is not None), "")

    def said_in_host(self, name: str) -> float:
        """A number of the host with what the stated version adds."""
        number: float = getattr(self.host, name)
        return number if self.by_version is None else number + self.by_version.adds.get(name, 0.0)

    @property
    def numbers(self) -> dict[str, float]:
        """Every number of the kernels and of the host."""
        return {**asdict(self.kernels), **asdict(self.host)}

    def with_numbers(self, numbers: Mapping[str, float]) -> "Runtime":
        """Copy the runtime with other numbers."""
        kernels, host = (
            part.changed(**{name: numbers[name] for name in numbers if name in type(part).__struct_fields__})
            for part in (self.kernels, self.host)
        )
        return self.changed(kernels=kernels, host=host)

    def facing(self, case: OperatingPoint) -> "Runtime":
        """The runtime with the errors that it has at this distance from its rows."""
        far, errors = distance(case, self.covered, self.away), self.errors
        beside, whole = far.beside_matrices.log_sd, far.whole.log_sd
        if not beside and not whole:
            return self
        wider = {
            "beside_log_sd": math.hypot(errors.beside_log_sd, beside),
            "pass_log_sd": math.hypot(errors.pass_log_sd, whole),
        }
        return self.changed(errors=errors.changed(**wider))

    def drafting_with(self, head: Head | None) -> "Runtime":
        """The runtime as a draft has it: a head of the target, or (None) a model."""
        return self if head is None else _drafting_with(self, head.own_lm_head)

    @property
    def title(self) -> str:
        """The engine with its versions in a sentence: ``vLLM 0.25 or later``, ``SGLang 0.5``."""
        called = self.name if self.runs is None else self.runs.called
        if not self.since or any(letter.isdigit() for letter in called):
            return called
        through = "" if self.until == self.since else f" to {self.until}" if self.until else " or later"
        return f"{called} {self.since}{through}"

    @property
    def summary(self) -> str:
        """A line on what it adds and what that rests on."""
        known = self.evidence
        errors = [
            f"{error:.1%} {where}"
            for error, where in ((known.error, "in fit"), (known.left_out_error, "left out"))
            if error is not None
        ]
        rows = f", {known.rows} rows" if known.rows else ""
        return f"{self.name}: {known.source}{rows}" + (f", mean error {', '.join(errors)}" if errors else "")


@lru_cache(maxsize=256)
def _drafting_with(runtime: Runtime, own_lm_head: bool) -> Runtime:
    steps = (runtime.own_lm_head_step_s if own_lm_head else None, runtime.head_step_s)
    step_s = next((each for each in steps if each is not None), None)
    if step_s is None:
        return runtime
    told = {"head_step_s": None, "own_lm_head_step_s": None}
    return runtime.with_numbers({"per_draft_step_s": step_s}).changed(**told)


@lru_cache(maxsize=256)
def _on(runtime: Runtime, multiplies_4_bits: bool) -> Runtime:
    alone, other = runtime.changed(four_bits=None), runtime.four_bits
    if other is None or not multiplies_4_bits:
        return alone
    own = {"cache_dtype": other.cache_dtype, "wander": other.wander, "by_version": other.by_version}
    return alone.with_numbers(other.numbers).changed(**own)


KERNELS = Runtime(
    name="kernels",
    engine="none",
    about="kernels alone: nothing between them, no error of structure",
    evidence=Evidence(source="nothing added to the hardware profile"),
)
"""The runtime that adds nothing."""


_NOTICED = 1.25  # times the log-sd, at home, of seconds beside matrices with what a whole pass is off by

_WORDS = {
    "gpu": "another GPU",
    "degree": "another degree",
    "size": "another size of model",
    "batch": "other batches",
    "version": "another version",
    "experts": "another kind of model",
    "experts_gpu": "another GPU",
}


def far_from_rows(runtime: Runtime, case: OperatingPoint) -> frozenset[str]:
    """A line on the nearest rows and how they differ, if the distance widens intervals noticeably; else empty."""
    far = distance(case, runtime.covered, runtime.away)
    nearest = max(far.beside_matrices, far.whole, key=lambda near: near.log_sd).nearest
    errors = runtime.errors
    at_home = math.hypot(errors.pass_log_sd, errors.beside_log_sd, errors.experts_log_sd if case.experts else 0.0)
    if nearest is None or math.hypot(at_home, far.beside_matrices.log_sd, far.whole.log_sd) < _NOTICED * at_home:
        return frozenset()
    unseen = all(each.device != case.device for each in runtime.covered)
    said = f"no row of the runtime {runtime.name} is on a {case.device}; " if unseen else ""
    words = dict.fromkeys(_WORDS[way] for way in far.ways)
    where = f"the nearest rows of {runtime.name} are of {_setting(nearest)}"
    return frozenset([f"{said}{where}: intervals are wider for {' and '.join(words)}"])


def _setting(covered: TrainingDomain) -> str:
    low, high = covered.batches
    batches = f"batches {low} to {high}" if low < high else f"batch {low}"
    kind = "a mixture" if covered.experts else "a dense model"
    return f"{kind} on {covered.device} at TP {covered.tp}, {batches}"
