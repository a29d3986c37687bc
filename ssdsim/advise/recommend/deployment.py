"""Deployments on a number of GPUs: a strategy with its placement and settings, in one copy or several."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ssdsim import strategies
from ssdsim.answers.grid import OfPoint
from ssdsim.base.record import Record
from ssdsim.pricing.room import Devices
from ssdsim.question.options import ALL, DEFAULTS, beside
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.estimate import Estimate
from ssdsim.transformer.forward import DATA_PARALLEL, degrees

Setting = tuple[str, Any]


class Shape(Record):
    """One copy: a strategy, where it runs, what it speculates (options by name), and the devices that this takes.

    A copy is one target, or all those that share a draft.
    """

    strategy: str
    placement: tuple[Setting, ...]
    speculation: tuple[Setting, ...] = ()
    devices: Devices = Devices(1)

    @property
    def gpus(self) -> int:
        return self.devices.total

    @property
    def targets(self) -> int:
        """Targets of a copy, which split its sequences."""
        return self.devices.targets

    @property
    def settings(self) -> dict[str, Any]:
        """Options of placement and speculation."""
        return dict((*self.placement, *self.speculation))

    @property
    def tp(self) -> int:
        """Devices of a target."""
        return int(self.settings.get("tp", DEFAULTS["tp"]))

    @property
    def ep(self) -> int:
        """Groups of them that hold different experts."""
        return self.tp if self.data_parallel else int(self.settings.get("ep", DEFAULTS["ep"]))

    @property
    def data_parallel(self) -> bool:
        """They have sequences of their own."""
        return self.settings.get("attention") == DATA_PARALLEL

    @property
    def work(self) -> tuple[Any, ...]:
        """Speculation as numbers; of two equally fast shapes of a strategy the one with less is the better."""
        return tuple(value for _, value in reversed(self.speculation) if not isinstance(value, str))

    def point(self, options: Mapping[str, Any], batch: int) -> dict[str, Any]:
        """The options of :func:`ssdsim.configure` for this shape at ``batch`` sequences a copy."""
        chosen = self.settings
        return {**beside(options, chosen), **chosen, "strategies": (self.strategy,), "b": batch}


class Deployment(Record):
    """``copies`` of a shape that split ``batch`` sequences; the fullest target sets the speed of a user.

    ``paid`` are the GPUs that a token is counted to, idle ones among them; None: those in use.
    """

    shape: Shape
    copies: int
    batch: int
    found: OfPoint
    paid: int | None = None

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.copies, self.batch, self.paid

    def __eq__(self, other: object) -> bool:
        """Tell whether it is the same deployment, whatever was found of it."""
        return isinstance(other, Deployment) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Deployment({self.shape!r}, copies={self.copies}, batch={self.batch}, paid={self.paid})"

    @property
    def scenario(self) -> Scenario:
        """That of a target."""
        return self.found.scenario

    @property
    def rate(self) -> Estimate:
        """Rate of one target: tokens/s over its batch, and the round behind it."""
        return self.scenario.estimate

    @cached_property
    def targets(self) -> int:
        """Targets of all copies."""
        return self.copies * self.shape.targets

    @cached_property
    def copy_batch(self) -> int:
        """Sequences of the fullest target."""
        return -(-self.batch // self.targets)

    @property
    def gpus(self) -> int:
        return self.copies * self.shape.gpus

    @cached_property
    def per_user(self) -> float:
        """Tokens/s of one sequence."""
        return self.found.tokens_per_second / self.copy_batch

    @cached_property
    def total(self) -> float:
        """Tokens/s of all sequences, each as slow as those of the fullest target."""
        return self.per_user * self.batch

    @property
    def per_gpu(self) -> float:
        """Tokens/s for each GPU that is counted."""
        return self.total / (self.paid or self.gpus)

    def cost_per_million(self, gpu_hour: float) -> float:
        """Price of a million tokens when a GPU costs ``gpu_hour`` an hour."""
        return gpu_hour / 3600.0 / self.per_gpu * 1e6

    @property
    def title(self) -> str:
        """The strategy's."""
        return strategies.ALL.named(self.shape.strategy).title

    @property
    def name(self) -> str:
        """Short text: ``SSD TP 4 + 1``, ``2 x SD TP 2``, ``SD TP 8, EP 8``, ``SSD 4 x TP 4 + 1``."""
        shape, devices = self.shape, self.shape.devices
        copies = f"{self.copies} x " if self.copies > 1 else ""
        replicas = f" x {devices.target // shape.tp}" if devices.target > shape.tp else ""
        draft = f" + {devices.draft}" if devices.draft else ""
        sharing = f"{shape.targets} x " if shape.targets > 1 else ""
        return f"{copies}{self.title} {sharing}{degrees(shape.tp, shape.ep, shape.data_parallel)}{replicas}{draft}"

    @property
    def settings(self) -> str:
        """Short text of the rest: ``K 6, 21 outcomes, jit``."""
        chosen = dict(self.shape.speculation)
        axes = [axis for axis in strategies.ALL.named(self.shape.strategy).searched if axis.option in chosen]
        return ", ".join(axis.says.format(symbol=ALL[axis.option].short, value=chosen[axis.option]) for axis in axes)
