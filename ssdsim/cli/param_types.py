"""The types of what is typed: a value of a kind, and a file to be written; what a shell completes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from os.path import abspath, exists, isdir, isfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ssdsim.base.checks import is_text
from ssdsim.base.kinds import Kind, Member, Number, Temperature, Whole
from ssdsim.base.kinds_of_lists import Names, Several
from ssdsim.hardware.catalog import hardware_names, own_profiles, transformer_names
from ssdsim.hardware.runtime_catalog import runtime_names
from ssdsim.tokens.drafter_card import drafter_names

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def completing(names: Callable[[], Iterable[str]]) -> Completer:
    """A ``shell_complete`` of names, also of the last of several that commas separate."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last)]

    return complete


completing_hardware = completing(lambda: [*hardware_names(), *own_profiles()])
COMPLETER_OF: Mapping[str, Completer] = {
    "target": completing(transformer_names),
    "draft": completing(lambda: [*transformer_names(), *drafter_names()]),
    "hardware": completing_hardware,
    "draft_hardware": completing_hardware,
    "engine": completing(runtime_names),
}
"""By the names of the options that name a bundled card."""


class OfKind(click.ParamType[Any]):
    """A value of a kind, or what only its option can check."""

    def __init__(self, kind: Kind) -> None:
        self.kind, self.name = kind, kind.metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self.kind.parse(value)
        except (ValueError, OverflowError) as error:
            self.fail(f"'{value}' is {self.kind.parse_error or error}", param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Words in brackets, which stand as they are typed."""
        return self.name if self.kind.words else None

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # here: a shell alone asks for it

        kind = self.kind.of if isinstance(self.kind, Several) else self.kind
        words = kind.of.names if isinstance(kind, Member | Names) else kind.words
        return [CompletionItem(each) for each in completing(lambda: words)(ctx, param, incomplete)]


class WithinRange(OfKind):
    """A value of a kind whose range is checked here, for a verb that has the option to itself."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        read = super().convert(value, param, ctx)
        checked = self.kind.checked(param.opts[0] if param else "a value", read)
        return list(checked) if isinstance(checked, tuple) else checked


class Finite(click.FloatRange):
    """A number of a range: without this one NaN passes, which is outside of no bound."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"'{value}' is not a finite number", param, ctx)
        return number


NUMBER, WHOLES, NUMBERS = WithinRange(Number()), WithinRange(Several(Whole())), WithinRange(Several(Number()))
TEMPERATURES = WithinRange(Several(Temperature()))
SEED, PORT = click.IntRange(0, 2**64 - 1), click.IntRange(1, 65535)
DEVICE_SIZE = Finite(1e-3, 9e5)  # GiB or GB/s: a card holds a petabyte
SECONDS, MINUTES = Finite(0.0, 1e7), Finite(0.0, 1e6, min_open=True)


_WRITTEN = "ssdsim.written"


class Output(click.Path):
    """A path to write to; ``-`` is refused, and what another option of the command is to write."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-":
            self.fail("'-' is a file's name here: --json prints, nothing else goes to standard output", param, ctx)
        path = super().convert(value, param, ctx)
        if param is not None and ctx is not None:
            writer = ctx.meta.setdefault(_WRITTEN, {}).setdefault(abspath(path), param)
            if writer is not param:
                self.fail(f"'{value}' is where {writer.opts[-1]} writes: give each a path of its own", param, ctx)
        return path


class OutputFile(Output):
    """A file to be written, whose folder must be there before any work is done for it."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        if not path.name:
            self.fail(f"'{value}' names no file", param, ctx)
        if not is_text(path.name):  # what is written is named by its file
            self.fail(f"'{path}' is no text in UTF-8", param, ctx)
        if exists(path) and not isfile(path):  # it would be put in the place of a device
            self.fail(f"'{path}' is no file", param, ctx)
        if not isdir(path.parent):
            self.fail(f"'{path}' cannot be written: there is no folder {path.parent}", param, ctx)
        return path
