"""Effects of an engine's runtime: on kernels that were timed alone, and between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Literal, get_args

from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import NUMBERS, Host, Kernels, Runtime
from ssdsim.pricing.cost import Cost, Terms
from ssdsim.transformer.forward import ForwardPass
from ssdsim.transformer.operations import Collective, CollectiveKind, ExpertMlp, Gemm, Operation

Model = Literal["target", "draft"]

_SHORTEST_SHARE = 0.1  # of a kernel's own time that is left however much of it is hidden
_SMALLEST_BYTES = 1


def kernel_factor(op: Operation, seconds: float, profile: HardwareProfile, kernels: Kernels) -> float:
    """Factor of the engine on an operation that takes ``seconds`` alone."""
    if op.family is None:
        return 1.0
    factor: float = getattr(kernels, op.family)
    if kernels.one_shot_bytes and isinstance(op, Collective) and op.kind == "all_reduce" and op.ranks > 1:
        return factor * _all_reduce_s(op, seconds, profile, kernels.one_shot_bytes) / seconds
    if op.family == "attention" and kernels.streaming_attention:
        return factor * _streaming_s(op, profile) / seconds
    if op.family == "communication" or kernels.overlap == 0.0 or (isinstance(op, Gemm) and op.in_4_bits):
        return factor
    hidden_s = kernels.overlap * profile.law(op).waiting_s(op, seconds)
    return max(factor - hidden_s / seconds, min(factor, _SHORTEST_SHARE))


@lru_cache(maxsize=256)
def of_prompts(runtime: Runtime) -> Runtime:
    """The runtime of passes over prompts: long kernels, whose factors are not those of decoding's short ones."""
    wander = tuple({name: sd for name, sd in way.items() if name in Host.model_fields} for way in runtime.wander)
    kernels = Kernels(experts_4_bit=runtime.kernels.prompt_experts_4_bit)
    return runtime.model_copy(update={"kernels": kernels, "wander": wander})


@lru_cache(maxsize=256)
def beside_prompts(runtime: Runtime) -> Runtime:
    """The runtime of what is decoded in a pass with parts of prompts: its experts have as many tokens as theirs."""
    return runtime.with_numbers({"experts_4_bit": runtime.kernels.prompt_experts_4_bit})


def _streaming_s(op: Operation, profile: HardwareProfile) -> float:
    """Decode attention that does nothing but read its cache, and multiply where that takes longer."""
    launch_s = profile.elementwise.launch_s if profile.elementwise else profile.launch_seconds(op)
    return launch_s + profile.law(op).floor_s(op)


def _all_reduce_s(op: Collective, alone_s: float, profile: HardwareProfile, one_shot_bytes: int) -> float:
    """An all-reduce in which every rank reads the message of each other rank, as long as that is small.

    What another library took for a larger one is no bound where its latency is not this engine's: it takes at most
    two shots, in the first of which every rank adds up its part of the message and in the second sends it to all.
    """
    if profile.link is None:
        return alone_s
    latency_s = profile.seconds(Collective(op.name, op.kind, _SMALLEST_BYTES, op.ranks)).seconds
    read_bytes = (op.ranks - 1) * min(op.message_bytes, one_shot_bytes)
    one_shot_s = latency_s + read_bytes / profile.link.bandwidth
    if op.message_bytes <= one_shot_bytes:
        return one_shot_s
    moved_bytes = 2 * (op.ranks - 1) / op.ranks * op.message_bytes
    two_shots_s = 2 * latency_s + moved_bytes / profile.link.bandwidth
    return max(one_shot_s, min(alone_s, two_shots_s))


Units = Mapping[str, float]
"""How often each number of a runtime's card is paid; of a factor, the seconds that it multiplies."""


def units(forward: ForwardPass, model: Model) -> Units:
    """Count how often a pass pays the host's numbers."""
    layers, tokens = forward.expert_work
    paid = {
        "per_layer_s": forward.layers,
        "per_expert_layer_s": layers,
        "per_expert_token_s": tokens,
        "per_expert_prompt_s": layers if forward.over_prompts else 0,
        "per_recurrent_layer_s": forward.recurrent_layers,
        "per_pass_s" if model == "target" else "per_draft_step_s": 1,
    }
    if forward.over_trees:
        paid |= {"per_tree_layer_s": forward.layers, "per_tree_token_s": forward.tokens if model == "draft" else 0}
    return paid


def units_of_step(sequences: int, speculated_layers: int = 0) -> Units:
    """Count how often host numbers are paid after a target pass, by its sequences; in a round by its layers, too."""
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
    """The seconds of a pass's kernels that each factor multiplies, before it, from those of each kind after it."""
    units = {field: sum(kinds.get(kind, 0.0) for kind in theirs) for field, theirs in _FACTORS.items()}
    for experts, _ in forward.those(ExpertMlp)[:1]:
        units[experts.family] = kinds.get("experts", 0.0)
    return {field: seconds / getattr(factors, field) for field, seconds in units.items()}


def cost_between_kernels(forward: ForwardPass, kernels: Cost, runtime: Runtime, model: Model) -> Cost:
    """Price what the host adds to the ``kernels`` of a pass, and what is open of both."""
    paid = units(forward, model)
    host = _host_cost(runtime, paid)
    return host + Cost.of(0.0, partial(_open, forward, kernels, runtime, model, paid, host.seconds))


def _open(forward: ForwardPass, kernels: Cost, runtime: Runtime, model: Model, paid: Units, host_s: float) -> Terms:
    """The errors of a pass that are of no timing."""
    kinds = kernels.by_kind()
    wander = _wandering(runtime, {**units_of_kernels(forward, kinds, runtime.kernels), **paid})
    if model == "draft":
        return Terms({}, wander.shared)
    seconds = kernels.seconds + host_s
    beside_s = seconds - sum(kinds.get(kind, 0.0) for kind in _MATRICES)
    structure = _structure(runtime, seconds, beside_s, bool(paid["per_expert_layer_s"]))
    return Terms({}, (wander + structure).shared)


def cost_of_step(runtime: Runtime, paid: Units) -> Cost:
    """Host work after a target pass: scheduling and sampling, and what a round with drafted tokens costs besides."""
    of_pass = {name: count for name, count in paid.items() if not NUMBERS[name].has_own_error}
    seconds = _host_cost(runtime, of_pass).seconds
    return _host_cost(runtime, paid) + _structure(runtime, seconds, seconds) + _wandering(runtime, paid)


def _host_cost(runtime: Runtime, paid: Units) -> Cost:
    """Times without a kernel; those of a term, which have one error, together."""
    terms: dict[str, tuple[float, float]] = {}
    for name, count in paid.items():
        number, seconds = NUMBERS[name], count * getattr(runtime.host, name)
        if seconds:
            key = f"fixed:{number.term}@{runtime.name}"
            before, _ = terms.get(key, (0.0, 0.0))
            terms[key] = before + seconds, getattr(runtime.errors, number.error)
    return Cost(terms)


def _wandering(runtime: Runtime, paid: Units) -> Cost:
    """Work out what each of the card's directions moves, from the seconds that each of its numbers moves by."""
    return _moved(
        {
            f"wander {number}@{runtime.name}": sum(sd * paid.get(name, 0.0) for name, sd in direction.items())
            for number, direction in enumerate(runtime.wander)
        }
    )


def _structure(runtime: Runtime, seconds: float, beside_s: float, has_experts: bool = False) -> Cost:
    """Error of an engine's structure beyond kernels and host: all target passes and their steps are wrong together.

    ``beside_s``, which multiply no matrices, have one more error: an engine's factors and gaps in one setting are not
    quite those of another.
    """
    errors = runtime.errors
    log_sd = math.hypot(errors.pass_log_sd, errors.experts_log_sd if has_experts else 0.0)
    return _moved(
        {f"structure@{runtime.name}": log_sd * seconds, beside_matrices(runtime): errors.beside_log_sd * beside_s}
    )


def beside_matrices(runtime: Runtime) -> str:
    """The direction in which what multiplies no matrices is wrong in all target passes together."""
    return f"beside matrices@{runtime.name}"


def _moved(seconds: Mapping[str, float]) -> Cost:
    return Cost(shared={direction: moved for direction, moved in seconds.items() if moved})


def cost_of_launches(runtime: Runtime, layers: int, drafted: int, devices_s: float) -> Cost:
    """Price a round's waits for the host, which launches ``drafted`` passes of a draft of so many layers one by one.

    ``devices_s`` is what the devices take for the round.
    """
    launches = runtime.launches
    if launches is None:
        return Cost()
    late_s = launches.per_round_s + drafted * layers * launches.per_layer_s - devices_s
    if late_s <= 0.0:
        return Cost()
    return Cost({f"fixed:launches@{runtime.name}": (late_s, runtime.errors.draft_step_log_sd)})
