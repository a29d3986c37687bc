"""An engine's batching of requests: the options that are its own, not a strategy's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast, get_args

from ssdsim.base.errors import InputError
from ssdsim.base.kinds import Number, OneOf, Whole
from ssdsim.base.option import Section
from ssdsim.base.option_record import OptionRecord, option_field
from ssdsim.pricing.occupancy import USABLE_SHARE
from ssdsim.serving.k_table import KTable, OfKTable

Prefill = Literal["chunked", "priority", "none"]
FirstSpeculation = Literal["miss", "prefill"]

LEAST_CHUNK = 16
"""Tokens of a prompt that a pass takes even where what is decoded fills it."""


class Batching(OptionRecord):
    """``prefill``: ``chunked``, what a pass has left of ``token_budget`` beside what is decoded (vLLM's v1);
    ``priority``, passes of their own before decoding goes on (the SSD engine's, vLLM's v0); ``none``, elsewhere,
    which takes ``prefill_ms``. At most ``max_batch`` requests are held at once (vLLM's ``max_num_seqs``).

    The caches take ``kv_fraction`` of each device's memory with the weights, in blocks of ``block`` tokens.
    ``first_speculation``: what a request that was just prefilled finds in a speculation cache: nothing, as in the SSD
    engine, whose cache knows no such request, or, with ``prefill``, what the draft guessed while it processed the
    prompt. ``tax`` is the share by which a schedule's rounds are longer than a fixed strategy's (vLLM issue 49548), and
    a schedule changes its strategy once another one is asked for ``hold`` rounds in a row. ``k_table`` makes a schedule
    of SD's K alone.
    """

    section, prominence = Section.BATCHING, 0

    prefill: Prefill = option_field(OneOf(get_args(Prefill)), "chunked, priority or none (elsewhere)", "chunked")
    token_budget: int = option_field(Whole(), "tokens that a pass has room for", 2048)
    prefill_ms: float = option_field(Number(1e7), "what prefill elsewhere takes", 0.0)
    max_batch: int = option_field(
        Whole(most=4096),
        "requests held at once",
        256,
        spellings=("--max-num-seqs",),
        prominence=2,
    )
    kv_fraction: float = option_field(Number(1.0, 0.01), "of memory, for weights and caches", USABLE_SHARE)
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
    def says_k(self) -> KTable | str | None:
        """The table, or the word of a policy."""
        return cast("KTable | str | None", self.k_table)  # the record's check made a table of a list

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prefill_ms and self.prefill != "none":
            raise InputError("--prefill-ms needs --prefill none (prompts are then processed elsewhere)")
