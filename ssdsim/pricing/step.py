"""Steps of a round: passes of a model, host work or a message, each with its cost, and how often they run."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.record import Record, field, replace
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import KERNELS, Runtime
from ssdsim.pricing.cost import Cost, TimingErrors
from ssdsim.pricing.passes import Model, Units, cost_of_pass, units
from ssdsim.tokens.acceptance import accepted_length_pmf
from ssdsim.transformer.forward import ForwardPass

Z_95 = 1.96
"""Of a normal distribution, in standard deviations."""

_ROUNDING = 1e-6  # of rows
_SURE = 1e-9  # a chance that moves nothing

PassKey = tuple[str, int]
"""A pass's name and its tokens in flight: what a machine's drift is known by."""


class Pass(Record):
    """A forward pass of one of the models on ``tp`` devices of a kind.

    ``name`` is what timelines and rooflines call it; ``cost`` what it takes in the runtime of the engine.
    ``own_log_sd`` is an error besides the runtime's, of passes like it.
    """

    name: str
    model: Model
    forward: ForwardPass
    tp: int
    profile: HardwareProfile
    runtime: Runtime = KERNELS
    own_log_sd: float = 0.0

    @property
    def priced_on(self) -> HardwareProfile:
        """The profile with the kernels of the engine."""
        return self.profile.of_engine(self.runtime.engine)

    @cached_property
    def cost(self) -> Cost:
        cost = cost_of_pass(self.forward, self.profile, self.runtime, self.model)
        return (
            cost.off_by(f"{self.model} over devices@{self.runtime.name}", self.own_log_sd) if self.own_log_sd else cost
        )

    @property
    def key(self) -> PassKey:
        return self.name, self.forward.tokens


class HostWork(Record):
    """Work of ``seconds`` on a rank without a model: a look-up of n-grams, a backup."""

    seconds: float


class Message(Record):
    """Bytes from one role to another; ``broadcast_bytes`` of them go on to the receiving role's other devices."""

    sent_bytes: int
    broadcast_bytes: int = 0


Pmf = tuple[float, ...]
"""P(so many rounds), from none on."""


class Repeats(Record):
    """``each`` times in every round of the innermost of ``rounds``, which run within each other, the outermost first.

    The number of rounds is drawn anew wherever they run, independently.
    """

    rounds: tuple[Pmf, ...]
    each: int

    @property
    def mean(self) -> float:
        return self.each * math.prod(float(np.arange(len(pmf)) @ pmf) for pmf in self.rounds)

    def times(self, counts: Sequence[Any]) -> Any:
        """Count how often it runs, by how many rounds of each level there are: numbers, or arrays of them."""
        return self.each * counts[len(self.rounds) - 1]


def deepest(drawn: Iterable[Repeats | None]) -> tuple[Pmf, ...]:
    """The nested rounds of the innermost repeats; none where nothing is drawn."""
    return max((each.rounds for each in drawn if each is not None), key=len, default=())


def drawn_rounds(rounds: Sequence[Pmf], rng: np.random.Generator, steps: int) -> list[Array]:
    """Draw numbers of rounds at each level for so many steps, summed over the rounds around them."""
    found: list[Array] = []
    around = np.ones(steps, dtype=np.int64)
    for pmf in rounds:
        drawn = rng.choice(len(pmf), size=int(around.sum()), p=pmf)
        around = np.add.reduceat(drawn, np.concatenate([[0], np.cumsum(around)[:-1]]))  # none of a step has no round
        found.append(around.astype(float))
    return found


@lru_cache(maxsize=4096)
def rounds_until(tokens: int, drafted: int, alpha: float, chains: int) -> Pmf:
    """P(so many rounds until each of ``chains`` has ``tokens``); a round drafts ``drafted`` tokens for all of them.

    A round yields what is accepted of them and one more, each with probability ``alpha`` given those before it.
    """
    accepted = accepted_length_pmf(alpha, drafted)
    have = np.eye(tokens + 1)[0]  # of tokens, at most those that are needed
    up_to = [0.0]
    for _ in range(tokens):
        after = np.convolve(have[:-1], np.concatenate([[0.0], accepted]))
        have = np.append(after[:tokens], have[-1] + after[tokens:].sum())
        up_to.append(float(have[-1]))
    up_to[-1] = 1.0
    return tuple(np.diff(np.array(up_to) ** chains, prepend=0.0).tolist())


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


def moved_by_warnings(pieces: Iterable[Piece]) -> dict[str, float]:
    """By how many seconds that which each timing's warning is about may move these pieces, at 95 %."""
    moved: dict[str, float] = defaultdict(float)
    for piece in pieces:
        if isinstance(piece.work, Pass) and piece.cost.warnings:
            profile = piece.work.priced_on
            timings = [(profile.seconds(op), times) for op, times in piece.work.forward.counted]
            alone_s = sum(times * timing.seconds for timing, times in timings)
            for timing, times in timings:
                for warning in timing.warnings:
                    share = times * timing.seconds / alone_s
                    moved[warning] += share * piece.times * piece.cost.seconds * Z_95 * timing.log_sd
    return moved


class RowTable(Record, eq=False):
    """Passes over ``least`` to ``most`` rows, priced at ``rows``, which ascend.

    Up to ``captured`` rows an engine runs the next larger of ``rows``, which it has captured: times are a staircase.
    Beyond they are linear between ``rows``. ``work`` is a pass over so many rows; None without hardware. Rounds have
    every ``stride``-th number of them. Of a step ``of_passes`` they are numbers of passes in a row.
    """

    least: int
    most: int
    rows: Array
    seconds: Array
    captured: int = 0
    work: Callable[[int], Pass] | None = None
    stride: int = 1
    of_passes: bool = False

    def at(self, rows: FloatOrArray) -> Array:
        """Seconds of passes over so many rows."""
        stairs = self.seconds[self._next(rows)]
        return np.asarray(np.where(np.asarray(rows) <= self.captured, stairs, np.interp(rows, self.rows, self.seconds)))

    @property
    def numbers(self) -> range:
        """All numbers of rows that a round may have."""
        return range(self.least, self.most + 1, self.stride)

    @property
    def widths(self) -> list[int]:
        """All numbers of rows that may run."""
        return sorted({self.width(rows) for rows in self.numbers})

    def width(self, rows: int) -> int:
        """Width of what runs for so many rows."""
        return self.next(rows) if rows <= self.captured else rows

    def next(self, rows: float) -> int:
        """The least priced rows that hold so many."""
        return int(self.rows[self._next(rows)])

    def between(self, rows: Array) -> tuple[Array, Array, Array]:
        """Numbers of the neighbouring priced rows, and the fraction between; the same twice where that one runs."""
        high = self._next(rows)
        runs = (rows <= self.captured) | (self.rows[high] - rows <= _ROUNDING)
        low = np.where(runs, high, np.maximum(0, high - 1))
        apart = self.rows[high] - self.rows[low]
        return low, high, np.divide(rows - self.rows[low], apart, out=np.zeros(rows.shape), where=apart > 0.0)

    def scaled(self, by: float) -> RowTable:
        """Stretch the passes: they take ``by`` times as long."""
        return replace(self, seconds=self.seconds * by)

    def _next(self, rows: FloatOrArray) -> Array:
        return np.minimum(np.searchsorted(self.rows, np.asarray(rows) - _ROUNDING), len(self.rows) - 1)


def rows_to_price(sequences: int, most: int, captured: tuple[int, ...]) -> tuple[list[int], int]:
    """Captured sizes that hold up to ``most`` rows and, beyond them, whole numbers of rows a sequence.

    After them the last of the former, 0 where there is none.
    """
    sizes = [size for size in captured if size >= sequences]
    sizes = [size for number, size in enumerate(sizes) if number == 0 or sizes[number - 1] < most]
    last = sizes[-1] if sizes else 0
    beyond = range(sequences * (last // sequences + 1), most + 1, sequences) if last < most else ()
    return [*sizes, *beyond], last


_MIXED = 16  # numbers of a batch's sequences, beside none of them, whose passes are priced


def mixed_rows(batch: int, tokens: tuple[float, float]) -> Array:
    """Rows of a pass in which none, one, ... all of a batch have the first number of tokens, the others the second."""
    return np.asarray(batch * tokens[1] + np.arange(batch + 1) * (tokens[0] - tokens[1]), dtype=float)


def mixed_rows_to_price(batch: int, tokens: tuple[float, float]) -> list[int]:
    """Those of these numbers between which passes are linear: all, or in large batches some of them."""
    some = mixed_rows(batch, tokens)[np.linspace(0, batch, min(batch, _MIXED) + 1).round().astype(int)]
    return sorted({*map(math.floor, some), *map(math.ceil, some)})


def chances_at_once(batch: int, share: float) -> Array:
    """P(none, one, ... or all of a batch do what each does with this chance)."""
    numbers = np.arange(batch + 1)
    ways = np.append(0.0, np.cumsum(np.log((batch - numbers[1:] + 1.0) / numbers[1:])))
    share = min(max(share, _SURE), 1.0 - _SURE)
    chances = np.exp(ways + numbers * np.log(share) + (batch - numbers) * np.log1p(-share))
    return np.asarray(chances / chances.sum())


class Step(Record):
    """A step of a role's devices, not interrupted between its pieces.

    ``part`` is the part of a round (:data:`ssdsim.rounds.round.PARTS`) that its time belongs to. Where ``devices``
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
        """Nested rounds that it draws; none where it always takes the same time."""
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

    def with_piece_name(self, name: str) -> Step:
        return replace(self, pieces=tuple(replace(piece, name=name) for piece in self.pieces))

    @property
    def passes(self) -> tuple[Pass, ...]:
        return tuple(piece.work for piece in self.pieces if isinstance(piece.work, Pass))

    @property
    def every_pass(self) -> tuple[Pass, ...]:
        """All that are priced for it, over every number of rows where rounds differ in these."""
        table = self.by_rows
        return (*self.passes, *(map(table.work, map(int, table.rows)) if table and table.work else ()))
