"""A step of configuring that is run once for each distinct set of the options that it really reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ssdsim.errors import InputError
from ssdsim.settings import Settings

T = TypeVar("T")


class Watched(Settings):
    """Settings that note which options are read, in their order, and which are written."""

    def __init__(self, settings: Settings) -> None:
        self._values, self._sources = settings._values.copy(), settings._sources.copy()
        self.reads: dict[str, Any] = {}
        self.writes: dict[str, tuple[Any, str]] = {}

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if name not in self.writes:
            self.reads.setdefault(name, value)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        raise TypeError("a remembered step reads options one by one: what it did not ask for must not matter to it")

    def settle(self, name: str, value: Any, source: str) -> None:
        super().settle(name, value, source)
        self.writes[name] = value, source


@dataclass
class _Question:
    """The next option that the step reads, and what follows by its value."""

    name: str
    answers: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Made:
    """Where a result is, and what the step wrote."""

    number: int
    writes: dict[str, tuple[Any, str]]


class Remembered(Generic[T]):
    """``run(settings, *arguments)``, remembered by what it reads of the settings, and by the arguments.

    A step that has read the same values reads the same option next, so what it reads makes a tree of questions with
    the results as leaves: no list of a step's inputs can be wrong, because there is none.
    """

    def __init__(self, run: Callable[..., T]) -> None:
        self.made: list[T] = []
        self._run = run
        self._trees: dict[Any, Any] = {}

    def number(self, settings: Settings, *arguments: Any, key: Any = None) -> int:
        """Where in ``made`` the result is; writes into ``settings`` what the step derives.

        ``key`` stands for the arguments.

        Raises
        ------
        InputError : as the step does, remembered too.
        """
        found, values = self._trees.get(key), settings.values_by_name
        while type(found) is _Question:
            value = values[found.name]
            found = found.answers.get(_hashable(value) if type(value) is list else value)
        if found is None:
            found = self._new(settings, arguments, key)
        if isinstance(found, InputError):
            raise found
        for name, (value, source) in found.writes.items():
            settings.settle(name, value, source)
        return int(found.number)

    def _new(self, settings: Settings, arguments: tuple[Any, ...], key: Any) -> Any:
        watched = Watched(settings)
        try:
            self.made.append(self._run(watched, *arguments))
            leaf: Any = _Made(len(self.made) - 1, watched.writes)
        except InputError as error:
            leaf = error
        self._insert(key, list(watched.reads.items()), leaf)
        return leaf

    def _insert(self, key: Any, reads: list[tuple[str, Any]], leaf: Any) -> None:
        answers, at = self._trees, key
        for name, value in reads:
            question = answers.setdefault(at, _Question(name))
            answers, at = question.answers, _hashable(value)
        answers[at] = leaf


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if type(value) in (list, tuple) else value
