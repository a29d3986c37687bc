"""What can be deployed on a number of GPUs: a strategy with its placement and settings, in one copy or several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ssdsim.scenario.options import BACKUP_QUALITY

Strategy = Literal["ar", "sd", "ssd"]


@dataclass(frozen=True, order=True)
class Shape:
    """One copy: a strategy, its devices, and what it speculates.

    ``draft_gpus`` are devices that only the draft has: SSD's, and SD's 1 or (draft beside the target) 0. ``k`` is 0
    for AR; ``budget`` (None: as the options have it) and ``backup`` (``auto``: the faster of the two) are SSD's alone.
    """

    strategy: Strategy
    tp: int
    draft_gpus: int = 0
    k: int = 0
    budget: int | None = None
    backup: Literal["jit", "fast", "auto", ""] = ""

    @property
    def gpus(self) -> int:
        return self.tp + self.draft_gpus

    def point(self, options: Mapping[str, Any], batch: int) -> dict[str, Any]:
        """The options of :func:`ssdsim.configure` for this shape at ``batch`` sequences a copy."""
        point = {**options, "strategy": self.strategy, "b": batch, "tp": self.tp, "k": max(self.k, 1)}
        if self.strategy == "ssd":
            point |= {"draft_gpus": self.draft_gpus, "backup": self.backup, "budget": self.budget}
        else:  # nothing is cached: the smallest budget and no fallback to price
            point |= {"backup": "jit", "budget": point["k"] + 1}
            point["sd_draft"] = "separate" if self.draft_gpus else "colocated"
        if point["backup"] == "jit":  # options of the other fallback would have no effect here
            point = {name: value for name, value in point.items() if name not in BACKUP_QUALITY}
        return point


@dataclass(frozen=True)
class Rate:
    """What one copy does: tokens/s over its batch, and the round behind it (hit rates are SSD's)."""

    tokens_per_second: float
    tokens_per_round: float
    round_s: float
    p_hit: float | None = None
    p_all_hit: float | None = None


@dataclass(frozen=True)
class Deployment:
    """``copies`` of a shape that split ``batch`` sequences; the fullest copy sets the speed of a user."""

    shape: Shape
    copies: int
    batch: int
    rate: Rate

    @property
    def copy_batch(self) -> int:
        """Sequences of the fullest copy."""
        return -(-self.batch // self.copies)

    @property
    def gpus(self) -> int:
        return self.copies * self.shape.gpus

    @property
    def per_user(self) -> float:
        """Tokens/s of one sequence."""
        return self.rate.tokens_per_second / self.copy_batch

    @property
    def total(self) -> float:
        """Tokens/s of all sequences, each as slow as those of the fullest copy."""
        return self.per_user * self.batch

    @property
    def per_gpu(self) -> float:
        """Tokens/s for each GPU in use."""
        return self.total / self.gpus

    def cost_per_million(self, gpu_hour: float) -> float:
        """Price of a million tokens when a GPU costs ``gpu_hour`` an hour; idle GPUs are not paid for."""
        return gpu_hour / 3600.0 / self.per_gpu * 1e6

    @property
    def name(self) -> str:
        """Short text: ``SSD TP 4 + 1``, ``2 x SD TP 2``."""
        s = self.shape
        devices = f"TP {s.tp}" + (f" + {s.draft_gpus}" if s.draft_gpus else "")
        return (f"{self.copies} x " if self.copies > 1 else "") + f"{s.strategy.upper()} {devices}"

    @property
    def settings(self) -> str:
        """Short text of the rest: ``K 6, 21 outcomes, jit``."""
        s = self.shape
        parts = [f"K {s.k}"] if s.k else []
        parts += [f"{s.budget} outcomes"] if s.budget is not None else []
        return ", ".join([*parts, *([s.backup] if s.backup else [])])
