"""Warnings as a person reads them: a line a kind, and all that it stands for with ``--verbose``."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

from ssdsim.cli.console import print_each
from ssdsim.cli.options import VERBOSE
from ssdsim.hardware.timing import EXTRAPOLATED

_SHAPES = re.compile(r"\d[\d.x]*")


def print_warnings(warnings: Iterable[str], quiet: bool, share: float | None = None) -> None:
    """Print warnings on stderr, a line for those that differ in numbers only; ``--verbose``, ``--json`` have all.

    ``share`` is how much of the passes' time is of operations that were timed at no such shape.
    """
    if quiet:
        return
    context = click.get_current_context(silent=True)
    verbose = context is not None and context.meta.get(VERBOSE)
    print_each("warning: ", warnings if verbose else _lines(warnings, share), "yellow")


def _lines(warnings: Iterable[str], share: float | None) -> list[str]:
    beyond: dict[str, list[str]] = {}
    kinds: dict[str, list[str]] = {}
    for warning in warnings:
        if found := EXTRAPOLATED.fullmatch(warning):
            beyond.setdefault(found["profile"], []).append(found["operation"])
        else:
            kinds.setdefault(_SHAPES.sub("#", warning), []).append(warning)
    return [*(_of_kind(alike) for alike in kinds.values()), *(_beyond(*each, share) for each in beyond.items())]


def _of_kind(alike: list[str]) -> str:
    return f"{alike[0]} (and {len(alike) - 1} more of this kind: --verbose)" if len(alike) > 1 else alike[0]


def _beyond(profile: str, operations: list[str], share: float | None) -> str:
    """``2 operations (attention, gemm), 3 % of the passes' time, are beyond what was timed``."""
    families = ", ".join(dict.fromkeys(each.partition(":")[0] for each in operations))
    several = len(operations) > 1
    what = f"{len(operations)} operation{'s' if several else ''} ({families})"
    percent = "under 1 %" if share is None or share < 0.01 else f"{share:.0%}".replace("%", " %")
    part = "" if share is None else f", {percent} of the passes' time,"
    return f"{profile}: {what}{part} {'are' if several else 'is'} beyond what was timed (--verbose)"
