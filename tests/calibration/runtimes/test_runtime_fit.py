"""Fits of runtimes: what few rows, rows of one series and odd requests make of a card."""

from __future__ import annotations

import numpy as np
import pytest

from calibration.runtimes.fit import DECODING, SPECULATING, default_fields, fit_runtime
from calibration.runtimes.next_row import PRIOR_SD
from calibration.runtimes.solution import features
from calibration.runtimes.unseen import times_others
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.hardware.runtime_numbers import CardErrors
from ssdsim.pricing.cost import TimingErrors
from ssdsim.readers.priced_row import value_of, work_of
from ssdsim.readers.row import Row
from tests.refusals import refused

HIDDEN = find_runtime("sglang")


def a_row(batch: int, series: str = "", factor: float = 1.0, k: int | None = None, tp: int = 1) -> Row:
    """A step as the hidden card prices it, times a factor."""
    row = Row(
        model="llama-3.1-8b",
        hardware="h100-sxm",
        tp=tp,
        batch=batch,
        input_tokens=512,
        output_tokens=256,
        metric="step_ms",
        value=1.0,
        k=k,
        series=series,
    )
    return row.changed(value=factor * value_of(row, work_of(row, HIDDEN).cost.seconds))


BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)


def start() -> Runtime:
    return HIDDEN.changed(name="start")


def test_a_field_that_is_named_twice_is_fitted_once() -> None:
    rows = [a_row(batch) for batch in BATCHES]
    once, twice = (fit_runtime(rows, start(), "x", fields=fields).card for fields in (("gemm",), ("gemm", "gemm")))
    assert once.kernels == twice.kernels
    with refused("gem", "gemm"):
        fit_runtime(rows, start(), "x", fields=("gem",))


def test_fields_are_those_that_the_rows_pay() -> None:
    """Experts where mixtures are, drafts where speculation is, messages where several devices are.

    Attention that takes its bytes has no factor.
    """
    own = start().changed(kernels=start().kernels.changed(streaming_attention=False))

    def chosen(*rows: Row, base: Runtime = own) -> tuple[str, ...]:
        return default_fields(features(rows, base), base)

    alone = tuple(field for field in DECODING if field != "communication")
    assert chosen(a_row(1)) == alone
    assert chosen(a_row(1), a_row(1, tp=2)) == DECODING
    assert chosen(a_row(1, k=3)) == SPECULATING
    assert chosen(a_row(1), a_row(1, k=3)) == (*alone, *SPECULATING)
    assert chosen(a_row(1), base=start()) == tuple(field for field in alone if field != "attention")
    mixture = a_row(1).changed(model="gpt-oss-120b")
    of_experts = {"experts_4_bit", "per_expert_layer_s"}
    assert of_experts < set(chosen(mixture))
    assert not {"experts", "experts_nvfp4", "per_expert_prompt_s"} & set(chosen(mixture))


def test_few_rows_may_be_fitted_and_leave_open_what_they_do_not_tell() -> None:
    """Numbers of which they say nothing stay near the start, and their intervals say so."""
    rows = [a_row(batch, factor=1.2) for batch in (1, 4, 16, 128)]
    fit = fit_runtime(rows, start(), "x")
    assert fit.error < 0.06
    assert set(fit.identified) < set(fit.fields)
    assert not fit.alike
    untold = [at for at, field in enumerate(fit.fields) if field not in fit.identified]
    for at in untold:
        assert fit.high[at] - fit.low[at] > PRIOR_SD[fit.fields[at]]


def test_rows_of_one_series_say_less_than_as_many_of_several() -> None:
    """An error that a whole series shares is one error, however many rows show it."""
    factors = (0.9, 1.0, 1.1)
    alone = [a_row(b, f"{b} {f}", f) for f in factors for b in BATCHES]
    shared = [a_row(b, str(f), f) for f in factors for b in BATCHES]
    narrow, wide = (fit_runtime(rows, start(), "x", fields=("per_step_s",)) for rows in (alone, shared))
    assert narrow.card.host.per_step_s == pytest.approx(wide.card.host.per_step_s)
    assert wide.high[0] - wide.low[0] > 2.0 * (narrow.high[0] - narrow.low[0])


def test_rows_of_speculation_leave_the_error_of_a_pass_alone() -> None:
    rows = [a_row(batch, k=k) for batch in BATCHES for k in (2, 4)]
    fit = fit_runtime(rows, start(), "x")
    assert fit.fields == SPECULATING
    assert fit.card.errors.beside_log_sd == HIDDEN.errors.beside_log_sd
    assert fit.card.wander == HIDDEN.wander
    assert fit.error < 0.01


def test_the_error_of_few_series_is_drawn_towards_that_of_others() -> None:
    exact = times_others(np.zeros(8), ["one"] * 8)
    many = times_others(np.zeros(400), [str(number // 2) for number in range(400)])
    assert exact > 0.9
    assert many < 0.3
    assert times_others(np.full(8, 4.0), list("abcdefgh")) > 1.4
    assert times_others(np.ones(8), list("abcdefgh")) == pytest.approx(1.0, abs=0.1)


def test_a_card_of_one_model_knows_less_of_another() -> None:
    """How the host's time splits into layers and steps, one model's rows do not say."""

    def half_width(fitted_to: str, asked: str) -> float:
        rows = [served(fitted_to, batch, f"{fitted_to} {tp}", tp) for batch in BATCHES for tp in (2, 4)]
        card = fit_runtime(rows, start(), "x").card
        bare = card.changed(errors=CardErrors())
        drawn = work_of(served(asked, 1, tp=2), bare).cost.sample(TimingErrors(400, 0))
        return float(np.log(drawn).std())

    large, small = "llama-3.1-70b", "llama-3.1-8b"
    assert half_width(large, small) > 1.5 * half_width(small, small)


def served(model: str, batch: int, series: str = "", tp: int = 1) -> Row:
    """A step of a model as the hidden card prices it."""
    row = a_row(batch, series, tp=tp).changed(model=model)
    return row.changed(value=value_of(row, work_of(row, HIDDEN).cost.seconds))
