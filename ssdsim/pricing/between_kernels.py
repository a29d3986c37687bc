"""What an engine's runtime makes of kernels that were timed alone, and what it adds between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, get_args

from ssdsim.hardware.profile import HardwareProfile
from ssdsim.pricing.cost import Cost
from ssdsim.runtimes.card import KERNELS, Host, Kernels, Runtime
from ssdsim.transformer.forward import ForwardPass
from ssdsim.transformer.operations import Collective, CollectiveKind, ExpertMlp, Operation

Model = Literal["target", "draft"]

_SHORTEST_SHARE = 0.1  # of a kernel's own time that is left however much of it is hidden
_SMALLEST_BYTES = 1


def kernel_factor(op: Operation, seconds: float, profile: HardwareProfile, kernels: Kernels) -> float:
    """By what an operation that takes ``seconds`` alone is multiplied in the engine."""
    if op.family is None:
        return 1.0
    factor: float = getattr(kernels, op.family)
    if kernels.one_shot_bytes and isinstance(op, Collective) and op.kind == "all_reduce" and op.ranks > 1:
        return factor * _all_reduce_s(op, seconds, profile, kernels.one_shot_bytes) / seconds
    if op.family == "attention" and kernels.streaming_attention:
        return factor * _streaming_s(op, profile) / seconds
    if op.family == "communication" or kernels.overlap == 0.0:
        return factor
    hidden_s = kernels.overlap * profile.law(op).waiting_s(op, seconds)
    return max(factor - hidden_s / seconds, min(factor, _SHORTEST_SHARE))


@lru_cache(maxsize=256)
def of_prompts(runtime: Runtime) -> Runtime:
    """The runtime of passes over prompts: long kernels, whose factors are not those of decoding's short ones."""
    if runtime is KERNELS:
        return runtime
    beside = beside_prompts(runtime)
    wander = tuple({name: sd for name, sd in way.items() if name in Host.model_fields} for way in beside.wander)
    return beside.model_copy(update={"kernels": Kernels(), "wander": wander})


@lru_cache(maxsize=256)
def beside_prompts(runtime: Runtime) -> Runtime:
    """The runtime of passes in which tokens are decoded beside parts of prompts: no graph was captured for them."""
    layer_s, more_s = runtime.host.per_expert_layer_s, runtime.host.per_expert_prompt_s
    host = runtime.host.model_copy(update={"per_expert_layer_s": layer_s + more_s, "per_expert_prompt_s": 0.0})
    wander = tuple(_in_prompts(way) for way in runtime.wander)
    return runtime.model_copy(update={"host": host, "wander": wander})


def _in_prompts(way: Mapping[str, float]) -> dict[str, float]:
    """A direction in which what is open of the two numbers of expert layers comes together."""
    layer = way.get("per_expert_layer_s", 0.0) + way.get("per_expert_prompt_s", 0.0)
    kept = {name: sd for name, sd in way.items() if name not in ("per_expert_layer_s", "per_expert_prompt_s")}
    return kept | ({"per_expert_layer_s": layer} if layer else {})


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


def cost_between_kernels(forward: ForwardPass, kernels: Cost, runtime: Runtime, model: Model) -> Cost:
    """Of one pass; the structure that kernels and host work miss is an error of a target's whole pass.

    What is not in ``kernels`` that multiply matrices has one more: its factors and gaps are an engine's, and those of
    one setting are not quite those of another.
    """
    host, errors = runtime.host, runtime.errors
    layers, tokens = forward.expert_work
    counted = {"per_layer_s": float(forward.layers), "per_expert_layer_s": layers, "per_expert_token_s": tokens}
    cost = host_cost(runtime, "layers", forward.layers * host.per_layer_s, errors.host_log_sd)
    between_experts_s = layers * host.per_expert_layer_s + tokens * host.per_expert_token_s
    cost = cost + host_cost(runtime, "expert layers", between_experts_s, errors.host_log_sd)
    kinds = kernels.by_kind()
    by_factor = _by_factor(kinds, forward)
    factors = {field: seconds / getattr(runtime.kernels, field) for field, seconds in by_factor.items()}
    if model == "draft":
        cost = cost + host_cost(runtime, "draft step", host.per_draft_step_s, errors.draft_step_log_sd)
        return cost + _wandering(runtime, {**factors, **counted})
    cost = cost + host_cost(runtime, "pass", host.per_pass_s, errors.host_log_sd)
    log_sd = math.hypot(errors.pass_log_sd, errors.experts_log_sd if layers else 0.0)
    seconds = kernels.seconds + cost.seconds
    beside_s = seconds - sum(kinds.get(kind, 0.0) for kind in _MATRICES)
    moved = {_structure(runtime): log_sd * seconds, beside_matrices(runtime): errors.beside_log_sd * beside_s}
    return cost + _moved(moved) + _wandering(runtime, {**factors, **counted, "per_pass_s": 1.0})


def cost_of_step(runtime: Runtime, batch: int) -> Cost:
    """Host work after a target pass: scheduling and sampling."""
    host, errors = runtime.host, runtime.errors
    seconds = host.per_step_s + batch * host.per_sequence_s
    cost = host_cost(runtime, "step", seconds, errors.host_log_sd)
    moved = {
        _structure(runtime): errors.pass_log_sd * seconds,
        beside_matrices(runtime): errors.beside_log_sd * seconds,
    }
    return cost + _moved(moved) + _wandering(runtime, {"per_step_s": 1.0, "per_sequence_s": float(batch)})


_MATRICES = frozenset({"gemm", "experts"})

_FACTORS = {
    "gemm": ("gemm",),
    "attention": ("attention", "latent_attention"),
    "communication": get_args(CollectiveKind),
    "elementwise": ("elementwise",),
}
"""Kinds of kernels that a factor multiplies; experts' is told by their format."""


def _by_factor(kinds: Mapping[str, float], forward: ForwardPass) -> dict[str, float]:
    found = {field: sum(kinds.get(kind, 0.0) for kind in theirs) for field, theirs in _FACTORS.items()}
    experts = next((op for op, _ in forward.counted() if isinstance(op, ExpertMlp)), None)
    return found if experts is None else found | {experts.family: kinds.get("experts", 0.0)}


def _wandering(runtime: Runtime, per_unit: Mapping[str, float]) -> Cost:
    """What each of the card's directions moves, from the seconds that each of its numbers moves by."""
    return _moved(
        {
            f"wander {number}@{runtime.name}": sum(sd * per_unit.get(name, 0.0) for name, sd in direction.items())
            for number, direction in enumerate(runtime.wander)
        }
    )


def _moved(seconds: Mapping[str, float]) -> Cost:
    return Cost(shared={direction: moved for direction, moved in seconds.items() if moved})


def _structure(runtime: Runtime) -> str:
    """The direction in which all target passes are wrong together."""
    return f"structure@{runtime.name}"


def beside_matrices(runtime: Runtime) -> str:
    """The direction in which what multiplies no matrices is wrong in all target passes together."""
    return f"beside matrices@{runtime.name}"


def cost_of_speculation(runtime: Runtime, layers: int) -> Cost:
    """What a round with drafted tokens costs beside its passes, by the target's layers."""
    seconds = runtime.host.per_round_s + layers * runtime.host.per_round_layer_s
    return host_cost(runtime, "round", seconds, runtime.errors.per_round_log_sd)


def cost_of_launches(runtime: Runtime, layers: int, drafted: int, devices_s: float) -> Cost:
    """What a round waits for the host, which launches ``drafted`` passes of a draft of so many layers one by one.

    ``devices_s`` is what the devices take for the round.
    """
    launches = runtime.launches
    if launches is None:
        return Cost()
    host_s = launches.per_round_s + drafted * layers * launches.per_layer_s
    return host_cost(runtime, "launches", max(0.0, host_s - devices_s), runtime.errors.draft_step_log_sd)


def host_cost(runtime: Runtime, what: str, seconds: float, log_sd: float) -> Cost:
    """A time without a kernel; what is called the same has the same error."""
    if seconds == 0.0:
        return Cost()
    return Cost({f"fixed:{what}@{runtime.name}": (seconds, log_sd)})
