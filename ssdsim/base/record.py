"""Records that code makes and nobody changes. Those that come from a file are :class:`ssdsim.base.records.Card`."""

from __future__ import annotations

from typing import TYPE_CHECKING, dataclass_transform

from msgspec import Struct, field

if TYPE_CHECKING:
    from dataclasses import replace  # whose fields type checkers know
else:
    from msgspec.structs import replace

__all__ = ["Record", "field", "replace"]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record(Struct, frozen=True, dict=True):
    """The base of records: fields as a dataclass has them, which nobody changes, compared and hashed by all of them.

    What a record has worked out (``cached_property``) stays with it alone: its copies begin anew.
    """
