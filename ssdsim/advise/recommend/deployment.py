"""Deployments: a strategy with its placement, settings and copies; the best of them, and their Pareto frontier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ssdsim import strategies
from ssdsim.advise.recommend.request import Rank
from ssdsim.answers.grid import PointResult
from ssdsim.base.intervals import Draws
from ssdsim.base.plain import picked
from ssdsim.base.record import Record, replace
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.occupancy import Devices
from ssdsim.question.options import ALL, DEFAULTS, effective_options
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.round import Estimate
from ssdsim.strategies.protocols.axes import work_of
from ssdsim.transformer.forward import DATA_PARALLEL, degrees

if TYPE_CHECKING:
    from ssdsim.answers.energy import Drawing

INDIFFERENT = 1e-3  # relative tokens/s for which nobody spends a device or a cached outcome
_OF_THE_MOST = 0.5  # tokens/s per GPU: what yields less takes more joules a token
_OF_ITS_OWN = 0.85  # of those of a strategy's placement: other K and budgets draw nearly the same watts
Setting = tuple[str, Any]


class Shape(Record):
    """One copy: a strategy, its placement, its speculation settings (options by name), and its devices.

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
        """Devices of a target, or of each of its stages."""
        return int(self.settings.get("tp", DEFAULTS["tp"]))

    @property
    def pp(self) -> int:
        """Stages of a target."""
        return int(self.settings.get("pp", DEFAULTS["pp"]))

    @property
    def ep(self) -> int:
        """Groups of a target's devices that hold different experts."""
        return self.tp if self.data_parallel else int(self.settings.get("ep", DEFAULTS["ep"]))

    @property
    def dcp(self) -> int:
        """Devices of a target that share each sequence's cache."""
        return int(self.settings.get("dcp", DEFAULTS["dcp"]))

    @property
    def degrees(self) -> str:
        """Short text of how devices share a target."""
        return degrees(self.tp, self.ep, self.data_parallel, self.dcp, self.pp)

    @property
    def data_parallel(self) -> bool:
        """Whether a target's devices have sequences of their own."""
        return self.settings.get("attention") == DATA_PARALLEL

    @property
    def work(self) -> tuple[Any, ...]:
        """Speculation as numbers; of two equally fast shapes of a strategy the one with less is the better."""
        return work_of(reversed(self.speculation))

    def point(self, options: Mapping[str, Any], batch: int) -> dict[str, Any]:
        """The options of :func:`ssdsim.configure` for this shape at ``batch`` sequences a copy."""
        chosen = self.settings
        return {**effective_options(options, chosen), **chosen, "strategies": (self.strategy,), "b": batch}


class Deployment(Record):
    """``copies`` of a shape that split ``batch`` sequences; the fullest target sets the speed of a user.

    ``paid`` are the GPUs that a token is counted to, idle ones among them; None: those in use.
    """

    shape: Shape
    copies: int
    batch: int
    result: PointResult
    paid: int | None = None

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.copies, self.batch, self.paid

    def __eq__(self, other: object) -> bool:
        """Tell whether it is the same deployment; results do not matter."""
        return isinstance(other, Deployment) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Deployment({self.shape!r}, copies={self.copies}, batch={self.batch}, paid={self.paid})"

    @property
    def placed(self) -> tuple[Any, ...]:
        """What others share that differ in speculation settings alone."""
        return self.shape.strategy, self.shape.placement, self.copies

    @property
    def scenario(self) -> Scenario:
        """The scenario of one target."""
        return self.result.scenario

    @property
    def rate(self) -> Estimate:
        """The estimate of one target: tokens/s over its batch, and its round."""
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
        return self.result.tokens_per_second / self.copy_batch

    @cached_property
    def total(self) -> float:
        """Tokens/s of all sequences, each as slow as those of the fullest target."""
        return self.per_user * self.batch

    @property
    def per_gpu(self) -> float:
        """Tokens/s per GPU that is counted."""
        return self.total / (self.paid or self.gpus)

    def cost_per_million(self, gpu_hour: float) -> float:
        """Price of a million tokens when a GPU costs ``gpu_hour`` an hour."""
        return gpu_hour / 3600.0 / self.per_gpu * 1e6

    @cached_property
    def drawing(self) -> tuple[Drawing, ...]:
        """What the devices of one target draw."""
        from ssdsim.answers.energy import drawn_by  # here, as who asks for no joules needs no watts

        return drawn_by(self.scenario)

    def watts(self, errors: TimingErrors | None = None) -> float | Draws:
        """Watts of all GPUs that are counted, idle ones at rest; under each draw where ``errors`` are given."""
        idle = (self.paid or self.gpus) - self.gpus
        drawing = [(self.targets, each) for each in self.drawing]
        drawing += [(1, replace(self.drawing[0], gpus=idle, work_w=0.0))] if idle else []
        if errors is None:
            return sum(times * each.gpus * each.watts for times, each in drawing)
        return sum((times * each.drawn(errors) for times, each in drawing), np.zeros(errors.draws))

    @cached_property
    def joules(self) -> float:
        """Joules a token."""
        return float(self.watts()) / self.total

    @property
    def lookahead(self) -> int:
        """Tokens that are drafted a round; 0 where none are."""
        strategy = strategies.ALL.named(self.shape.strategy)
        return strategy.lookahead(self.scenario.settings) if strategy.drafts else 0

    @property
    def title(self) -> str:
        """The strategy's title."""
        return strategies.ALL.named(self.shape.strategy).title

    @property
    def name(self) -> str:
        """Short text: ``SSD TP 4 + 1``, ``2 x SD TP 2``, ``SD TP 8, EP 8``, ``SSD 4 x TP 4 + 1``."""
        shape, devices = self.shape, self.shape.devices
        copies = f"{self.copies} x " if self.copies > 1 else ""
        replicas = f" x {each}" if (each := devices.target // (shape.tp * shape.pp)) > 1 else ""
        draft = f" + {'CPU' if devices.on_host else devices.draft}" if devices.draft else ""
        sharing = f"{shape.targets} x " if shape.targets > 1 else ""
        return f"{copies}{self.title} {sharing}{shape.degrees}{replicas}{draft}"

    @property
    def settings(self) -> str:
        """Short text of the speculation settings: ``K 6, 21 outcomes, jit``."""
        chosen = dict(self.shape.speculation)
        axes = [axis for axis in strategies.ALL.named(self.shape.strategy).searched if axis.option in chosen]
        return ", ".join(filter(None, (axis.said(ALL[axis.option].short, chosen[axis.option]) for axis in axes)))


def score(deployment: Deployment, rank: Rank) -> float:
    """The number that ``rank`` maximises; lower cost of a token is higher tokens/s per GPU, at any price of a GPU."""
    if rank == "joules":
        return 1.0 / deployment.joules
    return deployment.per_user if rank == "user" else deployment.per_gpu


def score_of_rate(deployment: Deployment, rank: Rank, errors: TimingErrors) -> float | Draws:
    """The score of each token/s per user; a number a draw where watts are not known for sure."""
    if rank == "joules":
        return deployment.batch / deployment.watts(errors)
    return score(deployment, rank) / deployment.per_user


def worth_scoring(deployments: Iterable[Deployment], rank: Rank) -> list[Deployment]:
    """Those whose score is worth its work: of joules, all that yield half of the most tokens/s per GPU, and each
    strategy's best of them.

    A busy GPU draws three to five times what one at rest does: what idles more yields less, and takes more joules.
    """
    every = list(deployments)
    if rank != "joules":
        return every
    bar = _OF_THE_MOST * max((d.per_gpu for d in every), default=0.0)
    tops: dict[Any, float] = {}
    for d in every:
        for of in (d.shape.strategy, d.placed):
            tops[of] = max(tops.get(of, 0.0), d.per_gpu)
    return [d for d in every if d.per_gpu >= max(min(bar, tops[d.shape.strategy]), _OF_ITS_OWN * tops[d.placed])]


def best(deployments: Iterable[Deployment], rank: Rank, at_least: float = 0.0) -> Deployment | None:
    """The one of the highest score at the values of its inputs, of those that give a user ``at_least`` so much."""
    allowed = worth_scoring((d for d in deployments if d.per_user >= at_least), rank)
    return max(allowed, key=lambda d: (score(d, rank), -d.gpus), default=None)


def pareto(deployments: Sequence[Deployment]) -> list[Deployment]:
    """Deployments that no other beats in both tokens/s per user and per GPU, from the fastest to the cheapest.

    Nearly equal ones (within a thousandth) are shown once.
    """
    frontier: list[Deployment] = []
    for d in sorted(deployments, key=lambda d: (-d.per_user, -d.per_gpu)):
        if not frontier or d.per_gpu > (1.0 + INDIFFERENT) * frontier[-1].per_gpu:
            frontier.append(d)
    return frontier


def deployment_json(d: Deployment, gpu_hour: float | None = None, rank: Rank = "user") -> dict[str, Any]:
    """A deployment for JSON, with the price of a token if a GPU has a price, and its joules where these are ranked."""
    return {
        **picked(d, "name", "copies", "gpus"),
        **picked(d.shape, "strategy", "tp", "ep", "settings"),
        **picked(d.rate, "tokens_per_round", "p_hit", "p_all_hit"),
        "draft_gpus": d.shape.devices.draft_gpus,
        "sequences_per_target": d.copy_batch,
        "tokens_per_second": d.total,
        "tokens_per_second_per_user": d.per_user,
        "tokens_per_second_per_gpu": d.per_gpu,
        "cost_per_million_tokens": None if gpu_hour is None else d.cost_per_million(gpu_hour),
        **({"joules_per_token": d.joules} if rank == "joules" else {}),
        "round_ms": 1e3 * d.rate.round_s,
    }
