"""A rank that plays a role of a strategy with a real model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from calibration.machine.executor.actor import MailActor
from calibration.machine.executor.messages import OUTCOME_VALUES, Mail, head_bytes
from calibration.pairs.measure.loop import AnswerEnd, DraftSide, TargetSide
from calibration.pairs.measure.verification import Speculation, Verified, certain
from ssdsim.pricing.step import Message

MESSAGES = ("outcome", "speculation")


class TokenMail:
    """Verdicts and speculations as messages: (accepted, bonus), and a pair (token, whether a backup's) each.

    Greedy: a drafted token is certain, so that its distribution needs no sending.
    """

    def __init__(self, mail: Mail, vocabulary: int) -> None:
        self._mail, self._vocabulary = mail, vocabulary

    def send(self, name: str, content: Speculation | Verified) -> None:
        if isinstance(content, Verified):
            self._mail.send(name, [[content.accepted, content.bonus]])
        else:
            self._mail.send(name, [[token, int(content.backup)] for token in content.tokens])

    def receive(self, name: str) -> Any:
        """The verdict or the speculation."""
        values = self._mail.receive(name)
        pairs = np.empty((0, OUTCOME_VALUES), dtype=np.int64) if values is None else values
        if name == "outcome":
            return Verified(int(pairs[0, 0]), int(pairs[0, 1]))
        tokens = tuple(int(token) for token in pairs[:, 0])
        backup = not tokens or bool(pairs[0, 1])  # only a look-up may propose nothing
        return Speculation(tokens, certain(tokens, self._vocabulary), backup)

    def tell(self, name: str) -> None:
        """A role has one rank."""

    def close(self) -> None:
        self._mail.close()


def messages(k: int) -> tuple[dict[str, Message], int]:
    """Room for a verdict and for K pairs, and for how many pairs messages are read."""
    return dict.fromkeys(MESSAGES, Message(head_bytes(k))), k


class TokenActor(MailActor):
    """One role on a rank of its own (:class:`ssdsim.rounds.actor.Actor`): its steps are a model's passes."""

    def __init__(self, side: TargetSide | DraftSide, answer: AnswerEnd, mail: TokenMail) -> None:
        super().__init__(mail)
        self._side, self._answer = side, answer

    def rounds(self) -> Iterator[int]:
        self.timeline.start_s = time.perf_counter()
        return self._answer.rounds(self._side.text)

    def do(self, step: str) -> None:
        self.timeline.record(step, step, partial(self._side.do, step))

    def send(self, to: str, message: str, content: Any = None) -> None:
        super().send(to, message, self._side.content())

    def receive(self, message: str) -> Any:
        content = super().receive(message)
        self._side.take(content)
        return content

    def outcome(self) -> Speculation | Verified:
        return self._side.content()

    def fill(self) -> None:
        """The branches are in the cache already."""

    def misses(self, outcome: Verified) -> int:
        assert isinstance(self._side, DraftSide)
        self.timeline.misses.append(self._side.misses(outcome))
        return self.timeline.misses[-1]

    def any_in(self, state: str) -> bool:
        raise ValueError("a rank of tokens knows no states")

    def end_round(self) -> None:
        assert isinstance(self._side, TargetSide)
        self.timeline.end_round(self._side.rounds[-1].accepted + 1)
