"""Files of measured rows on the command line, and options for what the files do not say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ssdsim.cli.param_types import COMPLETER_OF, Finite, OfKind
from ssdsim.question.options import ALL

if TYPE_CHECKING:
    from ssdsim.cli.help_page import Decorator

_WHOLE = click.IntRange(1)


_OPTIONS: Mapping[str, tuple[Any, str]] = {
    "hardware": (str, "profile that they ran on"),
    "model": (str, "the model's card"),
    "tp": (_WHOLE, "tensor-parallel degree"),
    "batch": (_WHOLE, "sequences in flight"),
    "dtype": (OfKind(ALL["dtype"].kind), "of weights"),
    "kv_dtype": (OfKind(ALL["kv_dtype"].kind), "of the cache"),
    "k": (_WHOLE, "drafted tokens a round"),
    "tree_nodes": (_WHOLE, "verified nodes of a tree of k levels, without its root"),
    "tree_beam": (_WHOLE, "nodes of a level that the draft goes on from in a tree"),
    "acceptance_length": (Finite(1.0, 1000.0), "tokens that a round yields, bonus token included"),
    "draft": (str, "the draft's card, where it is a model"),
    "drafter": (OfKind(ALL["drafter"].kind), "what drafts, where it is no model: eagle3, mtp, ..."),
}
FILLED = tuple(_OPTIONS)
"""Columns of a row that the command line gives where a file does not."""

PARAMETERS = {"model": "target", "batch": "b"}
"""The names that a scenario's options have for some of them, whose spellings they share."""


def row_options(*names: str) -> Decorator:
    """Add options for columns that a file may leave out; one that is not given arrives as None."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(names):
            kind, about = _OPTIONS[name]
            flag, parameter = f"--{name.replace('_', '-')}", PARAMETERS.get(name, name)
            how: dict[str, Any] = {"type": kind, "help": f"{about}, for files that do not say"}
            command = click.option(flag, parameter, shell_complete=COMPLETER_OF.get(parameter), **how)(command)
        return command

    return add


def by_column(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The values given of :data:`FILLED`, among the parameters of a command."""
    names = {name: PARAMETERS.get(name, name) for name in FILLED}
    return {name: parameters[parameter] for name, parameter in names.items() if parameter in parameters}
