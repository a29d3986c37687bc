"""A real loop in one process: a strategy's own programs, driven by actors that hold real models.

The programs are those that SimPy's clock and real ranks run (:mod:`ssdsim.rounds.actor`); a role that waits for a
message lets the other one go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ssdsim import drafters, strategies
from ssdsim.base.errors import InputError
from ssdsim.base.record import record
from ssdsim.measure.language import LanguageModel
from ssdsim.measure.roles import Speculator, Verifier
from ssdsim.measure.sides import Answer, CachingSide, DraftSide, PlayedRound, Side, TargetSide, with_hits
from ssdsim.measure.verification import Rules
from ssdsim.pairs.backups import lookup_named

_STRATEGIES = ("ar", "sd", "ssd")
APART = {"sd_draft": "separate", "targets": 1}
"""Settings of the programs: the draft is a role of its own, and one target has it."""
Playing = Generator[Any, Any, None]


@record
class Way:
    """Way to decode: a strategy, its lookahead, and of SSD the guesses an outcome and what answers a miss.

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
    post = _Post()
    programs = strategies.ALL.named(strategy).programs(APART, drafters.ALL.named("model"))
    actors = {role: _Actor(role, sides[role], answer, post) for role in programs}
    _take_turns({role: (actors[role], program(actors[role])) for role, program in programs.items()}, post)


class _Post:
    """Messages under way, by the role that they are for and their names."""

    def __init__(self) -> None:
        self._boxes: dict[tuple[str, str], deque[Any]] = {}

    def box(self, role: str, message: str) -> deque[Any]:
        return self._boxes.setdefault((role, message), deque())


@record
class _Waiting:
    role: str
    message: str


class _Actor:
    """One role with real models (:class:`ssdsim.rounds.actor.Actor`)."""

    def __init__(self, role: str, side: Side, answer: Answer, post: _Post) -> None:
        self._role, self._side, self._answer, self._post = role, side, answer, post

    def rounds(self) -> Iterator[int]:
        return self._answer.rounds(self._side.text)

    def do(self, step: str) -> None:
        self._side.do(step)

    def send(self, to: str, message: str, content: Any = None) -> None:
        self._post.box(to, message).append(self._side.content())

    def receive(self, message: str) -> _Waiting:
        return _Waiting(self._role, message)

    def received(self, content: Any) -> Any:
        """Take in what came, before the program sees it."""
        self._side.take(content)
        return content

    def tell(self, message: str) -> None:
        """One process has nobody else to tell."""

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


def _take_turns(playing: Mapping[str, tuple[_Actor, Playing]], post: _Post) -> None:
    """Run the roles in turn until the first one ends; a role runs until what it waits for is not there."""
    waiting: dict[str, _Waiting | None] = dict.fromkeys(playing)
    leader = next(iter(playing))
    while True:
        for role, (actor, program) in playing.items():
            if not _runs_on(program, actor, waiting, role, post) and role == leader:
                return


def _runs_on(program: Playing, actor: _Actor, waiting: dict[str, _Waiting | None], role: str, post: _Post) -> bool:
    """Go on until a message is missing; False at the program's end."""
    reply = None
    while True:
        wait = waiting[role]
        if wait is not None:
            box = post.box(wait.role, wait.message)
            if not box:
                return True
            waiting[role], reply = None, actor.received(box.popleft())
        try:
            yielded = program.send(reply)
        except StopIteration:
            return False
        reply = None
        if isinstance(yielded, _Waiting):
            waiting[role] = yielded
