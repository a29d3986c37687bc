"""A real loop in one process: a strategy's own programs, driven by actors that hold real models.

The programs are those that SimPy's clock and real ranks run (:mod:`ssdsim.rounds.actor`); a role that waits for a
message lets the other one go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ssdsim import drafters, strategies
from ssdsim.errors import InputError
from ssdsim.measure.language import LanguageModel
from ssdsim.measure.roles import Speculator, Verifier
from ssdsim.measure.verification import Rules, Speculation, Verdict
from ssdsim.pairs.backups import lookup_named

_STRATEGIES = ("ar", "sd", "ssd")
Playing = Generator[Any, Any, None]


@dataclass(frozen=True)
class Way:
    """How to decode: a strategy, its lookahead, and of SSD the guesses an outcome and what answers a miss.

    ``backup`` is ``jit`` or a look-up (:func:`ssdsim.pairs.backups.lookup_named`).

    Raises
    ------
    InputError : a strategy that has no real loop.
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


@dataclass(frozen=True)
class PlayedRound:
    """A round: drafted and accepted tokens, whether a backup drafted them, and whether the outcome was foreseen."""

    drafted: int
    accepted: int
    backup: bool
    hit: bool | None


@dataclass
class Played:
    """What a loop wrote after the prompt, and its rounds."""

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
        played = Played()
        strategy = strategies.ALL.named(self.way.strategy)
        programs = strategy.programs({"sd_draft": "separate"}, drafters.ALL.named("model"))
        table = _Table(verifier, speculator, len(prompt), new_tokens, end, played)
        actors = {role: _Actor(role, table) for role in programs}
        _converse({role: (actors[role], program(actors[role])) for role, program in programs.items()}, table)
        played.tokens = cut(verifier.text[len(prompt) :], new_tokens, end)
        return played


def cut(tokens: list[int], most: int, end: frozenset[int]) -> list[int]:
    """At most so many tokens, up to the first that ends the text."""
    stop = next((i + 1 for i, token in enumerate(tokens[:most]) if token in end), most)
    return tokens[:stop]


@dataclass
class _Table:
    """What the two roles of a loop share: their sides, and the messages under way between them."""

    verifier: Verifier
    speculator: Speculator | None
    prompt: int
    new_tokens: int
    end: frozenset[int]
    played: Played
    messages: dict[tuple[str, str], deque[Any]] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        came = self.verifier.text[self.prompt :]
        return len(came) >= self.new_tokens or not self.end.isdisjoint(came)

    def box(self, role: str, message: str) -> deque[Any]:
        return self.messages.setdefault((role, message), deque())


@dataclass(frozen=True)
class _Waiting:
    role: str
    message: str


class _Actor:
    """One role with real models (:class:`ssdsim.rounds.actor.Actor`); steps are those that the strategies name."""

    def __init__(self, role: str, table: _Table) -> None:
        self._role, self._table = role, table
        self._verdict = Verdict(0, 0)
        self._speculation = None if table.speculator is None else table.speculator.current

    def rounds(self) -> Iterator[int]:
        for number in count():
            if self._role == "target" and self._table.ended:
                return
            yield number

    def do(self, step: str) -> None:
        table = self._table
        match step:
            case "decode":
                table.verifier.decode()
            case "verify":
                assert self._speculation is not None
                table.verifier.verify(self._speculation)
            case "sample":
                self._verdict = table.verifier.sample(self._speculation)
                self._note()
            case "draft":
                assert table.speculator is not None
                table.speculator.current = table.speculator.draft()
            case "pre-speculate":
                assert table.speculator is not None
                table.speculator.prespeculate()
            case "look up":
                pass  # by misses()
            case "fallback":
                assert table.speculator is not None
                table.speculator.fall_back()
            case _:
                raise ValueError(f"a loop of tokens knows no step '{step}'")

    def _note(self) -> None:
        spoken = self._speculation
        drafted, backup = (0, False) if spoken is None else (len(spoken.tokens), spoken.backup)
        self._table.played.rounds.append(PlayedRound(drafted, self._verdict.accepted, backup, None))

    def send(self, to: str, message: str, content: Any = None) -> None:
        if message == "speculation":
            assert self._table.speculator is not None
            content = self._table.speculator.current
        self._table.box(to, message).append(content)

    def receive(self, message: str) -> _Waiting:
        return _Waiting(self._role, message)

    def received(self, message: str, content: Any) -> Any:
        """Take in what came, before the program sees it."""
        if isinstance(content, Speculation):
            self._speculation = content
        if isinstance(content, Verdict):
            assert self._table.speculator is not None
            self._table.speculator.learn(content)
        return content

    def tell(self, message: str) -> None:
        """One process has nobody else to tell."""

    def outcome(self) -> Verdict:
        return self._verdict

    def fill(self) -> None:
        """The branches are in the cache already."""

    def misses(self, outcome: Verdict) -> int:
        assert self._table.speculator is not None
        hit = self._table.speculator.look_up(outcome)
        rounds = self._table.played.rounds
        rounds[-1] = PlayedRound(rounds[-1].drafted, rounds[-1].accepted, rounds[-1].backup, hit)
        return int(not hit)

    def any_in(self, state: str) -> bool:
        raise ValueError("a loop of tokens knows no states")

    def end_round(self) -> None:
        """The tokens are in the text."""


def _converse(playing: Mapping[str, tuple[_Actor, Playing]], table: _Table) -> None:
    """Run the roles in turn until the first one ends; a role runs until what it waits for is not there."""
    waiting: dict[str, _Waiting | None] = dict.fromkeys(playing)
    leader = next(iter(playing))
    while True:
        for role, (actor, program) in playing.items():
            if not _runs_on(program, actor, waiting, role, table) and role == leader:
                return


def _runs_on(program: Playing, actor: _Actor, waiting: dict[str, _Waiting | None], role: str, table: _Table) -> bool:
    """Go on until a message is missing; False at the program's end."""
    reply = None
    while True:
        wait = waiting[role]
        if wait is not None:
            box = table.box(wait.role, wait.message)
            if not box:
                return True
            waiting[role], reply = None, actor.received(wait.message, box.popleft())
        try:
            yielded = program.send(reply)
        except StopIteration:
            return False
        reply = None
        if isinstance(yielded, _Waiting):
            waiting[role] = yielded
