"""Import a plain CSV of timings, for measurements that no other importer knows.

A header and a row a timing, ``op,dtype,seconds`` and the columns of the operation (others may stay empty):

=========== =====================================================================
gemm        ``m, n, k``: ``(m, k) @ (k, n)``
attention   ``batch, queries, context, heads, kv_heads, head_dim``
all_reduce  ``message_bytes, ranks``; ``all_gather`` alike, with the gathered bytes
link        ``message_bytes``
elementwise ``moved_bytes``
=========== =====================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pandas as pd

from calibration.importers.tables import messages_over, read_table, with_numbers
from calibration.timings.fit import FEWEST_ROWS, fit_collective, fit_elementwise, fit_link
from calibration.timings.fit_attention import ATTENTION_SHAPE, fit_attention
from calibration.timings.fit_gemm import fit_gemm
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError, nearest
from ssdsim.hardware.collectives import CollectiveModel
from ssdsim.hardware.links import LinkModel
from ssdsim.hardware.profile import HardwareProfile, Provenance
from ssdsim.transformer.operations import DTYPE_BYTES, CollectiveKind

_COLUMNS = {
    "gemm": ("m", "n", "k"),
    "attention": ATTENTION_SHAPE,
    "all_reduce": ("message_bytes", "ranks"),
    "all_gather": ("message_bytes", "ranks"),
    "link": ("message_bytes",),
    "elementwise": ("moved_bytes",),
}


def with_plain_csv(profile: HardwareProfile, path: Path, source: str) -> HardwareProfile:
    """``profile`` with every model that the file has timings for replaced by a fit to them."""
    table = _read(path)
    gemm, attention = dict(profile.gemm), dict(profile.attention)
    collectives: dict[CollectiveKind, dict[int, CollectiveModel]] = {}
    link: LinkModel | None = None
    update: dict[str, Any] = {}
    for op, of_op in table.groupby("op"):
        rows = of_op.dropna(subset=[*_COLUMNS[str(op)], "seconds"])
        if len(rows) < FEWEST_ROWS:
            raise InputError(f"{path}: {len(rows)} complete rows of {op}; a fit needs at least {FEWEST_ROWS}")
        if op == "gemm":
            for dtype, (m, n, k, seconds) in _groups(rows, "dtype", *_COLUMNS["gemm"]):
                gemm[dtype] = fit_gemm(m, n, k, seconds, DTYPE_BYTES[dtype], source, base=profile.gemm.get(dtype))
        elif op == "attention":
            for dtype, columns in _groups(rows, "dtype", *ATTENTION_SHAPE):
                timed = dict(zip((*ATTENTION_SHAPE, "seconds"), columns, strict=True))
                attention[dtype] = fit_attention(timed, DTYPE_BYTES[dtype], source)
        elif op in ("link", "elementwise"):
            ((_, (sizes, seconds)),) = _groups(rows, "op", *_COLUMNS[str(op)])
            if op == "link":
                link = fit_link(sizes, seconds, source)
            else:
                update["elementwise"] = fit_elementwise(sizes, seconds, source)
        else:
            of_kind = collectives.setdefault(cast(CollectiveKind, op), {})
            for ranks, (sizes, seconds) in _groups(rows, "ranks", "message_bytes"):
                of_kind[round(float(ranks))] = fit_collective(sizes, seconds, source)
    sources = {**profile.sources, source: Provenance(kind="imported", source=source, note=f"plain CSV {path.name}")}
    update |= {"gemm": gemm, "attention": attention, "sources": sources, **messages_over(profile, collectives, link)}
    return profile.changed(**update)


def _groups(rows: pd.DataFrame, by: str, *columns: str) -> Iterator[tuple[str, list[Array]]]:
    """Each value of a column, with the others and the seconds of its rows."""
    for value, group in rows.groupby(by):
        yield str(value), [group[name].to_numpy(float) for name in (*columns, "seconds")]


def _read(path: Path) -> pd.DataFrame:
    table = read_table(path, "CSV", ("op", "dtype", "seconds"))
    for op in table["op"].unique():
        if op not in _COLUMNS:
            raise InputError(f"{path}: unknown op '{op}'{nearest(str(op), _COLUMNS)} Allowed: {', '.join(_COLUMNS)}")
        missing = [name for name in _COLUMNS[op] if name not in table]
        if missing:
            raise InputError(f"{path}: op '{op}' needs a column '{missing[0]}'")
    for dtype in table.loc[table["op"].isin(["gemm", "attention"]), "dtype"].unique():
        if dtype not in DTYPE_BYTES:
            raise InputError(f"{path}: unknown dtype '{dtype}'{nearest(str(dtype), DTYPE_BYTES)}")
    sizes = [name for name in dict.fromkeys(chain(*_COLUMNS.values())) if name in table and name != "ranks"]
    table = with_numbers(table, path, [*sizes, "seconds"])
    return with_numbers(table, path, ["ranks"] if "ranks" in table else [], whole=True, least=2)
