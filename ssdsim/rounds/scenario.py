"""One configuration of AR, SD and SSD: what the closed forms, the Monte Carlo and the event engine all read."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ssdsim.errors import InputError
from ssdsim.speculation.requests import RequestMix, RoundAverages, mean_sd_tokens, ssd_averages
from ssdsim.speculation.speculator import Fallback, Speculator

Seconds = float | NDArray[np.float64]
Count = Any  # an int, or an array of them where columns of scenarios are seen at once


@dataclass(frozen=True)
class RoundTimes:
    """Durations in seconds (or in units of T_v), each a scalar or an array of draws of the same shape.

    ============== ====================================================================================
    ar_pass        one target pass over b tokens
    sd_draft       SD's K draft steps over b tokens
    sd_verify      SD's verification over b(K+1) tokens
    sd_message     SD with a separate draft: outcome there and speculation back;
                   with one on the first of several target ranks: its tokens to the others; else 0
    verify         SSD's verification over b(K+1) tokens, T_v
    glue           pre-speculation's first pass, over b(K+1) tokens on the draft
    branches       pre-speculation's K steps over the branch tokens on the draft; T_p = glue + branches
    post           sampling and host work after a target pass
    send, respond  outcome to the draft, speculation back to the target's first rank and on to the others
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

    ar: Count = 1
    sd: Count = 1
    ssd: Count = 2


class Stationary(Protocol):
    """What the closed forms read: of one :class:`Scenario`, or of many as columns (arrays that broadcast)."""

    @property
    def batch(self) -> Count: ...
    @property
    def gpus(self) -> Gpus: ...
    @property
    def times(self) -> RoundTimes: ...
    @property
    def ssd(self) -> RoundAverages: ...
    @property
    def sd_tokens_per_round(self) -> Any: ...


@dataclass(frozen=True)
class Scenario:
    """A validated configuration; see :mod:`ssdsim.scenario.configuration` for how options become one."""

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
        """Tokens and hit rate of a sequence's SSD rounds, in the long run."""
        return ssd_averages(self.primary, self.backup, self.requests)

    @cached_property
    def sd_tokens_per_round(self) -> float:
        return mean_sd_tokens(self.sd, self.requests)

    def with_times(self, times: RoundTimes) -> Scenario:
        return replace(self, times=times)
