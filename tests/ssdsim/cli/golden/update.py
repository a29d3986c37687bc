"""Rewrite the golden outputs beside this file; each file's first line is the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def update() -> None:
    for path in sorted(Path(__file__).parent.glob("*.txt")):
        command = path.read_text().split("\n", 1)[0]
        arguments = command.removeprefix("$ ssdsim").split()
        done = subprocess.run([sys.executable, "-m", "ssdsim", *arguments], capture_output=True, text=True, check=True)
        path.write_text(f"{command}\n{done.stdout}")


if __name__ == "__main__":  # not where pytest only imports it to look for doctests
    update()
