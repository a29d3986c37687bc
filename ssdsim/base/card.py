"""Cards, the records that come from files and are checked as they are read, and the numbers that their fields hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Annotated, Any, Self, TypeVar, dataclass_transform

from msgspec import NODEFAULT, Meta, Raw, Struct, StructMeta, ValidationError, field, json
from msgspec.structs import force_setattr

from ssdsim.base.conversion import complaint, converted
from ssdsim.base.errors import as_utf_8

# Wide enough for anything that exists, narrow enough that no product of a few leaves the floats.
Count = Annotated[int, Meta(gt=0, le=10**15)]
Positive = Annotated[float, Meta(ge=1e-40, le=1e40)]
NotNegative = Annotated[float, Meta(ge=0.0, le=1e40)]
Coefficient = Annotated[float, Meta(ge=-1e40, le=1e40)]
Seconds = Annotated[float, Meta(ge=0.0, le=1e3)]
"""The seconds of one launch, message or gap."""
LARGEST_FLOAT = 1.7976931348623157e308
OneLine = Annotated[
    str, Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\Z", description="must be one line, without control characters")
]
"""Text that becomes a part of commands and of lines: without line breaks and what a terminal obeys."""
Finite = Annotated[float, Meta(ge=-LARGEST_FLOAT, le=LARGEST_FLOAT)]
MOST_LOG_SD = 10.0
LogSd = Annotated[float, Meta(ge=0.0, le=MOST_LOG_SD)]
"""Standard deviation of a logarithm: 10 is wrong by a factor of 20,000 or its inverse, one time in three."""


class _Checked(StructMeta):
    """Metaclass of cards: fields are keywords, and making a card checks their values."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> Any:
        return super().__new__(cls, name, bases, namespace, kw_only=True, **config)

    def __call__(cls, **fields: Any) -> Any:
        if (
            not fields
            and len(cls.__struct_defaults__) == len(cls.__struct_fields__)
            and NODEFAULT not in cls.__struct_defaults__
        ):
            return super().__call__()  # which is fast: modules are full of these
        keys = dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
        values = {keys.get(name, name): _map_values(_plain, value) for name, value in fields.items()}
        try:
            return converted(cls, values)  # type: ignore[arg-type]
        except ValidationError:
            raise ValueError(complaint(cls, values, cls.__name__)) from None


def _map_values(change: Callable[[Any], Any], value: Any) -> Any:
    """``value`` with every leaf of its lists and mappings changed."""
    match value:
        case Mapping():
            return {key: _map_values(change, each) for key, each in value.items()}
        case list() | tuple():
            return type(value)(_map_values(change, each) for each in value)
    return change(value)


def _plain(value: Any) -> Any:
    """A float of NumPy as one of Python."""
    return float(value) if isinstance(value, float) else value


def _spelt(value: Any) -> Any:
    """A large float spelt as 1e+16."""
    is_large = isinstance(value, float) and abs(value) >= 1e16
    return Raw(json.encode(float(value)).replace(b"e", b"e+")) if is_large else _plain(value)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Card(Struct, metaclass=_Checked, frozen=True, dict=True, forbid_unknown_fields=True):
    """A frozen record that is checked; an unknown key is an error that names the nearest known one.

    A number is a finite number: neither text nor a boolean is taken for one. What types do not say, a card checks in
    ``__post_init__`` and complains of by a ValueError.
    """

    def __reduce__(self) -> Any:
        return in_order, (type(self), tuple(getattr(self, name) for name in self.__struct_fields__))

    def changed(self, **changes: Any) -> Self:
        """A copy with other values of some fields, which are not checked."""
        copied = copy(self)
        for name, value in changes.items():
            if name not in self.__struct_fields__:
                raise AttributeError(f"{type(self).__name__} has no field '{name}'")
            force_setattr(copied, name, value)
        return copied

    def as_dict(self, without_none: bool = False) -> dict[str, Any]:
        """The card with the keys of its file, its tag included; so are the cards in it."""
        config = self.__struct_config__
        values = {config.tag_field: config.tag} if config.tag_field else {}
        for name, key in zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True):
            value = getattr(self, name)
            if value is not None or not without_none:
                values[key] = _map_values(lambda v: v.as_dict(without_none) if isinstance(v, Card) else v, value)
        return values

    def as_json(self, indent: int = 0, without_none: bool = False) -> str:
        """The card as JSON; of several lines where there is an ``indent``."""
        with as_utf_8(type(self).__name__):
            text = json.encode(_map_values(_spelt, self.as_dict(without_none)))
        return (json.format(text, indent=indent) if indent else text).decode()


AnyCard = TypeVar("AnyCard", bound=Card)


def in_order(kind: type[AnyCard], values: Iterable[Any]) -> AnyCard:
    """A card of values in the order of its fields, which are not checked."""
    card: AnyCard = StructMeta.__call__(kind, **dict(zip(kind.__struct_fields__, values, strict=True)))
    return card


class Excerpt(Card, forbid_unknown_fields=False):
    """A card that reads some keys of a file and ignores the others."""


def of_one_length(card: Any, *names: str) -> None:
    """ValueError unless these lists of a card have one length."""
    if len({len(getattr(card, name)) for name in names}) > 1:
        raise ValueError(f"{', '.join(names[:-1])} and {names[-1]} must be lists of one length")
