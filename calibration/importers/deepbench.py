"""Import DeepBench's V100 results (baidu-research/DeepBench): measured GEMMs, the rest from the datasheet.

DeepBench is column-major, ``C (m x n) = A (m x k) B (k x n)``: ``m`` is the width of the layer's output and ``n``
the number of tokens. In this project's row-major ``(m, k) @ (k, n)`` the two change places.

A datasheet's models have no fit report. Kernels reach some 80 % of its bandwidth (``EFFICIENCY``); launches and steps
take the times below, of the order that measured devices of later years show.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import pandas as pd

from calibration.importers.tables import read_table, with_numbers
from calibration.timings.fit_gemm import fit_gemm
from ssdsim.base.documents import check_regular
from ssdsim.base.errors import InputError
from ssdsim.hardware.attention import AttentionModel
from ssdsim.hardware.collectives import CollectiveModel, Regime
from ssdsim.hardware.device import Device
from ssdsim.hardware.elementwise import ElementwiseModel
from ssdsim.hardware.gemm import GemmModel
from ssdsim.hardware.laws import Roofline
from ssdsim.hardware.links import LinkModel
from ssdsim.hardware.profile import HardwareProfile, Provenance
from ssdsim.transformer.operations import DTYPE_BYTES, CollectiveKind, sent_around

_COLUMNS = ["dtype", "m", "n", "k", "a_transposed", "b_transposed", "time_us"]
_TITLES = {
    "M": "m",
    "N": "n",
    "K": "k",
    "A Transpose": "a_transposed",
    "B Transpose": "b_transposed",
    "Time (msec)": "time_ms",
}
_MEMORY_BANDWIDTH = 900e9
_NVLINK = 25e9  # of one link, one way; a device has six
_KINDS: tuple[CollectiveKind, ...] = ("all_gather", "all_reduce")
_RING_LINKS = {2: 2, 4: 4, 8: 6}  # links a ring can use: a doubly linked pair, a quad, the whole cube mesh
_V100 = Device(
    name="Tesla V100-SXM2-32GB",
    kind="cuda",
    memory_bytes=32 * 2**30,
    memory_bandwidth=_MEMORY_BANDWIDTH,
    peak_flops={"float16": 125e12, "float32": 15.7e12},
    compute_units=80,
    count=8,
    topology="hybrid cube mesh, 6 NVLink x 25 GB/s each way per device; some pairs have no direct link",
)
DATASHEET = "datasheet"
EFFICIENCY = 0.8
KERNEL_LAUNCH_S = 3e-6
ATTENTION_LAUNCH_S = 10e-6  # splitting the context over the device and joining the parts
COLLECTIVE_LAUNCH_S = 5e-6
COLLECTIVE_STEP_S = 1.5e-6  # one hop of a ring
MESSAGE_LATENCY_S = 10e-6

_ANY_SIZE = 1e15
_MOST_UNPACKED, _MOST_SHEETS, _MOST_ROWS = 16 << 20, 20, 1_000  # of a workbook: DeepBench's own has 0.6 MB


def import_deepbench(path: str | Path, name: str = "v100-sxm2-32gb", commit: str = "") -> HardwareProfile:
    """The V100's profile, GEMMs from DeepBench's workbook (``.xlsx``) or the CSV made from it."""
    return HardwareProfile(
        schema_=1,
        name=name,
        device=_V100,
        gemm=_gemms(_read(Path(path))),
        attention={dtype: datasheet_attention(_MEMORY_BANDWIDTH, peak) for dtype, peak in _V100.peak_flops.items()},
        collectives={
            kind: {r: datasheet_ring(kind, r, n * _NVLINK) for r, n in _RING_LINKS.items()} for kind in _KINDS
        },
        link=datasheet_link(_NVLINK),
        elementwise=datasheet_elementwise(_MEMORY_BANDWIDTH),
        sources={
            "deepbench": Provenance(
                kind="imported",
                source="baidu-research/DeepBench",
                commit=commit,
                licence="Apache-2.0",
                note="V100 of a DGX-1, CUDA 10.1; forward GEMMs, of two layouts of the weights the faster",
            ),
            DATASHEET: Provenance(
                kind="datasheet",
                source="NVIDIA Tesla V100 datasheet",
                note="80 % of HBM2 and NVLink bandwidth, ring collectives, assumed launch and step latencies",
            ),
        },
    )


def _gemms(table: pd.DataFrame) -> dict[str, GemmModel]:
    """A model for each dtype.

    Rows with ``B`` transposed are weight gradients. Weights (``A``) were timed in both layouts, up to twice apart;
    an engine stores them in the faster one.
    """
    forward = table[(table["b_transposed"] == "N") & table["dtype"].isin(DTYPE_BYTES)]
    fastest = forward.groupby(["dtype", "m", "n", "k"], as_index=False)["time_us"].min()
    return {
        str(dtype): fit_gemm(
            rows["n"], rows["m"], rows["k"], rows["time_us"] * 1e-6, DTYPE_BYTES[str(dtype)], "deepbench"
        )
        for dtype, rows in fastest.groupby("dtype")
    }


def _read(path: Path) -> pd.DataFrame:
    table = _read_workbook(path) if path.suffix == ".xlsx" else read_table(path, "table of DeepBench's", _COLUMNS)
    return with_numbers(table, path, ["m", "n", "k", "time_us"]).dropna(subset=_COLUMNS)


def _read_workbook(path: Path) -> pd.DataFrame:
    """The sections 'Dense Matrix Multiplication' of the sheets for float32 and for float16 inputs."""
    sections = []
    for sheet in _sheets(path):
        headers = sheet.index[sheet[0] == "Dense Matrix Multiplication"]
        if len(headers):
            dtype = "float16" if "16 bit" in str(sheet.iloc[0, 1]) else "float32"
            sections.append(_section(path, sheet, int(headers[0]), dtype))
    if not sections:
        raise InputError(f"{path}: no section 'Dense Matrix Multiplication' in any sheet")
    return pd.concat(sections, ignore_index=True)


def _sheets(path: Path) -> Iterator[pd.DataFrame]:
    """Every sheet of at least two columns; one at a time, since a cell far away makes a large one of few letters."""
    check_regular(path, "workbook")
    try:
        packed = ZipFile(path)
        if sum(part.file_size for part in packed.infolist()) > _MOST_UNPACKED:
            raise ValueError(f"unpacked it has over {_MOST_UNPACKED >> 20} MiB")
        torn = packed.testzip()  # a torn part makes openpyxl fail in any of a dozen ways
        if torn is not None:
            raise ValueError(f"{torn} in it is torn")
        with pd.ExcelFile(path) as workbook:
            for name in workbook.sheet_names:
                sheet = pd.read_excel(workbook, sheet_name=name, header=None, nrows=_MOST_ROWS)
                if len(workbook.sheet_names) > _MOST_SHEETS or len(sheet) == _MOST_ROWS:
                    raise ValueError(f"it has over {_MOST_SHEETS} sheets, or a sheet over {_MOST_ROWS:,} rows")
                if sheet.shape[1] > 1 and len(sheet):
                    yield sheet
    except (OSError, ValueError, ImportError, KeyError, BadZipFile, zlib.error, NotImplementedError) as error:
        raise InputError(f"{path}: not a readable table of DeepBench's ({error})") from None


def _section(path: Path, sheet: pd.DataFrame, header: int, dtype: str) -> pd.DataFrame:
    """The rows with a size between a header and the next section's, with the columns of the CSV."""
    below = sheet.loc[header + 1 :]
    below = below[below[0].notna().cumsum() == 0]
    titles = list(sheet.loc[header])
    missing = [title for title in _TITLES if title not in titles]
    if missing:
        raise InputError(f"{path}: the section 'Dense Matrix Multiplication' has no column '{missing[0]}'")
    rows = pd.DataFrame({name: below[titles.index(title)] for title, name in _TITLES.items()})
    numbers = rows[["m", "n", "k", "time_ms"]].apply(pd.to_numeric, errors="coerce").dropna()
    layouts = rows.loc[numbers.index, ["a_transposed", "b_transposed"]]
    columns: pd.DataFrame = pd.concat([numbers, layouts], axis=1)
    return columns.assign(dtype=dtype, time_us=1e3 * numbers["time_ms"])


def datasheet_ring(kind: CollectiveKind, ranks: int, bandwidth: float) -> CollectiveModel:
    """A ring over ``ranks`` devices that each send ``bandwidth`` bytes/s to the next.

    It takes a step to each other rank for each time that the message goes around.
    """
    sent = sent_around(kind, ranks)
    regime = Regime(
        latency_s=COLLECTIVE_LAUNCH_S + ranks * sent * COLLECTIVE_STEP_S,
        bandwidth=EFFICIENCY * bandwidth / sent,
        from_bytes=0.0,
        to_bytes=_ANY_SIZE,
    )
    return CollectiveModel(source=DATASHEET, regimes=(regime,))


def datasheet_attention(memory_bandwidth: float, peak_flops: float) -> AttentionModel:
    """Attention that streams the cache and computes at the datasheet's rates after a launch, without overlap."""
    roofline = Roofline(
        launch_s=ATTENTION_LAUNCH_S,
        bandwidth=EFFICIENCY * memory_bandwidth,
        peak_flops=EFFICIENCY * peak_flops,
        sharpness=1.0,
    )
    return AttentionModel(source=DATASHEET, roofline=roofline)


def datasheet_elementwise(memory_bandwidth: float) -> ElementwiseModel:
    """A kernel that reads and writes memory at the datasheet's bandwidth."""
    return ElementwiseModel(source=DATASHEET, launch_s=KERNEL_LAUNCH_S, bandwidth=EFFICIENCY * memory_bandwidth)


def datasheet_link(bandwidth: float) -> LinkModel:
    """A message over a link of ``bandwidth`` bytes/s one way."""
    return LinkModel(source=DATASHEET, latency_s=MESSAGE_LATENCY_S, bandwidth=EFFICIENCY * bandwidth)
