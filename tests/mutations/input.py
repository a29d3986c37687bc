"""What every maker of inputs makes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from ssdsim.cli.main import main


@dataclass(frozen=True)
class Input:
    """``run`` reads ``files`` from the present folder; ``what`` shows it to a person."""

    kind: str
    what: str
    run: Callable[[], object]
    files: Mapping[str, bytes] = field(default_factory=dict)


Beside = Callable[[Sequence[str], Random], tuple[list[str], dict[str, bytes]]]
BESIDE: list[Beside] = []
"""What adds more options to a command that reads a file: it knows files, and so stands above their makers."""


def with_file(kind: str, asked: str, name: str, content: bytes, rng: Random) -> Input:
    """A command that reads that file, at times with other options of its verb, and with the files that these name."""
    arguments, files = asked.split(), dict[str, bytes]()
    for beside in BESIDE:
        arguments, files = beside(arguments, rng)
    return command(kind, arguments, {**files, name: content})


def command(kind: str, arguments: Sequence[str], files: Mapping[str, bytes] | None = None) -> Input:
    """``ssdsim`` with these arguments, as from a shell but in this process."""

    def run() -> None:
        sys.argv = ["ssdsim", *arguments]
        main()

    return Input(kind, f"ssdsim {shlex.join(arguments)}", run, files or {})
