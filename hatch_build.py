"""The build hook of the wheel: it makes the types of options, which editors and mypy read and git ignores."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TypedOptions(BuildHookInterface[Any]):
    """Makes them in the source tree: a wheel takes them from there, and ``pip install -e`` leaves them there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        subprocess.run([sys.executable, "-m", "site_generator.typed_options"], cwd=self.root, check=True)
