"""Watts of a device: at rest, and in an operation by how busy its memory and its arithmetic are."""

from __future__ import annotations

from typing import Literal

from ssdsim.base.card import Card, LogSd, NotNegative, Positive
from ssdsim.hardware.laws import FitReport
from ssdsim.transformer.operations import ExpertMlp, Operation

PowerKind = Literal["gemm", "attention", "experts"]


def kind_of(op: Operation) -> PowerKind:
    """Whose watts an operation draws: what was not measured (norms, collectives) draws a matrix product's."""
    if isinstance(op, ExpertMlp):
        return "experts"
    return "attention" if op.attends else "gemm"


class LoadLaw(Card):
    """Watts of one kind of operation: ``busy_w`` under no load, the limit from a load of 1 on.

    The load is the power ``bend`` of ``memory`` times the share of the memory's bandwidth that is used, plus
    ``arithmetic`` times the share of the peak flops.
    """

    busy_w: Positive
    memory: NotNegative
    arithmetic: NotNegative
    bend: Positive
    report: FitReport

    def watts(self, memory_share: float, arithmetic_share: float, limit_w: float) -> float:
        load: float = (self.memory * min(1.0, memory_share)) ** self.bend + self.arithmetic * min(1.0, arithmetic_share)
        return self.busy_w + max(0.0, limit_w - self.busy_w) * min(1.0, load)


class PowerLaw(Card):
    """What a device draws, as its own sensor tells.

    ``idle_w`` is of a device that waits for work between kernels, its clocks up. ``pass_log_sd`` is the error of the
    watts of a whole pass, ``idle_log_sd`` that of those at rest.
    """

    source: str
    limit_w: Positive
    idle_w: Positive
    kinds: dict[PowerKind, LoadLaw]
    pass_log_sd: LogSd
    idle_log_sd: LogSd

    def __post_init__(self) -> None:
        if "gemm" not in self.kinds:
            raise ValueError("kinds: must have gemm, whose watts others draw that were not measured")

    def watts(self, op: Operation, memory_share: float, arithmetic_share: float) -> float:
        """Watts while ``op`` runs and uses such shares of bandwidth and of peak flops."""
        law = self.kinds.get(kind_of(op)) or self.kinds["gemm"]
        return law.watts(memory_share, arithmetic_share, self.limit_w)
