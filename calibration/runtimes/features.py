"""What each number of a runtime card multiplies in a measured row: the row's seconds are linear in the card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ssdsim.hardware.profile import HardwareProfile
from ssdsim.measured.price import Work, each_row, seconds_of, work_of
from ssdsim.measured.row import Row
from ssdsim.pricing.between_kernels import kernel_factor
from ssdsim.pricing.passes import cost_of_operations
from ssdsim.runtimes.card import Host, Kernels, Runtime
from ssdsim.transformer.forward import ForwardPass

KERNEL_FIELDS = ("gemm", "attention", "communication", "elementwise", "experts", "experts_4_bit", "overlap")
HOST_FIELDS = tuple(Host.model_fields)
FIELDS = (*KERNEL_FIELDS, *HOST_FIELDS)

_ALONE = {**dict.fromkeys(KERNEL_FIELDS, 1.0), "overlap": 0.0}


@dataclass(frozen=True)
class Features:
    """Of rows: ``seconds`` measured, ``offset`` of what no field moves, and a column of ``per_unit`` for each field.

    The card with the fields ``values`` predicts ``offset + per_unit @ values``; shapes ``(rows,)``, ``(rows, fields)``.
    """

    rows: Sequence[Row]
    seconds: NDArray[np.float64]
    offset: NDArray[np.float64]
    per_unit: NDArray[np.float64]
    series: NDArray[np.str_]

    def predicted(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.offset + self.per_unit @ values)

    def of(self, chosen: NDArray[np.bool_]) -> Features:
        """Some of the rows."""
        rows = [row for row, keep in zip(self.rows, chosen, strict=True) if keep]
        return Features(rows, self.seconds[chosen], self.offset[chosen], self.per_unit[chosen], self.series[chosen])


def features(rows: Iterable[Row], like: Runtime) -> Features:
    """Features of rows in an engine with kernels, cache and draft of its own where ``like`` has them.

    Raises
    ------
    InputError : a row's card, profile or timing is missing, by the row's number.
    """
    rows = list(rows)
    found = each_row(rows, lambda row: _of_row(work_of(row, like), like.kernels))
    return Features(
        rows=rows,
        seconds=np.array([seconds_of(row) for row in rows]),
        offset=np.array([offset for offset, _ in found]),
        per_unit=np.array([[each.get(name, 0.0) for name in FIELDS] for _, each in found]),
        series=np.array([row.series_name for row in rows]),
    )


def values_of(card: Runtime) -> NDArray[np.float64]:
    """A card's fields in the order of :data:`FIELDS`."""
    held = {**card.kernels.model_dump(), **card.host.model_dump()}
    return np.array([held[name] for name in FIELDS], dtype=float)


def _of_row(work: Work, kernels: Kernels) -> tuple[float, dict[str, float]]:
    found = _of_pass(work.target, work.profile, kernels, work.steps)
    drafted = work.steps * work.drafted
    if work.draft is not None:
        for name, seconds in _of_pass(work.draft, work.profile, kernels, drafted).items():
            found[name] = found.get(name, 0.0) + seconds
    prompts = sum(times for _, times in work.prefills)
    offset = sum(
        times * cost_of_operations(forward.counted(), work.profile).seconds for forward, times in work.prefills
    )
    for forward, times in work.prefills:
        for name, count in _between(forward).items():
            found[name] += times * count
        layers, _ = forward.expert_work
        found["per_expert_prompt_s"] = found.get("per_expert_prompt_s", 0.0) + times * layers
    found["per_pass_s"] = work.steps + prompts
    found["per_step_s"] = work.steps
    found["per_sequence_s"] = work.steps * work.batch
    found["per_draft_step_s"] = drafted if work.speculates else 0.0
    found["per_round_s"] = work.steps if work.speculates else 0.0
    found["per_round_layer_s"] = found["per_round_s"] * work.target.layers
    return offset, found


def _of_pass(forward: ForwardPass, profile: HardwareProfile, kernels: Kernels, times: float) -> dict[str, float]:
    alone = kernels.model_copy(update=_ALONE)
    found = dict.fromkeys(KERNEL_FIELDS, 0.0)
    for op, count in forward.counted():
        seconds = profile.seconds(op).seconds
        assert op.family is not None  # these passes decode
        found[op.family] += times * count * seconds * kernel_factor(op, seconds, profile, alone)
        streams = op.family == "attention" and kernels.streaming_attention
        if op.family != "communication" and not streams:
            found["overlap"] -= times * count * profile.law(op).waiting_s(op, seconds)
    return found | {name: times * count for name, count in _between(forward).items()}


def _between(forward: ForwardPass) -> dict[str, float]:
    """What the numbers between kernels multiply in a pass."""
    layers, tokens = forward.expert_work
    return {"per_layer_s": forward.layers, "per_expert_layer_s": layers, "per_expert_token_s": tokens}
