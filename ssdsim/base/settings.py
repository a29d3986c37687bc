"""The options of one call: each value with where it came from, and which of them were read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

GIVEN, DEFAULT = "given", "default"
_NONE: Mapping[str, Any] = {}


class Settings(Mapping[str, Any]):
    """Values by option name; what was given, what is a default and what was derived from others.

    ``defaults`` are shared by all settings and never changed; ``values`` and ``sources`` hold what differs from them.
    Steps of configuring read settings as a mapping and write only through :meth:`derive` and :meth:`settle`.
    """

    def __init__(
        self, values: Mapping[str, Any], sources: Mapping[str, str], defaults: Mapping[str, Any] = _NONE
    ) -> None:
        self._values, self._sources, self._defaults = dict(values), dict(sources), defaults

    def __getitem__(self, name: str) -> Any:
        return self._values[name] if name in self._values else self._defaults[name]

    def several(self, names: tuple[str, ...]) -> tuple[Any, ...]:
        """The values of many options, None of one without a default; quicker than one by one."""
        return tuple(map(self._values.get, names, map(self._defaults.get, names)))

    def __contains__(self, name: object) -> bool:
        return name in self._values or name in self._defaults

    def __iter__(self) -> Iterator[str]:
        yield from self._defaults
        yield from (name for name in self._values if name not in self._defaults)

    def __len__(self) -> int:
        return len({*self._defaults, *self._values})

    def source(self, name: str) -> str:
        """``given``, ``default``, or what the value was derived from."""
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

    @property
    def read(self) -> frozenset[str] | None:
        """The options that were read; None where that is not noted."""
        return None

    @property
    def plain(self) -> Settings:
        """The settings, or a copy of those that note what is read."""
        return self

    def copy(self) -> Settings:
        return Settings(self._values, self._sources, self._defaults)

    def with_derived(self, other: Settings) -> Settings:
        """The settings, and what ``other`` derived from the same options."""
        return Settings({**self._values, **other._values}, {**self._sources, **other._sources}, self._defaults)

    def restricted_to(self, read: Collection[str], idle: Collection[str] = ()) -> Settings:
        """The settings that have a value and either are among ``read`` or were derived, but for ``idle`` ones."""
        derived = (name for name in self if self.source(name) not in (GIVEN, DEFAULT) and name not in idle)
        shaping = {*read, *derived}
        kept = {name: self[name] for name in self if name in shaping and self[name] is not None}
        return Settings(kept, {name: self.source(name) for name in kept})


class TrackedSettings(Settings):
    """Settings that note which options are read, in their order, whose origin is asked, and which are written."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings._values, settings._sources, settings._defaults)
        self.reads: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.writes: dict[str, Any] = {}
        self.sources: dict[str, str] = {}

    def __getitem__(self, name: str) -> Any:
        value = self._values[name] if name in self._values else self._defaults[name]
        if name not in self.writes and name not in self.reads:
            self.reads[name] = value
        return value

    @property
    def read(self) -> frozenset[str]:
        return frozenset(self.reads)

    @property
    def plain(self) -> Settings:
        return self.copy()

    def source(self, name: str) -> str:
        source = super().source(name)
        if name not in self.writes:
            self.origins.setdefault(name, source)
        return source

    def __iter__(self) -> Iterator[str]:
        raise TypeError("a watched step reads options one by one: what it did not ask for must not matter to it")

    def settle(self, name: str, value: Any, source: str) -> None:
        super().settle(name, value, source)
        self.writes[name], self.sources[name] = value, source


class Choosing(TrackedSettings):
    """Settings of which copies are made to choose among: what is read of a copy is noted here, too."""

    def __init__(self, settings: TrackedSettings) -> None:
        super().__init__(settings)
        self.reads, self.origins = settings.reads, settings.origins
        self.writes, self.sources = dict(settings.writes), dict(settings.sources)

    def copy(self) -> Choosing:
        return Choosing(self)
