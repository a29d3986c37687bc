"""Which model runs on which devices, and what each step of a round costs there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ssdsim.catalog import find_hardware, find_transformer
from ssdsim.costs import Cost, TimingErrors, cost_of_message, cost_of_pass, cost_of_round, streaming_share
from ssdsim.errors import InputError
from ssdsim.hardware import HardwareProfile
from ssdsim.memory import check_fits, draft_demand, smallest_tp, target_demand
from ssdsim.operations import DTYPE_BYTES
from ssdsim.scenario import Gpus, RoundTimes
from ssdsim.speculator import Fallback
from ssdsim.transformer import ForwardPass, Transformer, forward_pass, legal_tensor_parallel

# An outcome names, per sequence: id, accepted length, bonus token and length (8 bytes each), a temperature, and the
# draft's block table (4 bytes for each page of 16 tokens): SSD paper, appendix B.1.
OUTCOME_BYTES = 36
PAGE_TOKENS = 16
TOKEN_BYTES = 8
PASSES = ("ar", "verify", "draft step", "glue", "branch step")  # of a round


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

    def colocated_draft_step(self) -> tuple[Cost, int]:
        """SD's draft step on the target's devices and its tp: on one of them or on all, whichever is faster."""
        degrees = {1, self.tp} & {1, *legal_tensor_parallel(self.draft)}
        priced = [(cost_of_pass(self._draft_forward(tp, 1, 0, False), self.profile), tp) for tp in sorted(degrees)]
        return min(priced, key=lambda option: option[0].seconds)

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

    def _branch_forward(self) -> ForwardPass:
        return self._draft_forward(1, self.branches_per_gpu, self.lookahead + 1, True)

    def forward_passes(self) -> dict[str, ForwardPass]:
        """The passes of a round by name (:data:`PASSES`), the target's as one of its ranks runs them."""
        return {
            "ar": self._target_forward(1),
            "verify": self._target_forward(self.lookahead + 1),
            "draft step": self._draft_forward(1, 1, 0, False),
            "glue": self._draft_forward(1, self.lookahead + 1, 0, False),
            "branch step": self._branch_forward(),
        }

    @property
    def branches_per_gpu(self) -> int:
        return -(-self.branches // self.draft_gpus)

    def passes_on_devices(self) -> dict[str, tuple[ForwardPass, HardwareProfile]]:
        """The passes of :meth:`forward_passes` (``draft_step`` for ``draft step``), each with its device."""
        return {
            name.replace(" ", "_"): (forward, self.profile if name in ("ar", "verify") else self.draft_profile)
            for name, forward in self.forward_passes().items()
        }

    def with_branches(self, branches: int) -> Placement:
        """The same placement with another number of cached outcomes a sequence."""
        return replace(self, branches=branches)

    def prespeculation(self) -> tuple[Cost, Cost]:
        """The glue pass over ``b (K+1)`` tokens, and the K steps over the branch tokens of one draft device."""
        step = cost_of_pass(self._branch_forward(), self.draft_profile)
        return self.draft_pass(self.lookahead + 1), step * self.lookahead

    @property
    def outcome_bytes(self) -> int:
        return self.batch * (OUTCOME_BYTES + 4 * -(-self.context // PAGE_TOKENS))

    def response_bytes(self, lookahead: int) -> int:
        """Tokens, hit flags, and the draft's logits when sampling (greedy decoding needs none)."""
        logits = lookahead * self.draft.vocab_size * DTYPE_BYTES[self.dtype or self.draft.dtype]
        return self.batch * (1 + lookahead * TOKEN_BYTES + (logits if self.sampling else 0))


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


def place(values: dict[str, Any], sources: dict[str, str]) -> Placement:
    """Load the cards and check that everything fits; writes derived values into ``values`` and ``sources``."""
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
    _check_context(placement)
    _check_devices(placement)
    _check_memory(placement)
    return placement


def _check_context(placement: Placement) -> None:
    longest = placement.context + max(placement.lookahead, placement.sd_lookahead) + 1
    for card in (placement.target, placement.draft):
        if longest > card.max_context:
            raise InputError(
                f"--context {placement.context} and K + 1 tokens in flight pass the {card.max_context} of {card.name}"
            )


def _check_devices(placement: Placement) -> None:
    """Target and draft of one profile must find their devices in one node."""
    p = placement
    have, need = p.profile.device.count, p.tp + p.draft_gpus
    if p.profile.name != p.draft_profile.name or need <= have:
        return
    fitting = [tp for tp in legal_tensor_parallel(p.target) if tp + p.draft_gpus <= have]
    nearest_fit = f"; the nearest that fits is tp {max(fitting)}" if fitting else ""
    raise InputError(
        f"SSD needs {p.tp} target and {p.draft_gpus} draft devices, {p.profile.name} has {have}{nearest_fit}"
    )


def _check_memory(placement: Placement) -> None:
    p = placement
    dtype, draft_dtype = p.dtype or p.target.dtype, p.dtype or p.draft.dtype
    target = target_demand(p.target, p.tp, p.context, max(p.lookahead, p.sd_lookahead), dtype)
    enough = smallest_tp(p.target, p.profile, p.context, p.lookahead, dtype)
    advice = f"; the smallest tp that fits one sequence is {enough}" if enough and enough > p.tp else ""
    check_fits(f"{p.target.name} at tp {p.tp}", [target], p.batch, p.profile, advice)
    if not p.sd_separate:
        colocated = draft_demand(p.draft, 1, p.context, p.sd_lookahead, 0, draft_dtype, False)
        what = f"{p.target.name} at tp {p.tp} with {p.draft.name} beside it (SD)"
        check_fits(what, [target, colocated], p.batch, p.profile, "; --sd-draft separate needs less")
    branches = p.branches_per_gpu
    draft = draft_demand(p.draft, 1, p.context, p.lookahead, branches, draft_dtype, p.sampling)
    check_fits(f"{p.draft.name} with {branches} cached outcomes a sequence", [draft], p.batch, p.draft_profile, "")


def round_costs(placement: Placement, fallback: Fallback, drift: Mapping[str, float] | None = None) -> RoundCosts:
    """Every duration of a round, priced on the placement's devices.

    ``drift`` says by what factor each of :meth:`Placement.forward_passes` is slower now than in the profile.
    """
    p = placement
    slower_now = {name: (drift or {}).get(name, 1.0) for name in PASSES}
    draft_step = p.draft_pass() * slower_now["draft step"]
    sd_step = draft_step if p.sd_separate else p.colocated_draft_step()[0]
    send = cost_of_message(p.outcome_bytes, p.draft_profile)
    sd_message = send + cost_of_message(p.response_bytes(p.sd_lookahead), p.draft_profile)
    verify = p.target_pass(p.lookahead + 1) * slower_now["verify"]
    glue, branches = p.prespeculation()
    glue, branches = glue * slower_now["glue"], branches * slower_now["branch step"]
    slower = p.interference(verify.seconds, branches.seconds)
    verify_stretch, draft_stretch = contention(verify.seconds, (glue + branches).seconds, *slower)
    return RoundCosts(
        ar_pass_s=p.target_pass(1) * slower_now["ar"],
        sd_draft_s=sd_step * p.sd_lookahead,
        sd_verify_s=p.target_pass(p.sd_lookahead + 1) * slower_now["verify"],
        verify_s=verify * verify_stretch,
        glue_s=glue * draft_stretch,
        branches_s=branches * draft_stretch,
        fallback_s=draft_step * p.lookahead if fallback == "jit" else Cost({"backup": (p.backup_s, 0.0)}),
        sd_message_s=sd_message if p.sd_separate else Cost(),
        post_s=cost_of_round(p.profile),
        send_s=send,
        respond_s=cost_of_message(p.response_bytes(p.lookahead), p.draft_profile),
        lookup_s=Cost(),
    )


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
