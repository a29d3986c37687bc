"""A real loop of tokens in one process: a strategy's own programs, driven by actors that hold real models.

The programs are those that SimPy's clock and real ranks run (:mod:`ssdsim.rounds.actor`); a role that waits for a
message lets the other one go on. The two sides are the same on ranks over a network.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Protocol, runtime_checkable

from simpy import Event

from calibration.pairs.backups import lookup_named
from calibration.pairs.measure.roles import LanguageModel, Speculator, Verifier
from calibration.pairs.measure.verification import Rules, Speculation, Verified
from ssdsim import strategies
from ssdsim.answers.simulation.events import Clock, Mailbox
from ssdsim.base.errors import InputError
from ssdsim.base.record import MutableRecord, Record, field
from ssdsim.question.options import DEFAULTS
from ssdsim.strategies import drafters


class PlayedRound(Record):
    """A round: drafted and accepted tokens, whether a backup drafted them, and whether the outcome was foreseen."""

    drafted: int
    accepted: int
    backup: bool
    hit: bool | None


class AnswerEnd(Record):
    """End of an answer: at so many tokens after the prompt, or at one that ends a text."""

    prompt: int
    new_tokens: int
    end: frozenset[int]

    def rounds(self, text: Sequence[int]) -> Iterator[int]:
        """Numbers of rounds until the growing ``text`` is over; both sides' texts are over after the same one."""
        for number in count():
            came = text[self.prompt :]
            if len(came) >= self.new_tokens or not self.end.isdisjoint(came):
                return
            yield number

    def cut(self, text: Sequence[int]) -> list[int]:
        """Cut the answer out of a text: what came after the prompt, without what the last round wrote past the end."""
        came = list(text[self.prompt : self.prompt + self.new_tokens])
        return came[: next((i + 1 for i, token in enumerate(came) if token in self.end), len(came))]


class RoundSide(Protocol):
    """One role with its model; what the two tell each other is theirs to choose."""

    @property
    def text(self) -> Sequence[int]: ...

    def do(self, step: str) -> None: ...

    def content(self) -> Any:
        """Message to the other side."""
        ...

    def take(self, content: Any) -> None:
        """Take in what the other side told."""
        ...


@runtime_checkable
class CachingSide(RoundSide, Protocol):
    """One that looks outcomes up in what it pre-speculated."""

    def misses(self, outcome: Any) -> int:
        """Count the outcomes that were not foreseen."""
        ...


class TargetSide:
    """Decodes, verifies and samples; ``rounds`` are those that it played."""

    def __init__(self, verifier: Verifier, speculation: Speculation | None) -> None:
        self.rounds: list[PlayedRound] = []
        self._verifier, self._speculation = verifier, speculation
        self._verdict = Verified(0, 0)

    @property
    def text(self) -> list[int]:
        return self._verifier.text

    def do(self, step: str) -> None:
        match step:
            case "decode":
                self._verifier.decode()
            case "verify":
                assert self._speculation is not None
                self._verifier.verify(self._speculation)
            case "sample":
                self._verdict = self._verifier.sample(self._speculation)
                self._note()
            case _:
                raise ValueError(f"a target of tokens knows no step '{step}'")

    def _note(self) -> None:
        spoken = self._speculation
        drafted, backup = (0, False) if spoken is None else (len(spoken.tokens), spoken.backup)
        self.rounds.append(PlayedRound(drafted, self._verdict.accepted, backup, None))

    def content(self) -> Verified:
        return self._verdict

    def take(self, content: Speculation) -> None:
        self._speculation = content


class DraftSide:
    """Drafts, pre-speculates, looks up and falls back; ``hits`` are those of the rounds that it played."""

    def __init__(self, speculator: Speculator) -> None:
        self.hits: list[bool] = []
        self._speculator = speculator

    @property
    def text(self) -> list[int]:
        return self._speculator.text

    def do(self, step: str) -> None:
        match step:
            case "draft":
                self._speculator.current = self._speculator.draft()
            case "pre-speculate":
                self._speculator.prespeculate()
            case "look up":
                pass  # by misses()
            case "fallback":
                self._speculator.fall_back()
            case _:
                raise ValueError(f"a draft of tokens knows no step '{step}'")

    def content(self) -> Speculation:
        return self._speculator.current

    def take(self, content: Verified) -> None:
        self._speculator.learn(content)

    def misses(self, outcome: Verified) -> int:
        self.hits.append(self._speculator.look_up(outcome))
        return int(not self.hits[-1])


def with_hits(rounds: Sequence[PlayedRound], hits: Sequence[bool]) -> list[PlayedRound]:
    """The target's rounds with what the draft found in its cache; None where it did not look."""
    padded = [*hits, *[None] * (len(rounds) - len(hits))]
    return [PlayedRound(r.drafted, r.accepted, r.backup, hit) for r, hit in zip(rounds, padded, strict=True)]


_STRATEGIES = ("ar", "sd", "ssd")
SEPARATE_ROLES = {**DEFAULTS, "sd_draft": "separate"}
"""Settings of the programs: the draft is a role of its own; all else is as nobody said."""


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


class Played(MutableRecord):
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
        sides: dict[str, RoundSide] = {"target": target}
        draft = None if speculator is None else DraftSide(speculator)
        if draft is not None:
            sides["draft"] = draft
        answer = AnswerEnd(len(prompt), new_tokens, end)
        converse(self.way.strategy, sides, answer)
        return Played(answer.cut(verifier.text), with_hits(target.rounds, [] if draft is None else draft.hits))


def converse(strategy: str, sides: Mapping[str, RoundSide], answer: AnswerEnd) -> None:
    """A strategy's own programs, each with its side, until the answer is over."""
    programs = strategies.ALL.named(strategy).programs(SEPARATE_ROLES, drafters.ALL.named("model"))
    clock, mailboxes = Clock(), defaultdict[tuple[str, str], Mailbox](lambda: Mailbox(clock))
    actors = {role: _Actor(role, sides[role], answer, clock, mailboxes) for role in programs}
    processes = [clock.process(program(actors[role])) for role, program in programs.items()]
    clock.run_to(processes[0])


class _Actor:
    """One role with real models (:class:`ssdsim.rounds.actor.Actor`): on SimPy's clock, on which nothing takes time."""

    def __init__(
        self, role: str, side: RoundSide, answer: AnswerEnd, clock: Clock, mailboxes: Mapping[tuple[str, str], Mailbox]
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
