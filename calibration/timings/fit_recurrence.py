"""Fit the timing models of recurrent layers: a token's step, whose states memory streams, and whole prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from calibration.timings.bootstrap import significant
from calibration.timings.fit import FEWEST_ROWS, hold_out, report
from calibration.timings.fit_corrected import those
from calibration.timings.hinges import domain_of
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.hardware.prefill_recurrence import PrefillRecurrenceCosts, PrefillRecurrenceModel
from ssdsim.hardware.recurrence import RecurrenceCosts, RecurrenceModel

Rows = Mapping[str, Array]
_LARGE = 0.05  # relative error from which on a row weighs less

# a step: launch_s, per_query_s, the memory's bandwidth as a share of the most, by how much the cache streams faster,
# the bytes of which half come from it as a share of its size, and how steeply that falls
_STEP_START = (4e-6, 4e-7, 0.8, 2.0, 0.5, 4.0)
_STEP_LEAST = (1e-7, 1e-9, 0.01, 1.0, 0.01, 1.0)
_STEP_MOST = (1e-4, 1e-4, 1.0, 20.0, 10.0, 16.0)

# prompts: launch_s, per_token_s, flops_per_s and bandwidth as shares of the most, sharpness
_PROMPT_START = (2e-5, 3e-8, 0.1, 0.3, 2.0)
_PROMPT_LEAST = (1e-7, 1e-12, 1e-4, 0.001, 1.0)
_PROMPT_MOST = (1e-3, 1e-6, 1.0, 1.0, 8.0)


def fit_recurrence(
    rows: Rows, source: str, most_bandwidth: float, cache_bytes: float, per_query_s: float | None = None
) -> RecurrenceModel:
    """The model of timed steps, as they take from memory.

    A table repeats a step on one buffer, so what fits into the cache comes from there. The fit has a bandwidth for
    that, too, and the model keeps the memory's alone; its errors are those of rows held out, with both.

    Parameters
    ----------
    rows : ``batch``, ``queries``, ``state_bytes`` (of one sequence), ``streamed_bytes``, ``held_bytes`` (of the buffer)
        and ``seconds``.
    most_bandwidth, cache_bytes : of the device's memory and of its last cache.
    per_query_s : of another fit, where all rows have one query.
    """

    def costs(numbers: Array) -> RecurrenceCosts:
        launch_s, own_s, of_bandwidth = map(float, numbers[:3])
        each_s = own_s if per_query_s is None else per_query_s
        return RecurrenceCosts(launch_s=launch_s, per_query_s=each_s, bandwidth=of_bandwidth * most_bandwidth)

    def seconds(numbers: Array, some: Rows) -> Array:
        faster, edge, steepness = numbers[3:]
        cached = 1.0 / (1.0 + (some["held_bytes"] / (edge * cache_bytes)) ** steepness)
        streamed_bytes = some["streamed_bytes"] * (1.0 - cached + cached / faster)
        return costs(numbers).seconds(some["queries"], streamed_bytes)

    numbers = (_STEP_START, _STEP_LEAST, _STEP_MOST)
    return RecurrenceModel(source=source, **_fitted(RecurrenceModel, costs, seconds, rows, numbers))


def fit_prefill_recurrence(rows: Rows, source: str, most_bandwidth: float, most_flops: float) -> PrefillRecurrenceModel:
    """The model of timed prompts.

    ``rows`` are ``batch``, ``tokens`` (of each prompt), ``heads``, ``flops``, ``state_bytes`` (both of all prompts) and
    ``seconds``.
    """

    def costs(numbers: Array) -> PrefillRecurrenceCosts:
        launch_s, per_token_s, of_flops, of_bandwidth, sharpness = map(float, numbers)
        return PrefillRecurrenceCosts(
            launch_s=launch_s, per_token_s=per_token_s, flops_per_s=of_flops * most_flops,
            bandwidth=of_bandwidth * most_bandwidth, sharpness=sharpness,
        )  # fmt: skip

    def seconds(numbers: Array, some: Rows) -> Array:
        return costs(numbers).seconds(some["tokens"], some["flops"], some["state_bytes"])

    numbers = (_PROMPT_START, _PROMPT_LEAST, _PROMPT_MOST)
    return PrefillRecurrenceModel(source=source, **_fitted(PrefillRecurrenceModel, costs, seconds, rows, numbers))


def _fitted(
    kind: type[RecurrenceModel | PrefillRecurrenceModel],
    costs: Callable[[Array], RecurrenceCosts | PrefillRecurrenceCosts],
    seconds: Callable[[Array, Rows], Array],
    rows: Rows,
    numbers: tuple[Sequence[float], ...],
) -> dict[str, Any]:
    """A model's domain, its costs as fitted to all rows, and its errors of those held out.

    ``numbers`` are those that the fit starts from, the least and the most.
    """
    if (count := len(rows["seconds"])) < 2 * FEWEST_ROWS:
        raise InputError(f"recurrence: {count} rows are too few to fit; at least {2 * FEWEST_ROWS}")
    start, least, most = map(np.log, numbers)

    def fit(some: Rows) -> Array:
        def residuals(logs: Array) -> Array:
            return np.asarray(np.log(seconds(np.exp(logs), some) / some["seconds"]))

        fit = least_squares(residuals, start, loss="soft_l1", f_scale=_LARGE, bounds=(least, most))
        return np.asarray(np.exp(fit.x))

    held = hold_out(len(rows["seconds"]))
    unseen, seen = those(rows, held), those(rows, ~held)
    return {
        "domain": domain_of({name: rows[name] for name in kind.dimensions}),
        "report": report(unseen["seconds"], seconds(fit(seen), unseen), int(np.sum(~held)), len(start)),
        "costs": {name: significant(value) for name, value in costs(fit(rows)).model_dump().items()},
    }
