"""The options of one call: each value with where it came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

GIVEN, DEFAULT = "given", "default"


class Settings(Mapping[str, Any]):
    """Values by option name; what was given, what is a default and what was derived from others.

    Steps of configuring read it as a mapping and write only through :meth:`derive` and :meth:`settle`.
    """

    def __init__(self, values: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._sources = dict(sources)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def values_by_name(self) -> Mapping[str, Any]:
        """The values alone, for those who read thousands of settings."""
        return self._values

    def source(self, name: str) -> str:
        """``given``, ``default``, or what the value was derived from."""
        return self._sources.get(name, "derived")

    def derive(self, name: str, value: Any, source: str = "derived") -> None:
        """Fill in what follows from other options.

        Raises
        ------
        ValueError : the option was given: what a user asked for is never replaced.
        """
        if self._values.get(name) is not None and self._sources.get(name) == GIVEN:
            raise ValueError(f"{name} was given as {self._values[name]!r}: nothing may derive it")
        self.settle(name, value, source)

    def settle(self, name: str, value: Any, source: str) -> None:
        """Replace a word (``auto``, ``window``, ``profile``), given or not, by what it stands for here."""
        self._values[name] = value
        self._sources[name] = source

    def copy(self) -> Settings:
        return Settings(self._values, self._sources)

    def drop(self, names: Iterable[str]) -> None:
        """Leave out what shaped nothing."""
        for name in names:
            self._values.pop(name, None)
            self._sources.pop(name, None)
