"""A strategy's programs, one a role, on SimPy's clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from simpy import Event

from ssdsim.answers.simulation.durations import StepDurations, StepStreams
from ssdsim.answers.simulation.events import Clock, Mailbox, SimDevice
from ssdsim.answers.simulation.statistics import Recorder, Stopping
from ssdsim.answers.simulation.trace import Trace
from ssdsim.base.errors import InputError
from ssdsim.pricing.step import Step
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.actor import alike, kind_of
from ssdsim.rounds.outcomes import OutcomeBlock, OutcomeSource
from ssdsim.rounds.round import with_rest

_DONE = object()  # in place of a message
_OWN_ROUNDS = 256  # drawn at once
_INSIDE_S = 1e-9  # arrows of a trace start and end this far inside a slice
_SAME_INSTANT = 1e-6  # of a step: two times this close differ by rounding only


class EventRun:
    """One run of a strategy: its clock, its devices, the present block of rounds, and the recorder."""

    def __init__(
        self,
        scenario: Scenario,
        outcomes: OutcomeSource,
        seed: np.random.SeedSequence,
        stopping: Stopping,
        recorder: Recorder,
        trace: Trace | None = None,
        others: Sequence[OutcomeSource] = (),
    ) -> None:
        self.env = Clock()
        self.scenario = scenario
        self.trace = trace
        self.steps = StepStreams(scenario.steps, scenario.spread, seed)
        self.devices: dict[str, SimDevice] = {}
        self._outcomes, self._recorder, self._stopping = outcomes, recorder, stopping
        self._others = others  # of the targets beside the first one, whose rounds are recorded
        self.block: OutcomeBlock | None = None
        self.misses: Sequence[int] = ()
        self.mailboxes: defaultdict[tuple[str, str], Mailbox] = defaultdict(partial(Mailbox, self.env))
        """Mailboxes by receiving role and message."""
        self.arrows: dict[tuple[str, str], tuple[str, float]] = {}  # where a message under way comes from, and when

    def play(self) -> dict[str, float]:
        """Run the programs until the first role has run its rounds; return each device's busy seconds."""
        programs = self.scenario.strategy.programs(self.scenario.settings, self.scenario.drafter)
        roles = list(programs)
        actors = {
            role: SimActor(self, role, leads=role == roles[0], device=self._of_role(role, len(alike(role, roles))))
            for role in roles
        }
        for role, outcomes in zip(alike(roles[0], roles)[1:], self._others, strict=False):
            actors[role].has_its_own(outcomes)
        processes = {role: self.env.process(programs[role](actors[role])) for role in reversed(roles)}
        self.env.run_to(processes[roles[0]])
        if self.trace is not None:
            self.trace.cut(self.env.now)
        return {role: device.busy_s for role, device in self.devices.items()}

    def blocks(self) -> Iterator[OutcomeBlock]:
        """Outcomes block by block, until the stopping rule is met."""
        miss = self.scenario.strategy.miss_state
        for rounds in self._stopping.blocks(self._recorder):
            self.block = self._outcomes.block(rounds)
            if miss is not None:
                self.misses = self.block.count_to(miss).tolist()
            yield self.block

    def record(self, block: OutcomeBlock, round_s: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        """Record a block with the rounds' times by the clock."""
        timed = self.scenario.strategy.clocked(block, self.steps.block(block), round_s)
        self._recorder.add(with_rest("draft", timed) if self._others else timed)

    @property
    def link(self) -> SimDevice:
        return self.devices.get("link") or self._device("link", ["link"])

    def _of_role(self, role: str, sharing: int) -> SimDevice:
        """The device of a role; roles alike (``target 1``, ``target 2``) share the devices equally."""
        gpus = self.scenario.devices.of_kind(kind_of(role)) // sharing
        return self._device(role, [f"{role} GPU {i}" for i in range(gpus)] or [f"{role} on the host"])

    def _device(self, role: str, tracks: list[str]) -> SimDevice:
        self.devices[role] = SimDevice(self.env, tracks, self.trace)
        return self.devices[role]


class SimActor:
    """One role of a run, whose actions take simulated time."""

    def __init__(self, run: EventRun, role: str, *, leads: bool, device: SimDevice) -> None:
        self._run, self._env, self._role, self._leads, self._device = run, run.env, role, leads, device
        self._waits_for_nobody = run.scenario.strategy.free_running and not leads
        self._own: OutcomeSource | None = None
        self._block: OutcomeBlock | None = None
        self._number = 0  # of the round
        self._at = 0  # its place in the block
        self._ends: list[float] = []
        self._any_in: dict[str, list[bool]] = {}
        self._any_to: dict[str, list[bool]] = {}
        self._by_round: dict[str, list[float]] = {}  # seconds of the block's rounds, of steps whose rows differ
        self._judged: list[int] = []  # accepted tokens of the block's rounds, where programs find them out
        self._last_s = 0.0  # of the step done last
        constant = run.steps.constant
        self._seconds: Callable[[str], float] = self._drawn if constant is None else constant.__getitem__
        self._tables, self._trace = run.steps.tables, run.trace
        self._varying: dict[str, StepDurations] = {}
        self._done = run.env.past()  # what takes no time is done at once

    def has_its_own(self, outcomes: OutcomeSource) -> None:
        """Make this a target beside the leading one, with outcomes of its own, until that one ends."""
        self._own = outcomes

    def rounds(self) -> Iterator[int]:
        if self._own is not None:
            yield from self._own_rounds(self._own)
        if not self._leads:
            for self._number in count():
                yield self._number
        for block in self._run.blocks():
            self._block = block
            started = self._env.now
            self._ends, self._any_in, self._any_to, self._by_round, self._judged = [], {}, {}, {}, []
            for self._at in range(block.rounds):
                yield self._number
                self._number += 1
            done = block.shortened_to(self._judged) if self._judged else block
            self._run.record(done, np.diff(self._ends, prepend=started))

    def _own_rounds(self, outcomes: OutcomeSource) -> Iterator[int]:
        while True:
            self._block = outcomes.block(_OWN_ROUNDS)
            self._any_in, self._any_to, self._by_round = {}, {}, {}
            for self._at in range(_OWN_ROUNDS):
                yield self._number
                self._number += 1

    def do(self, step: str) -> Event:
        seconds = self._seconds(step)
        if self._tables and step in self._tables:
            if step not in self._by_round:
                if self._block is None:
                    title = self._run.scenario.strategy.title
                    raise InputError(
                        f"{title}'s step '{step}' differs by round, on a device of its own: take --solver mc"
                    )
                self._by_round[step] = self._run.steps.over(step, self._block).tolist()
            seconds *= self._by_round[step][self._at]
        if seconds == 0.0:
            if self._waits_for_nobody:  # it would go round without time passing
                title = self._run.scenario.strategy.title
                raise InputError(f"{title}'s step '{step}' takes no time: take --solver mc, or closed")
            return self._done
        self._last_s = seconds
        if self._trace is None:
            return self._device.run(step, seconds)
        return self._device.run_slices(_slices(self._run.scenario.steps[step], seconds))

    def send(self, to: str, message: str, content: Any = None) -> Event:
        seconds = self._seconds(message)
        if seconds:
            self._device.occupy("send", seconds)
        return self._under_way(to, message, content, self._run.link.run(message, seconds) if seconds else None)

    def _under_way(self, to: str, message: str, content: Any, event: Event | None) -> Event:
        """Put a message into its mailbox at ``event``, or at once."""
        mailbox = self._run.mailboxes[to, message]
        if self._trace is not None:
            self._run.arrows[to, message] = self._device.tracks[0], self._arrow_from(at_once=event is None)
        if event is None:
            mailbox.put(content)
            return self._done
        assert event.callbacks is not None
        event.callbacks.append(lambda _: mailbox.put(content))
        return event

    def receive(self, message: str) -> Event:
        event = self._run.mailboxes[self._role, message].get()
        if self._trace is not None:
            if event.callbacks is None:
                self._draw_arrow(message)
            else:
                event.callbacks.append(lambda _: self._draw_arrow(message))
        return event

    def tell(self, message: str) -> Event:
        seconds = self._seconds(message)
        return self._run.link.run(message, seconds) if seconds else self._done

    def outcome(self) -> int:
        """The place of this round in the block of outcomes."""
        return self._at

    def fill(self) -> None:
        """Do nothing: hits are drawn with the outcomes."""

    def misses(self, outcome: int) -> int:
        return self._run.misses[outcome]

    def any_in(self, state: str) -> bool:
        if state not in self._any_in:
            assert self._block is not None
            self._any_in[state] = (self._block.count_in(state) > 0).tolist()
        return self._any_in[state][self._at]

    def any_to(self, state: str) -> bool:
        if state not in self._any_to:
            assert self._block is not None
            self._any_to[state] = (self._block.count_to(state) > 0).tolist()
        return self._any_to[state][self._at]

    def end_round(self) -> None:
        self._ends.append(self._env.now)

    def post(self, to: str, message: str, content: Any, takes: str | None = None) -> None:
        seconds = 0.0 if takes is None else self._seconds(takes)
        self._under_way(to, message, content, self._env.after(seconds) if seconds else None)

    def look(self, message: str) -> Generator[Any, Any, list[Any]]:
        """Look for messages; those that arrive at this very instant count, too."""
        # Twice, as a wait until an event may end a rounding before it; the leader, which acts first at an instant,
        # waits until followers have looked and answered.
        for _ in range(4 if self._leads else 2):
            gap = self._env.peek() - self._env.now
            if gap > _SAME_INSTANT * self._last_s:
                break
            yield self._env.after(gap)
        return self.here(message)

    def here(self, message: str) -> list[Any]:
        return self._run.mailboxes[self._role, message].here()

    def judge(self, drafted: int) -> tuple[int, bool]:
        assert self._run.block is not None
        accepted, guessed = self._run.block.one(self._at)
        self._judged.append(min(drafted, accepted))
        return self._judged[-1], guessed

    def do_unless(self, step: str, message: str) -> Generator[Any, Any, bool]:
        mailbox = self._run.mailboxes[self._role, message]
        event = mailbox.get()  # of whichever comes first
        if not event.triggered:
            work = self.do(step)
            if work.callbacks is None:
                mailbox.give_up(event, _DONE)
            else:
                work.callbacks.append(lambda _: mailbox.give_up(event, _DONE))
        if (yield event) is _DONE:
            return True
        self._device.stop()
        return False

    def _drawn(self, step: str) -> float:
        if step not in self._varying:
            self._varying[step] = StepDurations(self._run.steps, step, "" if self._own is None else self._role)
        return self._varying[step].of_round(self._number)

    # Arrows of a timeline: each binds to the slices around its ends, so it starts and ends a little inside them.

    def _arrow_from(self, at_once: bool) -> float:
        ended_now = at_once and self._device.busy_until_s == self._env.now
        return self._env.now - _INSIDE_S if ended_now else self._env.now + _INSIDE_S

    def _draw_arrow(self, message: str) -> None:
        track, sent_s = self._run.arrows[self._role, message]
        assert self._trace is not None
        self._trace.flow(message, track, sent_s, self._device.tracks[0], self._env.now + 2 * _INSIDE_S)


def _slices(step: Step, seconds: float) -> list[tuple[str, float]]:
    """A step's pieces one by one, in their shares of the time; pieces of a drawn number count as one."""
    scale = seconds / step.seconds
    slices: list[tuple[str, float]] = []
    for piece in step.pieces:
        whole = int(piece.times) if piece.drawn is None else 1
        each_s = scale * piece.cost.seconds * piece.times / whole
        slices += [(f"{piece.name} {number + 1}" if whole > 1 else piece.name, each_s) for number in range(whole)]
    return slices
