"""An answer as a person reads it in a notebook or at Python's prompt: a title, a table, a sentence."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from ssdsim.base.record import Record

_WIDTH = 100


class Display(Record):
    """``rows`` are as long as ``header``; their first cells are names, the others numbers. Without rows no table."""

    title: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    sentence: str = ""

    def text(self) -> str:
        """The rows below each other, numbers on the right."""
        rows = [self.header, *self.rows] if self.rows else []
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(_aligned, row, widths, range(len(row)))).rstrip() for row in rows]
        return "\n".join([self.title, *lines, *textwrap.wrap(self.sentence, _WIDTH)])

    def html(self) -> str:
        """A table with its title as the caption; the notebook has the style."""
        from html import escape  # here, as below: a notebook alone asks for it

        sentence = f"<p>{escape(self.sentence)}</p>" if self.sentence else ""
        if not self.rows:
            return f"<pre>{escape(self.title)}</pre>{sentence}"
        caption = f'<caption style="text-align: left">{escape(self.title)}</caption>'
        head = f"<thead><tr>{_cells('th', self.header)}</tr></thead>"
        body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in self.rows)
        return f"<table>{caption}{head}<tbody>{body}</tbody></table>{sentence}"


class Displayable:
    """Shows itself as its :class:`Display`. A record derives from it first."""

    @property
    def display(self) -> Display:
        """The title, table and sentence that are shown of it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.display.text()

    def __str__(self) -> str:
        return self.display.text()

    def _repr_html_(self) -> str:
        return self.display.html()


def _aligned(cell: str, width: int, place: int) -> str:
    return cell.rjust(width) if place else cell.ljust(width)


def _cells(tag: str, row: Iterable[str]) -> str:
    from html import escape

    return "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
