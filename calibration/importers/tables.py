"""Tables of other tools: columns of numbers that are numbers, what they count messages in, and a base's small ones."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ssdsim.base import parquet
from ssdsim.base.checks import Array
from ssdsim.base.documents import read_text
from ssdsim.base.errors import InputError, nearest, short_repr
from ssdsim.hardware.collectives import CollectiveLaw, CollectiveModel
from ssdsim.hardware.links import LinkModel, OfMessages
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.transformer.operations import CollectiveKind, sent_around

SHORTEST_S = 1e-12  # what is shorter than any clock can tell was not measured
_MOST_ROWS = 1_000_000  # the longest published table has a tenth
_LARGEST = 1e18  # of any number in a table: beyond it a double does not count
_TOLERANCE = 1.1  # in-switch reduction (NVLS) exceeds the ring's bound by a few percent
_LARGE = 4  # messages within this factor of the largest show the bandwidth


def read_table(path: Path, what: str, needed: Iterable[str]) -> pd.DataFrame:
    """The Parquet file or CSV, with at least the columns ``needed``."""
    if path.suffix == ".parquet":
        made = parquet.read_table(path, most_rows=_MOST_ROWS).to_pandas
    else:
        made = partial(pd.read_csv, io.BytesIO(read_text(path, what).encode()), low_memory=False)
    try:
        table: pd.DataFrame = made()
    except (ValueError, pa.ArrowException) as error:  # pandas' own complaints are ValueErrors
        raise InputError(f"{path}: not a readable {what} ({error})") from None
    has = list(map(str, table.columns))
    for column in needed:
        if column not in has:
            raise InputError(f"{path}: no column {column}{nearest(column, has)} It has {', '.join(has[:20])}")
    return table.reset_index(drop=True)


def with_numbers(
    table: pd.DataFrame, path: Path, columns: Iterable[str], *, whole: bool = False, least: float = 0.0
) -> pd.DataFrame:
    """``table`` with these columns as floats; an empty cell is NaN."""
    numbers = {name: _numbers(table[name]) for name in columns}
    for name, column in numbers.items():
        given = table[name].notna().to_numpy()
        possible = (column >= least) & (column <= _LARGEST) & (~whole | (column == np.round(column)))
        wrong = np.flatnonzero(given & ~possible)
        if wrong.size:
            kind = f"a {'whole ' if whole else ''}number from {least:g} to {_LARGEST:g}"
            cell = table[name].iloc[wrong[0]]
            got = short_repr(cell.tolist() if isinstance(cell, np.generic | np.ndarray) else cell)  # as bare Python
            raise InputError(f"{path}: row {wrong[0] + 1}: {name} must be {kind}, got {got}")
    return table.assign(**numbers)


def _numbers(column: pd.Series) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The numbers of a column, NaN where a cell is none."""
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        column = pd.to_numeric(column.map(str), errors="coerce")  # astype(str) decodes bytes
    return np.asarray(column.to_numpy(dtype=float, na_value=np.nan), dtype=float)


def wire_bytes(kind: str, message_bytes: Array, ranks: int) -> Array:
    """Bytes that each device sends, by the ring's bound.

    ``message_bytes`` is the full tensor, or what a rank sends to all, itself included.
    """
    return message_bytes * (1.0 if kind == "send_recv" else sent_around(kind, ranks))


def bytes_per_count(
    kind: str, by_ranks: Mapping[int, tuple[Array, Array]], element_bytes: int, peak_bandwidth: float
) -> int:
    """``element_bytes`` if the table can count elements, 1 if that would outrun the wires.

    ``by_ranks`` holds message sizes and seconds, each of shape ``(rows,)``, by number of devices;
    ``peak_bandwidth`` is of one device, one way.
    """
    for ranks, (counts, seconds) in by_ranks.items():
        large = counts >= counts.max() / _LARGE
        as_elements = wire_bytes(kind, element_bytes * counts[large], ranks) / seconds[large]
        if float(np.median(as_elements)) > _TOLERANCE * peak_bandwidth:
            return 1
    return element_bytes


def messages_over(
    base: HardwareProfile, collectives: Mapping[CollectiveKind, Mapping[int, CollectiveModel]], link: LinkModel | None
) -> dict[str, Any]:
    """Fields of ``base`` with its models of messages replaced; it still speaks for smaller ones than were timed."""
    law, held = CollectiveLaw(base), {kind: dict(by_ranks) for kind, by_ranks in base.collectives.items()}
    for kind, by_ranks in collectives.items():
        of_kind = held.setdefault(kind, {})
        of_kind |= {n: model.over(law.model(kind, n) if n in of_kind else None) for n, model in by_ranks.items()}
    return {"collectives": held, "link": link.over(base.link) if link else base.link}


def smallest_messages(profile: HardwareProfile, source: str, base: str) -> Iterator[str]:
    """Warnings about models of ``source`` that were timed from a large message on: who speaks for smaller ones."""
    for name, model in profile.models().items():
        if isinstance(model, OfMessages) and model.source == source and model.smallest:
            has_base = model.below is not None  # type: ignore[attr-defined]
            whose = f"stay {base}'s" if has_base else "are extrapolated: their latency is not known"
            yield f"{name} was timed from {model.smallest / 2**20:.4g} MiB on; smaller messages {whose}"
