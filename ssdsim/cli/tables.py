"""Tables of which no terminal cuts a cell: a narrow one is turned, or says which columns it has no room for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from rich import table
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.segment import Segment
from rich.text import Text

from ssdsim.base.record import Record, field

Cell = str | Text

_FEW = 5  # rows of a table that may be turned
_LEFT_OUT = "left out: "
_GAP = 2  # blanks that rich puts between two columns


class TableColumn(Record, eq=False):
    """A column, of ``words`` at the left or of numbers at the right.

    ``joined`` columns are read with those before them (/user, /GPU of one deployment) and stay beside them if they can.
    """

    header: str
    words: bool = False
    joined: bool = False
    cells: list[Cell] = field(default_factory=list)


_Fits = Callable[[Sequence[TableColumn]], bool]


class _UnpaddedTable(table.Table):
    """Whose lines end with their last word."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in Segment.split_lines(super().__rich_console__(console, options)):  # type: ignore[arg-type]
            words = Text.assemble(*((each.text, each.style or "") for each in line))
            words.rstrip()
            yield words


class TextTable:
    """Columns and rows to print by ``console.print``.

    Headers are those of columns of ``words``, of ``numbers``, and of words again, ``then``. The first ``names`` columns
    say what a row is about. Where the terminal is too narrow, a table of few rows is turned: a line a column. A longer
    one has the columns of the headers in ``first``, then the others as long as there is room, and says which it has
    left out. Where the names leave no room for another column, rows are numbered and the columns stand in blocks, one
    below the other. A ``turned`` table is so in every terminal that has room. A styled cell is rich's ``Text``.
    ``pad_edge`` puts a blank at both ends of a line.
    """

    def __init__(
        self,
        words: Sequence[str] = (),
        numbers: Sequence[str] = (),
        then: Sequence[str] = (),
        *,
        joined: Collection[str] = (),
        names: int = 1,
        first: Sequence[str] = (),
        pad_edge: bool = False,
        turned: bool = False,
    ) -> None:
        self.names, self.first, self.pad_edge, self.turned = names, tuple(first), pad_edge, turned
        headers = ((words, True), (numbers, False), (then, True))
        self.columns = [TableColumn(each, left, each in joined) for some, left in headers for each in some]
        self._styles: list[str] = []

    def add_column(self, header: str, *, words: bool = False, joined: bool = False) -> None:
        """Add a column right of those so far."""
        self.columns.append(TableColumn(header, words, joined))

    def add_row(self, *cells: Cell, style: str = "") -> None:
        """Add a row: a cell for each column; those that are left out at the end stay empty."""
        for i, column in enumerate(self.columns):
            column.cells.append(cells[i] if i < len(cells) else "")
        self._styles.append(style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths: dict[TableColumn, int] = {}

        def width(column: TableColumn) -> int:
            if column not in widths:
                widths[column] = max(
                    console.measure(cell, options=options).maximum for cell in (column.header, *column.cells)
                )
            return widths[column]

        def fits(columns: Sequence[TableColumn]) -> bool:
            needed = sum(map(width, columns)) + _GAP * (len(columns) - 1) + 2 * self.pad_edge
            return needed <= options.max_width

        whole, turned = fits(self.columns), self._turned()
        if turned is not None and (self.turned or not whole) and fits(turned):
            yield self._drawn(turned, None, [""] * len(turned[0].cells))
        elif whole:
            yield self._drawn(self.columns, None, self._styles)
        elif len(kept := self._columns_that_fit(fits)) > self.names:
            yield self._drawn(kept, None, self._styles)
            left = [name for column in self.columns if column not in kept and (name := column.header.strip())]
            if left:
                yield Text(f"{_LEFT_OUT}{', '.join(left)} (a wider terminal or --json has them)", "dim")
        else:
            for i, block in enumerate(self._blocks(fits)):
                if i:
                    yield ""
                yield self._drawn(block, None if fits(block) else max(block, key=width), self._styles)

    def _turned(self) -> list[TableColumn] | None:
        """A row for each column; None where no one name says what a row is about, or there are too many."""
        if self.names != 1 or not self._styles or len(self._styles) > _FEW:
            return None
        name, *others = self.columns
        turned = [TableColumn(name.header, words=True, cells=[column.header.strip() for column in others])]
        for row, title in enumerate(name.cells):
            turned.append(TableColumn(str(title), cells=[column.cells[row] for column in others]))
        return turned

    def _columns_that_fit(self, fits: _Fits) -> list[TableColumn]:
        """The names, and the most important columns for which there is room, in their order."""
        kept = self.columns[: self.names]
        for run in self._ranked():
            for column in run:
                if fits([*kept, column]) and (column is run[0] or run[0] in kept):
                    kept = [*kept, column]
        return [column for column in self.columns if column in kept]

    def _ranked(self) -> list[list[TableColumn]]:
        """Runs of columns that are read together, in the order of their importance."""
        rank = {header: i for i, header in enumerate(self.first)}
        return sorted(_runs(self.columns[self.names :]), key=lambda run: rank.get(run[0].header, len(rank)))

    def _blocks(self, fits: _Fits) -> Iterator[list[TableColumn]]:
        """The columns of each block."""
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

    def _parted(self, fits: _Fits) -> tuple[list[TableColumn], list[list[TableColumn]]]:
        """The columns that begin every block, and the runs of the others in the order of their importance."""
        names, runs = self.columns[: self.names], self._ranked()
        if fits([*names, *names]) and all(fits([*names, column]) for run in runs for column in run):
            return names, runs
        numbers = TableColumn("#", cells=[str(row) for row in range(1, len(self._styles) + 1)])
        return [numbers], [*([name] for name in names), *runs]

    def _drawn(self, block: Sequence[TableColumn], folded: TableColumn | None, styles: Sequence[str]) -> table.Table:
        """One block; a column that is too wide for a line of its own is ``folded``, which cuts nothing."""
        drawn = _UnpaddedTable(box=None, pad_edge=self.pad_edge, header_style="dim")
        for column in block:
            side: JustifyMethod = "left" if column.words else "right"
            drawn.add_column(column.header, justify=side, no_wrap=column is not folded, overflow="fold")
        for row, style in enumerate(styles):
            drawn.add_row(*(column.cells[row] for column in block), style=style)
        return drawn


def _runs(columns: Sequence[TableColumn]) -> list[list[TableColumn]]:
    """Columns that are read together, together."""
    runs: list[list[TableColumn]] = []
    for column in columns:
        if column.joined and runs:
            runs[-1].append(column)
        else:
            runs.append([column])
    return runs
