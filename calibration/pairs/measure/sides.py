"""The two sides of a loop of tokens: what each does of the steps that the strategies name.

The sides are the same within one process (:mod:`.loop`) and on ranks over a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Protocol, runtime_checkable

from calibration.pairs.measure.roles import Speculator, Verifier
from calibration.pairs.measure.verification import Speculation, Verified
from ssdsim.base.record import Record


class PlayedRound(Record):
    """A round: drafted and accepted tokens, whether a backup drafted them, and whether the outcome was foreseen."""

    drafted: int
    accepted: int
    backup: bool
    hit: bool | None


class Answer(Record):
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


class Side(Protocol):
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
class CachingSide(Side, Protocol):
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
