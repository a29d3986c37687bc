"""A schedule names the best choice of each cell and survives being written down."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim import InputError, configure, export, predict, schedule, serve
from ssdsim.advise.candidates import candidates
from ssdsim.answers.decision import TIED
from ssdsim.answers.grid import evaluate
from ssdsim.serving.schedule_file import Cell, Schedule
from ssdsim.strategies.protocols.cached import MOST_RUN
from tests.refusals import refused

positive = st.integers(1, 10_000)
rates = st.floats(0.001, 1e9)
names = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=30).filter(str.strip)


@st.composite
def cells(draw: st.DrawFn) -> Cell:
    b, context = draw(positive), draw(positive)
    strategy = draw(st.sampled_from(["ar", "sd", "ssd", None]))
    if strategy is None:
        return Cell(b=b, context=context, strategy=None, reason=draw(texts))
    known = {"gpus": draw(positive), "tokens_per_second": draw(rates), "low": draw(rates), "high": draw(rates)}
    if strategy == "ar":
        return Cell(b=b, context=context, strategy="ar", **known)
    lists = st.lists(st.integers(0, 999), max_size=4).map(tuple)
    settings = draw(st.dictionaries(names, positive | rates | lists | texts, max_size=5))
    return Cell(b=b, context=context, strategy=strategy, settings=settings, **known)


schedules = st.builds(
    Schedule,
    schema=st.just(2),
    assumptions=st.dictionaries(texts, texts | rates | st.integers() | st.lists(rates, max_size=3), max_size=4),
    provenance=st.lists(st.dictionaries(texts, texts, max_size=2), max_size=2).map(tuple),
    cells=st.lists(cells(), max_size=5).map(tuple),
)


@pytest.mark.long
@given(schedules)
@settings(max_examples=40)
def test_what_is_written_is_what_is_read(made: Schedule) -> None:
    assert Schedule.parse(made.to_json()) == made
    assert Schedule.parse(made.to_csv()) == made


def test_a_real_schedule_survives_its_files(tmp_path: Path) -> None:
    made = schedule(b=[1, 64], k=[2, 4], f=[2, "window"], context=[128, 8192])
    for name, text in (("s.json", made.to_json()), ("s.csv", made.to_csv())):
        (tmp_path / name).write_text(text)
        assert Schedule.load(tmp_path / name) == made


OLD = """# {"schema": 1, "assumptions": {"alpha": 0.8}, "provenance": []}
b,context,strategy,k,budget,fan_outs,fan_outs_after_miss,fallback,gpus,tokens_per_second,low,high,reason
1,1024,ssd,2,6,3 1 2,6 0 0,fast,5,191.89,177.5,204.25,
4,1024,ssd,2,6,,,jit,5,191.89,177.5,204.25,
8,1024,sd,3,,,,,4,500.5,480.0,510.0,
16,1024,ar,0,,,,,4,600.5,590.0,620.0,
64,1024,,0,,,,,,,,,no room
"""


def test_a_file_of_schema_1_is_read() -> None:
    """Its cells had a field for each setting of SD and SSD."""
    made = Schedule.parse(OLD)
    both = {"k": 2, "budget": 6}
    assert [cell.settings for cell in made.cells] == [
        {**both, "fan_outs": (3, 1, 2), "fan_outs_after_miss": (6, 0, 0), "backup": "fast"},
        {**both, "backup": "jit"},
        *({"k": 3}, {}, {}),
    ]
    lines = list(csv.DictReader(OLD.splitlines()[1:]))
    lists = ("fan_outs", "fan_outs_after_miss")
    as_lists = {name: [[int(f) for f in line[name].split()] or None for line in lines] for name in lists}
    cells = [
        {**{name: _number_or_text(text) for name, text in line.items()}, **{name: as_lists[name][i] for name in lists}}
        for i, line in enumerate(lines)
    ]
    old_json = {"schema": 1, "assumptions": {"alpha": 0.8}, "provenance": [], "cells": cells}
    assert Schedule.parse(json.dumps(old_json)) == made


def _number_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text or None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON, or cut short"),
        ('{"schema": 1', "not JSON, or cut short"),
        ('{"schema": 3, "assumptions": {}, "provenance": [], "cells": []}', "schema: must be 2, got 3"),
        ('{"schema": 1, "assumptions": {}, "provenance": [], "cels": []}', "did you mean 'cells'"),
        ('# {"schema": 1, "assumptions": {}, "provenance": []}\nb,context\n1,2\n', "cells.0: lacks strategy"),
    ],
)
def test_what_is_no_schedule_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Schedule.parse(text)
    with refused("absent.json"):
        Schedule.load("absent.json")


@pytest.mark.long
def test_each_cell_is_within_2_percent_of_an_exhaustive_search() -> None:
    """Every K, every budget that was run, both fallbacks; 1 % is tied."""
    budgets = range(1, MOST_RUN + 1)
    for b in (1, 64):
        options: dict[str, Any] = {"b": b, "alpha": 0.75, "hit_c": 0.5, "hit_r": 0.7}
        (cell,) = schedule(**options).cells
        points = [{**options, "k": k, "budget": budget} for k in range(1, 13) for budget in budgets]
        frame = evaluate(points)
        best = frame[["ar_tokens_per_second", "sd_tokens_per_second", "ssd_tokens_per_second"]].max().max()
        assert cell.tokens_per_second is not None
        assert cell.tokens_per_second >= 0.98 * best


def test_a_cells_numbers_are_predicts() -> None:
    sure = {"alpha": 0.8, "hit_c": 0.4, "hit_r": 0.7}
    for cell in schedule(b=[1, 32], k=[3, 6], f=[2, 8], **sure).cells:
        own = {**sure, **{name: cell.settings[name] for name in ("k", "backup", "budget")}}
        options: dict[str, Any] = {"b": cell.b, "context": cell.context, **own}
        estimate = predict(**options, sd_draft="separate").estimates[cell.strategy or ""]
        assert cell.tokens_per_second == pytest.approx(float(estimate.tokens_per_second))
        assert cell.gpus == estimate.gpus
        assert cell.low is not None
        assert cell.high is not None
        assert cell.low < cell.tokens_per_second < cell.high
        fan_outs = cell.settings["fan_outs"]
        assert isinstance(fan_outs, tuple)
        assert fan_outs == tuple(configure(**options).settings["fan_outs"])
        assert sum(fan_outs) == cell.settings["budget"]


def test_the_strategy_moves_from_ssd_to_sd_or_ar_with_the_batch() -> None:
    strategies = [
        cell.strategy for cell in schedule(b=[1, 8, 64, 256], alpha=0.5, k=range(1, 7), f=[1, 3], engine="sglang").cells
    ]
    order = {"ssd": 0, "sd": 1, "ar": 2}
    assert strategies[0] == "ssd"
    assert strategies[-1] in ("sd", "ar")
    ranks = [order[name or ""] for name in strategies]
    assert ranks == sorted(ranks)


def test_ar_stays_where_the_draft_beside_the_target_does_not_fit() -> None:
    """Each strategy is held against its own memory: SD's draft beside the target, SSD's on its own device."""
    pair = {"target": "llama-3.1-8b", "draft": "llama-2-7b", "any_vocabulary": True}
    found = candidates(**pair, tp=1, context=4000, b=[4, 75], k=2, f=1, dtype="bfloat16")
    possible = {b: {d.shape.strategy for d in fitting} for (b, _), fitting in found.cells.items()}
    assert possible[4] == {"ar", "sd", "ssd"}
    assert found.impossible.keys() == {(75, 4000)} or "sd" not in possible[75]


def test_what_fits_nowhere_keeps_its_reason() -> None:
    made = schedule(b=[1, 512], context=8192, k=2, f=1)
    assert [cell.strategy is None for cell in made.cells] == [False, True]
    assert "the largest batch that fits is 62" in (made.cells[1].reason or "")


def test_one_choice_for_several_cells_has_the_highest_mean_log_speed_over_them() -> None:
    possible = candidates(b=[1, 8, 64], k=[1, 3, 6], f=3)
    shared = possible.best(("sd",), by=())
    assert len({each.lookahead for each in shared}) == 1
    means: dict[int, float] = {}
    for (_, context), deployments in possible.cells.items():
        drawn = possible.drawn[context].joint(d for d in deployments if d.shape.strategy == "sd")
        for each, speeds in drawn.items():
            means[each.lookahead] = means.get(each.lookahead, 0.0) + float(np.log(speeds).mean()) / 3
    assert means[shared[0].lookahead] >= max(means.values()) - TIED
    own = possible.best(("sd",))
    assert all(each.loss >= 0.0 for each in shared)
    assert [each.loss for each in own] == [0.0] * 3
    for one, alone in zip(shared, own, strict=True):
        assert (one.loss == 0.0) or (one.lookahead != alone.lookahead)


def test_assumptions_are_the_options_that_mattered() -> None:
    given_hits = schedule(b=1, k=2, p_hit=0.8, temperature=0.5).assumptions
    assert given_hits["p_hit"] == 0.8
    assert given_hits["temperature"] == 0.5
    assert "hit_c" not in given_hits
    assert "output_tokens" not in given_hits
    derived = schedule(b=1, k=2, f=2, sd_draft="separate").assumptions
    assert derived["sd_draft"] == "separate"
    assert derived["hit_c"] == 0.4
    assert "p_hit" not in derived


ONE_GPU: dict[str, Any] = {"target": "llama-3.1-8b", "tp": 1, "engine": "kernels", "alpha": 0.8}


def test_by_a_table_a_cell_has_its_k_and_predicts_tokens() -> None:
    made = schedule(k_table="1-4:5,5-16:3,17-:0", b=[1, 4, 5, 64], context=612, **ONE_GPU)
    assert [cell.settings["k"] for cell in made.cells] == [5, 5, 3, 0]
    for cell in made.cells[:3]:
        estimate = predict(b=cell.b, context=612, sd_k=cell.settings["k"], strategies="sd", **ONE_GPU).estimates["sd"]
        assert cell.tokens_per_second == pytest.approx(float(estimate.tokens_per_second))
    at = configure(b=64, context=612, sd_k=1, strategies="ar,sd", **ONE_GPU).scenarios
    paused_s = float(at["ar"].estimate.round_s) + at["sd"].seconds["draft"]
    assert made.cells[3].tokens_per_second == pytest.approx(64 / paused_s, rel=1e-3)
    assert all(cell.low < cell.tokens_per_second < cell.high for cell in made.cells)  # type: ignore[operator]
    assert made.assumptions["k_table"][0] == [1, 4, 5]
    assert Schedule.parse(made.to_csv()) == made


@pytest.mark.long
def test_by_throughput_no_fixed_k_is_faster_in_any_cell() -> None:
    asked: dict[str, Any] = {**ONE_GPU, "b": [1, 16, 128], "context": [256, 1024]}
    best = schedule(k_table="throughput", k=5, **asked).cells
    for k in range(1, 6):
        fixed = schedule(k_table=[[1, 512, k]], **asked).cells
        for own, other in zip(best, fixed, strict=True):
            assert own.tokens_per_second * (1.0 + 1e-3) >= other.tokens_per_second  # type: ignore[operator]


@pytest.mark.long
@pytest.mark.parametrize("word", ["ema", "throughput-aware", "throughput", "1-4:5,5-:0"])
def test_serve_runs_the_schedule_of_a_policy_as_its_closed_form_runs_the_policy(word: str, tmp_path: Path) -> None:
    batches = [*range(1, 33), 48, 61, 64, 96, 128, 192, 256]
    plan = tmp_path / "plan.json"
    plan.write_text(export("json", k_table=word, b=batches, context=612, **ONE_GPU).text)
    load: dict[str, Any] = {"rate": [4.0, 20.0], "input_len": "512", "output_len": "200", "solver": "closed"}
    planned = serve(**load, schedule=plan, strategies="sd", **ONE_GPU).points
    by_policy = serve(**load, k_table=word, strategies="sd", **ONE_GPU).points
    for own, other in zip(planned, by_policy, strict=True):
        assert float(own.closed["auto"].tpot_s) == pytest.approx(float(other.closed["auto"].tpot_s), rel=2e-3)


def test_a_cell_without_room_says_why() -> None:
    made = schedule(k_table="ema", b=[1, 512], context=65_536, **ONE_GPU)
    assert [cell.strategy for cell in made.cells] == ["sd", None]
    assert "the largest batch that fits" in (made.cells[1].reason or "")
    alone = export("csv", k_table="ema", b=512, context=65_536, **ONE_GPU)
    assert alone.refusal is not None
    assert "nothing fits" in alone.refusal


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"format": "vllm"}, "--k-table"),
        ({"format": "json", "strategies": "ssd"}, "--k-table"),
        ({"format": "json", "f": 3}, "--k-table"),
        ({"format": "json", "k_table": "often"}, "--k-table"),
    ],
)
def test_what_a_schedule_by_a_policy_does_not_take(asked: dict[str, Any], message: str) -> None:
    with refused(message):
        export(**{"k_table": "ema", "b": 1, **asked})
