"""CSV files of rows: what is written is read again, and what is wrong is said in one line."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.base.errors import InputError
from ssdsim.readers.result_files import read_measured
from ssdsim.readers.row import METRICS, REQUIRED, Row, read_rows, write_rows
from tests.refusals import refused

NAMES = (
    st.text("abcxyzé,\"' -.09/", min_size=1, max_size=12)
    .map(str.strip)
    .filter(lambda name: name and not Path(name).expanduser().exists())
)
WHOLE = st.integers(1, 10**6)
ROWS = st.builds(
    Row,
    model=NAMES,
    hardware=NAMES,
    tp=WHOLE,
    batch=WHOLE,
    input_tokens=st.floats(0.0, 1e8),
    output_tokens=st.floats(1.0, 1e8),
    metric=st.sampled_from(METRICS),
    value=st.floats(1e-9, 1e12),
    engine=st.just("") | NAMES,
    engine_version=st.just("") | NAMES,
    dtype=st.none() | NAMES,
    kv_dtype=st.none() | NAMES,
    draft=st.none() | NAMES,
    k=st.none() | WHOLE,
    acceptance_length=st.floats(1.0, 1001.0),
    source=st.just("") | NAMES,
    series=st.just("") | NAMES,
    repeat=st.none() | WHOLE,
    rounds=st.none() | st.floats(0.0, 1e9),
    accepted_by_position=st.none() | st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4).map(tuple),
)
OPTIONS = st.builds(
    lambda alpha, p_hit, fl, backup: (("alpha", alpha), ("p_hit", p_hit), ("fl", fl), ("backup", backup)),
    st.floats(0.0, 1.0) | st.lists(st.floats(0.0, 1.0), min_size=2, max_size=4).map(tuple),
    st.floats(0.0, 1.0),
    st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple),
    st.sampled_from(("jit", "fast")),
)
OF_SSD = st.builds(lambda row, k, told: row.changed(strategy="ssd", k=k, options=told), ROWS, WHOLE, OPTIONS)
LINE = "model,tp,batch,input_tokens,output_tokens,metric,value\nllama-3.1-8b,2,4,100,10,tpot_ms,7.5\n"


@pytest.mark.long
@given(st.lists(ROWS | OF_SSD, min_size=1, max_size=5))
def test_rows_survive_a_csv_file(rows: list[Row]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        write_rows(rows, path)
        assert read_rows(path) == rows
        assert read_measured(path) == rows


def test_a_tree_is_told_whole() -> None:
    """Its levels, the nodes that are gone on from and those that are verified: of less no round can be priced."""
    told = read_row(LINE.strip() + "\n", k=5, tree_nodes=15, tree_beam=4)
    assert (told.k, told.tree_nodes, told.tree_beam) == (5, 15, 4)
    assert "trees from a head" in told.series_name
    for partly in ({"tree_nodes": 15}, {"k": 5, "tree_nodes": 15}, {"k": 5, "tree_beam": 4}):
        with refused("k", "tree_nodes", "tree_beam"):
            read_row(LINE, **partly)


def read_row(text: str, **given: object) -> Row:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        path.write_text(text)
        (row,) = read_rows(path, {"hardware": "h100-sxm", "acceptance_length": 2.0, **given})
        return row


def test_what_is_given_fills_the_columns_that_a_file_leaves_out_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(LINE)
    (row,) = read_measured(path, hardware="h100-sxm", tp=2, dtype="float8", k=None)
    assert (row.hardware, row.tp, row.dtype, row.k) == ("h100-sxm", 2, "float8", None)
    with refused("tp 2", "--tp says 8"):
        read_measured(path, hardware="h100-sxm", tp=8)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LINE, "lacks the column 'hardware'"),
        (LINE.replace("batch", "batches"), "unknown column 'batches'; did you mean 'batch'?"),
        (
            LINE.replace(",4,", ",4.5,"),
            "line 2: batch: must be a whole number, got '4.5'",
        ),
        (LINE.replace("7.5", "-1"), "line 2: value: must be at least 0.000000001"),
        (LINE.replace("7.5", "7.5,1"), "line 2: 7 cells expected"),
        (LINE.split("\n")[0], "no row in it"),
        ("", f"lacks the column '{REQUIRED[0]}'"),
    ],
)
def test_a_wrong_file_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    hardware = {} if "'hardware'" in said else {"hardware": "h100-sxm"}
    with pytest.raises(InputError) as error:
        read_measured(path, **hardware)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
