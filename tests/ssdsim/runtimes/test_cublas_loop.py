"""The proposal's machine: its graph on V100s in a loop over cuBLAS, and where SD's draft runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from ssdsim import predict, report, sweep
from ssdsim.answers.sweep_plan import plan_of
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.what_if import scale
from ssdsim.question.configuration import configure
from ssdsim.transformer.operations import Attention
from tests.refusals import refused

LOOP: dict[str, Any] = {
    "target": "transformer-shaped-8192x40",
    "draft": "transformer-shaped-2048x6",
    "hardware": "v100-sxm2-32gb",
    "engine": "cublas-loop",
    "p_hit": 0.85,
    "backup": "jit",
}


def speeds(**options: Any) -> dict[str, float]:
    scenarios = configure(**{**LOOP, **options}).scenarios
    return {name: float(each.estimate.tokens_per_second) for name, each in scenarios.items()}


def test_the_proposals_targets_hold() -> None:
    """Section 5.3: SD 3 to 4 times AR, about 2 at alpha 0.7; SSD 15 to 25 % over SD, and near zero by batch 8 to 16."""
    one, low = speeds(alpha=0.9, k=5), speeds(alpha=0.7, k=3)
    assert 3.0 < one["sd"] / one["ar"] < 4.0
    assert 1.8 < low["sd"] / low["ar"] < 2.3
    assert 1.15 < one["ssd"] / one["sd"] < 1.25
    by_batch = {b: speeds(alpha=0.9, k=5, b=b) for b in (8, 16)}
    assert 1.0 < by_batch[16]["ssd"] / by_batch[16]["sd"] < by_batch[8]["ssd"] / by_batch[8]["sd"] < 1.1


def test_the_page_has_these_ratios() -> None:
    from site_generator.shown import PROJECT

    rows = (PROJECT / "docs/how-to/course-project.md").read_text().split("## The proposal's boundary")[1].splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("|")][2:]
    settings: list[dict[str, Any]] = [{}, {"alpha": 0.7, "k": 3}, {"b": 8}, {"b": 16}]
    for column, draft in ((2, "transformer-shaped-2048x6"), (3, "transformer-shaped-1024x24")):
        one, low, *batches = (speeds(**{"draft": draft, "alpha": 0.9, "k": 5, **each}) for each in settings)
        ratios = [one["sd"] / one["ar"], low["sd"] / low["ar"], *(each["ssd"] / each["sd"] for each in (one, *batches))]
        assert [row[column] for row in cells] == [f"{ratio:.2f}" for ratio in ratios]


def test_the_preset_is_that_machine() -> None:
    plan = plan_of("proposal", {})
    assert plan.size == 10_890
    assert {name: plan.options[name] for name in ("target", "draft", "hardware", "engine")} == {
        name: LOOP[name] for name in ("target", "draft", "hardware", "engine")
    }
    other = plan_of("proposal", {"draft": "transformer-shaped-1024x24"})
    assert (other.size, other.options["draft"]) == (10_890, "transformer-shaped-1024x24")


def test_a_draft_beside_the_target_runs_on_as_many_gpus_as_is_asked() -> None:
    """Unasked on as many as its engine has it on; the title says so where these are several, or where it was asked."""
    took = {}
    for asked in (None, "one", "all", "faster"):
        found = configure(engine="kernels", draft_tp=asked, k=5, alpha=0.8)
        (piece,) = found.scenarios["sd"].priced.expected["draft"].pieces
        took[asked] = piece.cost.seconds
        assert ("SD's draft on 1" in found.title) is (asked == "one")
        assert ("SD's draft on 4" in found.title) is (asked != "one")
    assert took["faster"] == took[None] == min(took["one"], took["all"])
    assert took["one"] != took["all"]
    assert "draft on" not in configure(k=5, alpha=0.8).title
    assert configure(draft_tp="1", k=5, alpha=0.8).settings["draft_tp"] == "one"


def test_the_draft_s_degree_is_refused_where_no_draft_is_beside_the_target() -> None:
    with refused("--draft-tp has no effect"):
        predict(draft_tp="all", sd_draft="separate", k=5)


def test_attention_that_nobody_timed_on_a_v100_may_take_as_long_as_engines_did() -> None:
    """Twice the datasheet's, at most 7.6 times, also on what-if devices made of it; an H100 has flash kernels."""
    v100, h100 = find_hardware("v100-sxm2-32gb"), find_hardware("h100-sxm")
    op = Attention("attention", 1, 6, 1024, 16, 16, 128, "float16")
    for profile in (v100, scale(v100, "slow", clock=0.5)):
        timing, model = profile.seconds(op), profile.attention["float16"]
        by_datasheet, *_ = model.timed((1, 6, 1024, 16, 16, 128), 2.0, None)
        assert timing.seconds == pytest.approx(2.0 * by_datasheet)
        assert timing.seconds * math.exp(1.96 * timing.log_sd) == pytest.approx(7.6 * by_datasheet)
        assert "took 1.6 to 7.6" in timing.warnings[-1]
    assert "datasheet" not in str(h100.seconds(op).warning)
    wide, narrow = (predict(**LOOP, alpha=0.9, k=5, b=b).intervals["ssd"] for b in (16, 1))
    assert wide.low / wide.high < narrow.low / narrow.high


def test_the_preset_s_axes_make_a_page(tmp_path: Path) -> None:
    """F beside hit rates, which says what the draft has to do."""
    given: dict[str, Any] = {"f": [1, 2], "alpha": 0.9, "k": [4, 5], "p_hit": [0.8, 0.9], "b": 1}
    sweep(preset="proposal", folder=tmp_path, **given)
    assert len(report(tmp_path).figures) > 5
