"""A log of requests as a workload: a part of it, at another pace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.kinds import Kind
from ssdsim.base.record import Record, replace
from ssdsim.serving.workload import Workload, of_columns

if TYPE_CHECKING:
    from ssdsim.readers.request_logs.log import RequestLog


class Cut(Record):
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
        return float(first or 0.0), float(last or np.inf)

    def checked(self, said: str, value: Any) -> tuple[float, float]:
        try:
            start, end = self.parse(value) if isinstance(value, str) else map(float, value)
        except (TypeError, ValueError):
            raise InputError(f"{said} must {self.requirement}, got {short_repr(value)}") from None
        if not 0.0 <= start < end:
            raise InputError(f"{said} must {self.requirement}, got {short_repr(value)}")
        return start, end


def workload_of(
    path: str | Path, cut: Cut | None = None, *, seed: int = 0, tokenizer: Path | None = None
) -> tuple[Workload, RequestLog]:
    """The requests of a file, and the log that they come from, cut alike; ``tokenizer`` counts tokens of conversations.

    Raises
    ------
    InputError : as :func:`ssdsim.readers.request_logs.records.read_log` does; nothing is left.
    """
    from ssdsim.readers.request_logs.records import read_log  # here, because most requests are made up

    cut, log = cut or Cut(), read_log(path, tokenizer)
    log = _part(log, cut, str(path))
    source = f"{Path(path).name} ({log.form})"
    arrivals = log.arrival_s
    workload = of_columns(arrivals, log.input_tokens, log.output_tokens, source, seed=seed)
    if cut.faster != 1.0:
        if arrivals is None:
            raise InputError(f"{path}: --scale-rate has no effect (the file has no arrivals)")
        workload = workload.faster(cut.faster)
    return replace(workload, concurrency=log.concurrency, notes=(*log.notes, *workload.notes)), log


def _part(log: RequestLog, cut: Cut, where: str) -> RequestLog:
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
        measured_ms={name: values[keep] for name, values in log.measured_ms.items()},
    )
