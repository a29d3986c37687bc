"""However narrow the terminal, a table loses nothing."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ssdsim.cli.tables import Table

WIDEST = 24  # of a cell below, with its number; a terminal of twice as many holds it beside a row's number


def lines_of(table: Table, width: int) -> list[str]:
    out = Console(file=io.StringIO(), width=width, highlight=False)
    out.print(table)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().splitlines()


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Every cell names its row and column, and its length."""
    columns, rows = draw(st.integers(1, 10)), draw(st.integers(1, 4))
    headers = [f"H{column}" for column in range(columns)]
    first = draw(st.lists(st.sampled_from(headers), unique=True))
    table = Table(names=draw(st.integers(0, min(3, columns))), first=first, pad_edge=draw(st.booleans()))
    for header in headers:
        table.add_column(header, words=draw(st.booleans()), joined=draw(st.booleans()))
    lengths = [draw(st.integers(0, WIDEST - len("<0.0>"))) for _ in headers]
    for row in range(rows):
        table.add_row(*(f"<{row}.{column}{'x' * length}>" for column, length in enumerate(lengths)))
    return table


@given(table=tables(), width=st.integers(2 * WIDEST, 200))
def test_every_cell_is_printed_whole_on_a_line_of_its_row(table: Table, width: int) -> None:
    lines = lines_of(table, width)
    assert max(map(len, lines)) <= width
    for row in range(len(table.columns[0].cells)):
        of_row = [line for line in lines if f"<{row}." in line]
        begins = {row_of.split()[0] for row_of in of_row}
        if table.names:  # by the row's name, or by its number
            assert begins in ({table.columns[0].cells[row]}, {str(row + 1)})
        words = " ".join(of_row).split()
        assert {column.cells[row] for column in table.columns} <= set(words)
        assert not any(f"<{other}." in line for line in of_row for other in range(4) if other != row)


@given(table=tables())
def test_a_table_with_room_is_one_block_in_the_order_of_its_columns(table: Table) -> None:
    header, *rows = lines_of(table, 10 * (WIDEST + 2) + 2)
    assert header.split() == [column.header for column in table.columns]
    assert [row.split() for row in rows] == [list(row) for row in zip(*(c.cells for c in table.columns), strict=True)]


def deployments() -> Table:
    table = Table(first=("P",))
    for header in ("batch", "best", "/user", "runner-up", "/user", "P"):
        table.add_column(header, words=header in ("best", "runner-up"), joined=header == "/user")
    table.add_row("16", "SSD TP 4 + 1", "158.7", "SD TP 4", "137.1", "0.98")
    return table


def test_what_matters_most_comes_first_and_what_is_read_together_stays_together() -> None:
    assert [line.rstrip() for line in lines_of(deployments(), 32)] == [
        "batch     P  best          /user",
        "   16  0.98  SSD TP 4 + 1  158.7",
        "",
        "batch  runner-up  /user",
        "   16  SD TP 4    137.1",
    ]


def test_columns_that_no_line_holds_together_repeat_whose_they_are() -> None:
    table = Table()
    for header, joined in (("batch", False), ("best", False), ("settings", True), ("/user", True)):
        table.add_column(header, words=header in ("best", "settings"), joined=joined)
    table.add_row("16", "SSD TP 4 + 1", "K 8, 27 outcomes", "158.7")
    assert [line.rstrip() for line in lines_of(table, 42)] == [
        "batch  best          settings",
        "   16  SSD TP 4 + 1  K 8, 27 outcomes",
        "",
        "batch  best          /user",
        "   16  SSD TP 4 + 1  158.7",
    ]


def test_rows_whose_names_take_most_of_a_line_are_numbered() -> None:
    table = Table(names=3)
    for header in ("target", "draft", "K", "SSD/SD"):
        table.add_column(header)
    table.add_row("llama-3.1-70b", "llama-3.2-1b", "6", "1.16x")
    table.add_row("llama-3.1-70b", "llama-3.2-1b", "8", "1.13x")
    assert lines_of(table, 36) == [
        "#         target         draft  K",
        "1  llama-3.1-70b  llama-3.2-1b  6",
        "2  llama-3.1-70b  llama-3.2-1b  8",
        "",
        "#  SSD/SD",
        "1   1.16x",
        "2   1.13x",
    ]


def test_a_cell_wider_than_the_terminal_is_folded_not_cut() -> None:
    table = Table()
    table.add_column("profile", words=True)
    table.add_column("GPUs")
    table.add_row("a-folder/and-one-below/a-profile.json", "8")
    text = "".join(line[3:].strip() for line in lines_of(table, 20))
    assert "a-folder/and-one-below/a-profile.json" in text
