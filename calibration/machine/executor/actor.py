"""A role's program on a rank of a real machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, NamedTuple, Protocol

import numpy as np

from calibration.machine.executor.cache import Guesses, Outcome, SpeculationCache
from calibration.machine.executor.messages import Mail
from calibration.machine.executor.plan import RankPlan
from calibration.machine.executor.post import Post
from calibration.machine.executor.timeline import Timeline
from ssdsim.pricing.repeated import Repeats, deepest, drawn_rounds
from ssdsim.rounds.actor import Program
from ssdsim.rounds.outcomes import OutcomeBlock
from ssdsim.rounds.source import long_run_source

Action = Callable[[], object]


class Work(NamedTuple):
    """Work of a rank in a step, ``times`` in a row; as often as a round happens to need where that is ``drawn``."""

    name: str
    times: int
    action: Action
    drawn: Repeats | None = None


def outcomes_of(plan: RankPlan, seed: int, rounds: int, target: int = 0) -> OutcomeBlock:
    """Outcomes of one of the targets, the same that :func:`ssdsim.simulate` replays for this seed."""
    of_first, _, *of_others = np.random.SeedSequence(seed).spawn(1 + plan.devices.targets)
    return long_run_source(plan.tokens, plan.batch, (of_first, *of_others)[target]).block(rounds)


class Messages(Protocol):
    """A rank's messages: tensors (:class:`.messages.Mail`), or contents of another kind."""

    def send(self, name: str, content: Any) -> None: ...

    def receive(self, name: str) -> Any: ...

    def tell(self, name: str) -> None: ...

    def close(self) -> None: ...


class MailActor:
    """Shared by ranks, whatever their steps are: timed messages."""

    def __init__(self, mail: Messages) -> None:
        self.timeline = Timeline()
        self._mail = mail

    def send(self, to: str, message: str, content: Any = None) -> None:
        self.timeline.record(message, f"send {message}", partial(self._mail.send, message, content))

    def receive(self, message: str) -> Any:
        return self.timeline.record(message, f"wait for {message}", partial(self._mail.receive, message), waits=True)

    def tell(self, message: str) -> None:
        self.timeline.record(message, f"tell {message}", partial(self._mail.tell, message))

    def close(self) -> None:
        """Wait until every message is through."""
        self._mail.close()


def drive(program: Program, actor: MailActor) -> Timeline:
    """Run a role's program to its end: what it yields is done already, and is handed back to it."""
    playing, reply = program(actor), None
    with suppress(StopIteration):
        while True:
            reply = playing.send(reply)
    actor.close()
    return actor.timeline


class RankActor(MailActor):
    """One rank of a role: what it does takes real time (:class:`ssdsim.rounds.actor.Actor`).

    ``actions`` gives what this rank has to run of a step, over so many rows where rounds differ in them. How often what
    is drawn runs follows from the ``seed`` and the number of the round, so that all ranks do as much. How much each
    sequence accepts and which bonus token it gets is known to the leading role, which has ``outcomes``; others learn of
    it by message.
    """

    def __init__(
        self,
        plan: RankPlan,
        rounds: int,
        outcomes: OutcomeBlock | None,
        mail: Mail,
        actions: Callable[[str, int | None], Sequence[Work]],
        post: Post | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(mail)
        self._plan, self._rounds, self._outcomes, self._post, self._seed = plan, rounds, outcomes, post, seed
        fan_out = plan.strategy.guesses(plan.options)
        guesses = Guesses(fan_out or ())
        self._cache = SpeculationCache(guesses) if fan_out else None
        if outcomes is not None:
            self._found = guesses.outcomes(outcomes, plan.strategy.miss)
            self._tokens = outcomes.total_tokens.tolist()
            self._any_in, self._any_to = (
                {state: (count(state) > 0).tolist() for state in outcomes.states}
                for count in (outcomes.count_in, outcomes.count_to)
            )
        self._actions = actions
        self._steps: dict[tuple[str, int | None], Sequence[Work]] = {}
        self._rows = None if outcomes is None or outcomes.rows is None else outcomes.rows.tolist()
        self._round = 0

    def rounds(self) -> Iterator[int]:
        self.timeline.start_s = time.perf_counter()
        for number in range(self._rounds) if self._counts else count():
            if self._post is not None and self._post.over and not self._counts:
                return
            self._round = number
            yield number

    @property
    def _counts(self) -> bool:
        """Say whether it knows its rounds: the leader's, or for a draft of several targets theirs; else it runs on."""
        return not self._plan.strategy.free_running or self._outcomes is not None

    def do(self, step: str) -> None:
        rows = None if self._rows is None else self._rows[self._round]
        if (step, rows) not in self._steps:
            self._steps[step, rows] = self._actions(step, rows)
        works = self._steps[step, rows]
        counts = self._drawn(step, works)
        for work in works:
            again = work.times if work.drawn is None else work.drawn.times(counts)
            for _ in range(again):
                self.timeline.record(step, work.name, work.action)

    def _drawn(self, step: str, works: Sequence[Work]) -> list[int]:
        """The rounds of each level within this step of this round."""
        rounds = deepest(work.drawn for work in works)
        if not rounds:
            return []
        rng = np.random.default_rng([self._seed, self._round, *step.encode()])
        return [int(each[0]) for each in drawn_rounds(rounds, rng, 1)]

    def receive(self, message: str) -> Any:
        if self._post is not None:
            return self.timeline.record(message, f"wait for {message}", partial(self._post.wait, message), waits=True)
        return super().receive(message)

    def outcome(self) -> Outcome:
        self._check_knows()
        outcome: Outcome = self._found[self._round]
        return outcome

    def fill(self) -> None:
        if self._cache is not None:
            self.timeline.record("fill", "fill cache", partial(self._cache.fill, self._round, self._plan.batch))

    def misses(self, outcome: Outcome) -> int:
        """Raises ValueError where the strategy caches nothing that an outcome could be looked up in."""
        if self._cache is None:
            raise ValueError(f"{self._plan.strategy.title} caches nothing: there is no outcome to look up")
        self.timeline.misses.append(self._cache.look_up(outcome).count(None))
        return self.timeline.misses[-1]

    def any_in(self, state: str) -> bool:
        self._check_knows()
        return bool(self._any_in[state][self._round])

    def any_to(self, state: str) -> bool:
        self._check_knows()
        return bool(self._any_to[state][self._round])

    def post(self, to: str, message: str, content: Any, takes: str | None = None) -> None:
        assert self._post is not None  # of a strategy that posts
        self._post.send(to, message, content)

    def look(self, message: str) -> Generator[Any, Any, list[int]]:
        assert self._post is not None
        yield  # no time
        return self._post.look(message)

    def judge(self, drafted: int) -> tuple[int, bool]:
        self._check_knows()
        assert self._outcomes is not None
        accepted, guessed = self._outcomes.one(self._round)
        self._tokens[self._round] = min(drafted, accepted) + 1
        return min(drafted, accepted), guessed

    def end_round(self) -> None:
        self._check_knows()
        self.timeline.end_round(self._tokens[self._round])

    def close(self) -> None:
        """Wait until every message is through."""
        super().close()
        if self._post is not None:
            self._post.close()

    def _check_knows(self) -> None:
        if self._outcomes is None:
            raise ValueError(f"only the {self._plan.leader} knows outcomes: others learn of them by message")
