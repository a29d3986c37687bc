"""Log of requests, whatever tool wrote it, and its plainest sources: CSV tables of traces, and conversations."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from ssdsim.base.card import Excerpt
from ssdsim.base.checks import Array
from ssdsim.base.documents import as_records, read_json
from ssdsim.base.errors import InputError
from ssdsim.base.extras import install
from ssdsim.base.record import Record, replace

if TYPE_CHECKING:
    import pandas as pd

MOST_TOKENS = 10**8
"""The most tokens of a prompt or of an answer."""
LATEST = 1e15
"""Seconds: a clock of nanoseconds since 1970 that was taken for one of seconds is beyond."""

TimeUnit = Literal["s", "ms"]
_SINCE_1970_MS = 1e11
"""Arrivals beyond are milliseconds since 1970: as seconds they were later than the year 5000."""

Tokens = Annotated[float, Meta(ge=0.0, le=MOST_TOKENS)]
Milliseconds = Annotated[float, Meta(ge=-LATEST, le=LATEST)]
Seconds = Annotated[float, Meta(ge=-LATEST, le=LATEST)]


class RequestLog(Record):
    """A line a request: ``arrival_s`` (None where the file does not say), ``input_tokens``, ``output_tokens``.

    ``assumed_unit`` is the unit in which arrivals were read, where the file does not say. ``concurrency`` is what the
    file says were in flight, where it names no arrivals. ``notes`` say what was left out, or taken for something else.
    """

    form: str
    arrival_s: Array | None
    input_tokens: Array
    output_tokens: Array
    assumed_unit: TimeUnit | None = None
    concurrency: int | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        columns = {"arrivals": (self.arrival_s, LATEST), "input tokens": (self.input_tokens, MOST_TOKENS)}
        columns["output tokens"] = self.output_tokens, MOST_TOKENS
        for name, (values, most) in columns.items():
            if values is not None and (beyond := values[np.abs(values) > most]).size:
                raise InputError(f"{self.form}: {name} must be at most {most:g}, got {beyond[0]:g}")


class _Form(Record):
    """Columns of a trace: of arrivals (any of some names), which must be there where they are ``timed``, of prompts and
    of answers. Arrivals are dates or numbers: seconds, if nobody says otherwise.
    """

    name: str
    arrivals: tuple[str, ...]
    inputs: str
    outputs: str
    timed: bool = False

    @property
    def needed(self) -> frozenset[str]:
        return frozenset({self.inputs, self.outputs, *(self.arrivals if self.timed else [])})


_FORMS = (
    _Form("Azure", ("TIMESTAMP",), "ContextTokens", "GeneratedTokens", timed=True),
    _Form("BurstGPT", ("Timestamp",), "Request tokens", "Response tokens", timed=True),
    _Form("Vidur", ("arrived_at",), "num_prefill_tokens", "num_decode_tokens"),
    _Form("plain", ("arrival_s", "timestamp"), "input_tokens", "output_tokens"),
    _Form("plain", ("timestamp", "created", "arrival_s"), "prompt_tokens", "completion_tokens"),
)


def read_table(text: str, path: Path) -> RequestLog:
    """The CSV of a file whose header is known."""
    import pandas as pd

    try:
        frame = pd.read_csv(io.BytesIO(text.encode()), dtype=str, keep_default_na=False, skipinitialspace=True)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"{path}: not a CSV file ({error})") from None
    columns = {str(name).strip(): frame[name] for name in frame.columns}
    for form in _FORMS:
        if form.needed <= columns.keys():
            at = next((name for name in form.arrivals if name in columns), None)
            times, dated = (None, False) if at is None else _arrivals(columns[at], at, str(path))
            inputs, outputs = (_numbers(columns[name], name, str(path)) for name in (form.inputs, form.outputs))
            return RequestLog(form.name, times, inputs, outputs, None if dated or times is None else "s")
    for sign, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(columns) == 1 and sign in next(iter(columns)):
            raise InputError(f"{path}: its columns are parted by {name}; write them with commas")
    known = "; ".join(f"{form.name}: {', '.join(sorted(form.needed))}" for form in _FORMS)
    raise InputError(f"{path}: no known columns ({', '.join(columns)}). Known: {known}")


def arrival_columns(form: str) -> Sequence[str]:
    """Columns of arrivals that a table of a form may have; none of other files."""
    return tuple(dict.fromkeys(name for each in _FORMS if each.name == form for name in each.arrivals))


def in_seconds(log: RequestLog, unit: TimeUnit | None = None) -> RequestLog:
    """Copy a log whose arrivals were read in another ``unit``; nobody's word, and arrivals that are milliseconds since
    1970, make these.
    """
    if log.arrival_s is None or log.assumed_unit is None:
        return log
    if unit is None and log.assumed_unit == "s" and np.nanmin(np.abs(log.arrival_s), initial=np.inf) > _SINCE_1970_MS:
        unit = "ms"
    if unit is None or unit == log.assumed_unit:
        return log
    return replace(log, arrival_s=log.arrival_s * (1e3 if unit == "s" else 1e-3), assumed_unit=unit)


def _arrivals(column: pd.Series[str], name: str, where: str) -> tuple[Array, bool]:
    """Arrivals as they are written, or seconds since the first of them, where they are dates (which it says)."""
    import pandas as pd

    first = next((text for text in column if text.strip()), "0")
    if "-" not in first.strip()[1:] or "e-" in first.lower():
        return _numbers(column, name, where), False
    try:
        times = pd.to_datetime(column, format="ISO8601", utc=True)
    except ValueError as error:
        raise InputError(f"{where}: {name}: {error}") from None
    return np.asarray((times - times.min()).dt.total_seconds(), dtype=np.float64), True


def _numbers(column: pd.Series[str], name: str, where: str) -> Array:
    """A column of numbers; an empty cell is NaN."""
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce").to_numpy(float)
    wrong = np.flatnonzero(np.isnan(numbers) & (column.str.strip() != "").to_numpy())
    if wrong.size:
        line = int(wrong[0])
        raise InputError(f"{where} line {line + 2}: {name} must be a number, got '{column.iloc[line]}'")
    return numbers


LEAST, MOST_PROMPT, MOST = 4, 1024, 2048
"""Tokens of a prompt and of an answer at least, of a prompt at most, of both at most: vLLM's filter."""


def read_conversations(records: Sequence[Mapping[str, Any]], where: str, tokenizer: Path | None) -> RequestLog:
    """A request a conversation: its first turn is the prompt, the second one the answer. They have no arrivals."""
    given = {number: record.get("conversations") for number, record in enumerate(records, 1)}
    firsts = {n: {"conversations": turns[:2] if isinstance(turns, list) else turns or []} for n, turns in given.items()}
    read = as_records(_Conversation, firsts, where, "conversation")
    texts = [turn.text for each in read if len(each.conversations) == 2 for turn in each.conversations]
    if not texts:
        raise InputError(f"{where}: no conversation of two turns in it")
    lengths = np.array(_counted(texts, where, tokenizer), dtype=float).reshape(-1, 2)
    prompts, answers = lengths.T
    keep = (prompts >= LEAST) & (answers >= LEAST) & (prompts <= MOST_PROMPT) & (prompts + answers <= MOST)
    if not keep.any():
        raise InputError(f"{where}: every conversation is shorter or longer than vLLM's benchmark takes")
    out = len(records) - int(keep.sum())
    notes = [f"{out} of {len(records)} conversations are too short or too long: left out, as vLLM does"] if out else []
    return RequestLog("ShareGPT", None, prompts[keep], answers[keep], notes=tuple(notes))


class _Turn(Excerpt):
    """Turn of one of the two, under one of two names."""

    value: str | None = None
    content: str | None = None

    def __post_init__(self) -> None:
        if self.value is None and self.content is None:
            raise ValueError("lacks value")

    @property
    def text(self) -> str:
        return self.value or self.content or ""


class _Conversation(Excerpt):
    conversations: tuple[_Turn, ...]


def _counted(texts: Sequence[str], where: str, tokenizer: Path | None) -> list[int]:
    if tokenizer is None:
        raise InputError(f"{where}: conversations are text; give the model's --tokenizer tokenizer.json")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise InputError(f"--tokenizer needs tokenizers: {install('measure')}") from None
    data = read_json(tokenizer, "tokenizer")
    if not isinstance(data, dict) or not isinstance(data.get("model"), dict):
        raise InputError(f"--tokenizer {tokenizer}: no tokenizer.json of Hugging Face (it has no model)")
    try:
        encoder = Tokenizer.from_str(json.dumps(data))
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"--tokenizer {tokenizer}: no tokenizer that can be read ({error})") from None
    return [len(each.ids) for each in encoder.encode_batch(list(texts))]
