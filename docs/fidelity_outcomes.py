"""Rows of public tables, and errors of cards on rows: those that they were fitted to, or groups that had no part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calibration.runtimes.fit import without_each
from ssdsim.base.checks import Array
from ssdsim.base.intervals import bounds_95
from ssdsim.base.record import Record
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.pricing.cost import TimingErrors
from ssdsim.readers.priced_row import seconds_of, work_of
from ssdsim.readers.row import Row

DRAWS = 400
SAMPLED = "batch_or_concurrency input_len output_len value"
"""Columns of AIC's silicon_sample."""


def decoding(each: Any, model: str, columns: str, **known: Any) -> Row:
    """A row of decoding without a draft of a public table.

    ``columns`` are those of the sequences in flight, the tokens of prompts and of answers, and the time of a token.
    """
    batch, prompt, answer, tpot_ms = (getattr(each, name) for name in columns.split())
    return Row(
        model=model,
        hardware=each.gpu.replace("_", "-"),
        tp=int(each.tp),
        batch=int(batch),
        input_tokens=float(prompt),
        output_tokens=float(answer),
        metric="tpot_ms",
        value=float(tpot_ms),
        **known,
    )


class Outcome(Record):
    """Errors of rows: predicted / measured - 1, and the ends of the 95 % interval over the measured value."""

    rows: Sequence[Row]
    errors: Array
    low: Array
    high: Array

    @staticmethod
    def of(rows: Sequence[Row], card: Runtime) -> Outcome:
        draws = TimingErrors(DRAWS, 0)
        made, ends = [], []
        for row in rows:
            cost, seconds = work_of(row, card).cost, seconds_of(row)
            made.append(cost.seconds / seconds - 1.0)
            ends.append(np.array(bounds_95(cost.sample(draws))) / seconds)
        low, high = np.array(ends).T if ends else np.zeros((2, 0))
        return Outcome(rows, np.array(made), low, high)

    @staticmethod
    def together(parts: Sequence[Outcome]) -> Outcome:
        rows = [row for part in parts for row in part.rows]
        columns = (np.concatenate([getattr(part, name) for part in parts]) for name in ("errors", "low", "high"))
        return Outcome(rows, *columns)

    def where(self, kept: Callable[[Row], bool]) -> Outcome:
        """Some of the rows."""
        at = [number for number, row in enumerate(self.rows) if kept(row)]
        return Outcome([self.rows[number] for number in at], self.errors[at], self.low[at], self.high[at])

    @property
    def held(self) -> Array:
        return np.asarray((self.low <= 1.0) & (self.high >= 1.0), dtype=float)

    @property
    def half_widths(self) -> Array:
        """The half-widths of the intervals, relative to what is predicted."""
        return (self.high - self.low) / 2.0 / (1.0 + self.errors)


def left_out(rows: Sequence[Row], groups: Sequence[str], fitted: Callable[[Sequence[Row]], Runtime]) -> Outcome:
    """Each group of rows predicted by the card that ``fitted`` makes of all others, in the order of ``rows``.

    ``groups`` names the group of every row: its series, its GPU's generation, its engine's version. Where all rows are
    of one group, nothing predicts them: nan.
    """
    errors, low, high = np.full((3, len(rows)), np.nan)
    for own in without_each(groups):
        card = fitted([row for row, out in zip(rows, own, strict=True) if not out])
        outcome = Outcome.of([row for row, out in zip(rows, own, strict=True) if out], card)
        errors[own], low[own], high[own] = outcome.errors, outcome.low, outcome.high
    return Outcome(rows, errors, low, high)
