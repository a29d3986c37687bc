"""An engine's numbers without its limits: for tests of what a search finds among strategies that no engine has."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from ssdsim.hardware.runtime_catalog import find_runtime, save_runtime


@cache
def unlimited(name: str) -> str:
    """The path of a card like the bundled one, which does not say what its engine runs."""
    path = Path(mkdtemp()) / f"{name}.toml"
    save_runtime(find_runtime(name).changed(runs=None), path)
    return str(path)
