"""The one way from a record to JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct

from ssdsim.base.card import Card

Shown = Mapping[type, Callable[[Any], Any]]


def plain(value: Any, shown: Shown = MappingProxyType({})) -> Any:
    """Objects, lists, text, numbers, true, false and null.

    A record or a card becomes an object of its fields, an array a list, and a number that is not
    finite null. ``shown`` says by class what stands in the place of a record, which is made plain in its turn.
    """
    if type(value) in shown:
        value = shown[type(value)](value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    match value:
        case Enum():
            return value.value
        case np.ndarray() | np.generic():
            return plain(value.tolist(), shown)
        case Card():
            return plain(value.as_dict(), shown)
        case Mapping():
            return {str(name): plain(each, shown) for name, each in value.items()}
        case set() | frozenset():
            return [plain(each, shown) for each in sorted(value)]
        case list() | tuple() | range():
            return [plain(each, shown) for each in value]
        case PurePath():
            return str(value)
    if isinstance(value, Struct):
        return {name: plain(getattr(value, name), shown) for name in value.__struct_fields__}
    return value


def document(parts: Mapping[str, Any], shown: Shown = MappingProxyType({})) -> dict[str, Any]:
    """An answer's JSON document of these parts."""
    return {name: plain(part, shown) for name, part in parts.items()}


def picked(record: Any, *names: str) -> dict[str, Any]:
    """The fields and properties of a record with these names."""
    return {name: getattr(record, name) for name in names}
