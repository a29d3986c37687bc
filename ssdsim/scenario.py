"""One configuration of AR, SD and SSD: what the closed forms, the Monte Carlo and the event engine all read."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ssdsim.errors import InputError
from ssdsim.requests import RequestMix, RoundAverages, round_averages
from ssdsim.speculator import Fallback, Speculator
from ssdsim.theory import stationary_hit_rate

Seconds = float | NDArray[np.float64]


@dataclass(frozen=True)
class RoundTimes:
    """Durations in seconds (or in units of T_v), each a scalar or an array of draws of the same shape.

    ============== ====================================================================================
    ar_pass        one target pass over b tokens
    sd_draft       SD's K draft steps over b tokens
    sd_verify      SD's verification over b(K+1) tokens
    sd_message     SD with a separate draft: outcome there and speculation back; 0 when colocated
    verify         SSD's verification over b(K+1) tokens, T_v
    glue           pre-speculation's first pass, over b(K+1) tokens on the draft
    branches       pre-speculation's K steps over the branch tokens on the draft; T_p = glue + branches
    post           sampling and host work after a target pass
    send, respond  outcome to the draft, speculation back
    lookup         the draft's cache lookup
    fallback       the backup speculator on a miss, T_b
    ============== ====================================================================================
    """

    ar_pass_s: Seconds
    sd_draft_s: Seconds
    sd_verify_s: Seconds
    verify_s: Seconds
    glue_s: Seconds
    branches_s: Seconds
    fallback_s: Seconds
    sd_message_s: Seconds = 0.0
    post_s: Seconds = 0.0
    send_s: Seconds = 0.0
    respond_s: Seconds = 0.0
    lookup_s: Seconds = 0.0

    @property
    def prespeculate_s(self) -> Seconds:
        """T_p in seconds."""
        return self.glue_s + self.branches_s

    def scaled(self, factor: float) -> RoundTimes:
        """Every duration times ``factor``."""
        return RoundTimes(**{f.name: factor * getattr(self, f.name) for f in fields(self)})


@dataclass(frozen=True)
class Gpus:
    """Devices that each strategy occupies."""

    ar: int = 1
    sd: int = 1
    ssd: int = 2


@dataclass(frozen=True)
class Scenario:
    """A validated configuration; see :mod:`ssdsim.configuration` for how options become one."""

    batch: int
    sd: Speculator
    primary: Speculator
    backup: Speculator
    fallback: Fallback
    times: RoundTimes
    gpus: Gpus = Gpus()
    draft_devices: int = 1
    spread: float = 0.0  # sd of the logarithm of every duration
    requests: RequestMix | None = None  # None: requests are alike, and sd, primary and backup describe them all

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InputError(f"batch must be at least 1, got {self.batch}")
        if self.primary.lookahead != self.backup.lookahead:
            raise InputError("the primary and the backup speculator must have one lookahead")
        if self.fallback == "jit" and self.backup is not self.primary:
            raise InputError("with jit fallback the backup is the primary speculator")

    @property
    def lookahead(self) -> int:
        """K of SSD."""
        return self.primary.lookahead

    @cached_property
    def ssd(self) -> RoundAverages:
        """Tokens and hit rate of a sequence's SSD rounds.

        For alike requests: the stationary state of primary and backup (Theorem 7). A sequence was speculated by the
        primary with probability p_hit.
        """
        if self.requests is not None:
            mix = self.requests
            return round_averages(mix.weights, mix.primary, mix.backup, mix.output_tokens)
        p = float(stationary_hit_rate(self.primary.p_hit, self.backup.p_hit))
        return RoundAverages(p * self.primary.expected_tokens + (1 - p) * self.backup.expected_tokens, p)

    @cached_property
    def sd_tokens_per_round(self) -> float:
        if self.requests is None:
            return self.sd.expected_tokens
        mix = self.requests
        return round_averages(mix.weights, mix.sd, mix.sd, mix.output_tokens).tokens_per_round

    def with_times(self, times: RoundTimes) -> Scenario:
        return replace(self, times=times)
