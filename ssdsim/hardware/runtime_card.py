"""A runtime card: what an engine, in a range of versions, adds to kernels (fused and hidden ones, host work), and its
error.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Literal

from msgspec import Meta, field
from msgspec.structs import asdict

from ssdsim.base.card import Card, Coefficient, NotNegative, Seconds
from ssdsim.hardware.device import Device
from ssdsim.hardware.engine_versions import ByVersion, Runs
from ssdsim.hardware.extrapolation import ExtrapolationError, OperatingPoint, TrainingDomain, distance
from ssdsim.hardware.runtime_numbers import (
    CacheDtype,
    CardErrors,
    DraftDegree,
    Host,
    Kernels,
    Launches,
    check_numbers,
)
from ssdsim.transformer.cache_memory import Caching, Keeps
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.layers import Head
from ssdsim.transformer.operations import DTYPES
from ssdsim.transformer.precision import Precision
from ssdsim.transformer.recurrences import StateKeeping

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


class Evidence(Card):
    """Rows that the numbers rest on; mean absolute relative errors, of rows fitted and of series left out."""

    source: str
    rows: Annotated[int, Meta(ge=0)] = 0
    series: Annotated[int, Meta(ge=0)] = 0
    error: NotNegative | None = None
    left_out_error: NotNegative | None = None
    note: str = ""


class Fp4Overrides(Card):
    """Differences where an engine has other kernels: its ``numbers``, with what is open of all, its cache, versions."""

    cache_dtype: CacheDtype | None = None
    numbers: dict[str, NotNegative] = field(default_factory=dict)
    wander: Directions = ()
    by_version: ByVersion | None = None

    def __post_init__(self) -> None:
        check_numbers("numbers", self.numbers)
        for number, direction in enumerate(self.wander):
            check_numbers(f"wander.{number}", direction)


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
            check_numbers(f"wander.{number}", direction)

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
