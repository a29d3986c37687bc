"""What goes through a rank's pipe: the plan of a strategy's programs that it runs, and the timeline that it returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

from ssdsim.base.record import MutableRecord, Record, field
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.occupancy import Devices
from ssdsim.pricing.passes import Model
from ssdsim.pricing.step import HostWork, Message, Pass, Repeats, Step
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.actor import Program, alike, kind_of
from ssdsim.rounds.kernel import Tokens
from ssdsim.strategies.protocols.strategy import Strategy
from ssdsim.transformer.forward import ForwardPass

T = TypeVar("T")


class RankPass(Record):
    """A forward pass of a model on ``tp`` ranks."""

    model: Model
    forward: ForwardPass
    tp: int

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal passes, wherever they were unpickled."""
        forward = self.forward
        return self.model, self.tp, forward.before, forward.blocks, forward.after


class RankPiece(Record):
    """Work that runs ``times`` in a row, or a random number of times if ``drawn`` is given."""

    name: str
    times: int
    work: RankPass | HostWork
    drawn: Repeats | None = None


class RankStep(Record):
    """A step as ranks run it: pieces on each of ``devices``, or a message.

    ``by_rows`` holds the pieces by rows of the batch, for steps whose rows vary from round to round.
    """

    pieces: tuple[RankPiece, ...]
    devices: int
    message: Message | None
    by_rows: Mapping[int, tuple[RankPiece, ...]] = field(default_factory=dict)

    def over(self, rows: int | None) -> tuple[RankPiece, ...]:
        """The pieces of a round with ``rows`` rows."""
        return self.pieces if rows is None else self.by_rows.get(rows, self.pieces)

    @property
    def every_piece(self) -> Iterator[RankPiece]:
        yield from self.pieces
        for pieces in self.by_rows.values():
            yield from pieces


class RankPlan(Record):
    """A strategy's programs with their steps. The strategy and the drafter are pickled by where their classes lie."""

    strategy: Strategy
    drafter: Drafter
    options: Mapping[str, Any]
    batch: int
    tokens: Tokens
    steps: Mapping[str, RankStep]
    devices: Devices

    @classmethod
    def of(cls, scenario: Scenario) -> RankPlan:
        """The scenario's plan."""
        return cls(
            scenario.strategy,
            scenario.drafter,
            dict(scenario.settings),
            scenario.batch,
            scenario.drawn_from,
            {name: _step(step) for name, step in scenario.steps.items()},
            scenario.devices,
        )

    @cached_property
    def programs(self) -> Mapping[str, Program]:
        """Each role's program; the first role leads."""
        return self.strategy.programs(self.options, self.drafter)

    @property
    def leader(self) -> str:
        return next(iter(self.programs))

    def ranks(self, role: str) -> int:
        """Ranks of a role; a role without a device runs on a core of its own."""
        return max(1, self.devices.of_kind(kind_of(role)) // len(alike(role, self.programs)))

    @property
    def messages(self) -> dict[str, Message]:
        """Messages by their names."""
        return {name: step.message or Message(0) for name, step in self.steps.items() if not step.pieces}


def role_of(model: Model, roles: Iterable[str]) -> str:
    """The role whose ranks hold a model: the first of its kind, else the first role, which then holds both models."""
    roles = list(roles)
    return next((role for role in roles if kind_of(role) == model), roles[0])


def _step(step: Step) -> RankStep:
    """The step without pieces that cost nothing or that ranks do not run."""
    pieces = tuple(
        RankPiece(piece.name, 0 if piece.drawn else int(piece.times), work, piece.drawn)
        for piece in step.pieces
        if (work := _work(piece.work)) is not None
    )
    return RankStep(pieces, step.devices, step.message, _by_rows(step))


def _by_rows(step: Step) -> dict[int, tuple[RankPiece, ...]]:
    table = step.by_rows
    if table is None or table.work is None:
        return {}
    pieces = {}
    for width in table.widths:
        work = table.work(width)
        pieces[width] = (RankPiece(f"{work.name} {width} rows", 1, RankPass(work.model, work.forward, work.tp)),)
    return {rows: pieces[table.width(rows)] for rows in table.numbers}


def _work(work: Pass | HostWork | None) -> RankPass | HostWork | None:
    match work:
        case Pass(model=model, forward=forward, tp=tp):
            return RankPass(model, forward, tp)
        case HostWork(seconds=seconds) if seconds > 0.0:
            return work
    return None


class Event(Record):
    """A timed part of a step: an action, or a wait."""

    step: str
    what: str
    start_s: float
    end_s: float
    waits: bool = False


class Timeline(MutableRecord):
    """A rank's events. The leading role also records each round's end and tokens, the cache's owner its misses."""

    start_s: float = 0.0
    events: list[Event] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    misses: list[int] = field(default_factory=list)

    def record(self, step: str, what: str, action: Callable[[], T], waits: bool = False) -> T:
        """Run ``action`` and record its time; returns what it returns."""
        start = time.perf_counter()
        record = action()
        self.events.append(Event(step, what, start, time.perf_counter(), waits))
        return record

    def end_round(self, tokens: int) -> None:
        """Record the end of a round and its tokens."""
        self.ends_s.append(time.perf_counter())
        self.tokens.append(tokens)

    @property
    def mean_round_s(self) -> float:
        """The mean round from the start to the last round's end."""
        return (self.ends_s[-1] - self.start_s) / len(self.ends_s)
