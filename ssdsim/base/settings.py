"""The options of one call: each value with where it came from, and which of them were read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

GIVEN, DEFAULT, CALIBRATED = "given", "default", "as calibrated"
_NONE: Mapping[str, Any] = {}
Entry = tuple[Any, str]
"""An option's value, and its source."""


class Settings(Mapping[str, Any]):
    """Values by option name; what was given, what is a default and what was derived from others.

    ``defaults`` are shared by all settings and never changed; ``values`` and ``sources`` hold what differs from them.
    Steps of configuring read settings as a mapping and write only through :meth:`derive` and :meth:`settle`. ``reads``
    are the options that were read, where that is noted.
    """

    reads: Mapping[str, None] = MappingProxyType({})

    def __init__(
        self, values: Mapping[str, Any], sources: Mapping[str, str], defaults: Mapping[str, Any] = _NONE
    ) -> None:
        self._values, self._sources, self._defaults = dict(values), dict(sources), defaults

    def __getitem__(self, name: str) -> Any:
        return self._values[name] if name in self._values else self._defaults[name]

    def entries(self, names: tuple[str, ...]) -> tuple[Any, ...]:
        """The values of many options (None without a default), then their sources (None of a default)."""
        values = map(self._values.get, names, map(self._defaults.get, names))
        return (*values, *map(self._sources.get, names))

    def __contains__(self, name: object) -> bool:
        return name in self._values or name in self._defaults

    def __iter__(self) -> Iterator[str]:
        yield from self._defaults
        yield from (name for name in self._values if name not in self._defaults)

    def __len__(self) -> int:
        return len({*self._defaults, *self._values})

    def source(self, name: str) -> str:
        """``given``, ``default``, ``as calibrated`` with the profile, or what the value was derived from."""
        return self._sources.get(name, DEFAULT if name in self._defaults else "derived")

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

    def settle_all(self, entries: Mapping[str, Entry]) -> None:
        """Settle several options, each to a value with its source."""
        for name, (value, source) in entries.items():
            self.settle(name, value, source)

    def copy(self) -> Settings:
        return Settings(self._values, self._sources, self._defaults)

    plain = property(copy)
    """A copy that notes nothing of what is read."""

    def with_derived(self, other: Settings) -> Settings:
        """The settings, and what ``other`` derived from the same options."""
        return Settings({**self._values, **other._values}, {**self._sources, **other._sources}, self._defaults)

    def restricted_to(self, read: Collection[str], idle: Collection[str] = ()) -> Settings:
        """Settings with a value that were read or derived, without ``idle``."""
        derived = (name for name in self if self.source(name) not in (GIVEN, DEFAULT) and name not in idle)
        shaping = {*read, *derived}
        kept = {name: self[name] for name in self if name in shaping and self[name] is not None}
        return Settings(kept, {name: self.source(name) for name in kept})


class TrackedSettings(Settings):
    """Settings that note which options are read, whose source is asked, and which are written.

    Its copies, such as one for each alternative, report what is read of them here, too.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings._values, settings._sources, settings._defaults)
        self.reads: dict[str, None] = {}
        self.sources_read: dict[str, None] = {}
        self.writes: dict[str, Entry] = {}

    def copy(self) -> TrackedSettings:
        copied = TrackedSettings(self)
        copied.reads, copied.sources_read, copied.writes = self.reads, self.sources_read, dict(self.writes)
        return copied

    def __getitem__(self, name: str) -> Any:
        value = self._values[name] if name in self._values else self._defaults[name]
        if name not in self.writes:
            self.reads[name] = None
        return value

    def source(self, name: str) -> str:
        if name not in self.writes:
            self.sources_read[name] = None
        return super().source(name)

    def __iter__(self) -> Iterator[str]:
        raise TypeError("tracked settings are read by name: what a step does not read must not matter to it")

    def settle(self, name: str, value: Any, source: str) -> None:
        super().settle(name, value, source)
        self.writes[name] = value, source
