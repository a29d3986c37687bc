"""Groups of rows that are predicted by cards in which they had no part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from fidelity_outcomes import left_out

from calibration.runtimes.fit import without_each
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.readers.priced_row import value_of, work_of
from ssdsim.readers.row import Row

CARD = find_runtime("sglang")


def row(batch: int, hardware: str) -> Row:
    shape = {"input_tokens": 256, "output_tokens": 128, "metric": "step_ms", "value": 1.0}
    asked = Row(model="llama-3.1-8b", hardware=hardware, batch=batch, **shape)
    return asked.changed(value=value_of(asked, work_of(asked, CARD).cost.seconds))


def test_a_group_is_predicted_by_a_card_of_all_other_rows() -> None:
    rows = [row(batch, hardware) for batch in (1, 8) for hardware in ("h100-sxm", "h200-sxm")]
    seen: list[set[str]] = []

    def fitted(others: Sequence[Row]) -> Runtime:
        seen.append({other.hardware for other in others})
        return CARD

    outcome = left_out(rows, [each.hardware for each in rows], fitted)
    assert seen == [{"h200-sxm"}, {"h100-sxm"}]
    assert outcome.errors == pytest.approx(np.zeros(4), abs=1e-9)
    assert outcome.held.all()
    of_one = outcome.where(lambda each: each.hardware == "h100-sxm")
    assert [each.batch for each in of_one.rows] == [1, 8]
    assert (of_one.half_widths > 0.0).all()


def test_nothing_predicts_rows_that_are_all_of_one_group() -> None:
    assert not list(without_each(["one", "one"]))
    assert np.isnan(left_out([row(1, "h100-sxm")], ["one"], lambda others: CARD).errors).all()
