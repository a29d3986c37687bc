"""One measured speed of an engine, CSV files of them, and the noise between repeats of one setting."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os.path import exists, expanduser
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

import numpy as np
from msgspec import Meta
from msgspec.structs import fields

from ssdsim import strategies
from ssdsim.base.card import Card, NotNegative
from ssdsim.base.documents import as_record, read_text
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.intervals import student_quantile
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import HARDWARE, TRANSFORMERS
from ssdsim.hardware.runtime_catalog import RUNTIMES
from ssdsim.readers.row_options import TELL_TOKENS, RowOptions, as_cell, check_owned, option_columns, read_options
from ssdsim.tokens.drafter_card import DRAFTERS
from ssdsim.transformer.recurrences import StateDtype, StateKeeping

Metric = Literal["step_ms", "tpot_ms", "latency_s", "tokens_per_s"]
METRICS: tuple[str, ...] = get_args(Metric)

Tokens = Annotated[float, Meta(ge=0.0, le=1e8)]
Whole = Annotated[int, Meta(ge=1, le=10**6)]


class Row(Card):
    """Speed at which ``engine`` was seen to decode.

    ``metric`` says what ``value`` is: ``step_ms``, a decoding step (a round of speculation) at a steady batch;
    ``tpot_ms``, milliseconds a token of a request that is served, so that prompts of other requests are processed in
    between; ``latency_s``, a whole static batch with its prefill; ``tokens_per_s``, output of all requests together
    while they are served. ``batch`` is the sequences in flight (the concurrency). ``input_tokens`` and
    ``output_tokens`` are means over requests. With ``k`` drafted tokens a round, ``acceptance_length`` are the tokens
    that a round yields (bonus token included). ``drafter`` proposes them (``model``, ``eagle3``, ``mtp``, ...) and
    ``draft`` names its card (``draft_dtype`` its format, where it is not the target's); with neither it is a head of
    the target. Where a round verifies a tree, ``k`` are its levels, of each of which the draft goes on from the
    ``tree_beam`` likeliest nodes, and ``tree_nodes`` are verified (without the root): of SGLang the steps, the top k,
    and the draft tokens less one.

    ``strategy`` is the one that ran, by its name: where it is left out, SD with ``k``, a tree with ``tree_nodes``, else
    AR. ``options`` are what else it was told, each a column of its own (``p_hit``, ``f``, ``backup``, ``alpha``, ...).

    Experts lie in ``ep`` groups of the ``tp`` devices, of which ``dcp`` share each sequence's cache. Of recurrent
    layers, ``state_dtype`` is their states' and ``states`` what the engine keeps of them, where it was told to do
    otherwise than it does by itself.

    What else was seen stands beside: the ``repeat`` that a row is of its setting; the mean ``ttft_ms`` and ``itl_ms``
    (of the gaps between messages), ``output_tokens_per_s`` of all requests; ``rounds`` that drafted,
    ``undrafted_rounds`` that drafted nothing, and of those that did ``drafted_per_round`` and ``accepted_by_position``,
    as shares of them.

    Rows of one ``series`` (one source, engine version, model, dtype, GPU and degrees) share what is wrong with them.
    """

    model: Annotated[str, Meta(min_length=1)]
    hardware: Annotated[str, Meta(min_length=1)]
    tp: Whole = 1
    ep: Whole = 1
    dcp: Whole = 1
    batch: Whole
    input_tokens: Tokens
    output_tokens: Annotated[float, Meta(ge=1.0, le=1e8)]
    metric: Metric
    value: Annotated[float, Meta(ge=1e-9, le=1e12)]
    engine: str = ""
    engine_version: str = ""
    dtype: str | None = None
    kv_dtype: str | None = None
    state_dtype: StateDtype | None = None
    states: StateKeeping | None = None
    draft: str | None = None
    draft_dtype: str | None = None
    drafter: str | None = None
    k: Whole | None = None
    tree_nodes: Whole | None = None
    tree_beam: Whole | None = None
    acceptance_length: Annotated[float, Meta(ge=1.0, le=1001.0)] | None = None
    strategy: str | None = None
    options: RowOptions = ()
    source: str = ""
    series: str = ""
    repeat: Whole | None = None
    ttft_ms: NotNegative | None = None
    itl_ms: NotNegative | None = None
    output_tokens_per_s: NotNegative | None = None
    rounds: NotNegative | None = None
    undrafted_rounds: NotNegative | None = None
    drafted_per_round: NotNegative | None = None
    accepted_by_position: tuple[Annotated[float, Meta(ge=0.0, le=1.0)], ...] | None = None

    def __post_init__(self) -> None:
        told = self.acceptance_length is not None or any(name in TELL_TOKENS for name, _ in self.options)
        if self.k is not None and not told and self.metric != "step_ms":
            raise ValueError(
                f"acceptance_length (or {', '.join(sorted(TELL_TOKENS))}) is needed beside k (but for step_ms), got k "
                f"{self.k} alone"
            )
        if self.strategy is not None and strategies.ALL.named(self.strategy).drafts != (self.k is not None):
            needs = "needs k, the tokens drafted a round" if self.k is None else f"drafts nothing, got k {self.k}"
            raise ValueError(f"strategy {self.strategy} {needs}")
        check_owned(self.options, self.run)
        given = [name for name in ("k", "tree_nodes", "tree_beam") if getattr(self, name) is not None]
        if given not in ([], ["k"], ["k", "tree_nodes", "tree_beam"]):
            raise ValueError(f"a tree needs k, tree_nodes and tree_beam, got {' and '.join(given)} alone")

    @property
    def series_name(self) -> str:
        """The series, or what makes one where none is given."""
        parts = (self.source, self.engine, self.engine_version, self.model, self.dtype, self.hardware, self.tp)
        apart = tuple(f"{name} {degree}" for name, degree in (("ep", self.ep), ("dcp", self.dcp)) if degree > 1)
        proposed = "k" if self.tree_nodes is None else "trees"
        named = self.strategy if self.k and self.strategy not in ("sd", "tree") else None
        method = (*filter(None, [named]), f"{proposed} from {self.draft or self.drafter or 'a head'}") if self.k else ()
        return self.series or " ".join(str(part) for part in (*parts, *apart, *method) if part)

    @property
    def run(self) -> str:
        """The name of the strategy that ran."""
        return self.strategy or ("ar" if self.k is None else "sd" if self.tree_nodes is None else "tree")

    @property
    def stated_version(self) -> str:
        """The engine's version, empty where the row says that nobody stated it."""
        return "" if self.engine_version.startswith("not ") else self.engine_version

    @property
    def found(self) -> float | None:
        """The share of rounds that drafted anything; None where it is not said."""
        if not self.rounds or self.undrafted_rounds is None:
            return None
        return self.rounds / (self.rounds + self.undrafted_rounds)

    @property
    def has_head(self) -> bool:
        """Say whether the engine speculates with something else than a model of its own."""
        return self.k is not None and (self.drafter != "model" if self.drafter else self.draft is None)

    @property
    def waits_for_prompts(self) -> bool:
        """Say whether the value holds some prompts of others, and not all prompts, its own included."""
        return self.metric == "tpot_ms"

    @property
    def context(self) -> int:
        """Cached tokens of a sequence, on average over its decoding."""
        return max(1, round(self.input_tokens + self.output_tokens / 2.0))


_LISTS = ("accepted_by_position",)
"""Cells of several numbers, with blanks between them."""
COLUMNS = tuple(name for name in Row.__struct_fields__ if name != "options")
REQUIRED = tuple(each.name for each in fields(Row) if each.required)
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def read_rows(path: str | Path, given: Mapping[str, Any] = _NOTHING) -> list[Row]:
    """The rows of a CSV file with :data:`COLUMNS`, of which :data:`REQUIRED` must be there, and options of strategies.

    An empty cell counts as not given. ``given`` has values of columns that the file leaves out, the same in every row.
    """
    path = Path(path)
    text = read_text(path, "CSV file")
    try:
        rows = list(_rows(path, csv.DictReader(io.StringIO(text, newline="")), given))
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV file ({error})") from None
    if not rows:
        raise InputError(f"{path}: no row in it")
    return rows


def check_columns(names: Iterable[str], where: str = "") -> None:
    """Raise :class:`InputError` at a name that is neither a column nor an option of a strategy."""
    options = option_columns()
    for name in names:
        if name not in COLUMNS and name not in options:
            raise InputError(
                f"{where}unknown column '{name}'{nearest(name, (*COLUMNS, *options))} Allowed: {', '.join(COLUMNS)}; "
                "and the options of strategies, of acceptance and of hits (ssdsim predict --help)"
            )


def made_row(said: Mapping[str, Any], where: str) -> Row:
    """A row of its columns, options of strategies among them; numbers may be text."""
    own, options = {name: value for name, value in said.items() if name in COLUMNS}, read_options(said, where)
    row = as_record(Row, own | {"options": options}, where, "row", written=True)
    return row.changed(options=options) if options else row  # whose lists are tuples


def _rows(path: Path, reader: csv.DictReader[str], given: Mapping[str, Any]) -> Iterator[Row]:
    names = [name.strip() for name in reader.fieldnames or ()]
    check_columns(names, f"{path}: ")
    for name in REQUIRED:
        if name not in names and name not in given:
            raise InputError(f"{path}: lacks the column '{name}'; needed: {', '.join(REQUIRED)}")
    reader.fieldnames = names
    filled = {name: value for name, value in given.items() if name not in names}
    for record in reader:
        where = f"{path} line {reader.line_num}"
        if None in record or None in record.values():
            raise InputError(f"{where}: {len(names)} cells expected")
        cells = {name: cell.strip().split() if name in _LISTS else cell.strip() for name, cell in record.items()}
        given_too = filled | {name: cell for name, cell in cells.items() if cell}
        _check_names(cells, given, where)
        yield made_row(given_too, where)


def _check_names(cells: Mapping[str, Any], given: Mapping[str, Any], where: str) -> None:
    """Raise :class:`InputError` where a row names a file that is not named beside the rows, too.

    Rows come from others: what they name is a card, and nothing on this disk is read because they say so.
    """
    for name in _CARDS:
        said = cells.get(name)
        if said and said != given.get(name) and exists(expanduser(said)) and not _is_card(said):
            raise InputError(f"{where}: {name} '{said}' is a file, and rows name cards: give --{name} {said}, too")


def _is_card(said: str) -> bool:
    called = said.lower().replace("_", "-")
    return any(called in shelf.names() for shelf in (HARDWARE, TRANSFORMERS, RUNTIMES, DRAFTERS))


def write_rows(rows: Iterable[Row], path: Path) -> None:
    """Write a CSV file that :func:`read_rows` reads."""
    rows = list(rows)
    told = {name for row in rows for name, _ in row.options}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, (*COLUMNS, *(name for name in option_columns() if name in told)))
        writer.writeheader()
        writer.writerows(_cells(row) for row in rows)


def _cells(row: Row) -> dict[str, Any]:
    """The cells of a row, as :func:`read_rows` reads them."""
    said = {name: value for name, value in row.as_dict().items() if value is not None and name in COLUMNS}
    own = {name: " ".join(map(str, value)) if name in _LISTS else value for name, value in said.items()}
    return own | {name: as_cell(value) for name, value in row.options}


_CARDS = ("hardware", "model", "draft", "engine")
"""Columns that name cards."""
_SEEN = {"value", "repeat", "ttft_ms", "itl_ms", "output_tokens_per_s", "input_tokens", "output_tokens"}
_SEEN |= {"acceptance_length", "rounds", "undrafted_rounds", "drafted_per_round", "accepted_by_position"}
"""Columns that are no part of a setting."""
_AS_LONG = 0.15
"""Prompts whose lengths differ by less were asked for alike."""


class Repeated(Record):
    """The rows of one setting, a repeat each."""

    rows: tuple[Row, ...]

    @property
    def mean(self) -> float:
        return float(np.mean([row.value for row in self.rows]))

    @property
    def noise(self) -> float | None:
        """Standard deviation of a repeat's logarithm, about a share of the mean; None of a single one."""
        return float(np.std(self._logs, ddof=1)) if len(self.rows) > 1 else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Student's 95 % interval, of the mean logarithm: what takes time takes more than none."""
        if self.noise is None:
            return None
        count, middle = len(self.rows), float(np.mean(self._logs))
        half = student_quantile(0.95, count - 1) * self.noise / math.sqrt(count)
        return math.exp(middle - half), math.exp(middle + half)

    @property
    def _logs(self) -> list[float]:
        return [math.log(row.value) for row in self.rows]


def repeated(rows: Sequence[Row]) -> list[Repeated]:
    """The rows by setting, in the order in which they first come; prompts of about a length are of one."""
    by_setting: dict[tuple[object, ...], list[list[Row]]] = {}
    for row in rows:
        setting = tuple(value for name, value in row.as_dict().items() if name not in _SEEN)
        alike = by_setting.setdefault((*setting, round(row.output_tokens)), [])
        own = next((each for each in alike if _as_long(each[0], row)), None)
        if own is None:
            alike.append([row])
        else:
            own.append(row)
    return [Repeated(tuple(each)) for alike in by_setting.values() for each in alike]


def _as_long(one: Row, other: Row) -> bool:
    return abs(one.input_tokens - other.input_tokens) <= _AS_LONG * max(one.input_tokens, other.input_tokens)


def noise_of(settings: Sequence[Repeated]) -> float | None:
    """Noise of a repeat over all settings, weighted by what each tells of it; None where nothing was repeated."""
    told = [(len(each.rows) - 1, each.noise) for each in settings if each.noise is not None]
    degrees = sum(weight for weight, _ in told)
    return math.sqrt(sum(weight * noise**2 for weight, noise in told) / degrees) if degrees else None
