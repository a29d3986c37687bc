"""Measured rows against predictions: what an error, an interval and a summary are."""

from __future__ import annotations

import numpy as np
import pytest

from calibration.validation.measured import (
    AXES,
    always,
    check_rows,
    check_what_can_be,
    likelier_caches,
    likelier_formats,
    of_engine,
    of_hardware,
    summarise,
)
from ssdsim.hardware.runtime_numbers import CardErrors
from tests.refusals import refused
from tests.ssdsim.readers.engines import BATCHES, HIDDEN, MODEL_IDS, measured, served

WRONG = HIDDEN.changed(name="wrong by 10 %", errors=CardErrors(pass_log_sd=0.1))


def test_rows_of_the_runtime_itself_have_no_error() -> None:
    rows = [measured(served(batch=4, metric=metric)) for metric in ("step_ms", "tpot_ms", "latency_s", "tokens_per_s")]
    checked = check_rows(rows, HIDDEN)
    assert [one.predicted for one in checked] == pytest.approx([row.value for row in rows])
    assert [one.error for one in checked] == pytest.approx([0.0] * 4)
    assert all(one.low < one.predicted < one.high and one.holds for one in checked)


def test_an_error_is_of_seconds_in_every_metric() -> None:
    """A measurement that is 10 % too slow has the same error as a throughput that is so much less."""
    slow = [measured(served(metric="tpot_ms"), off_by=1.1), measured(served(metric="tokens_per_s"), off_by=1 / 1.1)]
    assert [one.error for one in check_rows(slow, HIDDEN)] == pytest.approx([1 / 1.1 - 1] * 2)


@pytest.mark.long
def test_intervals_hold_as_often_as_the_runtime_s_error_says() -> None:
    """Engines drawn as the card says they may differ: of 200 that share one error, 95 % ± 4 % lie in the interval."""
    off = np.exp(0.1 * np.random.default_rng(0).standard_normal(200))
    row = served(batch=4, metric="step_ms")
    held = [one.holds for one in check_rows([measured(row, off_by=float(by)) for by in off], WRONG)]
    assert 0.91 <= np.mean(held) <= 0.99


def test_summaries_are_over_all_rows_and_along_every_axis() -> None:
    rows = [
        measured(served(model, batch, tp=tp), off_by=1.0 / (1.1 if batch == 1 else 0.9))
        for model in MODEL_IDS
        for batch in BATCHES
        for tp in (2, 4)
    ]
    every, *along = summarise(check_rows(rows, HIDDEN))
    assert (every.axis, every.rows, every.error) == ("", 20, pytest.approx(0.1))
    assert every.bias == pytest.approx(0.1 * (4 - 16) / 20)
    assert {one.axis for one in along} == AXES.keys()
    by_batch = [one for one in along if one.axis == "batch"]
    assert [one.value for one in by_batch] == [str(batch) for batch in BATCHES]
    assert [one.bias for one in by_batch] == pytest.approx([0.1] + [-0.1] * 4)
    for axis in AXES:
        assert sum(one.rows for one in along if one.axis == axis) == len(rows)


def test_a_row_that_cannot_be_predicted_is_named() -> None:
    with refused("row 2", "llama-3.1-8b", "h100-sxm", "batch 1"):
        check_rows([measured(served()), served(tp=7)], HIDDEN)


def test_a_row_that_cannot_be_predicted_is_skipped_and_named() -> None:
    """By every runtime alike: their errors are over the same rows."""
    rows = [measured(served()), served(tp=7), measured(served(batch=8))]
    checked, skipped = check_what_can_be(rows, [always(HIDDEN), always(WRONG)])
    assert [one.row for one in checked] == [rows[0], rows[2]] * 2
    assert [one.card for one in checked] == [HIDDEN, HIDDEN, WRONG, WRONG]
    (one,) = skipped
    assert str(one).startswith("row 2 (llama-3.1-8b, h100-sxm, batch 1): ")
    assert [summary.rows for summary in summarise(checked) if summary.axis == "runtime"] == [2, 2]
    with refused("row 1"):
        check_what_can_be([served(tp=7)], [of_hardware])


def test_each_row_may_have_the_card_of_its_engine() -> None:
    rows = [served(engine=engine) for engine in ("vllm", "sglang", "")]
    checked, skipped = check_what_can_be(rows, [of_engine])
    assert [one.card.name for one in checked] == ["vllm-0.9", "sglang"]
    assert [one.reason for one in skipped] == ["names no engine, and --engine each takes its card"]


@pytest.mark.parametrize("kept", ["float8", "bfloat16"])
def test_a_cache_that_no_row_speaks_of_is_named_where_it_explains_the_errors(kept: str) -> None:
    """Rows of an engine that keeps another cache than its card, long contexts among them."""
    card = HIDDEN.changed(cache_dtype=None if kept == "float8" else "float8")
    keeps = HIDDEN.changed(cache_dtype="float8" if kept == "float8" else None)
    rows = [measured(served(batch=b, tp=2, dtype="float8", input_tokens=8000), keeps) for b in (16, 64)]
    assert likelier_caches(check_rows(rows, keeps)) == []
    (found,) = likelier_caches(check_rows(rows, card))
    assert (found.value, found.rows, found.error) == (kept, 2, pytest.approx(0.0, abs=1e-9))
    stated = [row.changed(kv_dtype="bfloat16") for row in rows]
    assert likelier_caches(check_rows(stated, card)) == []


@pytest.mark.parametrize(("meant", "called"), [("float8-block", "float8"), ("float8", "float8-block")])
def test_a_format_that_fits_as_the_other_one_of_its_name_is_told(meant: str, called: str) -> None:
    """Rows of weights with a scale a block that call themselves fp8, as others do that have one a matrix."""
    shape = {"tp": 2, "hardware": "h200-sxm", "kv_dtype": "bfloat16"}
    rows = [measured(served("llama-3.1-70b", b, dtype=meant, **shape)) for b in (4, 64)]
    assert likelier_formats(check_rows(rows, HIDDEN)) == []
    (found,) = likelier_formats(check_rows([row.changed(dtype=called) for row in rows], HIDDEN))
    assert (found.column, found.value, found.rows) == ("dtype", meant, 2)
    assert found.shown()["dtype"] == meant
    assert found.error < 0.6 * found.error_as_taken
