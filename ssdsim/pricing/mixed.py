"""The cost of a pass over decoded tokens and parts of prompts."""

from __future__ import annotations

from collections.abc import Iterable

from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.pricing.between_kernels import Model, beside_prompts, cost_between_kernels, of_prompts
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.passes import cost_of_operations
from ssdsim.transformer.forward import ForwardPass
from ssdsim.transformer.operations import Operation

Counted = list[tuple[Operation, int]]


def over_cache(counted: Iterable[tuple[Operation, int]]) -> Counted:
    """Keep a pass's operations that see sequences and prompts one by one."""
    return [(op, times) for op, times in counted if op.attends]


def over_tokens(counted: Iterable[tuple[Operation, int]]) -> Counted:
    """Keep a pass's operations that see all its tokens at once."""
    return [(op, times) for op, times in counted if not op.attends]


def cost_of_mixed_pass(
    forward: ForwardPass, decoded: int, profile: HardwareProfile, runtime: Runtime, model: Model = "target"
) -> Cost:
    """Kernels of a pass of which ``decoded`` tokens are decoded, and what the runtime adds to layers and pass.

    A runtime's factors are those of decoding's short kernels; the long ones of prompts have none. A kernel over both
    kinds of tokens is between the two, as their shares are.
    """
    share = decoded / forward.tokens
    counted = forward.counted()
    parts = [(cost_of_operations(ops, profile, runtime), 1.0) for ops in (over_cache(counted),) if ops]
    ops = over_tokens(counted)
    parts += [(cost_of_operations(ops, profile, beside_prompts(runtime)), share)] if share > 0.0 else []
    parts += [(cost_of_operations(ops, profile, of_prompts(runtime)), 1.0 - share)] if share < 1.0 else []
    kernels = Cost.total(parts)
    return kernels + cost_between_kernels(forward, kernels, runtime, model)
