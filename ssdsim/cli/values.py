"""An option that takes several values: a list, an inclusive range, or a mixture of both."""

from __future__ import annotations

from typing import Any

import click

MOST_VALUES = 10_000  # of a range: more is a slip of the step


class Values(click.ParamType[Any]):
    """``1,2,4``, ``1:8``, ``0.5:1:0.1`` (both ends included), ``1,2,4:16:4``; names only as a list."""

    def __init__(self, kind: type[int] | type[float] | type[str]) -> None:
        self.kind: Any = kind
        self.name = "name[,name...]" if kind is str else "n[,n...]|first:last[:step]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return [number for part in value.split(",") for number in self._part(part)]
        except ValueError as error:
            example = "a,b" if self.kind is str else "1,2,4 or 1:8 or 0:1:0.1"
            self.fail(f"'{value}' is not a list or range such as {example}: {error}", param, ctx)

    def _part(self, part: str) -> list[Any]:
        if self.kind is str:
            if not part:
                raise ValueError("an empty name")
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
        if count > MOST_VALUES:
            raise ValueError(f"'{part}' has {count} values")
        return [self.kind(round(first + i * step, 12)) for i in range(count)]
