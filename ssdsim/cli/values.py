"""An option that takes several values: a list, an inclusive range, or a mixture of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os.path import exists, isdir, isfile
from pathlib import Path
from typing import Any

import click

from ssdsim.base.checks import is_text
from ssdsim.base.errors import nearest

MOST_VALUES = 10_000  # of a range: more is a slip of the step


class Values(click.ParamType[Any]):
    """``1,2,4``, ``1:8``, ``0.5:1:0.1`` (both ends included), ``1,2,4:16:4``; names only as a list.

    ``words`` may stand beside numbers; they are the only names allowed where ``kind`` is ``str``. ``meant`` turns
    another spelling of a word into it.
    """

    def __init__(
        self,
        kind: type[int] | type[float] | type[str],
        words: Sequence[str] = (),
        meant: Callable[[str], str] = str,
    ) -> None:
        self.kind: Any = kind
        self.words = tuple(words)
        self.meant = meant
        self.name = "name[,name...]" if kind is str else "n[,n...]|first:last[:step]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return [number for part in value.split(",") for number in self._part(part)]
        except (ValueError, OverflowError) as error:
            example = "a,b" if self.kind is str else "1,2,4 or 1:8 or 0:1:0.1"
            self.fail(f"'{value}' is not a list or range such as {example}: {error}", param, ctx)

    def _part(self, part: str) -> list[Any]:
        if self.kind is str or part in self.words:
            if not part:
                raise ValueError("an empty name")
            part = self.meant(part)
            if self.words and part not in self.words:
                raise ValueError(f"'{part}' is not one of {', '.join(self.words)}{nearest(part, self.words)}")
            return [part]
        if ":" not in part:
            return [self.kind(part)]
        first, last, *steps = (self.kind(number) for number in part.split(":"))
        if len(steps) > 1:
            raise ValueError(f"'{part}' has more than first:last:step")
        step = steps[0] if steps else self.kind(1)
        if step <= 0 or last < first:
            raise ValueError(f"'{part}' does not rise from first to last by a positive step")
        count = int((last - first) / step + 1e-9) + 1
        if not steps and first + (count - 1) * step < last - 1e-9:
            raise ValueError(
                f"'{part}' does not reach {last:g} by steps of 1: give a step; --ranges says where a rate lies"
            )
        if count > MOST_VALUES:
            raise ValueError(f"'{part}' has {count} values")
        return [self.kind(round(first + i * step, 12)) for i in range(count)]


class OutputFile(click.Path):
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


class Lists(click.ParamType[Any]):
    """Values that are lists themselves, with a slash between them: ``4,3,2,1/3,3,2,2``."""

    def __init__(self, each: click.ParamType[Any]) -> None:
        self.each = each
        self.name = f"{each.name}[/...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        return [self.each.convert(part, param, ctx) for part in value.split("/")]
