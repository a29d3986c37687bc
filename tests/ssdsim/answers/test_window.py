"""The verification window: what fits, checked against the costs that the simulator itself uses."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import click
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import ssdsim
from ssdsim import configure
from ssdsim.answers.window import AXES, MEASURES, MOST_OUTCOMES, sentence, window
from ssdsim.base.kinds import Kind, Name, Number, Whole
from ssdsim.base.kinds_of_lists import Several
from ssdsim.cli.main import cli
from ssdsim.cli.param_types import WHOLES
from ssdsim.hardware.what_if import scale
from tests.refusals import refused


def only(**options: object) -> pd.Series:
    frame = window(**options)
    assert len(frame) == 1
    return frame.iloc[0]


@pytest.mark.parametrize("k", [3, 6])
@pytest.mark.parametrize("b", [1, 16])
def test_the_budget_is_the_largest_with_which_the_simulator_is_in_time(b: int, k: int) -> None:
    """One outcome more and the draft is late, by the very durations that predict and simulate use."""
    row = only(b=b, k=k)
    assert row["limit"] == "time"

    def late(budget: int) -> bool:
        seconds = configure(b=b, k=k, budget=budget, p_hit=0.8).scenarios["ssd"].seconds
        return seconds["pre-speculate"] > seconds["verify"] + seconds["sample"] + seconds["outcome"]

    assert not late(int(row["budget"]))
    assert late(int(row["budget"]) + 1)
    assert row["fan_out"] == row["budget"] // (k + 1)


def test_the_durations_are_the_scenarios() -> None:
    row, scenarios = only(b=4, k=5), configure(b=4, k=5, budget=6, p_hit=0.8, sd_draft="separate").scenarios
    sd, ssd = (scenarios[name].seconds for name in ("sd", "ssd"))
    assert row["verify_s"] == pytest.approx(ssd["verify"])
    assert row["draft_pass_s"] == pytest.approx(sd["draft"] / 5)
    assert row["prespeculate_s"] == pytest.approx(ssd["pre-speculate"])
    assert row["window_s"] == pytest.approx(ssd["verify"] + ssd["sample"] + ssd["outcome"])


def test_the_proposals_count_is_passes_over_k() -> None:
    frame = window(tp=[2, 4], k=[2, 5])
    assert (frame["passes"] == (frame["verify_s"] / frame["draft_pass_s"]).astype(int)).all()
    assert (frame["budget_of_passes"] == frame["passes"] // frame["k"]).all()
    assert (frame["passes_low"] <= frame["passes"]).all()
    assert (frame["passes"] <= frame["passes_high"]).all()
    assert (frame["budget"] > frame["budget_of_passes"]).all(), "batching the branches must fit more than the proposal"


def test_memory_ends_the_budget_of_a_small_draft_device(tmp_path: Path) -> None:
    """A sampling draft keeps the logits of every branch token (SSD paper, appendix C)."""
    h100 = ssdsim.find_hardware("h100-sxm")
    device = h100.device.changed(memory_bytes=3 * 2**30)
    h100.changed(name="small", device=device).save(tmp_path / "small.json")
    options = {"draft_hardware": str(tmp_path / "small.json"), "temperature": 1.0}
    row = only(**options)
    assert row["limit"] == "memory"
    assert not configure(**options, p_hit=0.8, budget=int(row["budget"])).no_room
    one_more = {"p_hit": 0.8, "budget": int(row["budget"]) + 1}
    assert "cached outcomes a sequence needs" in configure(**options, **one_more).no_room["ssd"]
    with refused("cached outcomes"):
        configure(**options, **one_more, strategies="ssd")


def test_the_search_says_where_it_ended() -> None:
    row = only(draft="transformer-shaped-256x1", target="llama-2-70b", tp=4, k=1, context=128, dtype="bfloat16")
    assert (row["budget"], row["limit"]) == (MOST_OUTCOMES, "search")


def test_a_slow_draft_has_no_budget() -> None:
    row = only(target="llama-3.1-8b", draft="llama-3.1-8b", tp=4)
    assert (row["passes"], row["budget"], row["limit"]) == (0, 0, "time")
    assert "even one guess a position comes too late" in sentence(row)


def test_rows_that_cannot_be_stay_with_their_reason() -> None:
    frame = window(tp=[1, 3, 4, 8], b=[1, 64])
    assert frame["tp"].tolist() == [1, 1, 3, 3, 4, 4, 8, 8]
    assert frame["reason"].isna().tolist() == [False] * 4 + [True, True] + [False] * 2
    reasons = frame["reason"].dropna().tolist()
    assert "needs 131.7 GiB" in reasons[0]
    assert "does not divide" in reasons[2]
    assert "SSD needs 8 target and 1 draft devices" in reasons[4]
    assert frame.loc[0, [name for name in MEASURES if name != "reason"]].isna().all()


def test_a_weaker_draft_device_makes_a_smaller_window(tmp_path: Path) -> None:
    path = tmp_path / "weak.json"
    scale(ssdsim.find_hardware("h100-sxm"), "weak", memory_bandwidth=0.5, clock=0.5).save(path)
    strong, weak = window(draft_hardware=["h100-sxm", str(path)])[["passes", "budget"]].to_numpy()
    assert (weak < strong).all()


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"alpha": 0.5}, "window has no option 'alpha'"),
        ({"tp": []}, "--tp"),
        ({"b": [0, 1]}, "--b"),
        ({"target": ["llama-3.1-70b", "lama"]}, "lama"),
        ({"draft_hardware": "x100"}, "x100"),
    ],
)
def test_mistakes_are_errors_and_not_rows(options: dict[str, object], names: str) -> None:
    with refused(*names.split(", ")):
        window(**options)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(
    b=st.integers(1, 12),  # beyond 300 tokens a verification is bound by its arithmetic and doubles with the batch
    k=st.integers(1, 10),
    context=st.integers(16, 8192),
    tp=st.sampled_from([2, 4]),
)
def test_a_larger_batch_never_has_a_larger_budget(b: int, k: int, context: int, tp: int) -> None:
    # of kernels: an engine's constant a draft step leaves more room beside a longer verification
    frame = window(b=[b, 2 * b], k=k, context=context, tp=tp, engine="kernels")
    if frame["reason"].isna().all() and frame["budget"][0] > 0:  # where K passes just do not fit, they may soon
        # the verification grows with the batch too, but never as fast as b branches for each outcome
        assert frame["budget"][1] <= frame["budget"][0] + k + 1


def test_json_has_every_row_and_its_sentence() -> None:
    done = CliRunner().invoke(cli, ["window", "--tp", "4,8", "--json"])
    assert done.exit_code == 0
    rows = json.loads(done.stdout)["rows"]
    assert [set(row) for row in rows] == [{*AXES, *MEASURES, "sentence"}] * 2
    assert rows[0]["reason"] is None
    assert "8 passes fit: a fan-out budget of 8/6 = 1" in rows[0]["sentence"]
    assert rows[1]["verify_s"] is None


def test_nothing_possible_is_exit_code_1() -> None:
    done = CliRunner().invoke(cli, ["window", "--tp", "3"], standalone_mode=False)
    assert done.return_value == 1
    assert "Not possible: tp 3 does not divide" in done.stdout


@pytest.mark.parametrize(
    ("kind", "text", "values"),
    [
        (Whole(), "1,2,4", [1, 2, 4]),
        (Whole(), "1:8", [1, 2, 3, 4, 5, 6, 7, 8]),
        (Whole(), "1,4:16:4", [1, 4, 8, 12, 16]),
        (Number(), "0.5:1:0.1", [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        (Number(), "0.3:0.9:0.2", [0.3, 0.5, 0.7, 0.9]),
        (Name(), "a,b/c.json", ["a", "b/c.json"]),
    ],
)
def test_values_are_lists_and_inclusive_ranges(kind: Kind, text: str, values: list[object]) -> None:
    assert Several(kind).parse(text) == values


@pytest.mark.parametrize("text", ["", "1,,2", "1:x", "4:1", "1:4:0", "1:2:3:4", "1:1000000000"])
def test_bad_values_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a list or range such as"):
        WHOLES.convert(text, None, None)


def test_a_verb_is_a_function_even_after_its_module_was_imported() -> None:
    for name in ("predict", "window"):
        importlib.import_module(f"ssdsim.answers.{name}")
        assert callable(getattr(ssdsim, name))
