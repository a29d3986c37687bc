"""Only modules with examples in their docstrings are imported to look for them: all of ssdsim takes seconds."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore a module that has neither tests nor examples; of anything else others decide."""
    if collection_path.suffix != ".py" or collection_path.name == "conftest.py":
        return None
    if any(fnmatch(collection_path.name, pattern) for pattern in config.getini("python_files")):
        return None
    return None if ">>>" in collection_path.read_text(encoding="utf-8") else True
