"""Named things of one kind, in the order in which they were registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from ssdsim.base.errors import InputError, nearest, short_repr


class Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


class Registry(Generic[T]):
    """Strategies or drafters by their names; iterating gives the objects.

    ``watchers`` are called whenever a member came or went.

    Raises
    ------
    ValueError : two of one name, or a member whose options clash with another's.
    """

    def __init__(self, what: str, *members: T) -> None:
        self._what = what
        self._members: dict[str, T] = {}
        self.watchers: list[Callable[[], None]] = []
        for member in members:
            self.register(member)

    def register(self, member: T) -> T:
        """Add a member; from then on everything knows it by its name."""
        if member.name in self._members:
            raise ValueError(f"there is a {self._what} called '{member.name}' already")
        self._members[member.name] = member
        try:
            for watcher in self.watchers:
                watcher()
        except ValueError:  # its options are not its own
            del self._members[member.name]
            raise
        return member

    def forget(self, name: str) -> None:
        """Take a member out again."""
        del self._members[name]
        for watcher in self.watchers:
            watcher()

    def named(self, name: str) -> T:
        """The member of that name; InputError names the nearest where there is none."""
        if not isinstance(name, str) or name not in self._members:
            known = ", ".join(self._members)
            raise InputError(
                f"unknown {self._what} {short_repr(name)}{nearest(str(name), self._members)} Allowed: {known}"
            )
        return self._members[name]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._members)

    def __iter__(self) -> Iterator[T]:
        return iter(self._members.values())

    def __len__(self) -> int:
        return len(self._members)
