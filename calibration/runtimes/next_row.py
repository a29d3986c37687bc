"""The next row to measure: the one that reduces the uncertainty of predictions most."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from calibration.runtimes.solution import FIELDS, PRIOR_SD, Features, features
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.question.configuration import configure
from ssdsim.readers.priced_row import options_of
from ssdsim.readers.row import Row
from ssdsim.transformer.parallel_degrees import legal_tensor_parallel

BATCHES = (1, 8, 32, 128)
CONTEXTS = (512, 8192)
_OUTPUT = 256


class Posterior(Record):
    """All numbers after a fit: their values and covariance, and the noise of a row as a share of its seconds."""

    values: Array
    covariance: Array
    noise: float

    @staticmethod
    def after(made: Features, base: Runtime, values: Array, noise: float) -> Posterior:
        """The posterior after these rows, with the prior of every number, or the ``base`` card's of unpaid ones."""
        slopes = made.per_unit / made.seconds[:, None]
        sds = [
            PRIOR_SD[name] if column.any() else _wandering(base, name) or PRIOR_SD[name]
            for name, column in zip(FIELDS, slopes.T, strict=True)
        ]
        precision = slopes.T @ slopes / noise**2 + np.diag(np.power(sds, -2.0))
        return Posterior(values, np.asarray(np.linalg.inv(precision)), noise)


def _wandering(base: Runtime, name: str) -> float:
    return math.hypot(*(way.get(name, 0.0) for way in base.wander))


class NextRow(Record):
    """A row to measure, and the root mean square log-sd of predictions without and with it."""

    row: Row
    without: float
    with_it: float


def next_row(rows: Sequence[Row], card: Runtime, known: Posterior) -> NextRow | None:
    """The most informative of rows like the given ones, at every degree, batch and context that fits in memory.

    A linear model predicts a row of slopes ``x`` with variance ``x C x'``. One more row of slopes ``r`` reduces that by
    ``(x C r')^2 / (noise^2 + r C r')``. The best row reduces the mean over all candidates most.
    """
    asked = list(candidates(rows))
    if not asked:
        return None
    made = features(asked, card)
    slopes = made.per_unit / made.predicted(known.values)[:, None]
    together = slopes @ known.covariance @ slopes.T
    squares = np.diag(together)
    told = (together**2).mean(axis=0) / (known.noise**2 + squares)
    best = int(np.argmax(told))
    before = float(squares.mean())
    return NextRow(asked[best], float(np.sqrt(before)), float(np.sqrt(max(0.0, before - told[best]))))


def candidates(rows: Sequence[Row]) -> Iterator[Row]:
    """Steps of the model that most rows are of, without speculation and with what drafts in the rows."""
    (model, hardware), _ = Counter((row.model, row.hardware) for row in rows).most_common(1)[0]
    like = {row.k: row for row in rows if (row.model, row.hardware) == (model, hardware)}
    device = find_hardware(hardware).device
    degrees = [tp for tp in legal_tensor_parallel(find_transformer(model)) if tp <= device.count]
    step = {"output_tokens": float(_OUTPUT), "metric": "step_ms", "value": 1.0, "series": ""}
    for template, tp, batch, context in product(like.values(), degrees, BATCHES, CONTEXTS):
        changed = {"tp": tp, "ep": 1, "batch": batch, "input_tokens": float(context)}
        row = template.changed(**changed, **step)
        if _has_room(row):
            yield row


def _has_room(row: Row) -> bool:
    try:
        configure(**options_of(row))
    except InputError:
        return False
    return True
