"""A real loop in one process: a strategy's own programs, driven by actors that hold real models.

The programs are those that SimPy's clock and real ranks run (:mod:`ssdsim.rounds.actor`); a role that waits for a
message lets the other one go on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simpy import Event

from calibration.pairs.backups import lookup_named
from calibration.pairs.measure.language import LanguageModel
from calibration.pairs.measure.roles import Speculator, Verifier
from calibration.pairs.measure.sides import Answer, CachingSide, DraftSide, PlayedRound, Side, TargetSide, with_hits
from calibration.pairs.measure.verification import Rules
from ssdsim import strategies
from ssdsim.answers.simulation.events import Clock, Mailbox
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.strategies import drafters

_STRATEGIES = ("ar", "sd", "ssd")
APART = {"sd_draft": "separate", "targets": 1}
"""Settings of the programs: the draft is a role of its own, and one target has it."""


class Way(Record):
    """Way to decode: a strategy, its lookahead, and of SSD the guesses an outcome and what answers a miss.

    ``backup`` is ``jit`` or a look-up (:func:`calibration.pairs.backups.lookup_named`).
    """

    strategy: str
    k: int = 6
    fan_out: int = 3
    backup: str = "jit"
    c: float = 1.0

    def __post_init__(self) -> None:
        if self.strategy not in _STRATEGIES:
            raise InputError(f"no real loop of '{self.strategy}': allowed are {', '.join(_STRATEGIES)}")

    @property
    def title(self) -> str:
        return f"{self.strategy.upper()} {self.backup}" if self.strategy == "ssd" else self.strategy.upper()


@dataclass
class Played:
    """Tokens that a loop wrote after the prompt, and its rounds."""

    tokens: list[int] = field(default_factory=list)
    rounds: list[PlayedRound] = field(default_factory=list)


class Loop:
    """Target and draft in one process, one request after the other."""

    def __init__(self, target: LanguageModel, draft: LanguageModel, way: Way, rules: Rules) -> None:
        self.target, self.draft, self.way, self.rules = target, draft, way, rules

    def play(self, prompt: Sequence[int], new_tokens: int, end: frozenset[int] = frozenset(), seed: int = 0) -> Played:
        """Write at least ``new_tokens`` tokens after the prompt, or until a token of ``end``; the rest is cut.

        The first token comes from the prompt's pass, as an engine's does.
        """
        verifier = Verifier(self.target, self.rules, prompt)
        verifier.decode()
        verifier.sample(None)
        speculator = None
        if self.way.strategy != "ar":
            jit = self.way.strategy == "sd" or self.way.backup == "jit"
            backup = None if jit else lookup_named(self.way.backup, self.target.vocabulary, seed)
            speculator = Speculator(self.draft, self.rules, verifier.text, self.way.k, self.way.fan_out, backup)
            if self.way.strategy == "ssd":  # its first speculation is there when the target's first pass begins
                speculator.current = speculator.draft()
        target = TargetSide(verifier, None if speculator is None else speculator.current)
        sides: dict[str, Side] = {"target": target}
        draft = None if speculator is None else DraftSide(speculator)
        if draft is not None:
            sides["draft"] = draft
        answer = Answer(len(prompt), new_tokens, end)
        converse(self.way.strategy, sides, answer)
        return Played(answer.cut(verifier.text), with_hits(target.rounds, [] if draft is None else draft.hits))


def converse(strategy: str, sides: Mapping[str, Side], answer: Answer) -> None:
    """A strategy's own programs, each with its side, until the answer is over."""
    programs = strategies.ALL.named(strategy).programs(APART, drafters.ALL.named("model"))
    clock, mailboxes = Clock(), defaultdict[tuple[str, str], Mailbox](lambda: Mailbox(clock))
    actors = {role: _Actor(role, sides[role], answer, clock, mailboxes) for role in programs}
    processes = [clock.process(program(actors[role])) for role, program in programs.items()]
    clock.run_to(processes[0])


class _Actor:
    """One role with real models (:class:`ssdsim.rounds.actor.Actor`): on SimPy's clock, on which nothing takes time."""

    def __init__(
        self, role: str, side: Side, answer: Answer, clock: Clock, mailboxes: Mapping[tuple[str, str], Mailbox]
    ) -> None:
        self._role, self._side, self._answer = role, side, answer
        self._done, self._mailboxes = clock.past(), mailboxes

    def rounds(self) -> Iterator[int]:
        return self._answer.rounds(self._side.text)

    def do(self, step: str) -> Event:
        self._side.do(step)
        return self._done

    def send(self, to: str, message: str, content: Any = None) -> Event:
        self._mailboxes[to, message].put(self._side.content())
        return self._done

    def receive(self, message: str) -> Event:
        """Take in what came, before the program sees it."""
        event = self._mailboxes[self._role, message].get()
        if event.callbacks is None:
            self._side.take(event.value)
        else:
            event.callbacks.append(lambda come: self._side.take(come.value))
        return event

    def tell(self, message: str) -> Event:
        """One process has nobody else to tell."""
        return self._done

    def outcome(self) -> Any:
        return self._side.content()

    def fill(self) -> None:
        """The branches are in the cache already."""

    def misses(self, outcome: Any) -> int:
        assert isinstance(self._side, CachingSide)
        return self._side.misses(outcome)

    def any_in(self, state: str) -> bool:
        raise ValueError("a loop of tokens knows no states")

    def end_round(self) -> None:
        """The tokens are in the text."""
