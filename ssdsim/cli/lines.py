"""Lines in styles, and how long ones are broken."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from rich.cells import cell_len, chop_cells

if TYPE_CHECKING:
    from rich.text import Text


class Line:
    """Text in a style, with parts in styles of their own: a terminal shows them."""

    def __init__(self, text: str = "", style: str = "") -> None:
        self.style = style
        self.parts = [(text, "")]

    def append(self, text: str | Line, style: str = "") -> Self:
        """Add text at the end."""
        if isinstance(text, Line):
            self.parts += [(part, own or text.style) for part, own in text.parts]
        else:
            self.parts.append((text, style))
        return self

    def __str__(self) -> str:
        return "".join(text for text, _ in self.parts)

    def __len__(self) -> int:
        return len(str(self))

    def __rich__(self) -> Text:
        from rich.text import Text  # here: a pipe needs no styles

        return Text.assemble(*self.parts, style=self.style)


def wrapped(text: str, width: int) -> list[str]:
    """``text`` in lines of at most so many columns: broken at blanks, within a word where it is longer."""
    lines = (filled(re.findall(r"\s*\S+\s*", line), width) for line in text.split("\n"))
    return [each for line in lines for each in line]


def filled(pieces: Iterable[str], width: int) -> list[str]:
    """Lines of ``pieces``, as many as fit into each."""
    lines = [""]
    for piece in pieces:
        if lines[-1] and cell_len(lines[-1]) + cell_len(piece.rstrip()) > width:
            lines.append("")
        *full, rest = chop_cells(piece, width) if cell_len(piece.rstrip()) > width else [piece]
        lines[-1:] = [*full, lines[-1] + rest]
    return [line.rstrip() if cell_len(line) > width else line for line in lines]
