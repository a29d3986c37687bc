"""The time that no kernel accounts for, from the decoding speed of a real engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from calibration.bootstrap import significant
from ssdsim.errors import InputError
from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.laws import FixedCosts
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.pricing.cost import cost_of_pass
from ssdsim.transformer.card import forward_pass


@dataclass(frozen=True)
class DecodingSpeed:
    """Autoregressive decoding of one sequence as an engine was seen to do it."""

    transformer: str
    tp: int
    context: int
    tokens_per_second: float


def fit_fixed_costs(profile: HardwareProfile, seen: Sequence[DecodingSpeed], source: str) -> FixedCosts:
    """Seconds a layer and seconds a target pass (scheduling, sampling) that explain what the kernels leave over.

    Least squares with both at least 0. Autoregressive decoding makes one pass a round, so it cannot tell a cost per
    pass from a cost per round: the second is taken as per round, that is once for every target pass and not for a
    draft's step, which runs in the same engine step. ``relative_error`` is the largest error of leaving one speed out
    and predicting it from the others with a cost per layer alone.

    Raises
    ------
    InputError : fewer than two speeds, or an engine faster than its kernels.
    """
    if len(seen) < 2:
        raise InputError(f"fixed costs per layer and per round need at least 2 decoding speeds, got {len(seen)}")
    bare = profile.with_fixed(FixedCosts())
    layers = np.array([float(find_transformer(one.transformer).layers) for one in seen])
    left = np.array([1.0 / one.tokens_per_second - _kernel_seconds(one, bare) for one in seen])
    if np.any(left < 0):
        slowest = seen[int(np.argmin(left))]
        raise InputError(f"{slowest.transformer} at {slowest.tokens_per_second:g} tokens/s outruns its kernels' sum")
    (per_layer, per_round), _ = nnls(np.column_stack([layers, np.ones_like(layers)]), left)
    speeds = "; ".join(f"{one.transformer} TP {one.tp} {one.tokens_per_second:g} tokens/s" for one in seen)
    return FixedCosts(
        per_layer_s=significant(per_layer),
        per_round_s=significant(per_round),
        relative_error=significant(_left_out_error(layers, left)),
        how=(
            f"fitted to {len(seen)} autoregressive speeds only ({speeds}; {source}); what is not per layer is charged "
            "once a target pass, not to draft steps; error by leaving one out"
        ),
    )


def _kernel_seconds(one: DecodingSpeed, bare: HardwareProfile) -> float:
    card = find_transformer(one.transformer)
    return cost_of_pass(forward_pass(card, batch=1, context=one.context, tp=one.tp), bare).seconds


def _left_out_error(layers: NDArray[np.float64], left: NDArray[np.float64]) -> float:
    errors = []
    for i in range(layers.size):
        others = np.arange(layers.size) != i
        per_layer = float(layers[others] @ left[others] / (layers[others] @ layers[others]))
        errors.append(abs(np.log(per_layer * layers[i] / left[i])))
    return float(max(errors))
