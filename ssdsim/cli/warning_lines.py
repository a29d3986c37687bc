"""Warnings as a person reads them: each kind once, with its number and an example."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ssdsim.cli.console import console, print_labelled

_SHAPES = re.compile(r"\d[\d.x]*")


def print_warnings(warnings: Iterable[str], quiet: bool) -> None:
    """On stderr, a line for all that differ in their numbers only; ``--json`` has every one."""
    if quiet:
        return
    kinds: dict[str, list[str]] = {}
    for warning in warnings:
        kinds.setdefault(_kind(warning), []).append(warning)
    log = console(stderr=True)
    for alike in kinds.values():
        more = f" (and {len(alike) - 1} more of this kind)" if len(alike) > 1 else ""
        print_labelled(log, "warning: ", f"{alike[0]}{more}", "yellow")


def _kind(warning: str) -> str:
    """What is extrapolated and where, without shapes and limits."""
    profile, _, rest = warning.partition(": ")
    return f"{profile}: {_SHAPES.sub('#', rest)}"
