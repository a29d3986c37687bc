"""Load of a server: how many requests come when, and how long they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ssdsim.base.errors import InputError
from ssdsim.base.kinds import File, Number, OneOf, Whole
from ssdsim.base.kinds_of_lists import Several
from ssdsim.base.option import Section
from ssdsim.base.option_record import OptionRecord, option_field, options_of
from ssdsim.base.record import replace
from ssdsim.serving.from_log import Cut, OfSlice, workload_of
from ssdsim.serving.lengths import Lengths, OfLengths, constant
from ssdsim.serving.workload import MOST_REQUESTS, SLOWEST, Arrivals, Workload, synthetic

if TYPE_CHECKING:
    from ssdsim.readers.request_logs.log import RequestLog

_MOST_SECONDS = 1e9  # thirty years


class _OfRequests(File):
    """A log's file, or requests that are there."""

    def checked(self, said: str, value: Any) -> Any:
        return value if isinstance(value, Workload) else super().checked(said, value)


class Load(OptionRecord):
    """Requests that are made up, ``rate`` a second or ``concurrency`` in flight; or a ``workload``, at its own pace or
    at the rates: a log's file, or requests that are there (:func:`ssdsim.serving.workload.synthetic`).
    """

    section, prominence = Section.REQUESTS, 0

    rate: float | Sequence[float] | None = option_field(
        Several(Number(np.inf, SLOWEST)),
        "requests a second; a list or range sweeps; inf: all at once",
        prominence=9,
    )
    concurrency: int | None = option_field(Whole(), "requests in flight at any time, in place of a rate", prominence=5)
    input_len: Lengths | str | int = option_field(
        OfLengths(),
        "tokens of prompts: N, lognormal:MEAN,SD, ...",
        constant(1024),
        prominence=8,
    )
    output_len: Lengths | str | int = option_field(
        OfLengths(), "tokens of answers, likewise", constant(256), prominence=8
    )
    requests: int = option_field(Whole(most=MOST_REQUESTS), "how many come", 2000, prominence=5)
    seconds: float | None = option_field(Number(_MOST_SECONDS), "how long they come, in place of --requests")
    burstiness: float = option_field(
        Number(np.inf, 1e-3),
        "shape of the gamma law of gaps: 1 Poisson, less comes in bursts",
        1.0,
    )
    ramp_up: str | None = option_field(OneOf(("linear", "exponential")), "the rate grows while they come")
    workload: Path | str | Workload | None = option_field(
        _OfRequests(), "a log: Azure, BurstGPT, Mooncake, vLLM, ... or CSV", prominence=8
    )
    scale_rate: float = option_field(Number(1e6, 1e-6), "the log's time, compressed by a factor", 1.0)
    slice: str | tuple[float, float] | None = option_field(OfSlice(), "seconds of the log: 0:3600")
    limit: int | None = option_field(Whole(most=MOST_REQUESTS), "requests of the log")
    tokenizer: Path | str | None = option_field(File(), "tokenizer.json that counts ShareGPT's tokens")

    def __post_init__(self) -> None:
        super().__post_init__()
        of_logs = ("scale_rate", "slice", "limit", "tokenizer")
        if not isinstance(self.workload, Path):
            self._refuse(of_logs, "needs a --workload that is a file")
        if self.workload is not None:
            of_both = ("rate", "workload", *of_logs)
            self._refuse((name for name in options_of(Load) if name not in of_both), "has no effect with a log")
        if self.rates is not None and self.concurrency is not None:
            raise InputError("--rate has no effect with --concurrency (a request comes when another one is answered)")
        if self.seconds is not None:
            self._refuse(["requests"], "has no effect with --seconds")
            if self.rates is None or not np.isfinite(max(self.rates)):
                raise InputError("--seconds needs a finite --rate, and stands in the place of --requests")

    def _refuse(self, names: Iterable[str], why: str) -> None:
        for option in map(options_of(Load).__getitem__, names):
            if getattr(self, option.name) != option.default:
                raise InputError(f"{option.spelling} {why}")

    @property
    def rates(self) -> Sequence[float] | None:
        """Requests a second at which the requests come; None is their own pace."""
        return cast("Sequence[float] | None", self.rate)  # the record's check made a tuple of one

    def arrives(self, seed: int, searched: bool = False) -> Workload:
        """The requests: made up ones at one a second, whose rates come later, or are ``searched`` for."""
        if isinstance(self.workload, Path):
            return self.logged(seed, searched)[0]
        if self.workload is not None:
            return self._paced(cast(Workload, self.workload))
        if self.rates is None and self.concurrency is None and not searched:
            raise InputError("give --rate (requests a second), --concurrency (in flight), --capacity or a --workload")
        return synthetic(
            self.requests if self.seconds is None else max(1, round(self.seconds * max(self.rates or ()))),
            1.0,
            cast(Lengths, self.input_len),
            cast(Lengths, self.output_len),
            arrivals=Arrivals(self.burstiness, self.ramp_up),
            concurrency=self.concurrency,
            seed=seed,
        )

    def logged(self, seed: int, searched: bool = False) -> tuple[Workload, RequestLog]:
        """The requests of the log's file, and the log, cut alike."""
        path, between = cast(Path, self.workload), cast("tuple[float, float] | None", self.slice)
        cut = Cut(*(between or (0.0, np.inf)), limit=self.limit, faster=self.scale_rate)
        workload, log = workload_of(path, cut, seed=seed, tokenizer=cast("Path | None", self.tokenizer))
        if workload.concurrency is None and log.arrival_s is None and self.rates is None and not searched:
            raise InputError(f"{path}: its requests have no arrivals; give --rate")
        return self._paced(workload), log

    def _paced(self, workload: Workload) -> Workload:
        """Pace a workload by a given rate: requests no longer come when others are answered."""
        return workload if self.rates is None else replace(workload, concurrency=None)
