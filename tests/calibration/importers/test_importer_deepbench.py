"""DeepBench's tables: a column-major sample as CSV and workbook, and the real ones where they are at hand."""

from __future__ import annotations

import gzip
from itertools import product
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pandas as pd
import pytest

from calibration.importers.deepbench import import_deepbench
from ssdsim.base import documents
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_hardware
from ssdsim.transformer.operations import Attention, Collective, Gemm
from tests.refusals import refused

REAL = Path(__file__).parents[4] / "shared" / "measurements" / "deepbench"
real = pytest.mark.skipif(not REAL.is_dir(), reason="the measured tables are not here")


def seconds_of(width: int, tokens: int, k: int, element_bytes: int) -> float:
    return 6e-6 + element_bytes * (width * k + tokens * k + width * tokens) / 700e9


def sample() -> pd.DataFrame:
    """Column-major rows: ``m`` is the layer's width; the transposed layout of the weights is slower."""
    rows = []
    for (dtype, size), width, tokens, k, layout in product(
        (("float32", 4), ("float16", 2)),
        (512, 1760, 2560, 4096),
        (8, 16, 32, 64),
        (512, 1024, 2560, 4096),
        (("N", "N"), ("T", "N"), ("N", "T")),
    ):
        slower = {("N", "N"): 1.0, ("T", "N"): 1.6, ("N", "T"): 0.1}[layout]
        time_us = 1e6 * slower * seconds_of(width, tokens, k, size)
        rows.append((dtype, width, tokens, k, *layout, time_us))
    return pd.DataFrame(rows, columns=["dtype", "m", "n", "k", "a_transposed", "b_transposed", "time_us"])


def write_workbook(table: pd.DataFrame, path: Path) -> None:
    """Two sheets as DeepBench lays them out: a section of GEMMs with a gap, then another section."""
    title = {"float32": "Float", "float16": "16 bit inputs, 16 bit multiplication, 32 bit addition"}
    header = ["Dense Matrix Multiplication", None, "M", "N", "K", "A Transpose", "B Transpose", None, "Time (msec)"]
    with pd.ExcelWriter(path) as writer:
        for dtype, rows in table.groupby("dtype"):
            lines: list[list[object]] = [["Precision", title[str(dtype)]], [], header]
            for i, row in enumerate(rows.itertuples(index=False)):
                lines += [[]] if i == 20 else []
                sizes = [row.m, row.n, row.k, row.a_transposed, row.b_transposed]
                lines.append([None, "DeepSpeech", *sizes, None, row.time_us / 1e3])
            lines += [[], ["Convolution", None, "W", "H"], [None, "Vision", 7, 7, 3, None, None, None, 5.0]]
            padded = [line + [None] * (len(header) - len(line)) for line in lines]
            pd.DataFrame(padded).to_excel(writer, sheet_name=f"Results {dtype}", header=False, index=False)
        pd.DataFrame([["GPU Model", "NVIDIA V100"]]).to_excel(writer, sheet_name="Specs", header=False, index=False)


def test_column_major_rows_become_tokens_and_widths(tmp_path: Path) -> None:
    sample().to_csv(tmp_path / "gemm.csv", index=False)
    profile = import_deepbench(tmp_path / "gemm.csv", commit="abc")
    for dtype, size in (("float16", 2), ("float32", 4)):
        timing = profile.seconds(Gemm("x", 24, 2048, 2048, dtype))
        assert timing.seconds == pytest.approx(seconds_of(2048, 24, 2048, size), rel=0.05)
        assert timing.provenance_kind == "imported"
        assert timing.warning is None
    wide = profile.seconds(Gemm("x", 2560, 24, 2048, "float16"))
    assert wide.warning
    assert "m above the largest timed, 64" in wide.warning


@pytest.mark.long
def test_the_workbook_and_the_csv_agree(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    sample().to_csv(tmp_path / "gemm.csv", index=False)
    write_workbook(sample(), tmp_path / "gemm.xlsx")
    from_workbook, from_csv = (import_deepbench(tmp_path / f"gemm.{kind}").gemm for kind in ("xlsx", "csv"))
    for dtype in ("float16", "float32"):
        one, other = from_workbook[dtype], from_csv[dtype]
        assert one.domain == other.domain
        assert one.seconds(32, 2048, 2048) == pytest.approx(other.seconds(32, 2048, 2048), rel=1e-3)


def test_what_was_not_timed_is_marked_datasheet(tmp_path: Path) -> None:
    sample().to_csv(tmp_path / "gemm.csv", index=False)
    profile = import_deepbench(tmp_path / "gemm.csv")
    operations = (
        Attention("x", 1, 1, 2048, 32, 8, 128, "float16"),
        Collective("x", "all_reduce", 2**20, 8),
        Collective("x", "all_gather", 2**20, 2),
    )
    assert {profile.seconds(op).provenance_kind for op in operations} == {"datasheet"}
    reduced = [profile.seconds(Collective("x", "all_reduce", 2**28, ranks)).seconds for ranks in (2, 8)]
    assert reduced[1] < reduced[0]  # a pair shares two links, the whole mesh six


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a readable table"):
        import_deepbench(tmp_path / "none.csv")
    sample().drop(columns="time_us").to_csv(tmp_path / "gemm.csv", index=False)
    with refused("time_us"):
        import_deepbench(tmp_path / "gemm.csv")
    pytest.importorskip("openpyxl")
    pd.DataFrame([["nothing", 1]]).to_excel(tmp_path / "gemm.xlsx", header=False, index=False)
    with refused("Dense Matrix Multiplication"):
        import_deepbench(tmp_path / "gemm.xlsx")


@pytest.mark.long
@pytest.mark.parametrize("rows", [2, 1_200])
def test_a_workbook_that_unpacks_to_more_than_is_read_is_one_line(rows: int, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    table = pd.DataFrame([["Dense Matrix Multiplication", 1]] * rows)
    table.to_excel(tmp_path / "gemm.xlsx", header=False, index=False)
    if rows == 2:
        with ZipFile(tmp_path / "gemm.xlsx", "a", ZIP_DEFLATED) as packed:
            packed.writestr("xl/large.xml", "a" * (17 << 20))
    with refused("gemm.xlsx", "over"):
        import_deepbench(tmp_path / "gemm.xlsx")


def test_only_gzip_is_unpacked_and_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pandas would unpack what a name ends with, to any size."""
    monkeypatch.setattr(documents, "_MOST_UNPACKED", 100_000)
    text = sample().to_csv(index=False)
    (tmp_path / "gemm.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert import_deepbench(tmp_path / "gemm.csv.gz").gemm
    (tmp_path / "gemm.csv.gz").write_bytes(gzip.compress((text + "\n" * 200_000).encode()))
    with refused("gemm.csv.gz", "unpack"):
        import_deepbench(tmp_path / "gemm.csv.gz")
    with ZipFile(tmp_path / "gemm.csv.zip", "w", ZIP_DEFLATED) as packed:
        packed.writestr("gemm.csv", text)
    with refused("gemm.csv.zip"):
        import_deepbench(tmp_path / "gemm.csv.zip")


def unsigned(dumped: Any) -> Any:
    """What a model says, with directions of uncertainty that start upwards: either sign is the same direction."""
    if isinstance(dumped, dict):
        return {name: _upwards(value) if name == "uncertainty" else unsigned(value) for name, value in dumped.items()}
    return [unsigned(each) for each in dumped] if isinstance(dumped, list | tuple) else dumped


def _upwards(directions: Any) -> list[list[float]]:
    first = [next((value for value in way if value), 1.0) for way in directions]
    return [[value * (1 if lead > 0 else -1) for value in way] for way, lead in zip(directions, first, strict=True)]


@real
@pytest.mark.parametrize("file", ["v100_gemm.csv", "DeepBench_NV_V100.xlsx"])
def test_the_bundled_v100_profile_is_what_the_importer_makes(file: str) -> None:
    if file.endswith(".xlsx"):
        pytest.importorskip("openpyxl")
    made, bundled = import_deepbench(REAL / file), find_hardware("v100-sxm2-32gb")
    for dtype, model in made.gemm.items():
        assert unsigned(model.as_dict()) == unsigned(bundled.gemm[dtype].as_dict())
    assert made.gemm.keys() == bundled.gemm.keys()
    report = made.gemm["float16"].report
    assert report
    assert report.median_error < 0.08
    assert report.p95_error < 0.25
