"""The two sides of a round: what a program may do, on SimPy's clock or on a rank of a real machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Protocol


class Actor(Protocol):
    """One side of a round (a role). What a method returns is to be yielded; ``receive`` gives the message back.

    Steps and messages are called by the names that the strategy's ``steps`` have.
    """

    def rounds(self) -> Iterator[int]:
        """The numbers of the rounds to run; for all roles but the first, as many as the first one runs."""

    def do(self, step: str) -> Any:
        """Run a step on this role's devices."""

    def send(self, to: str, message: str, content: Any = None) -> Any:
        """Send a message to another role and wait until it is through."""

    def receive(self, message: str) -> Any:
        """Wait for a message; yields its content."""

    def tell(self, message: str) -> Any:
        """Tell the role's other devices, from its first one."""

    def outcome(self) -> Any:
        """The outcome of this round's verification, to be sent (the first role's)."""

    def fill(self) -> None:
        """Fill the speculation cache with what this round pre-speculated for."""

    def misses(self, outcome: Any) -> int:
        """The number of sequences whose outcomes are not in the speculation cache: known, or looked up."""

    def any_in(self, state: str) -> bool:
        """Tell whether some sequence begins this round in ``state`` (the first role's)."""

    def any_to(self, state: str) -> bool:
        """Tell whether some sequence ends this round in ``state`` (the first role's)."""

    def end_round(self) -> None:
        """End the round: its tokens are out (the first role's)."""

    # for sides that do not wait for each other

    def post(self, to: str, message: str, content: Any, takes: str | None = None) -> None:
        """Start a message on its way; nobody waits until it is through, and others may be on their way before it.

        It takes as long as the step ``takes``; no time where None (between programs on one host). Between ranks it is a
        whole number.
        """

    def look(self, message: str) -> Generator[Any, Any, list[Any]]:
        """The messages that have come since the last look, in their order."""

    def judge(self, drafted: int) -> tuple[int, bool]:
        """Verify so many tokens of the one sequence: how many are accepted, and whether the draft guesses the token
        after the last of them rightly, if all are (the first role's). The round's tokens are those, and one more.
        """


class Stoppable(Actor, Protocol):
    """One side of a round, on a clock on which work can be broken off."""

    def here(self, message: str) -> list[Any]:
        """The messages that have come so far, in their order; one that comes at this instant may be among the next."""

    def do_unless(self, step: str, message: str) -> Generator[Any, Any, bool]:
        """Run a step; False where it is broken off, because a message comes before its end (or had come)."""


Program = Callable[[Any], Generator[Any, Any, None]]


def kind_of(role: str) -> str:
    """The word that roles alike have in common: ``target`` of ``target 1`` and ``target 2``."""
    return role.split(" ", maxsplit=1)[0]


def alike(role: str, roles: Iterable[str]) -> list[str]:
    """The roles of its kind, itself among them, in their order."""
    return [other for other in roles if kind_of(other) == kind_of(role)]
