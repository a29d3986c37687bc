"""Convert data to cards, numbers and lists; one line says the first mistake: its key, and what is allowed."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from msgspec import Meta, Struct, ValidationError, convert, structs

from ssdsim.base.errors import nearest, short_repr

Read = TypeVar("Read")


class FieldError(ValueError):
    """An error of ``__post_init__`` about one field."""

    def __init__(self, key: str, said: str) -> None:
        super().__init__(f"{key}: {said}")
        self.key, self.said = key, said


class EitherCard(type):
    """Metaclass of a field's type that stands for several cards: ``card`` chooses one by the keys in the data."""

    def __instancecheck__(cls, instance: object) -> bool:
        return type(instance) is cls.card(instance)  # type: ignore[attr-defined]


def converted(kind: type[Read], data: Any, *, written: bool = False) -> Read:
    """``data`` as a ``kind``; numbers may be text where they are ``written``, as keys always may."""
    try:
        return convert(data, kind, str_keys=True, dec_hook=_chosen_card)
    except ValidationError:
        if not written:
            raise
        return convert(_read(kind, data), kind, str_keys=True, dec_hook=_chosen_card)


def _chosen_card(kind: Any, data: Any) -> Any:
    """One of the cards that an :class:`EitherCard` stands for."""
    chosen = kind.card(data)
    return data if type(data) is chosen else converted(chosen, data)


def _read(kind: Any, data: Any) -> Any:
    """``data`` with numbers where a ``kind`` has numbers and the data has their text."""
    kind = _main_type(kind, data)[0]
    parts = {key: _read(part, value) for key, part, value in _parts(kind, data) if value is not _MISSING}
    match data:
        case dict():
            of_key = get_args(kind)[0] if get_origin(kind) is dict else str
            return {_read(of_key, key): parts.get(key, value) for key, value in data.items()}
        case list() | tuple():
            return [parts.get(place, value) for place, value in enumerate(data)]
        case str() if kind in (int, float):
            with suppress(ValueError):
                return float(data) if kind is float else int(_ZEROS.sub("", data))
        case float() if kind is int and data.is_integer():
            return int(data)
    return data


_ZEROS = re.compile(r"(?<=\d)\.0+\s*$")
"""What the text of an integer may end with."""


def complaint(kind: Any, data: Any, what: str, written: bool = False) -> str:
    """A line on the first mistake in ``data``: its key, or ``what`` the whole is called, and a sentence."""
    keys, said = _mistake(kind, data, written) or ((), "is not valid")
    return f"{'.'.join(map(str, keys)) or what}: {said}"


def _mistake(kind: Any, data: Any, written: bool) -> tuple[tuple[Any, ...], str] | None:
    """Keys from the outermost on, and a sentence."""
    failed = _failure(kind, data, written)
    if failed is None:
        return None
    card = _main_type(kind, data)[0]
    unknown = _unknown(card, data)
    if unknown:
        return (), unknown
    if get_origin(card) is dict and isinstance(data, Mapping):
        of_key = get_args(card)[0]
        for key in data:
            if _failure(dict[of_key, Any], {key: None}, written):  # type: ignore[valid-type]
                return (key,), _wrong_value(of_key, key, written=True)
    whole = _too_long(card, data) or _wrong_tag(card, data)
    for key, part, value in () if whole else _parts(card, data):
        inner = None if value is _MISSING else _mistake(part, value, written)
        if inner:
            return (key, *inner[0]), inner[1]
    if lacking := "" if whole else _lacking(card, data):
        return (), lacking
    if not _is_card(card, data):
        return (), _with_value(whole, data) if whole else _wrong_value(kind, data, written)
    of_field = failed.__cause__
    return ((of_field.key,), of_field.said) if isinstance(of_field, FieldError) else ((), str(failed))


def _failure(kind: Any, data: Any, written: bool) -> ValidationError | None:
    try:
        converted(kind, data, written=written)
    except ValidationError as error:
        return error
    return None


def _main_type(kind: Any, data: Any) -> tuple[Any, list[Meta]]:
    """A type without its bounds, and the bounds. Of a union, the member that ``data`` fits best."""
    bounds: list[Meta] = []
    while get_origin(kind) in (Annotated, Union, UnionType):
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            bounds = [each for each in more if isinstance(each, Meta)] + bounds
            continue
        parts = [part for part in get_args(kind) if part is not NoneType]
        likely = parts if len(parts) == 1 else [part for part in parts if _has_tag(part, data)]
        if not likely:
            break
        kind = likely[0]
    return (kind.card(data) if isinstance(kind, EitherCard) else kind), bounds  # type: ignore[attr-defined]


def _has_tag(kind: Any, data: Any) -> bool:
    """Whether the data has the tag of a card."""
    config = kind.__struct_config__ if _is_card(kind, data) else None
    return bool(config and config.tag and data.get(config.tag_field) == config.tag)


_MISSING = object()


def _is_card(kind: Any, data: Any) -> bool:
    """Whether a type is a card's, and the data has keys as a card has."""
    return isinstance(kind, type) and issubclass(kind, Struct) and isinstance(data, Mapping)


fields = cache(structs.fields)


def _parts(kind: Any, data: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The parts of a compound: key, type and value of each."""
    origin, args = get_origin(kind), get_args(kind)
    if _is_card(kind, data):
        for each in fields(kind):
            if each.encode_name in data or each.required:
                yield each.encode_name, each.type, data.get(each.encode_name, _MISSING)
    elif origin is dict and isinstance(data, Mapping):
        yield from ((key, args[1], value) for key, value in data.items())
    elif origin in (list, tuple) and isinstance(data, list | tuple):
        kinds = args[:1] * len(data) if origin is list or args[-1] is ... else args
        for place, part in enumerate(kinds):
            yield place, part, data[place] if place < len(data) else _MISSING


def _unknown(kind: Any, data: Any) -> str:
    """An error about an unknown key; empty if there is none."""
    if not (_is_card(kind, data) and kind.__struct_config__.forbid_unknown_fields):
        return ""
    tag = kind.__struct_config__.tag_field
    known = [*([tag] if tag else []), *kind.__struct_encode_fields__]
    key = next((key for key in data if key not in known), None)
    return "" if key is None else f"unknown key '{key}'{nearest(str(key), known)} Allowed: {', '.join(known)}"


def _lacking(kind: Any, data: Any) -> str:
    """An error about all keys and items that are not there; empty if none is lacking."""
    missing = [str(key) for key, _, value in _parts(kind, data) if value is _MISSING]
    items = get_origin(kind) is tuple
    return f"lacks {'item ' * items}{', '.join(missing)}" if missing else ""


def _wrong_value(kind: Any, data: Any, written: bool) -> str:
    """What a value should be, where no card is expected."""
    kind, bounds = _main_type(kind, data)
    value = _read(kind, data) if written else data
    said = _wrong_type(kind, value, written) or next(filter(None, (_beyond(each, kind, value) for each in bounds)), "")
    return _with_value(said or "is not valid", data)


def _with_value(said: str, data: Any) -> str:
    """A sentence on the expected value, followed by the value given."""
    return f"{said}, got {short_repr(data)}" if said.startswith("must be") else said


def _too_long(kind: Any, data: Any) -> str:
    """How many items a tuple of fixed length has, where ``data`` has more."""
    args = get_args(kind)
    if get_origin(kind) is tuple and isinstance(data, list | tuple) and args[-1] is not ... and len(data) > len(args):
        return f"must have at most {len(args)} items, not {len(data)}"
    return ""


def _wrong_tag(kind: Any, data: Any) -> str:
    """What the tag of one of several cards should be, where ``data`` has another or none."""
    configs = [getattr(part, "__struct_config__", None) for part in get_args(kind)]
    tagged = [config for config in configs if config and config.tag]
    if get_origin(kind) not in (Union, UnionType) or not tagged:
        return ""
    if not isinstance(data, Mapping):
        return "must be an object"
    field = tagged[0].tag_field
    if field not in data:
        return f"lacks {field}"
    return f"{field} must be {_one_of(config.tag for config in tagged)}, got {short_repr(data[field])}"


def _wrong_type(kind: Any, data: Any, written: bool) -> str:
    """What a value should be, where it is of another type; else nothing."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"must be {_one_of(args)}"
    if origin in (Union, UnionType):
        return f"must be one of {', '.join(getattr(arg, '__name__', str(arg)) for arg in args)}"
    if (kind is float or (written and kind is int)) and isinstance(data, float) and not isfinite(data):
        return "must be a finite number"
    word, accepted = _WORDS.get(origin or kind) or ("an object", Mapping)
    fits = isinstance(data, accepted) and not (isinstance(data, bool) and kind in (float, int))
    return "" if fits else f"must be {word}"


def _one_of(allowed: Iterable[Any]) -> str:
    *others, last = map(repr, allowed)
    return f"{', '.join(others)}{' or ' if others else ''}{last}"


_WORDS: Mapping[Any, tuple[str, Any]] = {
    float: ("a number", float | int),
    int: ("a whole number", int),
    str: ("text", str),
    bool: ("true or false", bool),
    list: ("a list", list | tuple),
    tuple: ("a list", list | tuple),
}


def _beyond(bound: Meta, kind: Any, data: Any) -> str:
    """What a value of the right type should be, where it is out of bounds; else nothing."""
    if isinstance(data, int | float):
        for limit, is_beyond, words in (
            (bound.gt, operator.le, "above"),
            (bound.ge, operator.lt, "at least"),
            (bound.lt, operator.ge, "below"),
            (bound.le, operator.gt, "at most"),
        ):
            if limit is not None and is_beyond(data, limit):
                from decimal import Decimal  # here: only a mistake needs it

                return f"must be {words} {f'{Decimal(repr(limit)):f}'.removesuffix('.0')}"
        return ""
    if isinstance(data, str) and bound.pattern is not None:
        return bound.description or f"must be of the form {bound.pattern}"
    least, most, count = bound.min_length, bound.max_length, len(data)
    if least is not None and count < least:
        limit, words = least, "at least"
    elif most is not None and count > most:
        limit, words = most, "at most"
    else:
        return ""
    unit = "character" if kind is str else "item"
    return f"must have {words} {limit} {unit}{'' if limit == 1 else 's'}, not {count}"
