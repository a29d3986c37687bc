"""A step of configuring that is run once for each distinct set of the options that it really reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ssdsim.errors import InputError
from ssdsim.settings import Settings, Watched

T = TypeVar("T")


@dataclass
class _Question:
    """The next option that the step reads, and what follows by its value."""

    name: str
    answers: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Made(Generic[T]):
    """A result, and what the step wrote."""

    result: T
    writes: Mapping[str, tuple[Any, str]]


class Remembered(Generic[T]):
    """``run(settings, *arguments)``, remembered by what it reads of the settings, and by the arguments.

    A step that has read the same values reads the same option next, so what it reads makes a tree of questions with
    the results as leaves: no list of a step's inputs can be wrong, because there is none.
    """

    def __init__(self, run: Callable[..., T]) -> None:
        self._run = run
        self._trees: dict[Any, Any] = {}

    def __call__(self, settings: Settings, *arguments: Any, key: Any = None) -> T:
        """The result, the same object where it is known; writes into ``settings`` what the step derives.

        ``key`` stands for the arguments.

        Raises
        ------
        InputError : as the step does, remembered too.
        """
        found = self._trees.get(key)
        while type(found) is _Question:
            value = settings[found.name]
            found = found.answers.get(_hashable(value) if type(value) is list else value)
        if found is None:
            found = self._new(settings, arguments, key)
        if isinstance(found, InputError):
            raise found
        for name, (value, source) in found.writes.items():
            settings.settle(name, value, source)
        made: T = found.result
        return made

    def _new(self, settings: Settings, arguments: tuple[Any, ...], key: Any) -> _Made[T] | InputError:
        watched = Watched(settings)
        leaf: _Made[T] | InputError
        try:
            leaf = _Made(self._run(watched, *arguments), watched.writes)
        except InputError as error:
            leaf = error
        answers, at = self._trees, key
        for name, value in watched.reads.items():
            question = answers.setdefault(at, _Question(name))
            answers, at = question.answers, _hashable(value)
        answers[at] = leaf
        return leaf


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if type(value) in (list, tuple) else value
