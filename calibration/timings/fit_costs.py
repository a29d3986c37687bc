"""Fit laws that are sums of costs: steps and prompts of recurrent layers, and attention over a latent cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from calibration.timings.fit import FEWEST_ROWS, hold_out, report, significant
from calibration.timings.fit_roofline import domain_of, those
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.hardware.latent import LatentCosts, LatentModel
from ssdsim.hardware.prefill import PrefillRecurrenceCosts, PrefillRecurrenceModel
from ssdsim.hardware.recurrence import RecurrenceCosts, RecurrenceModel

Rows = Mapping[str, Array]
_FEWEST = 2 * FEWEST_ROWS
_LARGE_RECURRENCE, _LARGE_LATENT = 0.05, 0.03  # relative error from which on a row weighs less

# a step: launch_s, per_query_s, the memory's bandwidth as a share of the most, by how much the cache streams faster,
# the bytes of which half come from it as a share of its size, and how steeply that falls
_STEP_START = (4e-6, 4e-7, 0.8, 2.0, 0.5, 4.0)
_STEP_LEAST = (1e-7, 1e-9, 0.01, 1.0, 0.01, 1.0)
_STEP_MOST = (1e-4, 1e-4, 1.0, 20.0, 10.0, 16.0)

# prompts: launch_s, per_token_s, flops_per_s and bandwidth as shares of the most, sharpness
_PROMPT_START = (2e-5, 3e-8, 0.1, 0.3, 2.0)
_PROMPT_LEAST = (1e-7, 1e-12, 1e-4, 0.001, 1.0)
_PROMPT_MOST = (1e-3, 1e-6, 1.0, 1.0, 8.0)

# a latent cache: the fields of LatentCosts in their order, the bandwidth as a share of the most
_LATENT_START = (3e-5, 3e-6, 2e-6, 5e-8, 1e-9, 1e-10, 0.9, 7e14, 3.0)
_LATENT_LEAST = (1e-9, 1e-9, 1e-9, 1e-12, 1e-13, 1e-14, 0.01, 1e12, 1.0)
_LATENT_MOST = (1e-3, 1e-4, 1e-4, 1e-5, 1e-7, 1e-7, 1.0, 1e17, 12.0)
_NOTHING = 2.0  # times the least of a cost: it was driven to its bound


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
    return RecurrenceModel(source=source, **_recurrence_fields(RecurrenceModel, costs, seconds, rows, numbers))


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
    return PrefillRecurrenceModel(
        source=source, **_recurrence_fields(PrefillRecurrenceModel, costs, seconds, rows, numbers)
    )


def _recurrence_fields(
    kind: type[RecurrenceModel | PrefillRecurrenceModel],
    costs: Callable[[Array], RecurrenceCosts | PrefillRecurrenceCosts],
    seconds: Callable[[Array, Rows], Array],
    rows: Rows,
    numbers: tuple[Sequence[float], ...],
) -> dict[str, Any]:
    """A model's domain, its costs fitted to all rows, and its errors on held-out rows."""
    if (count := len(rows["seconds"])) < _FEWEST:
        raise InputError(f"recurrence: {count} rows are too few to fit; at least {_FEWEST}")

    def fit(some: Rows) -> Array:
        def residuals(tried: Array) -> Array:
            return np.asarray(np.log(seconds(tried, some) / some["seconds"]))

        return _minimised(residuals, numbers, _LARGE_RECURRENCE)

    held = hold_out(count)
    unseen, seen = those(rows, held), those(rows, ~held)
    return {
        "domain": domain_of({name: rows[name] for name in kind.dimensions}),
        "report": report(unseen["seconds"], seconds(fit(seen), unseen), int(np.sum(~held)), len(numbers[0])),
        "costs": {name: significant(value) for name, value in costs(fit(rows)).as_dict().items()},
    }


def fit_latent(rows: Rows, source: str, most_bandwidth: float) -> LatentModel:
    """The model of an attention block's time beyond its products, streaming at most at ``most_bandwidth``.

    ``rows`` hold ``batch, rows, context, cached, cache_bytes, row_flops`` as :class:`LatentCosts` has them, the
    ``seconds`` of the block, and ``products_s`` of its other operations timed alone. Errors are those of whole held-out
    blocks: a block less its products may be next to nothing, and nobody waits for it alone.
    """
    if (count := len(rows["seconds"])) < _FEWEST:
        raise InputError(f"latent attention: {count} rows are too few to fit; at least {_FEWEST}")
    held = hold_out(count)
    unseen, trained = those(rows, held), _fit_latent_costs(those(rows, ~held), most_bandwidth)
    predicted = unseen["products_s"] + _latent_seconds(trained, unseen)
    return LatentModel(
        source=source,
        domain=domain_of({name: rows[name] for name in LatentModel.dimensions}),
        report=report(unseen["seconds"], predicted, int(np.sum(~held)), len(_LATENT_START)),
        costs=_fit_latent_costs(rows, most_bandwidth),
    )


def _latent_seconds(costs: LatentCosts, rows: Rows) -> Array:
    return costs.seconds(rows["batch"], 1, rows["rows"], rows["cache_bytes"], rows["row_flops"])


def _fit_latent_costs(rows: Rows, most_bandwidth: float) -> LatentCosts:
    """Costs of least squared relative errors of whole blocks; those at their lower bound become 0."""

    def costs(numbers: Array) -> LatentCosts:
        named = dict(zip(LatentCosts.__struct_fields__, map(float, numbers), strict=True))
        return LatentCosts(**{**named, "bandwidth": most_bandwidth * named["bandwidth"]})

    def residuals(tried: Array) -> Array:
        return np.asarray((rows["products_s"] + _latent_seconds(costs(tried), rows)) / rows["seconds"] - 1.0)

    fitted = costs(_minimised(residuals, (_LATENT_START, _LATENT_LEAST, _LATENT_MOST), _LARGE_LATENT))
    least = dict(zip(LatentCosts.__struct_fields__, _LATENT_LEAST, strict=True))
    fields = {name: significant(value) for name, value in fitted.as_dict().items()}
    return LatentCosts(**{name: 0.0 if value < _NOTHING * least[name] else value for name, value in fields.items()})


def _minimised(residuals: Callable[[Array], Array], numbers: tuple[Sequence[float], ...], large: float) -> Array:
    """Positive numbers of least squared residuals; ``numbers`` are the start, the least and the most."""
    start, least, most = map(np.log, numbers)
    fitted = least_squares(
        lambda logs: residuals(np.exp(logs)), start, loss="soft_l1", f_scale=large, bounds=(least, most)
    )
    return np.asarray(np.exp(fitted.x))
