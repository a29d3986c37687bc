"""Tables of which no terminal cuts a cell: columns that do not fit side by side go on below."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from rich import table
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.text import Text

Cell = str | Text

_GAP = 2  # blanks that rich puts between two columns


@dataclass(eq=False)
class Column:
    """``words`` stand at the left, numbers at the right.

    ``joined`` columns are read with those before them (/user, /GPU of one deployment) and stay beside them if they can.
    """

    header: str
    words: bool = False
    joined: bool = False
    cells: list[Cell] = field(default_factory=list)


_Fits = Callable[[Sequence[Column]], bool]


class Table:
    """Columns and rows to print by ``console.print``, which may be broken into blocks of columns, one below the other.

    The first ``names`` columns say what a row is about and begin every block; where they need more than half of a line
    (or leave too little for another column) rows are numbered instead. After them come the columns of the headers in
    ``first``, then the others. A styled cell is rich's ``Text``. ``pad_edge`` puts a blank at both ends of a line.
    """

    def __init__(self, *, names: int = 1, first: Sequence[str] = (), pad_edge: bool = False) -> None:
        self.names, self.first, self.pad_edge = names, tuple(first), pad_edge
        self.columns: list[Column] = []
        self._styles: list[str] = []

    def add_column(self, header: str, *, words: bool = False, joined: bool = False) -> None:
        """Right of the columns so far."""
        self.columns.append(Column(header, words, joined))

    def add_row(self, *cells: Cell, style: str = "") -> None:
        """A cell for each column; those that are left out at the end stay empty."""
        for i, column in enumerate(self.columns):
            column.cells.append(cells[i] if i < len(cells) else "")
        self._styles.append(style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths: dict[Column, int] = {}

        def width(column: Column) -> int:
            if column not in widths:
                widths[column] = max(
                    console.measure(cell, options=options).maximum for cell in (column.header, *column.cells)
                )
            return widths[column]

        def fits(columns: Sequence[Column]) -> bool:
            needed = sum(map(width, columns)) + _GAP * (len(columns) - 1) + 2 * self.pad_edge
            return needed <= options.max_width

        for i, block in enumerate(self._blocks(fits)):
            if i:
                yield ""
            yield self._drawn(block, None if fits(block) else max(block, key=width))

    def _blocks(self, fits: _Fits) -> Iterator[list[Column]]:
        """The columns of each block."""
        if fits(self.columns):
            yield self.columns
            return
        names, runs = self._parted(fits)
        block = [*names]
        for run in runs:
            if not fits([*block, *run]) and fits([*names, *run]):
                yield block
                block = [*names]
            for column in run:
                if len(block) > len(names) and not fits([*block, column]):
                    yield block
                    again = [*names] if column is run[0] else [*names, run[0]]
                    block = again if fits([*again, column]) else [*names]
                block.append(column)
        yield block

    def _parted(self, fits: _Fits) -> tuple[list[Column], list[list[Column]]]:
        """The columns that begin every block, and the runs of the others in the order of their importance."""
        names, runs = self.columns[: self.names], _runs(self.columns[self.names :])
        rank = {header: i for i, header in enumerate(self.first)}
        runs.sort(key=lambda run: rank.get(run[0].header, len(rank)))
        if fits([*names, *names]) and all(fits([*names, column]) for run in runs for column in run):
            return names, runs
        numbers = Column("#", cells=[str(row) for row in range(1, len(self._styles) + 1)])
        return [numbers], [*([name] for name in names), *runs]

    def _drawn(self, block: Sequence[Column], folded: Column | None) -> table.Table:
        """One block; a column that is too wide for a line of its own is ``folded``, which cuts nothing."""
        drawn = table.Table(box=None, pad_edge=self.pad_edge, header_style="dim")
        for column in block:
            side: JustifyMethod = "left" if column.words else "right"
            drawn.add_column(column.header, justify=side, no_wrap=column is not folded, overflow="fold")
        for row, style in enumerate(self._styles):
            drawn.add_row(*(column.cells[row] for column in block), style=style)
        return drawn


def _runs(columns: Sequence[Column]) -> list[list[Column]]:
    """Columns that are read together, together."""
    runs: list[list[Column]] = []
    for column in columns:
        if column.joined and runs:
            runs[-1].append(column)
        else:
            runs.append([column])
    return runs
