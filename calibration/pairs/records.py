"""Collected records: the numbers kept of each position of an answer, and the folder that holds them.

A folder has a header and one Parquet file an answer, which a kill cannot spoil.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import asdict
from numpy.typing import NDArray

from ssdsim.base.card import Card, NotNegative
from ssdsim.base.documents import as_record, read_json
from ssdsim.base.errors import InputError
from ssdsim.base.files import write_whole
from ssdsim.base.parquet import read_table, write_table
from ssdsim.base.plain import picked
from ssdsim.base.record import Record, replace

Floats = NDArray[np.float32]
Whole = NDArray[np.int32]

SCALES = np.array([1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0])
"""Factors by which Saguaro's rescaling can lift the draft's tail; between them the overlap is a straight line."""


class Positions(Record):
    """``n`` positions of one answer, its first token included; token ids only where they may be kept.

    ``p``, ``q`` are the probabilities of the token that came, ``rank`` is how many tokens the draft holds likelier,
    ``target_rank`` how many the target does. ``above`` is the share of the rejected token's mass that ranks above the
    token that came, ``overlap`` is sum min(p, q), ``entropy`` the target's in nats. ``top_*``, shape ``(n, top)``, are
    the draft's likeliest tokens and both models' probabilities of them. ``tail_overlap[:, i]`` is
    sum min(p, SCALES[i] q) over all the other tokens: with it Saguaro's C needs no second pass.
    """

    token: Whole
    p: Floats
    q: Floats
    rank: Whole
    target_rank: Whole
    above: Floats
    overlap: Floats
    entropy: Floats
    top_ids: Whole
    top_q: Floats
    top_p: Floats
    tail_overlap: Floats

    def __len__(self) -> int:
        return len(self.p)

    @classmethod
    def joined(cls, parts: list[Positions]) -> Positions:
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__struct_fields__))


_HEADER = "measurement.json"
_SCHEMA = 1


class RecordedAnswer(Record):
    """An answer and the numbers of its positions. ``prompt`` is empty where tokens may not be kept."""

    id: str
    data_set: str
    temperature: float
    prompt: tuple[int, ...]
    prompt_tokens: int
    finish: str
    seed: int
    positions: Positions

    def __len__(self) -> int:
        return len(self.positions)

    def without_tokens(self) -> RecordedAnswer:
        """The numbers alone, as nobody may read what was asked and answered."""
        blank = replace(
            self.positions,
            token=np.full_like(self.positions.token, -1),
            top_ids=np.full_like(self.positions.top_ids, -1),
        )
        return replace(self, prompt=(), positions=blank)

    @property
    def has_tokens(self) -> bool:
        return len(self.prompt) > 0 or self.prompt_tokens == 0


class _About(Card):
    """A :class:`RecordedAnswer` without its positions, as a file has it."""

    id: str
    data_set: str
    temperature: NotNegative
    prompt: tuple[int, ...]
    prompt_tokens: int
    finish: str
    seed: int


class RecordFolder(Record):
    """``measurement.json`` says which models and settings; ``<temperature>/<request>.parquet`` are the answers."""

    path: Path

    def open(self, header: Mapping[str, Any]) -> None:
        """Begin, or go on with what an earlier run left."""
        file = self.path / _HEADER
        asked = json.loads(json.dumps({"schema": _SCHEMA, **header}))
        if file.exists():
            differing = [key for key, value in asked.items() if self.header.get(key) != value]
            if differing:
                raise InputError(f"{self.path}: measured with another {differing[0]}; remove the folder or use -o")
            return
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(asked, indent=1) + "\n")

    @property
    def header(self) -> dict[str, Any]:
        """Models and settings."""
        file = self.path / _HEADER
        if not file.is_file():
            raise InputError(f"{self.path}: no measurement there: {_HEADER} is missing")
        document = read_json(file, "measurement")
        if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
            raise InputError(f"{file}: written by another version of ssdsim; measure again")
        return document

    def has(self, id_: str, temperature: float) -> bool:
        return self._file(id_, temperature).is_file()

    def add(self, request: RecordedAnswer) -> None:
        """Write an answer, whole or not at all."""
        file = self._file(request.id, request.temperature)
        file.parent.mkdir(exist_ok=True)
        # hardly a number comes twice: with dictionaries files are larger, and take longer
        write_table(_table(request), file, compression="zstd", use_dictionary=False)

    def requests(self) -> Iterator[RecordedAnswer]:
        """Every answer, by temperature and id."""
        files = sorted(self.path.glob("t*/*.parquet"))
        if not files:
            raise InputError(f"{self.path}: no answer was collected")
        yield from map(_request, files)

    def _file(self, id_: str, temperature: float) -> Path:
        return self.path / f"t{temperature:g}" / f"{id_}.parquet"


def _table(request: RecordedAnswer) -> pa.Table:
    columns = {name: _column(getattr(request.positions, name)) for name in Positions.__struct_fields__}
    about = picked(request, *_About.__struct_fields__)
    return pa.table(columns).replace_schema_metadata({"request": json.dumps(about)})


def _column(values: Any) -> pa.Array:
    """The values as they lie in memory: :func:`pyarrow.array` would import pandas, to ask whether they are a series."""
    flat = np.ascontiguousarray(values).ravel()
    column = pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), flat.size, [None, pa.py_buffer(flat)])
    return column if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(column, values.shape[1])


def _request(file: Path) -> RecordedAnswer:
    try:
        table = read_table(file)
        about = json.loads(table.schema.metadata[b"request"])
        arrays = {name: _values(table.column(name)) for name in Positions.__struct_fields__}
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file}: not a readable answer ({error}); remove it and measure again") from None
    said = as_record(_About, about, file, "request")
    return RecordedAnswer(positions=Positions(**arrays), **asdict(said))


def _values(column: pa.ChunkedArray) -> Any:
    whole = column.combine_chunks()
    if pa.types.is_fixed_size_list(whole.type):
        return np.from_dlpack(whole.flatten()).reshape(-1, whole.type.list_size)
    return np.from_dlpack(whole)
