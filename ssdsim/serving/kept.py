"""Kept results of runs, by a key of all that shapes them."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import convert, to_builtins

from ssdsim import __version__
from ssdsim.base.settings import Settings
from ssdsim.runs.answer_folders import ServingFolder

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class Kept:
    """The parts of a run folder under one scenario; a new version of ssdsim has new keys."""

    def __init__(self, folder: ServingFolder, settings: Settings, plan: str) -> None:
        self._folder = folder
        self._scenario = repr((__version__, sorted(settings.items(), key=str), plan))

    def of(self, key: str, kind: type[T]) -> T | None:
        """Read what was kept, or None; what cannot be read as such is worked out again."""
        try:
            text = self._folder.part(self._name(key))
            return None if text is None else convert(json.loads(text), kind, str_keys=True)
        except ValueError:
            return None

    def keep(self, key: str, result: Any, requests: pa.Table | None = None) -> None:
        """Keep a result for the next time; with a line a request, where there is one."""
        self._folder.keep(self._name(key), json.dumps(to_builtins(result, enc_hook=float)), requests)

    def requests(self, key: str) -> pa.Table:
        """The lines that were kept with it."""
        return self._folder.requests(self._name(key))

    def _name(self, key: str) -> str:
        return sha256((self._scenario + key).encode()).hexdigest()[:24]
