"""K by the number of requests: vLLM's table, as a text or as the list that an export writes."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.kinds import Kind, Whole
from ssdsim.base.record import Record

THROUGHPUT, EMA, THROUGHPUT_AWARE = "throughput", "ema", "throughput-aware"
"""The table of the most tokens a second at each batch, by ssdsim's own prices; SGLang's tiers by what was accepted; and
its scores by what was accepted over what was timed.
"""
WORDS = (THROUGHPUT, EMA, THROUGHPUT_AWARE)
_LARGEST_K = 64
OPEN_END = 1_000_000


class KTable(Record):
    """``ranges`` of requests, first and last one included, each with its K; 0 drafts nothing.

    As in vLLM (``vllm/v1/spec_decode/dynamic/utils.py``) they begin at 1, do not overlap, and a gap has the K before.
    """

    ranges: tuple[tuple[int, int, int], ...]

    @staticmethod
    def of(ranges: Any) -> KTable:
        """Make a table of lists of three whole numbers; ValueError where they make none."""
        rows = [tuple(row) if isinstance(row, list | tuple) else () for row in ranges]
        if not rows or not all(len(row) == 3 and all(type(number) is int for number in row) for row in rows):
            raise ValueError("each range is a first and a last number of requests, and a K")
        rows.sort()
        if rows[0][0] != 1:
            raise ValueError("the first range begins at 1")
        if any(last < first for first, last, _ in rows) or any(b[0] <= a[1] for a, b in pairwise(rows)):
            raise ValueError("ranges rise and do not overlap")
        if not all(0 <= k <= _LARGEST_K for _, _, k in rows):
            raise ValueError(f"K is from 0 to {_LARGEST_K}")
        return KTable(tuple(rows))

    @staticmethod
    def parse(text: str) -> KTable:
        """``1-4:5,5-16:3,17-:0``, or JSON's ``[[1, 4, 5], [5, 16, 3], [17, 512, 0]]``; ValueError at others."""
        if text.lstrip().startswith("["):
            try:
                return KTable.of(json.loads(text))
            except json.JSONDecodeError:
                raise ValueError("the list is not closed, or not one of numbers") from None
        return KTable.of([_range(part) for part in text.split(",")])

    @property
    def firsts(self) -> tuple[int, ...]:
        """The numbers of requests from which each K holds."""
        return tuple(first for first, _, _ in self.ranges)

    @property
    def ks(self) -> tuple[int, ...]:
        """Every K once, the largest first."""
        return tuple(sorted({k for _, _, k in self.ranges}, reverse=True))


class OfKTable(Kind, Record):
    """:class:`KTable`, its text or its list, or the word for a policy that needs none."""

    metavar = "|".join(("first-last:K[,...]", *WORDS))
    requirement = f"be ranges of requests with their K such as 1-4:5,5-16:3,17-:0, vLLM's list, or {', '.join(WORDS)}"

    def checked(self, said: str, value: Any) -> KTable | str:
        if isinstance(value, KTable):
            return value
        if value in WORDS:
            return str(value)
        try:
            return KTable.parse(value) if isinstance(value, str) else KTable.of(value)
        except (ValueError, TypeError) as error:
            raise InputError(f"{said} must {self.requirement}, got {short_repr(value)}: {error}") from None


def _range(part: str) -> tuple[int, int, int]:
    """``5-16:3``, ``17-:0`` without an end, or ``1:5`` of one number of requests."""
    requests, colon, k = part.partition(":")
    first, dash, last = requests.partition("-")
    if not colon:
        raise ValueError(f"'{part}' has no K")
    number = Whole(0).parse
    return number(first), (number(last) if last else OPEN_END) if dash else number(first), number(k)
