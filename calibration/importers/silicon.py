"""Shared by aiconfigurator's tables: the system card, their names of formats, one time a shape, and parallel fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from ssdsim.base.documents import read_text
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
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
Key = TypeVar("Key")
Fitted = TypeVar("Fitted")
_ROWS_WORTH_IT = 20_000  # fitted in about a second, which a second process takes to start


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
    return [(1, int(part[:9]), "") if part.isdigit() else (0, 0, part) for part in parts] + [(0, 1, "")]


class SystemCard(Record):
    """Numbers by section and key; text and deeper levels are left out."""

    path: Path
    sections: dict[str, dict[str, float]]

    def figure(self, section: str, key: str, otherwise: float | None = None) -> float:
        """One number, such as ``figure("gpu", "mem_bw")``."""
        value = self.sections.get(section, {}).get(key, otherwise)
        if value is None:
            raise InputError(f"{self.path}: no number {section}.{key}; a system card of aiconfigurator has one")
        if not 0.0 <= value < float("inf"):
            raise InputError(f"{self.path}: {section}.{key} must be at least 0 and finite, got {value:g}")
        return value


def read_system_card(path: Path) -> SystemCard:
    """The card in a file."""
    lines = read_text(path, "system card").splitlines()
    sections: dict[str, dict[str, float]] = {}
    section: dict[str, float] = {}
    depth = 0
    for line in lines:
        content = line.split("#")[0].rstrip()
        key, colon, text = (part.strip() for part in content.partition(":"))
        indent = len(content) - len(content.lstrip())
        if colon and indent == 0:
            section, depth = sections.setdefault(key, {}), 0
        elif colon and indent == (depth or indent):
            depth = indent
            if _is_number(text):
                section[key] = float(text)
    return SystemCard(path, sections)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def fitted(fits: Mapping[Key, Callable[[], Fitted]], rows: int, jobs: int | None = None) -> dict[Key, Fitted]:
    """Run ``fits`` beside each other: what each returns, in their order, whatever the number of processes.

    Parameters
    ----------
    fits : calls (``partial``) of functions that another process can import; the longest first keeps all cores busy.
    rows : that are fitted in all, which say whether more than one process pays.
    jobs : processes (None: one a core where that pays).

    Linear algebra runs on one thread in each: threads that wait for each other cost more than they bring to matrices of
    sixty columns, and sums are rounded alike.
    """
    from joblib import Parallel, cpu_count, delayed, parallel_config
    from threadpoolctl import threadpool_limits

    jobs = min(len(fits), jobs or (cpu_count() if rows >= _ROWS_WORTH_IT else 1))
    if jobs < 2:
        with threadpool_limits(1):
            return {key: fit() for key, fit in fits.items()}
    with parallel_config("loky", inner_max_num_threads=1):
        made = Parallel(n_jobs=jobs)(delayed(_called)(fit) for fit in fits.values())
    return dict(zip(fits, made, strict=True))


def _called(fit: Callable[[], Fitted]) -> Fitted:
    return fit()
