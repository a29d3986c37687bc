"""Steps of a round: passes of a model, host work or a message, each with its cost."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.record import Record, field, replace
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import KERNELS, Runtime
from ssdsim.pricing.between_kernels import Model, Units, units
from ssdsim.pricing.cost import Cost, TimingErrors
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.pricing.repeated import Pmf, Repeats, deepest, drawn_rounds
from ssdsim.pricing.rows import RowTable
from ssdsim.transformer.forward import ForwardPass

PassKey = tuple[str, int]
"""A pass's name and its tokens in flight: what a machine's drift is known by."""


class Pass(Record):
    """A forward pass of one of the models on ``tp`` devices of a kind.

    ``name`` is what timelines and rooflines call it; ``cost`` what it takes in the runtime of the engine.
    """

    name: str
    model: Model
    forward: ForwardPass
    tp: int
    profile: HardwareProfile
    runtime: Runtime = KERNELS

    @cached_property
    def cost(self) -> Cost:
        return cost_of_pass(self.forward, self.profile, self.runtime, self.model)

    @property
    def key(self) -> PassKey:
        return self.name, self.forward.tokens


class HostWork(Record):
    """Something that keeps a rank busy for ``seconds`` without a model: a look-up of n-grams, a backup."""

    seconds: float


class Message(Record):
    """Bytes from one role to another; ``told_bytes`` of them go on to the receiving role's other devices."""

    sent_bytes: int
    told_bytes: int = 0


class Piece(Record):
    """Part of a step that runs ``times`` in a row; ``cost`` is that of one time.

    ``paid`` are the runtime's numbers behind a cost without a pass. Where steps differ in how often it runs they are
    ``drawn``, and ``times`` is their mean.
    """

    name: str
    cost: Cost
    times: float = 1
    work: Pass | HostWork | None = None
    paid: Units = field(default_factory=dict)
    drawn: Repeats | None = None

    @property
    def units(self) -> Units:
        """Count how often one time pays the numbers of the runtime's host."""
        return units(self.work.forward, self.work.model) if isinstance(self.work, Pass) else self.paid


class Step(Record):
    """Step of a role's devices, done in one go: nothing cuts in between its pieces.

    ``part`` is the part of a round (:data:`ssdsim.rounds.estimate.PARTS`) that its time belongs to. Where ``devices``
    share the step, the slowest of them ends it. ``message`` is what a message carries. ``structure`` are errors that
    move the whole step, each a direction with its log-sd. ``by_rows`` is there where rounds differ in the rows of its
    one pass: the step is then that of the mean round.
    """

    part: str
    pieces: tuple[Piece, ...] = ()
    devices: int = 1
    message: Message | None = None
    structure: Mapping[str, float] = field(default_factory=dict)
    by_rows: RowTable | None = None

    @cached_property
    def cost(self) -> Cost:
        return Cost.total((piece.cost, piece.times) for piece in self.pieces)

    @cached_property
    def seconds(self) -> float:
        return sum(piece.cost.seconds * piece.times for piece in self.pieces)

    @cached_property
    def rounds(self) -> tuple[Pmf, ...]:
        """The rounds within rounds that it draws; none where it always takes as long."""
        return deepest(piece.drawn for piece in self.pieces)

    def drawn_s(self, rng: np.random.Generator, steps: int) -> Array:
        """Durations of so many steps, each with its own number of rounds."""
        counts = drawn_rounds(self.rounds, rng, steps)
        filled = np.zeros(steps)
        for piece in self.pieces:
            again = piece.times if piece.drawn is None else piece.drawn.times(counts)
            filled += piece.cost.seconds * again
        return filled

    @property
    def warnings(self) -> frozenset[str]:
        """Extrapolations and mismatches behind its cost."""
        return frozenset().union(*(piece.cost.warnings for piece in self.pieces))

    def warning(self, of: str) -> Step:
        """Copy the step with a warning."""
        return replace(self, pieces=(*self.pieces, Piece("", Cost(warnings=frozenset({of})))))

    def sample(self, errors: TimingErrors) -> Array:
        """The step's duration under each draw of the timings' errors, shape ``(draws,)``."""
        drawn = np.zeros(errors.draws)
        for piece in self.pieces:
            drawn += errors.seconds(piece.cost) * piece.times
        for direction, log_sd in self.structure.items():
            drawn *= errors.factor(direction, log_sd)
        return drawn

    def off_by(self, direction: str, log_sd: float) -> Step:
        """Copy the step with one more error, which moves all that has the direction."""
        structure = {**self.structure, direction: log_sd}
        return replace(self, structure=structure)

    def stretched(self, factor: float) -> Step:
        """Stretch the step by ``factor``."""
        if factor == 1.0:
            return self
        pieces = tuple(replace(piece, cost=piece.cost * factor) for piece in self.pieces)
        return replace(self, pieces=pieces, by_rows=self.by_rows and self.by_rows.scaled(factor))

    def of_pieces_called(self, name: str) -> Step:
        return replace(self, pieces=tuple(replace(piece, name=name) for piece in self.pieces))

    @property
    def passes(self) -> tuple[Pass, ...]:
        return tuple(piece.work for piece in self.pieces if isinstance(piece.work, Pass))

    @property
    def every_pass(self) -> tuple[Pass, ...]:
        """All that are priced for it, over every number of rows where rounds differ in these."""
        table = self.by_rows
        return (*self.passes, *(map(table.work, map(int, table.rows)) if table and table.work else ()))
