"""How an engine makes batches of requests: the options that are its own, not a strategy's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ssdsim.base.checks import whole, within
from ssdsim.base.errors import InputError, nearest
from ssdsim.pricing.memory import USABLE_SHARE

Prefill = Literal["chunked", "priority", "none"]
FirstSpeculation = Literal["miss", "prefill"]

LEAST_CHUNK = 16
"""Tokens of a prompt that a pass takes even where what is decoded fills it."""


@dataclass(frozen=True)
class Batching:
    """``prefill``: ``chunked``, what a pass has left of ``token_budget`` beside what is decoded (vLLM's v1);
    ``priority``, passes of their own before decoding goes on (the SSD engine's, vLLM's v0); ``none``, elsewhere,
    which takes ``prefill_ms``. At most ``max_batch`` requests are held at once (vLLM's ``max_num_seqs``).

    The caches take ``kv_fraction`` of each device's memory with the weights, in blocks of ``block`` tokens.
    ``first_speculation``: what a request that was just prefilled finds in a speculation cache: nothing, as in the SSD
    engine, whose cache knows no such request, or, with ``prefill``, what the draft guessed while it processed the
    prompt. ``tax`` is the share by which a schedule's rounds are longer than a fixed strategy's (vLLM issue 49548), and
    a schedule changes its strategy once another one is asked for ``hold`` rounds in a row.
    """

    prefill: Prefill = "chunked"
    token_budget: int = 2048
    prefill_ms: float = 0.0
    max_batch: int = 256
    kv_fraction: float = USABLE_SHARE
    block: int = 16
    first_speculation: FirstSpeculation = "miss"
    tax: float = 0.0
    hold: int = 1

    def __post_init__(self) -> None:
        for name, value, words in (
            ("--prefill", self.prefill, get_args(Prefill)),
            ("--first-speculation", self.first_speculation, get_args(FirstSpeculation)),
        ):
            if value not in words:
                raise InputError(f"{name} must be one of {', '.join(words)}, got {value}{nearest(value, words)}")
        whole("--token-budget", self.token_budget, 1, 1_000_000)
        whole("--max-batch", self.max_batch, 1, 4096)
        whole("--block", self.block, 1, 65536)
        whole("--hold", self.hold, 1)
        within("--kv-fraction", self.kv_fraction, 0.01, 1.0)
        within("--prefill-ms", self.prefill_ms, 0.0, 1e7)
        within("--dynamic-tax", self.tax, 0.0, 10.0)
        if self.prefill_ms and self.prefill != "none":
            raise InputError("--prefill-ms needs --prefill none (prompts are then processed elsewhere)")
