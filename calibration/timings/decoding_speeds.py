"""A runtime from the decoding speeds of a real engine: the time that no kernel accounts for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import nnls

from calibration.timings.fit import significant
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import CardErrors, Evidence, Host, Runtime
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.transformer.forward import forward_pass


class DecodingSpeed(Record):
    """Autoregressive decoding of one sequence as an engine was seen to do it."""

    transformer: str
    tp: int
    context: int
    tokens_per_second: float


def fit_decoding_speeds(profile: HardwareProfile, seen: Sequence[DecodingSpeed], source: str, name: str) -> Runtime:
    """Seconds a layer and seconds a target pass (scheduling, sampling) that explain what the kernels leave over.

    Least squares with both at least 0. Autoregressive decoding makes one pass a round, so it cannot tell a cost per
    pass from a cost per round: the second is taken as per round, that is once for every target pass and not for a
    draft's step, which runs in the same engine step. The error is the largest of leaving one speed out and predicting
    it from the others with a cost per layer alone.
    """
    if len(seen) < 2:
        raise InputError(f"fixed costs per layer and per round need at least 2 decoding speeds, got {len(seen)}")
    layers = np.array([float(find_transformer(one.transformer).layers) for one in seen])
    left = np.array([1.0 / one.tokens_per_second - _kernel_seconds(one, profile) for one in seen])
    if np.any(left < 0):
        slowest = seen[int(np.argmin(left))]
        raise InputError(f"{slowest.transformer} at {slowest.tokens_per_second:g} tokens/s outruns its kernels' sum")
    (per_layer, per_round), _ = nnls(np.column_stack([layers, np.ones_like(layers)]), left)
    speeds = "; ".join(f"{one.transformer} TP {one.tp} {one.tokens_per_second:g} tokens/s" for one in seen)
    return Runtime(
        name=name,
        engine=source or "not stated",
        host=Host(per_layer_s=significant(per_layer), per_step_s=significant(per_round)),
        errors=CardErrors(host_log_sd=significant(_left_out_error(layers, left))),
        evidence=Evidence(
            source=f"autoregressive speeds only ({speeds}; {source})",
            rows=len(seen),
            series=len(seen),
            note="what is not per layer is charged once a target pass, not to draft steps",
        ),
    )


def _kernel_seconds(one: DecodingSpeed, profile: HardwareProfile) -> float:
    card = find_transformer(one.transformer)
    return cost_of_pass(forward_pass(card, batch=1, context=one.context, tp=one.tp), profile).seconds


def _left_out_error(layers: Array, left: Array) -> float:
    errors = []
    for i in range(layers.size):
        others = np.arange(layers.size) != i
        per_layer = float(layers[others] @ left[others] / (layers[others] @ layers[others]))
        errors.append(abs(np.log(per_layer * layers[i] / left[i])))
    return float(max(errors))
