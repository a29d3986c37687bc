"""A measured row has the price that ``predict`` gives its setting: there is one."""

from __future__ import annotations

from typing import Any

import pytest

from calibration.runtimes.fit import fit_runtime
from calibration.validation.measured import check_rows
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.question.configuration import configure
from ssdsim.readers.priced_row import options_of, work_of
from ssdsim.readers.row import Row
from tests.refusals import refused
from tests.ssdsim.readers.engines import measured, served

SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "AR": ({}, {"strategies": ("ar",)}),
    "draft model": ({"k": 4, "draft": "llama-3.2-1b"}, {"k": 4, "draft": "llama-3.2-1b"}),
    "a head": ({"k": 4}, {"k": 4, "drafter": "eagle3"}),
    "EAGLE-3": ({"k": 3, "drafter": "eagle3"}, {"k": 3, "drafter": "eagle3"}),
    "EAGLE": ({"k": 3, "drafter": "eagle"}, {"k": 3, "drafter": "eagle"}),
    "a tree": (
        {"k": 5, "tree_beam": 3, "tree_nodes": 5},
        {"strategies": ("tree",), "drafter": "eagle3", "tree_depth": 5, "tree_beam": 3, "tree_nodes": 5},
    ),
    "a model's tree": (
        {"k": 3, "tree_beam": 4, "tree_nodes": 15, "draft": "llama-3.2-1b"},
        {"strategies": ("tree",), "draft": "llama-3.2-1b", "tree_depth": 3, "tree_beam": 4, "tree_nodes": 15},
    ),
    "MTP": (
        {"k": 1, "model": "deepseek-r1", "hardware": "h200-sxm", "tp": 8, "draft_dtype": "bfloat16"},
        {"k": 1, "target": "deepseek-r1", "hardware": "h200-sxm", "tp": 8, "drafter": "mtp", "draft_dtype": "bfloat16"},
    ),
    "a shared cache": (
        {"model": "deepseek-r1", "hardware": "h200-sxm", "tp": 8, "dcp": 8, "k": 1},
        {"target": "deepseek-r1", "hardware": "h200-sxm", "tp": 8, "dcp": 8, "k": 1, "drafter": "mtp"},
    ),
}
"""Columns of a row, and the options of ``predict`` that say the same."""


@pytest.mark.parametrize("runtime", ["ssd-engine", "vllm", "vllm-0.16", "sglang", "kernels"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_row_is_priced_as_predict_prices_it(setting: str, runtime: str) -> None:
    """A draft of one of four GPUs tells the others; a head's passes are its kernels and its own cost of a step."""
    columns, options = SETTINGS[setting]
    same = {"input_tokens": 1024, "output_tokens": 1, "metric": "step_ms", "model": "llama-3.1-70b", "tp": 4}
    row = served(batch=8, **{**same, **columns})
    asked = {"strategies": ("sd",), "target": "llama-3.1-70b", "hardware": "h100-sxm", "tp": 4, **options}
    if columns:
        asked |= {"alpha": 0.7, "sd_draft": "colocated"}
    (scenario,) = configure(b=8, context=1024, engine=runtime, **asked).scenarios.values()
    (checked,) = check_rows([row], find_runtime(runtime))
    assert checked.predicted == pytest.approx(1e3 * float(scenario.estimate.round_s), rel=1e-12)
    (said,) = configure(**options_of(row), engine=runtime).scenarios.values()
    assert said.estimate.round_s == pytest.approx(scenario.estimate.round_s, rel=1e-12)


@pytest.mark.parametrize("setting", ["EAGLE-3", "a tree"])
def test_a_round_has_one_error_whoever_asks(setting: str) -> None:
    """What moves a predicted round moves the measured one of the same strategy, by the same draws."""
    row = served(batch=8, **{"input_tokens": 1024, "output_tokens": 1, "metric": "step_ms", **SETTINGS[setting][0]})
    (scenario,) = configure(**options_of(row), engine="vllm").scenarios.values()
    work = work_of(row, find_runtime("vllm"))
    assert scenario.priced.round_error is not None
    assert work.round_error == scenario.priced.round_error
    assert scenario.priced.round_error[0] in work.cost.terms.shared


def test_a_batch_that_was_run_is_not_asked_whether_it_fits() -> None:
    """Engines that let requests wait run concurrencies that no memory holds at once."""
    row = served("llama-3.1-70b", 512, tp=2, input_tokens=8000, metric="step_ms")
    with refused("largest batch"):
        configure(**options_of(row))
    assert work_of(row).cost.seconds > 0.0


def test_rows_of_a_drafter_that_finds_nothing_at_times_are_refused() -> None:
    with refused("row 1"):
        check_rows([served(k=3, acceptance_length=2.0, drafter="ngram")])


def test_a_drafter_that_finds_nothing_at_times_is_priced_as_predict_does() -> None:
    said = {"rounds": 40.0, "undrafted_rounds": 60.0, "acceptance_length": 1.8, "metric": "step_ms"}
    row = served(batch=4, k=3, drafter="ngram", **said)
    asked = {"target": row.model, "hardware": row.hardware, "tp": row.tp, "strategies": ("sd",), "drafter": "ngram"}
    (scenario,) = configure(
        **asked, b=4, k=3, found=0.4, context=row.context, alpha=0.5, engine="vllm"
    ).scenarios.values()
    assert work_of(row, find_runtime("vllm")).cost.seconds == pytest.approx(float(scenario.estimate.round_s), rel=1e-12)


def test_a_card_fitted_to_rows_of_a_head_prices_its_steps_so() -> None:
    """Not by the step of heads that the card had which it was started from."""
    start = find_runtime("vllm")
    slow = start.changed(name="slow heads", head_step_s=1e-3, own_lm_head_step_s=4e-3)
    rows = [measured(head(batch, k), slow) for batch in (1, 4, 16) for k in (2, 3, 4, 6)]
    fit = fit_runtime(rows, start, "fitted")
    assert fit.card.host.per_draft_step_s == pytest.approx(4e-3, rel=0.05)
    assert fit.card.head_step_s is None
    assert max(abs(one.error) for one in check_rows(rows, fit.card)) < 0.02


def head(batch: int, k: int) -> Row:
    return served(batch=batch, k=k, metric="step_ms", series=f"K {k}")
