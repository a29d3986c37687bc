"""What a warning says of a case that is far from the rows behind a runtime card."""

from __future__ import annotations

import math

from ssdsim.runtimes.card import Runtime
from ssdsim.runtimes.covered import Case, Covered, distance

_NOTICED = 1.25  # times the log-sd of seconds beside matrices at home

_WORDS = {
    "gpu": "another GPU",
    "degree": "another degree",
    "size": "another size of model",
    "batch": "other batches",
    "version": "another version",
}


def far_from_rows(runtime: Runtime, case: Case) -> frozenset[str]:
    """Where its nearest rows are and what is other there, if intervals are noticeably wider for it; else nothing."""
    far = distance(case, runtime.covered, runtime.away)
    if far.nearest is None or _log_sd(runtime.facing(case)) < _NOTICED * _log_sd(runtime):
        return frozenset()
    unseen = all(each.device != case.device for each in runtime.covered)
    said = f"no row of the runtime {runtime.name} is on a {case.device}; " if unseen else ""
    kinds = "mixtures of experts" if case.experts else "dense models"
    words = (kinds if way == "experts" else _WORDS[way] for way in far.ways)
    where = f"the nearest rows of {runtime.name} are {_setting(far.nearest)}"
    return frozenset([f"{said}{where}: intervals are wider for {' and '.join(words)}"])


def _log_sd(runtime: Runtime) -> float:
    return math.hypot(runtime.errors.pass_log_sd, runtime.errors.beside_log_sd)


def _setting(covered: Covered) -> str:
    low, high = covered.batches
    batches = f"batches {low} to {high}" if low < high else f"batch {low}"
    kind = "a mixture" if covered.experts else "a dense model"
    return f"{kind} on {covered.device} at TP {covered.tp}, {batches}"
