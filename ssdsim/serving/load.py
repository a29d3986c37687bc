"""Load of a server: requests that are made up, or those of a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.kinds import File, Kind, Number, OneOf, Whole
from ssdsim.base.kinds_of_lists import Several
from ssdsim.base.option import OptionRecord, Section, option_field, options_of
from ssdsim.base.record import Record, replace
from ssdsim.serving.workload import (
    MOST_REQUESTS,
    SLOWEST,
    Arrivals,
    Lengths,
    OfLengths,
    Workload,
    constant,
    of_columns,
    synthetic,
)

if TYPE_CHECKING:
    from ssdsim.readers.request_logs.log import RequestLog, TimeUnit


class LogSelection(Record):
    """A cut of a log: the seconds from ``start_s`` to ``end_s``, at most ``limit`` requests, ``faster`` times as
    fast.
    """

    start_s: float = 0.0
    end_s: float = np.inf
    limit: int | None = None
    faster: float = 1.0


class OfSlice(Kind, Record):
    """``A:B`` in seconds of a log, either of which may be left out; or the two numbers."""

    metavar = "from:to"
    parse_error = "not seconds such as 0:3600"
    requirement = "rise from first to last, from 0 on, in seconds such as 0:3600"

    def parse(self, text: str) -> tuple[float, float]:
        first, _, last = text.partition(":")
        seconds = Number().parse
        return seconds(first) if first else 0.0, seconds(last) if last else np.inf

    def checked(self, said: str, value: Any) -> tuple[float, float]:
        try:
            start, end = self.parse(value) if isinstance(value, str) else map(float, value)
        except (TypeError, ValueError):
            raise InputError(f"{said} must {self.requirement}, got {short_repr(value)}") from None
        if not 0.0 <= start < end:
            raise InputError(f"{said} must {self.requirement}, got {short_repr(value)}")
        return start, end


def workload_of(
    path: str | Path,
    cut: LogSelection | None = None,
    *,
    seed: int = 0,
    tokenizer: Path | None = None,
    time_unit: TimeUnit | None = None,
) -> tuple[Workload, RequestLog]:
    """The requests of a file, and the log that they come from, cut alike; ``tokenizer`` counts tokens of conversations,
    ``time_unit`` is that of its arrivals.

    Raises
    ------
    InputError : as :func:`ssdsim.readers.request_logs.records.read_log` does; nothing is left.
    """
    from ssdsim.readers.request_logs.log import in_seconds  # here, because most requests are made up
    from ssdsim.readers.request_logs.records import read_log

    cut, log = cut or LogSelection(), read_log(path, tokenizer)
    if time_unit is not None and log.assumed_unit is None:
        raise InputError(
            f"--time-unit has no effect with {path} ({log.form}: no arrivals, or the file says their unit)"
        )
    log = _part(in_seconds(log, time_unit), cut, str(path))
    source = f"{Path(path).name} ({log.form})"
    workload = of_columns(log.arrival_s, log.input_tokens, log.output_tokens, source, seed=seed)
    if time_unit is None and log.assumed_unit is not None:
        workload = replace(workload, doubts=_doubts(workload.rate, workload.requests, log.assumed_unit))
    if cut.faster != 1.0:
        if workload.pattern_only:
            raise InputError(f"{path}: --scale-rate has no effect (the file has no arrivals)")
        workload = workload.faster(cut.faster)
    return replace(workload, concurrency=log.concurrency, notes=(*log.notes, *workload.notes)), log


def _part(log: RequestLog, cut: LogSelection, where: str) -> RequestLog:
    keep = np.arange(log.input_tokens.size)
    if not keep.size:
        raise InputError(f"{where}: no request in it")
    if log.arrival_s is not None:
        since = log.arrival_s - np.nanmin(log.arrival_s)
        keep = keep[(since >= cut.start_s) & (since < cut.end_s)]
        keep = keep[np.argsort(log.arrival_s[keep], kind="stable")] if cut.limit else keep
    elif np.isfinite(cut.end_s) or cut.start_s:
        raise InputError(f"{where}: --slice has no effect (the file has no arrivals)")
    keep = np.sort(keep[: cut.limit]) if cut.limit else keep
    if not keep.size:
        raise InputError(f"{where}: no request in that part of it")
    return replace(
        log,
        arrival_s=None if log.arrival_s is None else log.arrival_s[keep],
        input_tokens=log.input_tokens[keep],
        output_tokens=log.output_tokens[keep],
    )


_FEW, _SLOW, _FAST = 20, 0.02, 500.0  # requests; and requests a second between which nobody doubts a unit


def _doubts(rate: float, requests: int, unit: TimeUnit) -> tuple[str, ...]:
    """What is said of arrivals whose unit nobody gave, where the other one is likelier."""
    if requests < _FEW or not np.isfinite(rate) or (rate <= _FAST if unit == "ms" else rate >= _SLOW):
        return ()
    other = "seconds? --time-unit s" if unit == "ms" else "milliseconds? --time-unit ms"
    said = f"{rate:,.0f}" if rate > 1.0 else f"{rate:.2g}"
    return (f"timestamps read as {unit}: {said} requests/s; in {other}",)


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
        _OfRequests(),
        "a log: Azure, BurstGPT, Mooncake, vLLM, OpenAI's usage, ... or CSV",
        prominence=10,
        spellings=("--log",),
    )
    scale_rate: float = option_field(
        Number(1e6, 1e-6), "what if load doubles: 2 (a log comes so many times as fast)", 1.0, prominence=8
    )
    time_unit: Literal["s", "ms"] | None = option_field(
        OneOf(("s", "ms")), "unit of the log's timestamps", default_note="the format's own"
    )
    slice: str | tuple[float, float] | None = option_field(OfSlice(), "seconds of the log: 0:3600")
    limit: int | None = option_field(Whole(most=MOST_REQUESTS), "requests of the log")
    tokenizer: Path | str | None = option_field(File(), "tokenizer.json that counts ShareGPT's tokens")

    def __post_init__(self) -> None:
        super().__post_init__()
        of_logs = ("scale_rate", "time_unit", "slice", "limit", "tokenizer")
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
            return self._logged(seed, searched)
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

    def _logged(self, seed: int, searched: bool) -> Workload:
        """The requests of the log's file."""
        path, between = cast(Path, self.workload), cast("tuple[float, float] | None", self.slice)
        cut = LogSelection(*(between or (0.0, np.inf)), limit=self.limit, faster=self.scale_rate)
        workload, log = workload_of(
            path, cut, seed=seed, tokenizer=cast("Path | None", self.tokenizer), time_unit=self.time_unit
        )
        if workload.concurrency is None and workload.pattern_only and self.rates is None and not searched:
            from ssdsim.readers.request_logs.log import arrival_columns

            column = " or ".join(arrival_columns(log.form))
            raise InputError(
                f"{path}: its requests have no arrivals; give --rate{column and f', or a column {column}'}"
            )
        return self._paced(workload)

    def _paced(self, workload: Workload) -> Workload:
        """Pace a workload by a given rate: requests no longer come when others are answered."""
        return workload if self.rates is None else replace(workload, concurrency=None)
