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
def test_where_the_sign_is_that_of_placeholders_no_winner_is_named() -> None:
    comparison = compare(**{**small(*ALL), "strategies": "all"})
    assert comparison.winner is None
    assert comparison.sentence.startswith("Undecided at batch 1 on up to 2 GPUs, Tree SSD or ")
    assert "if acceptance is near 0.77 and hits follow 1 - 0.4 F^-0.7, Tree SSD TP 1 + 1 is " in comparison.sentence
    assert "so hits decide who is faster: measure them." in comparison.sentence
    assert {each.standing for each in comparison.inputs} == {"placeholder"}
    assert {each.name: each.read_by for each in comparison.inputs}["hit_c"] == (
        "treessd",
        "ssd",
        "enumeration",
        "swiftspec",
        "tree",
    )
    assert sum(each.probability_fastest for each in comparison.compared.values()) == pytest.approx(1.0)


def test_a_winner_wherever_placeholders_lie_is_named_with_its_condition() -> None:
    comparison = compare(**small("ar", "ssd"))
    assert comparison.winner == "ssd"
    condition = "if acceptance is near 0.77 and hits follow 1 - 0.4 F^-0.7"
    assert comparison.sentence.startswith(
        f"SSD at batch 1 on up to 2 GPUs at any plausible acceptance and hits: {condition}, SSD TP 1 + 1 is "
    )


@pytest.mark.long
def test_every_strategy_is_there_at_the_settings_that_recommend_finds() -> None:
    comparison = compare(**{**small(*ALL), "strategies": "all"})
    assert set(comparison.compared) == set(ALL)
    rates = [each.deployment.per_user for each in comparison.compared.values()]
    assert rates == sorted(rates, reverse=True)
    searched = recommend(**small(*ALL)).answers[0].by_strategy
    assert {name: each.deployment for name, each in comparison.compared.items()} == searched
    assert all(each.deployment.gpus <= 2 for each in comparison.compared.values())
    assert all(each.low < each.deployment.per_user < each.high for each in comparison.compared.values())


def test_given_inputs_let_a_winner_be_named_and_what_is_left_is_said() -> None:
    comparison = compare(**small("ar", "ssd"), alpha=0.95)
    assert comparison.winner == "ssd"
    assert "SSD TP 1 + 1" in comparison.sentence
    assert "if hits follow 1 - 0.4 F^-0.7, " in comparison.sentence
    assert {each.name: each.standing for each in comparison.inputs} == {
        "alpha": "given",
        "hit_c": "placeholder",
        "hit_r": "placeholder",
    }
    sure = compare(**small("ar", "ssd"), alpha=0.95, p_hit=0.9)
    assert " if " not in sure.sentence
    assert [each.within for each in sure.inputs] == [None, None]


def test_a_range_widens_the_interval_and_may_leave_the_question_open() -> None:
    exact, wide = (
        compare(**small("sd", "pearl"), alpha=0.7, ranges=ranges) for ranges in (None, {"alpha": (0.3, 0.98)})
    )
    for name in ("sd", "pearl"):
        assert wide.compared[name].high - wide.compared[name].low > exact.compared[name].high - exact.compared[name].low
    again = compare(**small("sd", "pearl"), alpha=0.7, ranges={"alpha": (0.3, 0.98)})
    assert again.compared == wide.compared
    assert wide.winner is None
    assert wide.sentence.startswith("Undecided at batch 1 on up to 2 GPUs, ")


def test_the_fastest_at_the_values_is_the_likeliest_however_far_below_the_range_goes() -> None:
    """The value is the median of what is drawn: the low half of the range once was most of the draws."""
    comparison = compare(**small("ar", "sd"), alpha=0.6, ranges={"alpha": (0.02, 0.6)})
    assert comparison.compared["ar"].probability_fastest < comparison.compared["sd"].probability_fastest
    assert comparison.compared["ar"].deployment.per_user < comparison.compared["sd"].deployment.per_user


def test_a_trace_is_measured_and_a_card_is_not(tmp_path: Path) -> None:
    trace = tmp_path / "accepted.csv"
    trace.write_text("accepted\n" + "\n".join(str(n % 9) for n in range(200)) + "\n")
    by_file = {
        name: compare(**small("ar", "sd", "amusd"), acceptance=file)
        for name, file in (("trace", str(trace)), ("card", "kumar2026-llama"))
    }
    assert [(each.name, each.standing) for each in by_file["trace"].inputs] == [("acceptance", "measured")]
    assert [each.standing for each in by_file["card"].inputs] == ["published"]
    assert "takes requests that are alike" in by_file["card"].impossible["amusd"]


def test_single_sequence_systems_have_no_room_at_a_larger_batch() -> None:
    comparison = compare(**small("sd", "dsi", "amusd", "pearl"), b=16)
    assert set(comparison.compared) == {"sd", "pearl"}
    assert "DSI decodes 1 sequence at a time, got --b" in comparison.impossible["dsi"]
    assert "AMUSD decodes 1 sequence at a time, got --b" in comparison.impossible["amusd"]


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


def test_the_command_prints_the_table_and_its_inputs() -> None:
    from ssdsim.cli.main import cli

    asked = (
        "compare --gpus 2 --target llama-3.1-8b --tp 1 --strategies ar,sd,ssd --k 4 --budget 8 --range alpha=0.7:0.8"
    )
    shown = CliRunner().invoke(cli, asked.split(), standalone_mode=False)
    assert shown.exception is None
    for words in ("Verdict  ", "SSD TP 1 + 1", "Acceptance inputs", "a placeholder, nobody measured it", "█"):
        assert words in shown.output
    document = json.loads(CliRunner().invoke(cli, [*asked.split(), "--json"], standalone_mode=False).stdout)
    assert document["verb"] == "compare"
    assert [each["deployment"]["strategy"] for each in document["strategies"]] == ["ssd", "sd", "ar"]
    assert document["inputs"][0] == {
        "name": "alpha",
        "value": 0.75,
        "standing": "given",
        "rests_on": "given",
        "within": [0.7, 0.8],
        "read_by": document["inputs"][0]["read_by"],
    }
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
        widths = [each.compared[name].high - each.compared[name].low for each in (comparison, sure)]
        assert widths[0] > widths[1], name


SHARED: dict[str, Any] = {"tp": 4, "k": [3, 4], "gamma": 4, "branch_gamma": 4, "branches": 2, "budget": 8}
SHARED |= {"tree_nodes": 8, "tree_depth": 4, "minedraft_k": 4, "adaptive_k": 4, "dsi_k": 4, "dsi_targets": 1}
SHARED |= {"hybrid_k": 4, "spectre_k": 4, "specactor_window": 4, "specactor_targets": 1}
SHARED |= {"draft_gpus": 1, "sd_draft": "separate"}


@pytest.mark.long
def test_all_strategies_are_compared_where_some_share_a_draft() -> None:
    """Four targets and their draft are 17 GPUs, as many as the others have for four copies or three."""
    comparison = compare(gpus=17, b=16, strategies="all", targets=4, **SHARED)
    deployed = {name: each.deployment for name, each in comparison.compared.items()}
    assert set(deployed) | set(comparison.impossible) == set(ALL)
    assert (deployed["ssd"].name, deployed["ssd"].gpus) == ("SSD 4 x TP 4 + 1", 17)
    assert (deployed["sd"].name, deployed["sd"].gpus) == ("SD 4 x TP 4 + 1", 17)
    assert deployed["ssd"].copy_batch == 4
    assert deployed["pearl"].gpus == 15
    assert all(each.low < each.deployment.per_user < each.high for each in comparison.compared.values())
    assert any("--draft-link-us" in warning for warning in comparison.warnings)


def test_a_shared_draft_is_weighed_against_a_draft_each() -> None:
    """A draft that is idle for more than a half of a round: nine GPUs are two targets of four, and its device."""
    given: dict[str, Any] = {"strategies": "ar,sd", "gpus": 9, "b": 8, "tp": 4, "k": 2, "sd_draft": "separate"}
    alone, shared = (compare(targets=targets, **given).compared["sd"].deployment for targets in (1, [1, 2]))
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
