"""An engine's batching of requests, and K by the number of requests: the options that are its own, not a strategy's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, cast, get_args

from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.kinds import Kind, Number, OneOf, Whole
from ssdsim.base.option import OptionRecord, Section, option_field
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import GIVEN
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.pricing.occupancy import USABLE_SHARE

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


Prefill = Literal["chunked", "priority", "none"]
FirstSpeculation = Literal["miss", "prefill"]

LEAST_CHUNK = 16
"""Tokens of a prompt that a pass takes even where what is decoded fills it."""


class Batching(OptionRecord):
    """``prefill``: ``chunked``, what a pass has left of ``token_budget`` beside what is decoded (vLLM's v1);
    ``priority``, passes of their own before decoding goes on (the SSD engine's, vLLM's v0); ``none``, elsewhere,
    which takes ``prefill_ms``. Where nobody says it, the engine's card does (:meth:`as_engine`).
    At most ``max_batch`` requests are held at once (vLLM's ``max_num_seqs``).

    The caches take ``kv_fraction`` of each device's memory with the weights, in blocks of ``block`` tokens.
    ``first_speculation``: what a request that was just prefilled finds in a speculation cache: nothing, as in the SSD
    engine, whose cache knows no such request, or, with ``prefill``, what the draft guessed while it processed the
    prompt. ``tax`` is the share by which a schedule's rounds are longer than a fixed strategy's (vLLM issue 49548), and
    a schedule changes its strategy once another one is asked for ``hold`` rounds in a row. ``k_table`` makes a schedule
    of SD's K alone.
    """

    section, prominence = Section.BATCHING, 0

    prefill: Prefill | None = option_field(
        OneOf(get_args(Prefill)),
        "chunked, priority or none (elsewhere)",
        default_note="the engine's own: chunked or priority",
    )
    token_budget: int = option_field(Whole(), "tokens that a pass has room for", 2048)
    prefill_ms: float = option_field(Number(1e7), "what prefill elsewhere takes", 0.0)
    max_batch: int = option_field(
        Whole(most=4096),
        "requests held at once",
        256,
        spellings=("--max-num-seqs",),
        prominence=2,
    )
    kv_fraction: float = option_field(Number(1.0, 0.01), "of memory, for weights, caches and activations", USABLE_SHARE)
    block: int = option_field(Whole(most=65536), "tokens of a cache block", 16)
    first_speculation: FirstSpeculation = option_field(
        OneOf(get_args(FirstSpeculation)), "miss, or prefill: guessed meanwhile", "miss"
    )
    tax: float = option_field(Number(10.0), "share by which a schedule's rounds are longer", 0.0, name="dynamic_tax")
    hold: int = option_field(Whole(), "rounds before a schedule switches", 1)
    k_table: KTable | str | Sequence[Sequence[int]] | None = option_field(
        OfKTable(),
        "SD's K by the requests: 1-4:5,5-:0, vLLM's list, throughput, or SGLang's ema or throughput-aware",
    )

    @property
    def mixes_prompts(self) -> bool:
        """Whether parts of prompts join the passes that decode; they do where nobody, and no engine, said."""
        return self.prefill in (None, "chunked")

    def as_engine(self, runtime: Runtime) -> tuple[Batching, str]:
        """Prompts as they were asked for, else as the engine takes them; and which of the two it was."""
        if self.prefill is not None:
            return self, GIVEN
        own: Prefill = "chunked" if runtime.mixes_prompts else "priority"
        return replace(self, prefill=own), f"as {runtime.title} does"

    @property
    def says_k(self) -> KTable | str | None:
        """The table, or the word of a policy."""
        return cast("KTable | str | None", self.k_table)  # the record's check made a table of a list

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prefill_ms and self.prefill != "none":
            raise InputError("--prefill-ms needs --prefill none (prompts are then processed elsewhere)")
