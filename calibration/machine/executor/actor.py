"""A role's program on a rank of a real machine, and the speculation cache that its outcomes are looked up in.

Tokens are synthetic numbers. Which outcome the target finds comes from the simulator's stream; a lookup decides whether
it is a hit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calibration.machine.executor.messages import OUTCOME_VALUES, Mail, Post
from calibration.machine.executor.plan import RankPlan, Timeline
from ssdsim.base.record import MutableRecord, Record, field
from ssdsim.pricing.step import Repeats, deepest, drawn_rounds
from ssdsim.rounds.actor import Program
from ssdsim.rounds.outcome_sources import long_run_source
from ssdsim.rounds.outcomes import OutcomeBlock

Outcome = NDArray[np.int64]  # shape (b, 2): accepted tokens and bonus token of each sequence
Action = Callable[[], object]


class Guesses(Record):
    """The draft's guesses of bonus tokens: ``fan_out[k]`` of them after ``k`` accepted tokens (K+1 fan-outs).

    Without a cache ``fan_out`` is empty, and no bonus token was guessed.
    """

    fan_out: tuple[int, ...] = ()

    def token(self, round_: int, sequence: int, accepted: int, index: int) -> int:
        """The guess of rank ``index``; the first that is not cached is a token that was not guessed."""
        place = (round_ << 20 | sequence) * max(1, len(self.fan_out)) + accepted
        return place * (max(self.fan_out, default=0) + 1) + index

    def outcomes(self, block: OutcomeBlock, miss: str | None) -> NDArray[np.int64]:
        """Outcomes of each round, shape ``(rounds, b, 2)``: a hit has a guessed bonus token, a miss has none of them.

        An outcome that leads to the state ``miss`` is a miss; with None, all are misses.
        """
        accepted = block.tokens - 1
        hits = np.zeros(accepted.shape, dtype=np.bool_) if miss is None else ~block.leads_to(miss)
        outcomes = np.empty((block.rounds, block.batch, OUTCOME_VALUES), dtype=np.int64)
        for (sequence, round_), k in np.ndenumerate(accepted):
            cached = self.fan_out[k] if k < len(self.fan_out) else 0
            index = round_ % cached if hits[sequence, round_] and cached else cached
            outcomes[round_, sequence] = k, self.token(round_, sequence, int(k), index)
        return outcomes


class SpeculationCache(MutableRecord):
    """The draft's speculations of a round: (sequence, accepted, bonus token) -> branch."""

    guesses: Guesses
    _branches: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def fill(self, round_: int, sequences: int) -> None:
        """Replace the last round's branches by one for every guess."""
        keys = (
            (sequence, accepted, self.guesses.token(round_, sequence, accepted, index))
            for sequence in range(sequences)
            for accepted, cached in enumerate(self.guesses.fan_out)
            for index in range(cached)
        )
        self._branches = {key: branch for branch, key in enumerate(keys)}

    def look_up(self, outcome: Outcome) -> list[int | None]:
        """The branch of each sequence, None for a miss."""
        return [self._branches.get((i, int(k), int(bonus))) for i, (k, bonus) in enumerate(outcome)]


class StepWork(Record):
    """An action of a rank within a step: run ``times`` in a row, or a random number of times if ``drawn`` is given."""

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
    """Base of rank actors: sends and receives messages, and records their times."""

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
    """Run a role's program to its end. Each yielded value is a finished result, and is sent back to the program."""
    playing, reply = program(actor), None
    with suppress(StopIteration):
        while True:
            reply = playing.send(reply)
    actor.close()
    return actor.timeline


class RankActor(MailActor):
    """One rank of a role: what it does takes real time (:class:`ssdsim.rounds.actor.Actor`).

    ``actions(step, rows)`` lists this rank's work in a step; ``rows`` is None if rounds have equal rows. ``seed`` and
    the round number decide the drawn repeats, so all ranks repeat alike. Only the leading role has ``outcomes``
    (accepted tokens and bonus token of each sequence); the others receive them by message.
    """

    def __init__(
        self,
        plan: RankPlan,
        rounds: int,
        outcomes: OutcomeBlock | None,
        mail: Mail,
        actions: Callable[[str, int | None], Sequence[StepWork]],
        post: Post | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(mail)
        self._plan, self._rounds, self._outcomes, self._post, self._seed = plan, rounds, outcomes, post, seed
        fan_out = plan.strategy.guesses(plan.options)
        guesses = Guesses(fan_out or ())
        self._cache = SpeculationCache(guesses) if fan_out else None
        if outcomes is not None:
            self._found = guesses.outcomes(outcomes, plan.strategy.miss_state)
            self._tokens = outcomes.total_tokens.tolist()
            self._any_in, self._any_to = (
                {state: (count(state) > 0).tolist() for state in outcomes.states}
                for count in (outcomes.count_in, outcomes.count_to)
            )
        self._actions = actions
        self._steps: dict[tuple[str, int | None], Sequence[StepWork]] = {}
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
        """Whether the number of rounds is fixed; a free-running role without outcomes runs until the others end."""
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

    def _drawn(self, step: str, works: Sequence[StepWork]) -> list[int]:
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
