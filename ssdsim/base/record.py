"""Records that code makes: the one way to write a class of fields.

What comes from a file is a :class:`ssdsim.base.card.Card`: it is checked. What changes, and has fields, is a
:class:`MutableRecord`. Only what compiled loops read, or prices by the million, is a named tuple.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, dataclass_transform

from msgspec import NODEFAULT, Struct, StructMeta, field

if TYPE_CHECKING:
    from dataclasses import replace  # whose fields type checkers know
    from inspect import Signature
else:
    from msgspec.structs import replace

__all__ = ["MutableRecord", "Record", "field", "replace"]


class _Signed(StructMeta):
    """Metaclass of records: their signature shows types as the source writes them.

    msgspec evaluates them, and fails where one is imported for type checkers alone. ``help`` would end in a traceback.
    """

    @property
    def __signature__(cls) -> Signature:
        from inspect import Parameter, Signature  # here: few ask

        types = {
            name: said for each in cls.__mro__[::-1] for name, said in vars(each).get("__annotations__", {}).items()
        }
        fields, defaults = cls.__struct_fields__, cls.__struct_defaults__
        defaults = (NODEFAULT,) * (len(fields) - len(defaults)) + defaults
        parameters = []
        for name, default in zip(fields, defaults, strict=True):
            kind = Parameter.POSITIONAL_OR_KEYWORD if name in cls.__match_args__ else Parameter.KEYWORD_ONLY
            given = Parameter.empty if default is NODEFAULT else default
            parameters.append(Parameter(name, kind, default=given, annotation=types[name]))
        return Signature(parameters)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record(Struct, metaclass=_Signed, frozen=True, dict=True):
    """The base of records: fields as a dataclass has them, which nobody changes, compared and hashed by all of them.

    What a record has worked out (``cached_property``) stays with it alone: its copies begin anew.
    """


@dataclass_transform(field_specifiers=(field,))
class MutableRecord(Struct, dict=True):
    """The base of records whose fields change: counts and logs that grow."""
