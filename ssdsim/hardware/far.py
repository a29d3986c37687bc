"""Warnings of a case that is far from the rows behind a runtime card."""

from __future__ import annotations

import math

from ssdsim.hardware.runtime_card import Runtime
from ssdsim.hardware.training_domain import OperatingPoint, TrainingDomain, distance

_NOTICED = 1.25  # times the log-sd of seconds beside matrices at home

_WORDS = {
    "gpu": "another GPU",
    "degree": "another degree",
    "size": "another size of model",
    "batch": "other batches",
    "version": "another version",
    "experts": "another kind of model",
    "experts_gpu": "another GPU",
}


def far_from_rows(runtime: Runtime, case: OperatingPoint) -> frozenset[str]:
    """A line on its nearest rows and what is other there, if intervals are noticeably wider for it; else nothing."""
    far = distance(case, runtime.covered, runtime.away)
    nearest = far.farther
    if nearest is None or _log_sd(runtime.facing(case), case) < _NOTICED * _log_sd(runtime, case):
        return frozenset()
    unseen = all(each.device != case.device for each in runtime.covered)
    said = f"no row of the runtime {runtime.name} is on a {case.device}; " if unseen else ""
    words = dict.fromkeys(_WORDS[way] for way in far.ways)
    where = f"the nearest rows of {runtime.name} are of {_setting(nearest.nearest)}"
    return frozenset([f"{said}{where}: intervals are wider for {' and '.join(words)}"])


def _log_sd(runtime: Runtime, case: OperatingPoint) -> float:
    """The log-sd of seconds beside matrices, with what a whole pass is off by."""
    errors = runtime.errors
    return math.hypot(errors.pass_log_sd, errors.beside_log_sd, errors.experts_log_sd if case.experts else 0.0)


def _setting(covered: TrainingDomain) -> str:
    low, high = covered.batches
    batches = f"batches {low} to {high}" if low < high else f"batch {low}"
    kind = "a mixture" if covered.experts else "a dense model"
    return f"{kind} on {covered.device} at TP {covered.tp}, {batches}"
