"""Shared by aiconfigurator's tables: its names of formats, and one time a shape."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pandas as pd

from ssdsim.hardware.laws import TimingModel
from ssdsim.transformer.operations import DTYPE_BYTES

DTYPES = {
    "bfloat16": "bfloat16",
    "float16": "float16",
    "half": "float16",
    "float32": "float32",
    "fp8": "float8",
    "int8": "int8",
}
"""Their names of plain dtypes."""

GEMM_FORMATS = DTYPES | {"fp8_block": "float8-block", "nvfp4": "nvfp4"}
"""Their names of the weights' formats; weight-only formats are not imported."""

WEIGHT_BYTES = DTYPE_BYTES | {"float8-block": 1, "nvfp4": 0.5625}
"""Bytes a weight: four bits and an eight-bit scale for sixteen make 0.5625 (scales of 128 x 128 blocks are none)."""

Fits = dict[tuple[str, Any], Callable[[], TimingModel]]
"""Fits by the part of a profile, and the format or the number of ranks within it."""

FROM_CACHE = "their weights came from a cache"
FLOAT_BYTES = 2  # of the 16-bit floats whose messages are imported


def one_time_a_shape(table: pd.DataFrame, shape: list[str]) -> pd.DataFrame:
    """One row per shape: of its newest version, the fastest kernel's median.

    An engine picks the kernel for a shape, and a later version replaces an earlier one's timings.
    """
    age = {version: i for i, version in enumerate(sorted(table["version"].unique(), key=_natural))}
    ages = table["version"].map(age)
    table = table[ages == ages.groupby([table[column] for column in shape]).transform("max")]
    kernel = ["kernel_source"] if "kernel_source" in table else []
    medians = table.groupby(shape + kernel)["seconds"].median().reset_index()
    return medians.groupby(shape)["seconds"].min().reset_index()


def engines(table: pd.DataFrame) -> pd.Series:
    """The engine of each row; empty where a table does not tell."""
    return table["framework"] if "framework" in table else pd.Series("", index=table.index)


def left_out(rows: pd.DataFrame, cached: pd.Series, whose: str, what: str) -> str:
    """Say how many of some rows came from a cache, if any did."""
    return f"; {cached.sum()} of {len(rows)} rows of {whose} left out, {what}" if cached.any() else ""


def _natural(version: str) -> list[tuple[int, int, str]]:
    """A key by which ``0.9.0`` sorts before ``0.19.0`` and ``1.0rc1`` before ``1.0``."""
    parts = re.findall(r"\d+|[a-z]+", version.lower())
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts] + [(0, 1, "")]
