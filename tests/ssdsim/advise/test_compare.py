"""All strategies against each other on as many GPUs: who wins, how surely, and on what that rests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ssdsim import compare, recommend
from tests.calibration.pairs import sample
from tests.refusals import refused

ALL = (
    "ar",
    "sd",
    "ssd",
    "pearl",
    "specbranch",
    "dsi",
    "amusd",
    "tree",
    "treessd",
    "swiftspec",
    "minedraft",
    "adaptive",
    "lookahead",
    "hybrid",
    "spectre",
    "specactor",
    "enumeration",
)
NARROWED: dict[str, dict[str, Any]] = {
    "sd": {"k": [4, 8]},
    "ssd": {"k": [4, 8], "budget": 8},
    "pearl": {"gamma": [4, 8]},
    "specbranch": {"branch_gamma": 4, "branches": 3},
    "dsi": {"dsi_k": 4, "dsi_targets": 1},
    "tree": {"tree_nodes": [8, 16], "tree_depth": 4},
    "swiftspec": {"swift_width": 2, "swift_nodes": [4, 8]},
    "minedraft": {"minedraft_k": [2, 4]},
    "adaptive": {"adaptive_k": [2, 4]},
    "hybrid": {"hybrid_k": [2, 4]},
    "spectre": {"spectre_k": [2, 4]},
    "specactor": {"specactor_window": 4, "specactor_targets": 1},
    "enumeration": {"k": [4, 8], "budget": 8},
}


def small(*names: str) -> dict[str, Any]:
    """A search of a moment."""
    narrowed = {option: value for name in names for option, value in NARROWED.get(name, {}).items()}
    return {"gpus": 2, "target": "llama-3.1-8b", "tp": 1, "strategies": names, **narrowed}


@pytest.mark.long
def test_every_strategy_is_there_at_the_settings_that_recommend_finds() -> None:
    (answer,) = compare(**{**small(*ALL), "strategies": "all"}).answers
    assert set(answer.by_strategy) == set(ALL)
    assert answer.decision is not None
    assert answer.choice is not None
    assert sum(answer.decision.best_in.values()) == pytest.approx(1.0)
    assert recommend(**small(*ALL)).answers[0].decision == answer.decision
    for name, deployment in answer.by_strategy.items():
        rate = answer.rate(name)
        assert deployment.gpus <= 2
        assert rate.interval.low <= rate.likely.low < rate.median < rate.likely.high <= rate.interval.high


def test_what_is_given_loses_nothing_and_needs_no_measuring() -> None:
    (open_one,) = compare(**small("ar", "ssd")).answers
    (sure,) = compare(**small("ar", "ssd"), alpha=0.95, p_hit=0.9).answers
    assert open_one.decision is not None
    assert sure.decision is not None
    assert sure.decision.gain_of_knowing == {}
    assert open_one.decision.gain_of_knowing.keys() == {"acceptance", "hits"}
    assert sure.decision.word == "clear"
    assert sure.rate("ssd").median == pytest.approx(sure.by_strategy["ssd"].per_user)


def test_a_range_widens_the_intervals() -> None:
    (exact,), (wide,), (again,) = (
        compare(**small("sd", "pearl"), alpha=0.7, ranges=ranges).answers
        for ranges in (None, {"alpha": (0.3, 0.98)}, {"alpha": (0.3, 0.98)})
    )
    for name in ("sd", "pearl"):
        narrow, broad = (each.rate(name).interval for each in (exact, wide))
        assert broad.high - broad.low > narrow.high - narrow.low
    assert again == wide


def test_the_choice_over_a_range_need_not_be_the_fastest_at_the_values() -> None:
    asked = {**small("ar", "sd"), "k": list(range(1, 17)), "alpha": 0.8, "ranges": {"alpha": (0.1, 0.85)}}
    (answer,), (by_point,) = (recommend(**asked, rule=rule).answers for rule in ("mean-log", "point"))
    assert answer.best is not None
    assert by_point.best is not None
    assert answer.decision is not None
    assert answer.best.lookahead < by_point.best.lookahead
    assert answer.decision.by_rule["point"] == by_point.best
    with refused("--rule", "mean-log", "point", "expected", "fastest"):
        recommend(**asked, rule="best")


def test_a_trace_is_measured_and_a_card_is_not(tmp_path: Path) -> None:
    trace = tmp_path / "accepted.csv"
    trace.write_text("accepted\n" + "\n".join(str(n % 9) for n in range(200)) + "\n")
    by_file = {
        name: compare(**small("ar", "sd", "amusd"), acceptance=file)
        for name, file in (("trace", str(trace)), ("card", "kumar2026-llama"))
    }
    assert [(each.name, each.standing) for each in by_file["trace"].inputs] == [("acceptance", "measured")]
    assert [each.standing for each in by_file["card"].inputs] == ["published"]
    assert "takes requests that are alike" in by_file["card"].answers[0].impossible["amusd"]


def test_single_sequence_systems_have_no_room_at_a_larger_batch() -> None:
    comparison = compare(**small("sd", "dsi", "amusd", "pearl"), b=16)
    (answer,) = comparison.answers
    assert set(answer.by_strategy) == {"sd", "pearl"}
    assert "DSI decodes 1 sequence at a time, got --b" in answer.impossible["dsi"]
    assert "AMUSD decodes 1 sequence at a time, got --b" in answer.impossible["amusd"]


@pytest.mark.parametrize(
    ("names", "given", "named"),
    [
        (("ar", "sd"), {"ranges": {"alfa": (0.1, 0.2)}}, "--ranges: no such number 'alfa'"),
        (("ar", "sd"), {"ranges": {"alpha": (0.9, 0.2)}}, "--ranges alpha=0.9:0.2 must not fall"),
        (("ar", "sd"), {"ranges": {"alpha": (0.9, 1.2)}}, "--alpha, 1.2"),
        (("ar", "sd"), {"ranges": {"hit_c": (0.1, 0.2)}}, "--ranges hit_c has no effect: no strategy that is"),
        (("ar", "sd"), {"strategies": "ar,sdd"}, "sdd"),
        (("amusd",), {"b": 2}, "AMUSD, 1 sequence, --b 2"),
    ],
)
def test_mistakes_are_told_in_one_line(names: tuple[str, ...], given: dict[str, Any], named: str) -> None:
    with refused(*named.split(", ")):
        compare(**{**small(*names), **given})


def test_the_old_verb_answers_and_says_the_new_one() -> None:
    from ssdsim.cli.main import cli

    asked = "--gpus 2 --target llama-3.1-8b --tp 1 --strategies ar,sd,ssd --k 4 --budget 8 --range alpha=0.7:0.8"
    old, new = (
        CliRunner().invoke(cli, [*verb.split(), *asked.split()], standalone_mode=False)
        for verb in ("compare", "recommend --all")
    )
    assert old.exception is None
    assert old.stdout == new.stdout
    assert "ssdsim recommend --all" in old.stderr
    shown = json.loads(CliRunner().invoke(cli, ["compare", *asked.split(), "--json"], standalone_mode=False).stdout)
    assert shown["answers"][0]["strategies"].keys() == {"ar", "sd", "ssd"}
    assert shown["answers"][0]["rule"] == "mean-log"
    assert shown["inputs"][0]["within"] == [0.7, 0.8]
    wrong = CliRunner().invoke(cli, ["compare", "--gpus", "2", "--range", "alpha"])
    assert "'alpha' is no input with its range such as alpha=0.75:0.85" in wrong.output


def test_a_measured_pair_is_told_and_its_intervals_reach_every_strategy(tmp_path: Path) -> None:
    """Also one that never waits, whose passes are cut short: it drafts no further than acceptance was measured."""
    given = {**small("ar", "sd", "ssd", "amusd"), "k": 4, "pair": sample.written(tmp_path)}
    comparison = compare(**given)
    assert {each.standing for each in comparison.inputs} == {"measured"}
    alpha = next(each for each in comparison.inputs if each.name == "alpha")
    assert alpha.rests_on == "pair.json: measured on 64 requests, temperature 0, to K 6"
    sure = compare(**given, alpha=list(sample.RATES))
    for name in ("sd", "ssd", "amusd"):
        broad, narrow = (each.answers[0].rate(name).likely for each in (comparison, sure))
        assert broad.high - broad.low > narrow.high - narrow.low, name


SHARED: dict[str, Any] = {"tp": 4, "k": [3, 4], "gamma": 4, "branch_gamma": 4, "branches": 2, "budget": 8}
SHARED |= {"tree_nodes": 8, "tree_depth": 4, "minedraft_k": 4, "adaptive_k": 4, "dsi_k": 4, "dsi_targets": 1}
SHARED |= {"hybrid_k": 4, "spectre_k": 4, "specactor_window": 4, "specactor_targets": 1}
SHARED |= {"draft_gpus": 1, "sd_draft": "separate"}


@pytest.mark.long
def test_all_strategies_are_compared_where_some_share_a_draft() -> None:
    """Four targets and their draft are 17 GPUs, as many as the others have for four copies or three."""
    comparison = compare(gpus=17, b=16, strategies="all", targets=4, **SHARED)
    (answer,) = comparison.answers
    deployed = answer.by_strategy
    assert set(deployed) | set(answer.impossible) == set(ALL)
    assert (deployed["ssd"].name, deployed["ssd"].gpus) == ("SSD 4 x TP 4 + 1", 17)
    assert (deployed["sd"].name, deployed["sd"].gpus) == ("SD 4 x TP 4 + 1", 17)
    assert deployed["ssd"].copy_batch == 4
    assert deployed["pearl"].gpus == 15
    assert any("--draft-link-us" in warning for warning in comparison.warnings)


def test_a_shared_draft_is_weighed_against_a_draft_each() -> None:
    """A draft that is idle for more than a half of a round: nine GPUs are two targets of four, and its device."""
    given: dict[str, Any] = {"strategies": "ar,sd", "gpus": 9, "b": 8, "tp": 4, "k": 2, "sd_draft": "separate"}
    alone, shared = (compare(targets=targets, **given).answers[0].by_strategy["sd"] for targets in (1, [1, 2]))
    assert (alone.name, shared.name) == ("SD TP 4 + 1", "SD 2 x TP 4 + 1")
    assert shared.per_user > alone.per_user


def test_an_engine_that_has_no_shared_draft_has_it_apart() -> None:
    recommendation = recommend(gpus=9, b=8, strategies="ar,sd", engine="vllm", targets=[1, 2], tp=4, k=[2, 3])
    answer = recommendation.answers[0]
    assert answer.best is not None
    assert answer.best.shape.targets == 1
    assert all(each.shape.targets == 1 for each in answer.pareto)
    with refused("--targets 12", "--gpus 9"):
        recommend(gpus=9, b=8, strategies="ar,sd", targets=12)
    with refused("--targets", "--strategies"):
        recommend(gpus=9, b=8, strategies="ar,pearl", targets=2)
