"""However narrow the terminal, no cell is cut, and a table says what it leaves out."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ssdsim.cli.tables import TextTable

WIDEST = 24  # of a cell below, with its number; a terminal of twice as many holds it beside a row's number


def lines_of(table: TextTable, width: int) -> list[str]:
    out = Console(file=io.StringIO(), width=width, highlight=False)
    out.print(table)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().splitlines()


@st.composite
def tables(draw: st.DrawFn) -> TextTable:
    """Every cell names its row and column, and its length."""
    columns, rows = draw(st.integers(1, 10)), draw(st.integers(1, 8))
    headers = [f"H{column}" for column in range(columns)]
    first = draw(st.lists(st.sampled_from(headers), unique=True))
    table = TextTable(names=draw(st.integers(0, min(3, columns))), first=first, pad_edge=draw(st.booleans()))
    for header in headers:
        table.add_column(header, words=draw(st.booleans()), joined=draw(st.booleans()))
    lengths = [draw(st.integers(0, WIDEST - len("<0.0>"))) for _ in headers]
    for row in range(rows):
        table.add_row(*(f"<{row}.{column}{'x' * length}>" for column, length in enumerate(lengths)))
    return table


@pytest.mark.long
@given(table=tables(), width=st.integers(2 * WIDEST, 200))
def test_every_column_is_printed_whole_or_is_said_to_be_left_out(table: TextTable, width: int) -> None:
    lines = lines_of(table, width)
    text = " ".join(" ".join(lines).split())  # a broken line may end with a blank
    assert "…" not in text
    said = text.partition("left out: ")[2].partition(" (a wider")[0].split(", ")
    found = set(text.split())
    for place, column in enumerate(table.columns):
        assert set(column.cells) <= found or (column.header in said and place >= table.names), column.header
        if column.header in said:
            assert not set(column.cells) & found
    assert max(map(len, lines)) <= width


@pytest.mark.long
@given(table=tables())
def test_a_table_with_room_is_one_block_in_the_order_of_its_columns(table: TextTable) -> None:
    header, *rows = lines_of(table, 10 * (WIDEST + 2) + 2)
    assert header.split() == [column.header for column in table.columns]
    assert [row.split() for row in rows] == [list(row) for row in zip(*(c.cells for c in table.columns), strict=True)]


def deployments() -> TextTable:
    table = TextTable(first=("P",))
    for header in ("batch", "best", "/user", "runner-up", "/user", "P"):
        table.add_column(header, words=header in ("best", "runner-up"), joined=header == "/user")
    table.add_row("16", "SSD TP 4 + 1", "158.7", "SD TP 4", "137.1", "0.98")
    return table


def test_no_line_ends_with_blanks() -> None:
    """The last column's words were filled up to the longest, and its header."""
    table = TextTable(("",), ("n",), ("why",))
    table.add_row("a", "1", "in words")
    table.add_row("b", "12")
    assert lines_of(table, 80) == ["    n  why", "a   1  in words", "b  12"]


def test_a_narrow_table_of_few_rows_is_turned() -> None:
    assert lines_of(deployments(), 32) == [
        "batch                16",
        "best       SSD TP 4 + 1",
        "/user             158.7",
        "runner-up       SD TP 4",
        "/user             137.1",
        "P                  0.98",
    ]


def test_a_narrow_table_of_many_rows_has_what_matters_most_and_says_what_it_leaves_out() -> None:
    table = deployments()
    for batch in range(17, 25):
        table.add_row(str(batch), "SSD TP 4 + 1", "158.7", "SD TP 4", "137.1", "0.98")
    header, first, *_ = lines_of(table, 33)
    assert header.split() == ["batch", "best", "/user", "P"]
    assert first.split() == ["16", "SSD", "TP", "4", "+", "1", "158.7", "0.98"]
    assert "left out: runner-up, /user" in " ".join(lines_of(table, 33))


def test_rows_whose_names_take_most_of_a_line_are_numbered() -> None:
    table = TextTable(names=3)
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
    table = TextTable()
    table.add_column("profile", words=True)
    table.add_column("GPUs")
    table.add_row("a-folder/and-one-below/a-profile.json", "8")
    text = "".join(line[3:].strip() for line in lines_of(table, 20))
    assert "a-folder/and-one-below/a-profile.json" in text
