"""A step of configuring that is run once for each distinct set of the options that it really reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ssdsim.base.errors import InputError
from ssdsim.base.settings import Settings, Watched

T = TypeVar("T")


@dataclass(frozen=True)
class _Made(Generic[T]):
    """A result, and what the step wrote with where that came from."""

    result: T
    writes: Mapping[str, Any]
    sources: Mapping[str, str]


_Read = tuple[tuple[str, ...], tuple[str, ...]]
"""Options that a step read, and those whose origin it asked."""
_Answers = tuple[tuple[Any, ...], dict[Any, _Made[T] | InputError]]
"""Defaults of the options that were read, and results by their values and origins."""


class Remembered(Generic[T]):
    """``run(settings, *arguments)``, remembered by what it reads of the settings, and by the arguments.

    A step that has read the same values and origins reads the same option next. So one that read certain options, with
    certain values, made what it makes of all settings with these: no list of a step's inputs can be wrong, because
    there is none.
    """

    def __init__(self, run: Callable[..., T]) -> None:
        self._run = run
        self._by_key: dict[Any, dict[_Read, _Answers[T]]] = {}

    def __call__(self, settings: Settings, *arguments: Any, key: Any = None) -> T:
        """The result, the same object where it is known; writes into ``settings`` what the step derives.

        ``key`` stands for the arguments.

        Raises
        ------
        InputError : as the step does, remembered too.
        """
        made = self._known(settings, key) or self._new(settings, arguments, key)
        if isinstance(made, InputError):
            raise made
        settings.settle_all(made.writes, made.sources)
        return made.result

    def _known(self, settings: Settings, key: Any) -> _Made[T] | InputError | None:
        for (names, asked), (defaults, by_values) in self._by_key.get(key, {}).items():
            values = settings.several(names, defaults)
            event = by_values.get(_hashable((*values, *map(settings.source, asked)) if asked else values))
            if event is not None:
                return event
        return None

    def _new(self, settings: Settings, arguments: tuple[Any, ...], key: Any) -> _Made[T] | InputError:
        watched = Watched(settings)
        made: _Made[T] | InputError
        try:
            made = _Made(self._run(watched, *arguments), watched.writes, watched.sources)
        except InputError as error:
            made = error
        names, asked = tuple(watched.reads), tuple(watched.origins)
        _, by_values = self._by_key.setdefault(key, {}).setdefault((names, asked), (settings.defaults_of(names), {}))
        by_values[_hashable((*watched.reads.values(), *watched.origins.values()))] = made
        return made


def _hashable(value: Any) -> Any:
    """Lists as tuples, at any depth."""
    try:
        hash(value)
    except TypeError:
        return tuple(map(_hashable, value))
    return value
