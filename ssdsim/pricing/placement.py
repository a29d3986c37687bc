"""Which model runs on which devices, and what each step of a round costs there."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from ssdsim.errors import InputError
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.pricing.cost import Cost, TimingErrors, cost_of_message, cost_of_pass, cost_of_round, streaming_share
from ssdsim.pricing.memory import check_fits, draft_demand, smallest_tp, target_demand
from ssdsim.rounds.scenario import Gpus, RoundTimes
from ssdsim.speculation.speculator import Fallback
from ssdsim.transformer.card import ForwardPass, Transformer, forward_pass, legal_tensor_parallel
from ssdsim.transformer.operations import DTYPE_BYTES, DTYPES

# An outcome names, per sequence: id, accepted length, bonus token and length (8 bytes each), a temperature, and the
# draft's block table (4 bytes for each page of 16 tokens): SSD paper, appendix B.1.
OUTCOME_BYTES = 36
PAGE_TOKENS = 16
TOKEN_BYTES = 8


@dataclass(frozen=True)
class Drift:
    """How many times slower each pass of a round is now than its profile says; 1 for a machine that does not drift."""

    ar: float = 1.0
    verify: float = 1.0
    colocated_draft_step: float = 1.0
    draft_step: float = 1.0
    glue: float = 1.0
    branch_step: float = 1.0


@dataclass(frozen=True)
class Placement:
    """Target on ``tp`` devices; SD's draft beside it or on a device of its own; SSD's on ``draft_gpus`` more.

    Several draft devices share the branches evenly, each with its own copy of the draft.
    """

    target: Transformer
    draft: Transformer
    profile: HardwareProfile
    draft_profile: HardwareProfile
    tp: int
    draft_gpus: int
    sd_separate: bool
    batch: int
    lookahead: int
    sd_lookahead: int
    branches: int
    context: int
    sampling: bool
    dtype: str | None
    backup_s: float
    drift: Drift = Drift()

    @property
    def gpus(self) -> Gpus:
        return Gpus(ar=self.tp, sd=self.tp + int(self.sd_separate), ssd=self.tp + self.draft_gpus)

    def target_pass(self, queries: int) -> Cost:
        """One target pass over ``batch * queries`` tokens."""
        return cost_of_pass(self._target_forward(queries), self.profile)

    def _target_forward(self, queries: int) -> ForwardPass:
        return forward_pass(
            self.target, batch=self.batch, queries=queries, context=self.context, tp=self.tp, dtype=self.dtype
        )

    def draft_pass(self, queries: int = 1) -> Cost:
        """One pass on the draft's own device."""
        return cost_of_pass(self._draft_forward(1, queries, 0, False), self.draft_profile)

    def colocated_draft_step(self) -> tuple[ForwardPass, int]:
        """SD's draft step on the target's devices and its tp: on one of them or on all, whichever is faster."""
        degrees = {1, self.tp} & {1, *legal_tensor_parallel(self.draft)}
        passes = [(self._draft_forward(tp, 1, 0, False), tp) for tp in sorted(degrees)]
        return min(passes, key=lambda option: cost_of_pass(option[0], self.profile).seconds)

    def _draft_forward(self, tp: int, queries: int, extra_context: int, masked: bool) -> ForwardPass:
        return forward_pass(
            self.draft,
            batch=self.batch,
            queries=queries,
            context=self.context + extra_context,
            tp=tp,
            dtype=self.dtype,
            masked=masked,
        )

    def interference(self, verify_s: float, branches_s: float) -> tuple[float, float]:
        """Slow-downs of verification and pre-speculation while both run (the branch steps stand for the latter).

        Two profiles do not know of each other: devices of different kinds share nothing.
        """
        if self.profile.name != self.draft_profile.name:
            return 1.0, 1.0
        verify, branch = self._target_forward(self.lookahead + 1), self._branch_forward()
        return self.profile.interference.factors(
            streaming_share(verify, verify_s, self.profile),
            streaming_share(branch, branches_s / self.lookahead, self.draft_profile),
        )

    @cached_property
    def draft_step(self) -> Cost:
        """One token a sequence on the draft's own device."""
        return self.draft_pass() * self.drift.draft_step

    @cached_property
    def costs_but_fallback(self) -> RoundCosts:
        """What a round costs until a miss; both fallbacks share it."""
        sd_step, sd_message = self._sd_drafting()
        verify, (glue, branches) = self.target_pass(self.lookahead + 1) * self.drift.verify, self.prespeculation()
        slower = self.interference(verify.seconds, branches.seconds)
        verify_stretch, draft_stretch = contention(verify.seconds, (glue + branches).seconds, *slower)
        return RoundCosts(
            ar_pass_s=self.target_pass(1) * self.drift.ar,
            sd_draft_s=sd_step * self.sd_lookahead,
            sd_verify_s=self.target_pass(self.sd_lookahead + 1) * self.drift.verify,
            verify_s=verify * verify_stretch,
            glue_s=glue * draft_stretch,
            branches_s=branches * draft_stretch,
            fallback_s=Cost(),
            sd_message_s=sd_message,
            post_s=cost_of_round(self.profile),
            send_s=self._send(),
            respond_s=self._respond(self.lookahead),
            lookup_s=Cost(warnings=self._vocabularies()),
        )

    def _vocabularies(self) -> frozenset[str]:
        """A warning where the models cannot speak of the same tokens."""
        sizes = (self.draft.vocab_size, self.target.vocab_size)
        if 0 in sizes or sizes[0] == sizes[1]:
            return frozenset()
        return frozenset(
            [
                f"{self.draft.name} has {sizes[0]} tokens, {self.target.name} {sizes[1]}: "
                "speculation needs one vocabulary, engines refuse most such pairs"
            ]
        )

    def _sd_drafting(self) -> tuple[Cost, Cost]:
        """SD's draft step, and what brings its tokens to the target's ranks."""
        if self.sd_separate:
            return self.draft_step, self._send() + self._respond(self.sd_lookahead)
        forward, tp = self.colocated_draft_step()
        step = cost_of_pass(forward, self.profile) * self.drift.colocated_draft_step
        return step, Cost() if tp == self.tp else self._tell_ranks(self.sd_lookahead)

    def _send(self) -> Cost:
        return cost_of_message(self.outcome_bytes, self.draft_profile)

    def _respond(self, lookahead: int) -> Cost:
        """The speculation to the target's first rank, which tells the others."""
        return cost_of_message(self.response_bytes(lookahead), self.draft_profile) + self._tell_ranks(lookahead)

    def _tell_ranks(self, lookahead: int) -> Cost:
        """Broadcast of the draft's tokens over the target's ranks: a binomial tree of messages."""
        if self.tp == 1:
            return Cost()
        return cost_of_message(self.token_bytes(lookahead), self.profile) * (self.tp - 1).bit_length()

    def _branch_forward(self) -> ForwardPass:
        return self._draft_forward(1, self.branches_per_gpu, self.lookahead + 1, True)

    @property
    def branches_per_gpu(self) -> int:
        return -(-self.branches // self.draft_gpus)

    def forward_passes(self) -> dict[str, tuple[ForwardPass, HardwareProfile]]:
        """Every kind of pass of a round of AR or SSD, with the device that runs it."""
        return {
            "ar": (self._target_forward(1), self.profile),
            "verify": (self._target_forward(self.lookahead + 1), self.profile),
            "draft_step": (self._draft_forward(1, 1, 0, False), self.draft_profile),
            "glue": (self._draft_forward(1, self.lookahead + 1, 0, False), self.draft_profile),
            "branch_step": (self._branch_forward(), self.draft_profile),
        }

    def with_branches(self, branches: int) -> Placement:
        """The same placement with another number of cached outcomes a sequence."""
        return replace(self, branches=branches)

    def prespeculation(self) -> tuple[Cost, Cost]:
        """The glue pass over ``b (K+1)`` tokens, and the K steps over the branch tokens of one draft device."""
        step = cost_of_pass(self._branch_forward(), self.draft_profile) * self.drift.branch_step
        return self.draft_pass(self.lookahead + 1) * self.drift.glue, step * self.lookahead

    @property
    def outcome_bytes(self) -> int:
        return self.batch * (OUTCOME_BYTES + 4 * -(-self.context // PAGE_TOKENS))

    def token_bytes(self, lookahead: int) -> int:
        """The tokens of a speculation."""
        return self.batch * lookahead * TOKEN_BYTES

    def response_bytes(self, lookahead: int) -> int:
        """Tokens, hit flags, and the draft's logits when sampling (greedy decoding needs none)."""
        logits = lookahead * self.draft.vocab_size * DTYPE_BYTES[self.dtype or self.draft.dtype]
        return self.token_bytes(lookahead) + self.batch * (1 + (logits if self.sampling else 0))


@dataclass(frozen=True)
class RoundCosts:
    """The fields of :class:`RoundTimes`, each still a :class:`Cost` with its timings apart."""

    ar_pass_s: Cost
    sd_draft_s: Cost
    sd_verify_s: Cost
    verify_s: Cost
    glue_s: Cost
    branches_s: Cost
    fallback_s: Cost
    sd_message_s: Cost
    post_s: Cost
    send_s: Cost
    respond_s: Cost
    lookup_s: Cost

    def times(self) -> RoundTimes:
        return RoundTimes(**{f.name: getattr(self, f.name).seconds for f in fields(self)})

    def sample(self, errors: TimingErrors) -> RoundTimes:
        return RoundTimes(**{f.name: getattr(self, f.name).sample(errors) for f in fields(self)})

    @property
    def warnings(self) -> frozenset[str]:
        return frozenset().union(*(getattr(self, f.name).warnings for f in fields(self)))


def place(values: dict[str, Any], sources: dict[str, str], together: bool = True) -> Placement:
    """Load the cards and check that everything fits; writes derived values into ``values`` and ``sources``.

    ``together``: target and draft run at the same time, so that devices of one profile must be enough for both.
    """
    k = values["k"]
    if values["draft_hardware"] is None:
        values["draft_hardware"], sources["draft_hardware"] = values["hardware"], "same as hardware"
    placement = Placement(
        target=find_transformer(values["target"]),
        draft=find_transformer(values["draft"]),
        profile=find_hardware(values["hardware"]),
        draft_profile=find_hardware(values["draft_hardware"]),
        tp=values["tp"],
        draft_gpus=values["draft_gpus"],
        sd_separate=values["sd_draft"] == "separate",
        batch=values["b"],
        lookahead=k,
        sd_lookahead=values["sd_k"],
        branches=values["budget"],
        context=values["context"],
        sampling=values["temperature"] > 0,
        dtype=values["dtype"],
        backup_s=values["backup_ms"] / 1e3,
    )
    if values["dtype"] is None:
        values["dtype"], sources["dtype"] = placement.target.dtype, "the target card's"
    only = values["strategy"]
    _check_dtype(placement, only)
    _check_context(placement, only)
    _check_devices(placement, only, together)
    _check_memory(placement, only)
    return placement


def _check_dtype(placement: Placement, only: str | None) -> None:
    """Where a profile lacks a model's dtype, name one that all have; without such a one pricing refuses the profile."""
    p = placement
    wanted = [(p.profile, p.dtype or p.target.dtype)]
    wanted += [(p.draft_profile, p.dtype or p.draft.dtype)] if only != "ar" else []
    common = [other for other in DTYPES if all(other in profile.gemm for profile, _ in wanted)]
    for profile, dtype in wanted:
        if dtype not in profile.gemm and common:
            closest = min(common, key=lambda other: abs(DTYPE_BYTES[other] - DTYPE_BYTES[dtype]))
            has = ", ".join(profile.gemm)
            raise InputError(
                f"profile {profile.name} has no {dtype} gemm timings (it has {has}); give --dtype {closest}"
            )


def _check_context(placement: Placement, only: str | None) -> None:
    tokens = {"ar": 0, "sd": placement.sd_lookahead, "ssd": placement.lookahead}
    longest = placement.context + (max(tokens.values()) if only is None else tokens[only]) + 1
    for card in (placement.target, placement.draft):
        if longest > card.max_context:
            raise InputError(
                f"--context {placement.context} and K + 1 tokens in flight pass the {card.max_context} of {card.name}"
            )


def _check_devices(placement: Placement, only: str | None, together: bool) -> None:
    """Each profile's node must have the devices of the model that runs there; of both, where they share a node."""
    p, strategy = placement, only or "ssd"
    have, draft = p.profile.device.count, getattr(p.gpus, strategy) - p.tp
    shared = draft if together and p.profile.name == p.draft_profile.name else 0
    if p.tp + shared > have:
        fitting = [tp for tp in legal_tensor_parallel(p.target) if tp + shared <= have]
        nearest_fit = f"; the nearest that fits is tp {max(fitting)}" if fitting else ""
        needs = f"{p.tp} target and {shared} draft devices" if shared else f"{p.tp} target devices"
        raise InputError(f"{strategy.upper()} needs {needs}, {p.profile.name} has {have}{nearest_fit}")
    if draft > p.draft_profile.device.count:
        count = p.draft_profile.device.count
        raise InputError(f"{strategy.upper()} needs {draft} draft devices, {p.draft_profile.name} has {count}")


def _check_memory(placement: Placement, only: str | None) -> None:
    """Every device must hold its models, caches and cached outcomes: of all strategies, or of ``only`` one."""
    p = placement
    dtype, draft_dtype = p.dtype or p.target.dtype, p.dtype or p.draft.dtype
    lookahead = {"ar": 0, "sd": p.sd_lookahead, "ssd": p.lookahead, None: max(p.lookahead, p.sd_lookahead)}[only]
    target = target_demand(p.target, p.tp, p.context, lookahead, dtype)
    enough = smallest_tp(p.target, p.profile, p.context, lookahead, dtype)
    advice = f"; the smallest tp that fits one sequence is {enough}" if enough and enough > p.tp else ""
    check_fits(f"{p.target.name} at tp {p.tp}", [target], p.batch, p.profile, advice)
    if only in (None, "sd"):
        sd_draft = draft_demand(p.draft, 1, p.context, p.sd_lookahead, 0, draft_dtype, False)
        if p.sd_separate:
            check_fits(f"{p.draft.name} on a device of its own (SD)", [sd_draft], p.batch, p.draft_profile, "")
        else:
            what = f"{p.target.name} at tp {p.tp} with {p.draft.name} beside it (SD)"
            check_fits(what, [target, sd_draft], p.batch, p.profile, "; --sd-draft separate needs less")
    if only in (None, "ssd"):
        branches = p.branches_per_gpu
        draft = draft_demand(p.draft, 1, p.context, p.lookahead, branches, draft_dtype, p.sampling)
        check_fits(f"{p.draft.name} with {branches} cached outcomes a sequence", [draft], p.batch, p.draft_profile, "")


def round_costs(placement: Placement, fallback: Fallback) -> RoundCosts:
    """Every duration of a round, priced on the placement's devices."""
    p = placement
    jit = p.draft_step * p.lookahead
    return replace(p.costs_but_fallback, fallback_s=jit if fallback == "jit" else Cost({"backup": (p.backup_s, 0.0)}))


def contention(verify_s: float, prespeculate_s: float, target: float, draft: float) -> tuple[float, float]:
    """By what factors verification and pre-speculation are stretched when they start together.

    While both run each is slower by its factor; when the shorter one is done the other goes on undisturbed.
    """
    if verify_s == 0.0 or prespeculate_s == 0.0:
        return 1.0, 1.0
    if prespeculate_s * draft <= verify_s * target:
        return 1.0 + prespeculate_s * draft * (1.0 - 1.0 / target) / verify_s, draft
    return target, 1.0 + verify_s * target * (1.0 - 1.0 / draft) / prespeculate_s


def window_budget(placement: Placement, largest: int = 4096) -> int:
    """The most outcomes a sequence that the draft can cache before the target's outcome arrives (at least K + 1).

    By bisection, since the time of a branch step never falls with its tokens.
    """
    window = placement.target_pass(placement.lookahead + 1) + cost_of_round(placement.profile)
    window += cost_of_message(placement.outcome_bytes, placement.draft_profile)

    def fits(budget: int) -> bool:
        glue, branches = placement.with_branches(budget).prespeculation()
        return (glue + branches).seconds <= window.seconds

    low, high = placement.lookahead + 1, largest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
