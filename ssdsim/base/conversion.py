"""Make cards, numbers and lists of data, and tell the first mistake in it: its key, and what is allowed there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from msgspec import Meta, Struct, ValidationError, convert, structs

from ssdsim.base.errors import nearest, short_repr

Read = TypeVar("Read")


def converted(kind: type[Read], data: Any, *, written: bool = False) -> Read:
    """``data`` as a ``kind``; numbers may be text where they are ``written``, as keys always may."""
    try:
        return convert(data, kind, str_keys=True, dec_hook=_of_several)
    except ValidationError:
        if not written:
            raise
        return convert(_read(kind, data), kind, str_keys=True, dec_hook=_of_several)


def _read(kind: Any, data: Any) -> Any:
    """``data`` with numbers where a ``kind`` has numbers and the data has their text."""
    kind = _without_bounds(kind, data)[0]
    if kind in (int, float):
        return _number(kind, data)
    parts = {key: _read(part, value) for key, part, value in _parts(kind, data) if value is not _MISSING}
    match data:
        case dict():
            of_key = get_args(kind)[0] if get_origin(kind) is dict else str
            return {_read(of_key, key): parts.get(key, value) for key, value in data.items()}
        case list() | tuple():
            return [parts.get(place, value) for place, value in enumerate(data)]
    return data


def _number(kind: Any, data: Any) -> Any:
    """The number that a text is of, or ``data`` itself."""
    if isinstance(data, float) and kind is int and data.is_integer():
        return int(data)
    if isinstance(data, str):
        with suppress(ValueError):
            return float(data) if kind is float else int(_ZEROS.sub("", data))
    return data


_ZEROS = re.compile(r"(?<=\d)\.0+\s*$")
"""What an integer may end with."""


def _of_several(kind: Any, data: Any) -> Any:
    """One of several cards, which :class:`EitherCard` tells apart."""
    chosen = kind.card(data)
    return data if type(data) is chosen else converted(chosen, data)


class EitherCard(type):
    """The kind of a class that stands for several cards in a field: ``card`` chooses by the keys in the data."""

    def __instancecheck__(cls, instance: object) -> bool:
        return type(instance) is cls.card(instance)  # type: ignore[attr-defined]


class FieldError(ValueError):
    """A complaint of ``__post_init__`` about one field, by its key."""

    def __init__(self, key: str, said: str) -> None:
        super().__init__(f"{key}: {said}")
        self.key, self.said = key, said


Mistake = tuple[tuple[Any, ...], str]
"""Keys from the outermost on, and a sentence."""


def complaint(kind: Any, data: Any, what: str, written: bool = False) -> str:
    """A line on the first mistake in ``data``: its key, or ``what`` the whole is called, and a sentence."""
    keys, said = _mistake(kind, data, written)
    return f"{'.'.join(map(str, keys)) or what}: {said}"


def _mistake(kind: Any, data: Any, written: bool) -> Mistake:
    kind, bounds = _without_bounds(kind, data)
    if isinstance(kind, EitherCard):
        kind = kind.card(data)  # type: ignore[attr-defined]
    if get_origin(kind) is dict and isinstance(data, Mapping):
        of_key = get_args(kind)[0]
        for key in data:
            if not _fits(dict[of_key, Any], {key: None}, written):  # type: ignore[valid-type]
                return (key,), _mistake(of_key, key, written=True)[1]
    whole = _too_long(kind, data) or _wrong_tag(kind, data)
    for key, part, value in () if whole else _parts(kind, data):
        if not _fits(part, value, written):
            keys, said = _mistake(part, value, written)
            return (key, *keys), said
    if isinstance(kind, type) and issubclass(kind, Struct) and isinstance(data, Mapping):
        return _of_card(kind, data, written)
    said = whole or _wrong_type(kind, data, written) or _out_of_bounds(bounds, kind, data)
    return (), f"{said}, got {short_repr(data)}" if said.startswith("Input should") else said


def _fits(kind: Any, data: Any, written: bool) -> bool:
    if data is _MISSING:
        return False
    try:
        converted(kind, data, written=written)
    except ValidationError:
        return False
    return True


def _without_bounds(kind: Any, data: Any) -> tuple[Any, list[Meta]]:
    """A type without what annotates it, and of a union the part that ``data`` is most likely meant for."""
    bounds: list[Meta] = []
    while get_origin(kind) in (Annotated, Union, UnionType):
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            bounds = [each for each in more if isinstance(each, Meta)] + bounds
            continue
        parts = [part for part in get_args(kind) if part is not NoneType]
        if len(parts) > 1 and not _tagged(parts, data):
            return kind, bounds
        kind = _tagged(parts, data) or parts[0]
    return kind, bounds


def _tagged(parts: list[Any], data: Any) -> Any:
    """The one of several cards whose tag the data has."""
    for part in parts:
        config = getattr(part, "__struct_config__", None)
        if config and config.tag and isinstance(data, Mapping) and data.get(config.tag_field) == config.tag:
            return part
    return None


def _wrong_tag(kind: Any, data: Any) -> str:
    """What the tag of one of several cards should be, where ``data`` has another or none."""
    configs = [getattr(part, "__struct_config__", None) for part in get_args(kind)]
    tagged = [config for config in configs if config and config.tag]
    if get_origin(kind) not in (Union, UnionType) or not tagged:
        return ""
    if not isinstance(data, Mapping):
        return "Input should be a valid dictionary or object to extract fields from"
    field = tagged[0].tag_field
    if field not in data:
        return f"Unable to extract tag using discriminator '{field}'"
    expected = ", ".join(repr(config.tag) for config in tagged)
    return f"Input tag '{data[field]}' found using '{field}' does not match any of the expected tags: {expected}"


_MISSING = object()


def _parts(kind: Any, data: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The parts of a compound: key, type and value of each."""
    origin, args = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Struct) and isinstance(data, Mapping):
        if not _unknown(kind, data):
            for each in fields(kind):
                if each.encode_name in data or each.required:
                    yield each.encode_name, each.type, data.get(each.encode_name, _MISSING)
    elif origin is dict and isinstance(data, Mapping):
        yield from ((key, args[1], value) for key, value in data.items())
    elif origin in (list, tuple) and isinstance(data, list | tuple):
        kinds = args[:1] * len(data) if origin is list or args[-1] is ... else args
        for place, part in enumerate(kinds):
            yield place, part, data[place] if place < len(data) else _MISSING


fields = cache(structs.fields)


def _unknown(kind: Any, data: Mapping[Any, Any]) -> str:
    config = kind.__struct_config__
    known = [*([config.tag_field] if config.tag_field else []), *kind.__struct_encode_fields__]
    key = next((key for key in data if key not in known), None) if config.forbid_unknown_fields else None
    return "" if key is None else f"unknown key '{key}'{nearest(str(key), known)} Allowed: {', '.join(known)}"


def _of_card(kind: Any, data: Mapping[Any, Any], written: bool) -> Mistake:
    """A mistake of a card whose fields are each as they should be."""
    unknown = _unknown(kind, data)
    if unknown:
        return (), unknown
    try:
        converted(kind, data, written=written)
    except ValidationError as error:
        of_field = error.__cause__
        return ((of_field.key,), of_field.said) if isinstance(of_field, FieldError) else ((), str(error))
    return (), "is no valid card"


def _too_long(kind: Any, data: Any) -> str:
    """How many items a tuple of fixed length has, where ``data`` has more."""
    args = get_args(kind)
    if get_origin(kind) is tuple and isinstance(data, list | tuple) and args[-1] is not ... and len(data) > len(args):
        return f"Tuple should have at most {len(args)} items after validation, not {len(data)}"
    return ""


def _wrong_type(kind: Any, data: Any, written: bool) -> str:
    """What a value should be, where it is of another type; else nothing."""
    if data is _MISSING:
        return "Field required"
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        *others, last = map(repr, args)
        return f"Input should be {', '.join(others)}{' or ' if others else ''}{last}" if data not in args else ""
    if origin in (Union, UnionType):
        return f"Input should be one of {', '.join(getattr(arg, '__name__', str(arg)) for arg in args)}"
    number = isinstance(data, int | float) and not isinstance(data, bool)
    unread = written and isinstance(data, str)
    if kind in (float, int) and isinstance(data, float) and not isfinite(data):
        return "Input should be a finite number"
    if kind is float:
        return "" if number and _fits(float, data, written) else _no_number("number", unread, data)
    if kind is int:
        if written and isinstance(data, float):
            return "" if data.is_integer() else "Input should be a valid integer, got a number with a fractional part"
        return "" if isinstance(data, int) and number else _no_number("integer", unread, data)
    word, accepted = _WORDS.get(
        origin or kind, (f"dictionary or instance of {getattr(kind, '__name__', kind)}", Mapping)
    )
    return "" if isinstance(data, accepted) else f"Input should be a valid {word}"


_WORDS: Mapping[Any, tuple[str, Any]] = {
    str: ("string", str),
    bool: ("boolean", bool),
    dict: ("dictionary", Mapping),
    list: ("list", list | tuple),
    tuple: ("tuple", list | tuple),
}


def _no_number(what: str, unread: bool, data: Any) -> str:
    if unread:
        try:
            if what == "number":
                return "" if isfinite(float(data)) else "Input should be a finite number"
            int(data)
        except ValueError:
            return (
                f"Input should be a valid {what}, unable to parse string as {'a' if what == 'number' else 'an'} {what}"
            )
        return ""
    return f"Input should be a valid {what}"


def _out_of_bounds(bounds: list[Meta], kind: Any, data: Any) -> str:
    """What a value of the right type should be, where it is out of bounds."""
    for bound in bounds:
        if isinstance(data, str) and bound.pattern is not None:
            return f"String should match pattern '{bound.pattern}'"
        for least, word, wrong in ((bound.min_length, "at least", -1), (bound.max_length, "at most", 1)):
            if least is not None and (len(data) - least) * wrong > 0:
                name = _SIZED[get_origin(kind) or kind]
                unit, after = ("character", "") if name == "String" else ("item", f" after validation, not {len(data)}")
                return f"{name} should have {word} {least} {unit}{'' if least == 1 else 's'}{after}"
        if isinstance(data, int | float | str):
            said = _beyond(bound, float(data)) if (bound.ge, bound.gt, bound.le, bound.lt) != (None,) * 4 else ""
            if said:
                return f"Input should be {said}"
    return "is not valid"


def _beyond(bound: Meta, number: float) -> str:
    """The limit that a number is beyond; nothing where it is within."""
    if bound.gt is not None and number <= bound.gt:
        return f"greater than {_digits(bound.gt)}"
    if bound.ge is not None and number < bound.ge:
        return f"greater than or equal to {_digits(bound.ge)}"
    if bound.lt is not None and number >= bound.lt:
        return f"less than {_digits(bound.lt)}"
    if bound.le is not None and number > bound.le:
        return f"less than or equal to {_digits(bound.le)}"
    return ""


_SIZED = {str: "String", dict: "Dictionary", tuple: "Tuple", list: "List"}


def _digits(limit: float) -> str:
    """A number without an exponent."""
    from decimal import Decimal  # here: only a mistake needs it

    text = f"{Decimal(repr(limit)):f}"
    return text.removesuffix(".0")
