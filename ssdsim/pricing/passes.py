"""Seconds of forward passes and messages on a hardware profile, as an engine's runtime runs them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Literal, get_args

from ssdsim.base.record import Record
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import KERNELS, Runtime
from ssdsim.hardware.runtime_numbers import NUMBERS, Host, Kernels
from ssdsim.hardware.timing import Timing
from ssdsim.pricing.cost import Cost, Terms, merged
from ssdsim.transformer.forward import ForwardPass
from ssdsim.transformer.operations import (
    Collective,
    CollectiveKind,
    ExpertMlp,
    Gemm,
    Operation,
    OverCache,
)

Model = Literal["target", "draft"]

_SHORTEST_SHARE = 0.1  # of a kernel's own time that is left however much of it is hidden
_SMALLEST_BYTES = 1
_REMEMBERED = 16384  # passes and messages a profile: some 200 MB, and four times what a recommendation asks for


def kernel_factor(op: Operation, seconds: float, profile: HardwareProfile, kernels: Kernels) -> float:
    """Factor of the engine on an operation that takes ``seconds`` alone.

    No engine's kernel beats memory or arithmetic: where its factor says so, it takes what these take at their best.
    """
    if op.family is None:
        return 1.0
    return max(_own_factor(op, seconds, profile, kernels), profile.law(op).least_s(op) / seconds)


def _own_factor(op: Operation, seconds: float, profile: HardwareProfile, kernels: Kernels) -> float:
    """The factor by the card, of an operation of some family."""
    factor: float = getattr(kernels, str(op.family))
    if kernels.one_shot_bytes and isinstance(op, Collective) and op.kind == "all_reduce" and op.ranks > 1:
        return factor * _all_reduce_s(op, seconds, profile, kernels.one_shot_bytes) / seconds
    if isinstance(op, OverCache):
        factor += kernels.attention_sharing * (op.sharing - 1.0)
        if kernels.streaming_attention:
            return factor * _streaming_s(op, profile) / seconds
    if op.family == "communication" or kernels.overlap == 0.0 or (isinstance(op, Gemm) and op.in_4_bits):
        return factor
    hidden_s = kernels.overlap * profile.law(op).waiting_s(op, seconds)
    return max(factor - hidden_s / seconds, min(factor, _SHORTEST_SHARE))


def _streaming_s(op: Operation, profile: HardwareProfile) -> float:
    """Seconds of decode attention that only reads its cache, or multiplies where that takes longer."""
    launch_s = profile.elementwise.launch_s if profile.elementwise else profile.launch_seconds(op)
    return launch_s + max(profile.law(op).floor_s(op), op.streamed_bytes / profile.reading_bandwidth)


def _all_reduce_s(op: Collective, alone_s: float, profile: HardwareProfile, one_shot_bytes: int) -> float:
    """Seconds of a one-shot all-reduce: every rank reads every other rank's message, while that is small.

    What another library took for a larger one is no bound where its latency is not this engine's: it takes at most
    two shots, in the first of which every rank adds up its part of the message and in the second sends it to all. Nor
    does it take more than in one shot: where the engine leaves these, others are no slower.
    """
    if profile.link is None:
        return alone_s
    latency_s = profile.seconds(Collective(op.name, op.kind, _SMALLEST_BYTES, op.ranks)).seconds
    link_s = (op.ranks - 1) / profile.link.bandwidth  # a byte
    one_shot_s = latency_s + link_s * op.message_bytes
    if op.message_bytes <= one_shot_bytes:
        return one_shot_s
    two_shots_s = 2 * (latency_s + link_s / op.ranks * op.message_bytes)
    return max(latency_s + link_s * one_shot_bytes, min(alone_s, two_shots_s, one_shot_s))


def cost_of_operations(
    counted: Iterable[tuple[Operation, int]], profile: HardwareProfile, runtime: Runtime = KERNELS
) -> Cost:
    """Each operation's time on ``profile``, as the runtime runs it, times its count."""
    timings, profile = [], profile.of_engine(runtime.engine)
    for op, count in counted:
        timing = profile.seconds(op)
        timings.append((timing, count * kernel_factor(op, timing.seconds, profile, runtime.kernels)))
    return _cost_of(timings, profile)


def _cost_of(counted: Sequence[tuple[Timing, float]], profile: HardwareProfile) -> Cost:
    """Each timing so many times, as a cost."""
    seconds = sum(times * timing.seconds for timing, times in counted)
    warnings = frozenset(each for timing, _ in counted for each in timing.warnings)
    return Cost.of(seconds, partial(_terms_of, counted, profile.name), warnings)


def _terms_of(counted: Sequence[tuple[Timing, float]], profile: str) -> Terms:
    """Terms of timings. Devices share no error, so keys carry the profile."""
    terms = []
    for timing, times in counted:
        shared = {f"{direction}@{profile}": timing.seconds * moved for direction, moved in timing.shared.items()}
        own = {f"{timing.key}@{profile}": (timing.seconds, timing.own_log_sd)}
        terms.append((Terms(own, shared), times))
    return merged(terms)


Units = Mapping[str, float]
"""How often each number of a runtime's card is paid; of a factor, the seconds that it multiplies."""


def units(forward: ForwardPass, model: Model) -> Units:
    """Count how often a pass pays the host's numbers."""
    experts = forward.those(ExpertMlp)
    expert_layers = sum(times for _, times in experts)
    paid = {
        "per_layer_s": forward.layers,
        "per_expert_layer_s": expert_layers,
        "per_expert_token_s": sum(times * op.tokens for op, times in experts),
        "per_expert_prompt_s": expert_layers if forward.over_prompts else 0,
        "per_recurrent_layer_s": forward.recurrent_layers,
        "per_pass_s" if model == "target" else "per_draft_step_s": 1,
    }
    if any(op.masked for op, _ in forward.those(OverCache)):  # over trees, or branches
        drafts = model == "draft"
        paid |= {
            "per_tree_layer_s": max(0, forward.layers - expert_layers),
            "per_tree_token_s": forward.tokens if drafts else 0,
            "per_mask_s": 1 if drafts else 0,
        }
    return paid


def units_of_step(sequences: int, speculated_layers: int = 0) -> Units:
    """Count how often a step after a target pass pays the host's numbers: by sequences, in a round also by layers."""
    step = {"per_step_s": 1, "per_sequence_s": sequences}
    of_round = {"per_round_s": 1, "per_round_sequence_s": sequences, "per_round_layer_s": speculated_layers}
    return step | (of_round if speculated_layers else {})


_MATRICES = frozenset({"gemm", "experts"})
_FACTORS = {
    "gemm": ("gemm",),
    "attention": ("attention", "latent_attention"),
    "communication": get_args(CollectiveKind),
    "elementwise": ("elementwise",),
}
"""Kinds of kernels that a factor multiplies; experts' is told by their format."""


def units_of_kernels(forward: ForwardPass, kinds: Mapping[str, float], factors: Kernels) -> Units:
    """Seconds that each factor multiplies, before the factor, from the seconds of each kind of kernel after it."""
    units = {field: sum(kinds.get(kind, 0.0) for kind in theirs) for field, theirs in _FACTORS.items()}
    for experts, _ in forward.those(ExpertMlp)[:1]:
        units[experts.family] = kinds.get("experts", 0.0)
    alone = {field: seconds / getattr(factors, field) for field, seconds in units.items()}
    for over, _ in forward.those(OverCache)[:1]:
        more = over.sharing - 1.0
        alone["attention"] = units["attention"] / (factors.attention + factors.attention_sharing * more)
        alone["attention_sharing"] = more * alone["attention"]
    return alone


def cost_between_kernels(forward: ForwardPass, kernels: Cost, runtime: Runtime, model: Model) -> Cost:
    """Price what the host adds to the ``kernels`` of a pass, with the errors of both."""
    paid = units(forward, model)
    host = _host_cost(runtime, paid)
    return host + Cost.of(0.0, partial(_open, forward, kernels, runtime, model, paid, host.seconds))


def _open(forward: ForwardPass, kernels: Cost, runtime: Runtime, model: Model, paid: Units, host_s: float) -> Terms:
    """The errors of a pass that belong to no single timing."""
    kinds = kernels.by_kind()
    wander = _wandering(runtime, {**units_of_kernels(forward, kinds, runtime.kernels), **paid})
    if model == "draft":
        return Terms({}, wander.terms.shared)
    seconds = kernels.seconds + host_s
    beside_s = seconds - sum(kinds.get(kind, 0.0) for kind in _MATRICES)
    structure = _structure(runtime, seconds, beside_s, bool(paid["per_expert_layer_s"]))
    return Terms({}, (wander + structure).terms.shared)


_TOLD = 0.04
"""Of a pass: what versions differ by less is told to nobody."""


def unsaid_version(runtime: Runtime, paid: Units, seconds: float) -> frozenset[str]:
    """A line on how far an engine's versions differ in a pass of so many ``seconds``, where nobody said one."""
    versions = runtime.by_version
    if versions is None or versions.stated is not None:
        return frozenset()
    apart = math.hypot(*(sd * paid.get(name, 0.0) for name, sd in versions.spread.items())) / seconds
    if apart < _TOLD:
        return frozenset()
    known = f": {', '.join(each.version for each in versions.known)}" if versions.known else ""
    said = f"versions of {runtime.engine} differ by {apart:.0%} here, and none that is known was said"
    return frozenset([said + known])


def cost_of_step(runtime: Runtime, paid: Units) -> Cost:
    """Host work after a target pass: scheduling and sampling, and the extra work of a round with drafted tokens."""
    of_pass = {name: count for name, count in paid.items() if not NUMBERS[name].has_own_error}
    seconds = _host_cost(runtime, of_pass).seconds
    return _host_cost(runtime, paid) + _structure(runtime, seconds, seconds) + _wandering(runtime, paid)


def _host_cost(runtime: Runtime, paid: Units) -> Cost:
    """Host times, summed by the term whose error they share; no version is faster than a host that takes no time."""
    terms: dict[str, tuple[float, float]] = {}
    for name, count in paid.items():
        number, seconds = NUMBERS[name], count * runtime.said_in_host(name)
        if seconds:
            key = f"fixed:{number.term}@{runtime.name}"
            before, _ = terms.get(key, (0.0, 0.0))
            terms[key] = before + seconds, getattr(runtime.errors, number.error)
    return Cost(terms) if sum(seconds for seconds, _ in terms.values()) > 0.0 else Cost()


def _wandering(runtime: Runtime, paid: Units) -> Cost:
    """Move of each of the card's error directions: the sum over its numbers of deviation times units paid.

    So are the numbers in which versions differ, as far as nobody said which one it is.
    """
    moves = (sum(sd * paid.get(name, 0.0) for name, sd in direction.items()) for direction in runtime.wander)
    moved = {f"wander {number}@{runtime.name}": each for number, each in enumerate(moves)}
    for name, sd in (runtime.by_version.open if runtime.by_version else {}).items():
        moved[f"version {name}@{runtime.name}"] = sd * paid.get(name, 0.0)
    return Cost(shared={direction: each for direction, each in moved.items() if each})


def _structure(runtime: Runtime, seconds: float, beside_s: float, has_experts: bool = False) -> Cost:
    """Error of the engine's structure, beyond kernels and host: all target passes and steps err together.

    ``beside_s``, which multiply no matrices, have one more error: an engine's factors and gaps in one setting are not
    quite those of another.
    """
    errors = runtime.errors
    log_sd = math.hypot(errors.pass_log_sd, errors.experts_log_sd if has_experts else 0.0)
    moves = {f"structure@{runtime.name}": log_sd * seconds, beside_matrices(runtime): errors.beside_log_sd * beside_s}
    return Cost(shared={direction: moved for direction, moved in moves.items() if moved})


def beside_matrices(runtime: Runtime) -> str:
    """Name of the error direction of everything but matrix products, common to all target passes."""
    return f"beside matrices@{runtime.name}"


def cost_of_launches(runtime: Runtime, layers: int, drafted: int, devices_s: float) -> Cost:
    """Price a round's waits for a host that launches ``drafted`` passes of a draft of so many layers one by one.

    ``devices_s`` is what the devices take for the round.
    """
    launches = runtime.launches
    if launches is None:
        return Cost()
    late_s = launches.per_round_s + drafted * layers * launches.per_layer_s - devices_s
    if late_s <= 0.0:
        return Cost()
    return Cost({f"fixed:launches@{runtime.name}": (late_s, runtime.errors.draft_step_log_sd)})


def cost_of_pass(
    forward: ForwardPass, profile: HardwareProfile, runtime: Runtime = KERNELS, model: Model = "target"
) -> Cost:
    """Kernels of a pass of one of the models, and what the runtime adds to each layer and to the pass."""
    known = _known_costs(profile)
    key = forward, runtime, model
    if key not in known:
        kernels = cost_of_operations(forward.counted, profile, runtime)
        known[key] = kernels + cost_between_kernels(forward, kernels, runtime, model)
    return known[key]


def _known_costs(profile: HardwareProfile) -> dict[Hashable, Cost]:
    """The costs that a profile remembers, of passes and of messages, with room for one more."""
    known: dict[Hashable, Cost] = profile.memory.costs
    if len(known) >= _REMEMBERED:
        known.clear()
    return known


def streaming_share(forward: ForwardPass, seconds: float, profile: HardwareProfile) -> float:
    """Share of a pass's time that its bytes alone would take at the device's memory bandwidth, at most 1."""
    return min(1.0, forward.moved_bytes / profile.device.memory_bandwidth / seconds)


Counted = list[tuple[Operation, int]]


def over_cache(counted: Iterable[tuple[Operation, int]]) -> Counted:
    """Keep a pass's operations that see sequences and prompts one by one."""
    return [(op, times) for op, times in counted if op.attends]


def over_tokens(counted: Iterable[tuple[Operation, int]]) -> Counted:
    """Keep a pass's operations that see all its tokens at once."""
    return [(op, times) for op, times in counted if not op.attends]


@lru_cache(maxsize=256)
def of_prompts(runtime: Runtime) -> Runtime:
    """The runtime of prompt passes: decoding's factors for short kernels do not apply to long ones."""
    wander = tuple({name: sd for name, sd in way.items() if name in Host.__struct_fields__} for way in runtime.wander)
    kernels = Kernels(experts_4_bit=runtime.kernels.prompt_experts_4_bit)
    return runtime.changed(kernels=kernels, wander=wander)


@lru_cache(maxsize=256)
def beside_prompts(runtime: Runtime) -> Runtime:
    """The runtime of decoding in a pass with prompt chunks: its experts see as many tokens as theirs."""
    return runtime.with_numbers({"experts_4_bit": runtime.kernels.prompt_experts_4_bit})


def cost_of_mixed_pass(
    forward: ForwardPass, decoded: int, profile: HardwareProfile, runtime: Runtime, model: Model = "target"
) -> Cost:
    """Kernels of a pass of which ``decoded`` tokens are decoded, and what the runtime adds to layers and pass.

    A runtime's factors are those of decoding's short kernels; the long ones of prompts have none. A kernel over both
    kinds of tokens is between the two, as their shares are.
    """
    parts = parts_of_mixed(forward, decoded, runtime)
    kernels = Cost.total((cost_of_operations(ops, profile, as_run), share) for ops, as_run, share in parts)
    return kernels + cost_between_kernels(forward, kernels, runtime, model)


def parts_of_mixed(forward: ForwardPass, decoded: int, runtime: Runtime) -> list[tuple[Counted, Runtime, float]]:
    """The operations of such a pass, with whose factors they run, and the share of their seconds that does."""
    counted, share = forward.counted, decoded / forward.tokens
    cached, tokens = over_cache(counted), over_tokens(counted)
    parts = [
        (cached, runtime, 1.0),
        (tokens, beside_prompts(runtime), share),
        (tokens, of_prompts(runtime), 1.0 - share),
    ]
    return [(ops, as_run, each) for ops, as_run, each in parts if ops and each > 0.0]


def cost_of_message(message_bytes: int, profile: HardwareProfile, pair: tuple[int, int] | None = None) -> Cost:
    """A point-to-point message between two devices, which ``pair`` numbers where pairs differ."""
    known, key = _known_costs(profile), (message_bytes, pair)
    if key not in known:
        known[key] = _cost_of([(profile.message_seconds(message_bytes, pair), 1.0)], profile)
    return known[key]


class Network(Record):
    """A message takes ``latency_s + bytes / bytes_per_s`` (Hockney); nobody timed it, so it has no error."""

    latency_s: float
    bytes_per_s: float

    def cost_of(self, message_bytes: int) -> Cost:
        return Cost({"network": (self.latency_s + message_bytes / self.bytes_per_s, 0.0)})


class NamedLink(Record):
    """Messages take what the link of a profile says, with its error."""

    profile: HardwareProfile

    def cost_of(self, message_bytes: int) -> Cost:
        return cost_of_message(message_bytes, self.profile)

    @property
    def summary(self) -> str:
        """What its times rest on."""
        link = self.profile.link_between()[1]
        source = self.profile.sources[link.source]
        error = f" {link.report.median_error:.1%}" if link.report and link.report.rows_held_out else ""
        return f"{source.kind} from {source.source} {source.commit}".rstrip() + f": link{error}"
