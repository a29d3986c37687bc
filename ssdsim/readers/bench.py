"""Base of the readers of engines' own result files: checked numbers, and what the files leave to who asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from os.path import exists
from typing import Any

from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_transformer, transformer_names
from ssdsim.readers.row import Row, made_row
from ssdsim.transformer.card import Transformer

_LEAST, _MOST = 1e-12, 1e12

JsonObject = Mapping[str, Any]
RowDefaults = Mapping[str, Any]
"""Values of columns of a row, for what a file does not say."""


class Format(Record):
    """One engine's result file: ``knows`` tells its records, ``rows_of`` makes rows of one (record, given, where).

    A record may be several benchmarks, or none of decoding.
    """

    name: str
    knows: Callable[[JsonObject], bool]
    rows_of: Callable[[JsonObject, RowDefaults, str], Sequence[Row]]


def has(*keys: str) -> Callable[[JsonObject], bool]:
    """Tell records by the keys that all of them have."""
    return lambda record: set(keys) <= record.keys()


def one(
    row_of: Callable[[JsonObject, RowDefaults, str], Row],
) -> Callable[[JsonObject, RowDefaults, str], Sequence[Row]]:
    """The reader of an engine whose records are one benchmark each."""
    return lambda record, given, where: (row_of(record, given, where),)


def number(record: JsonObject, key: str, where: str) -> float:
    """A positive number, of a size that a benchmark may have."""
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not _LEAST <= value <= _MOST:
        raise InputError(f"{where}: {key} must be a number above 0, got {short_repr(value)}")
    return float(value)


def part_of(record: JsonObject, key: str, where: str) -> JsonObject:
    """The object under ``key``."""
    value = record.get(key)
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: {key} must be an object, got {short_repr(value)}")
    return value


def mean_tokens(record: JsonObject, where: str) -> dict[str, float]:
    """Input and output tokens of a request, from totals over the completed ones."""
    requests = number(record, "completed", where)
    inputs, outputs = (number(record, f"total_{which}_tokens", where) for which in ("input", "output"))
    return {"input_tokens": inputs / requests, "output_tokens": max(1.0, outputs / requests)}


def in_flight(record: JsonObject, given: RowDefaults, where: str) -> int:
    """Sequences in flight: ``max_concurrency``, of which there are no more than requests, or what is given.

    Where requests came at a rate, or without a bound, the mean number of them follows from how long they took.
    """
    rate, most = record.get("request_rate"), record.get("max_concurrency")
    paced = isinstance(rate, int) or (isinstance(rate, float) and math.isfinite(rate))
    if most is not None and not paced:
        return int(min(number(record, "max_concurrency", where), number(record, "completed", where)))
    if "batch" in given:
        return int(given["batch"])
    mean = _mean_in_flight(record, where)
    if mean is not None:
        return max(1, round(mean))
    why = f"requests came at {rate}/s" if paced else "it has no max_concurrency"
    raise InputError(f"{where}: does not say how many sequences were in flight ({why}); give them by --batch")


def _mean_in_flight(record: JsonObject, where: str) -> float | None:
    """The mean by Little's law: requests a second, times the seconds of one; None where a benchmark says not both."""
    if not all(record.get(name) for name in ("completed", "duration", "mean_ttft_ms", "mean_tpot_ms")):
        return None
    gaps = mean_tokens(record, where)["output_tokens"] - 1.0
    seconds = 1e-3 * (number(record, "mean_ttft_ms", where) + gaps * number(record, "mean_tpot_ms", where))
    return number(record, "completed", where) / number(record, "duration", where) * seconds


def model_in(said: object, given: RowDefaults, where: str) -> str:
    """The model's card: the one that the file names, or the given one where it names none or one that is not here.

    A folder tells only its own machine which model it holds: the given card stands for it.
    """
    if isinstance(said, str) and said:
        try:
            card = find_transformer(said)
        except InputError:
            if "model" not in given:
                raise InputError(
                    f"{where}: no card is called '{short_repr(said)[1:-1]}'; give one by --model"
                ) from None
        else:
            if card.name in transformer_names() and not exists(said):
                return card.name if card == find_transformer(card.name) else said
            if "model" not in given:
                return said
            _check_shape(card, find_transformer(given["model"]), where)
    if "model" not in given:
        raise InputError(f"{where}: does not say the model; give its card by --model")
    return str(given["model"])


_SHAPE = ("hidden_size", "layers", "heads", "kv_heads", "intermediate_size", "vocab_size")


def _check_shape(seen: Transformer, card: Transformer, where: str) -> None:
    for name in _SHAPE:
        one, other = getattr(seen, name), getattr(card, name)
        if one != other:
            raise InputError(f"{where}: the model that was loaded has {name} {one}, --model {card.name} has {other}")


def speculation(own_k: int | None, own_length: float | None, given: RowDefaults, where: str) -> dict[str, Any]:
    """``k``, ``acceptance_length``, ``draft`` and ``drafter`` of a run that speculated; empty of one that did not."""
    k = given.get("k") if own_k is None else own_k
    length = given.get("acceptance_length") if own_length is None else own_length
    if k is None and own_length is None:
        return {}
    if k is None:
        raise InputError(f"{where}: the run speculated, but not how many tokens a round; give them by --k")
    if length is None:
        raise InputError(f"{where}: does not say how many tokens a round yielded; give them by --acceptance-length")
    return {"k": k, "acceptance_length": float(length), **{name: given.get(name) for name in ("draft", "drafter")}}


def served_row(
    record: JsonObject,
    given: RowDefaults,
    where: str,
    model: object,
    engine: str,
    said: tuple[int | None, float | None],
) -> Row:
    """The row of one run of a server's client: the mean time per output token at its concurrency.

    ``said`` of the file are the model, the engine, and tokens drafted and yielded by a round of one that speculated.
    """
    fields = {
        "model": model_in(model, given, where),
        "batch": in_flight(record, given, where),
        **mean_tokens(record, where),
        "metric": "tpot_ms",
        "value": number(record, "mean_tpot_ms", where),
        "engine": engine,
        **speculation(*said, given, where),
    }
    return bench_row(fields, given, where)


def bench_row(fields: Mapping[str, Any], given: RowDefaults, where: str) -> Row:
    """A row of what a file says (None counts as not said), and of what is given for the rest."""
    said = {name: value for name, value in fields.items() if value is not None}
    filled = {
        name: given[name] for name in ("hardware", "tp", "dtype", "kv_dtype", "source", "series") if name in given
    }
    if "hardware" not in filled:
        raise InputError(f"{where}: does not say the hardware; give its profile by --hardware")
    return made_row({**filled, **said}, where)
