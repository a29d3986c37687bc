"""A rank's handler: prepares and runs a plan's programs, or times the GEMMs of a layer.

The target's ranks come first, then the draft's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import torch
import torch.distributed as dist

from calibration.machine.devices import busy, group_of, synchronised
from calibration.machine.executor.actor import Action, RankActor, StepWork, drive, outcomes_of
from calibration.machine.executor.messages import Mail, Post, Route
from calibration.machine.executor.plan import RankPass, RankPlan, RankStep, Timeline, role_of
from calibration.machine.graph import DTYPES, Graph
from calibration.machine.ranks import connect_pairs
from calibration.machine.timing import Streams
from ssdsim.base.errors import InputError
from ssdsim.base.plain import picked
from ssdsim.base.record import Record
from ssdsim.pricing.passes import Model
from ssdsim.pricing.step import HostWork
from ssdsim.rounds.actor import alike, kind_of
from ssdsim.transformer.card import Transformer

_WARM_UPS = 3  # buffers are allocated, kernels chosen
Team = tuple[int, ...]


class BufferShape(Record):
    """Size of a model's buffers, allocated once for all runs: ``batch`` sequences of ``context`` tokens.

    Its experts are spread over ``ep`` groups of the ranks that share it.
    """

    card: Transformer
    dtype: str
    batch: int
    context: int
    ep: int = 1


class Models:
    """Shards of models and prepared passes, made when a pass is first needed and kept."""

    def __init__(self, rank: int, device: torch.device, buffers: Mapping[Model, BufferShape]) -> None:
        self._rank, self._device, self._rooms = rank, device, buffers
        self._graphs: dict[tuple[Model, Sequence[int]], Graph] = {}
        self._passes: dict[tuple[Any, ...], Callable[[], object]] = {}

    def prepared(self, work: RankPass, team: Sequence[int], group: dist.ProcessGroup | None) -> Callable[[], object]:
        """An action that runs the pass on the ranks of ``team``, which all prepare it; captured on a GPU."""
        key = (*work.key, team)
        if key not in self._passes:
            graph = self._graph(work.model, team, group)
            self._passes[key] = synchronised(graph.prepare(work.forward), self._device)
            for _ in range(_WARM_UPS):
                self._passes[key]()
        return self._passes[key]

    def _graph(self, model: Model, team: Sequence[int], group: dist.ProcessGroup | None) -> Graph:
        """A model's shard on this rank, one of a team."""
        if (model, team) not in self._graphs:
            room = self._rooms[model]
            self._graphs[model, team] = Graph(
                room.card,
                device=self._device,
                tp=len(team),
                group=group,
                seed=self._rank,
                **picked(room, "dtype", "batch", "context", "ep"),
            )
        return self._graphs[model, team]


class Executor:
    """One rank; models, prepared passes and groups of ranks are made when a plan first needs them, and kept."""

    def __init__(
        self, rank: int, device: torch.device, *, target_ranks: int, dtype: str, buffers: Mapping[Model, BufferShape]
    ) -> None:
        self.rank, self.device = rank, device
        self._dtype = dtype
        self._first = {"target": 0, "draft": target_ranks}
        self._models = Models(rank, device, buffers)
        self._groups: dict[Team, dist.ProcessGroup] = {}
        self._to_leader = self._second_link()

    def _second_link(self) -> dist.ProcessGroup | None:
        """NCCL runs messages of one group one after the other: two that cross need two groups. Gloo needs no other."""
        if dist.get_backend() != "nccl":
            return None
        ranks = range(dist.get_world_size())
        group = group_of(ranks, self.device)
        connect_pairs(self.rank, len(ranks), self.device, group)
        return group

    def prepare(self, plans: Sequence[RankPlan]) -> None:
        """Make groups, allocate and capture before the clock runs: what one rank does late, another would wait for.

        Every rank makes every group. After that none waits for another one here unless its passes have collectives,
        whose ranks all do the same.
        """
        for team in dict.fromkeys(team for plan in plans for team in self._teams_of(plan)):
            if len(team) > 1 and team not in self._groups:
                self._groups[team] = group_of(team, self.device)
        for plan in plans:
            for step, work in _passes(plan):
                for role in _holders(plan, work):
                    self._action(plan, role, step, work)

    def run(self, plan: RankPlan, seed: int, rounds: int) -> Timeline | None:
        """Run ``rounds`` rounds of a plan; None on a rank that takes no part in it."""
        self.prepare([plan])
        role = next((role for role in plan.programs if self.rank in self._ranks(plan, role)), None)
        actor = None if role is None else self._actor(plan, role, seed, rounds)
        dist.barrier()
        return None if role is None or actor is None else drive(plan.programs[role], actor)

    @cached_property
    def streams(self) -> Streams:
        """The calibrator's streamed weights, for timing GEMMs."""
        return Streams(self.device, DTYPES[self._dtype])

    def _actor(self, plan: RankPlan, role: str, seed: int, rounds: int) -> RankActor:
        ranks, leads = self._ranks(plan, role), role == plan.leader
        beside = alike(role, plan.programs)
        others = {other: self._ranks(plan, other)[0] for other in plan.programs if other not in beside}
        links = (None, self._to_leader) if leads else (self._to_leader, None)
        route = Route(self.rank, ranks, next(iter(others.values()), None), self._groups.get(ranks), *links)
        mail = Mail(route, plan.messages, plan.batch, self.device)
        decodes = plan.leader in beside
        outcomes = outcomes_of(plan, seed, rounds, beside.index(role)) if decodes else None
        post = None
        if plan.strategy.sends_async or plan.strategy.free_running or plan.devices.targets > 1:
            if dist.get_backend() == "nccl":
                raise InputError(
                    f"{plan.strategy.title} posts messages while passes run, which NCCL cannot: run it on CPUs"
                )
            post = Post(others, {name: tag for tag, name in enumerate(plan.messages, start=len(plan.messages))})
        merged_inputs = rounds if decodes else rounds * plan.devices.targets
        return RankActor(plan, merged_inputs, outcomes, mail, partial(self._actions, plan, role), post, seed)

    def _actions(self, plan: RankPlan, role: str, name: str, rows: int | None) -> list[StepWork]:
        """List what this rank runs of a step that its role does, in a round of so many rows."""
        step = plan.steps[name]
        with_actions = [(piece, self._action(plan, role, step, piece.work)) for piece in step.over(rows)]
        return [
            StepWork(piece.name, piece.times, action, piece.drawn)
            for piece, action in with_actions
            if action is not None
        ]

    def _action(self, plan: RankPlan, role: str, step: RankStep, work: RankPass | HostWork) -> Action | None:
        """Make one action; None where this rank has no part in it: a pass runs on the first ranks of its role."""
        team = next((team for team in self._teams(plan, role, step, work) if self.rank in team), None)
        if team is None:
            return None
        if isinstance(work, HostWork):
            return partial(busy, work.seconds)
        return self._models.prepared(work, team, self._groups.get(team))

    def _teams(self, plan: RankPlan, role: str, step: RankStep, work: RankPass | HostWork) -> list[Team]:
        """The ranks of a role that run a piece: as many teams as the step has devices."""
        ranks, size = self._ranks(plan, role), work.tp if isinstance(work, RankPass) else len(self._ranks(plan, role))
        return [ranks[at : at + size] for at in range(0, min(step.devices * size, len(ranks)), size)]

    def _teams_of(self, plan: RankPlan) -> Iterator[Team]:
        """Every set of ranks that must know each other."""
        for role in plan.programs:
            yield self._ranks(plan, role)
        for step, work in _passes(plan):
            for role in _holders(plan, work):
                yield from self._teams(plan, role, step, work)

    def _ranks(self, plan: RankPlan, role: str) -> Team:
        count = plan.ranks(role)
        first = self._first[kind_of(role)] + alike(role, plan.programs).index(role) * count
        return tuple(range(first, first + count))


def _holders(plan: RankPlan, work: RankPass) -> list[str]:
    """The roles whose ranks run a pass."""
    return alike(role_of(work.model, plan.programs), plan.programs)


def _passes(plan: RankPlan) -> Iterator[tuple[RankStep, RankPass]]:
    for step in plan.steps.values():
        for piece in step.every_piece:
            if isinstance(piece.work, RankPass):
                yield step, piece.work


def make_executor(rank: int, device: torch.device, options: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Any]:
    """A rank's handler: runs a plan, or times the GEMMs of a layer, which tell the drift of the machine."""
    executor = Executor(rank, device, **options)

    def handle(request: Mapping[str, Any]) -> Any:
        if "prepare" in request:
            executor.prepare(request["prepare"])
            return None
        if "gemms" in request:
            return executor.streams.time_gemms(request["gemms"], request["runs"]) if rank == request["rank"] else None
        return executor.run(**request)

    return handle
