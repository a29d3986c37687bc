"""What every maker of inputs makes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ssdsim.cli.main import main


@dataclass(frozen=True)
class Input:
    """``run`` reads ``files`` from the present folder; ``what`` shows it to a person."""

    kind: str
    what: str
    run: Callable[[], object]
    files: Mapping[str, bytes] = field(default_factory=dict)


def command(kind: str, arguments: Sequence[str], files: Mapping[str, bytes] | None = None) -> Input:
    """``ssdsim`` with these arguments, as from a shell but in this process."""

    def run() -> None:
        sys.argv = ["ssdsim", *arguments]
        main()

    return Input(kind, f"ssdsim {shlex.join(arguments)}", run, files or {})
