"""``--acceptance-rule``: on what it comes, where it lies, what it is refused with."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim import strategies
from ssdsim.answers.predict import predict
from ssdsim.base.errors import InputError
from ssdsim.question.configuration import Configuration, configure
from ssdsim.tokens.pair_file import load_pair
from ssdsim.tokens.rules import RULES
from tests.refusals import refused

PLAIN: dict[str, Any] = {"t_sd": 0.2, "alpha": 0.8, "k": 5, "p_hit": 0.8, "b": 2}
PAIR = "smollm2-135m-28-layers"


def tokens(name: str, **options: Any) -> float:
    case = configure(strategies=name, **{**PLAIN, **options})
    return float(case.scenarios[name].tokens.averages.tokens_per_round)


def odds_in(configuration: Configuration) -> Any:
    return next(each for each in configuration.inputs if each.name == "rule_odds")


CHAINS = [each.name for each in strategies.ALL if each.drafts and each.name not in ("tree", "treessd", "swiftspec")]


@pytest.mark.parametrize("name", CHAINS)
def test_every_strategy_that_verifies_a_chain_yields_more_by_a_rule_that_accepts_more(name: str) -> None:
    more = {} if name == "ssd" else {"p_hit": None}
    try:
        token = tokens(name, **more)
    except InputError:
        token = tokens(name, b=1, **more)
        more["b"] = 1
    for rule in RULES.names():
        if rule == "block":
            more |= {"temperature": 1.0}
        assert tokens(name, acceptance_rule=rule, rule_odds=1.0, **more) == pytest.approx(token, rel=1e-12)
        assert tokens(name, acceptance_rule=rule, rule_odds=2.0, **more) > token


@pytest.mark.parametrize("name", ["tree", "treessd", "swiftspec"])
def test_nobody_described_a_rule_for_trees(name: str) -> None:
    with refused("--acceptance-rule"):
        configure(strategies=name, t_sd=0.2, alpha=0.8, acceptance_rule="fly")


@pytest.mark.parametrize(
    "more",
    [
        {"alpha": (0.9, 0.8, 0.7, 0.6, 0.5)},
        {"alpha_concentration": 4.0, "output_tokens": 32},
        {"acceptance": "kumar2026-llama", "alpha": None, "output_tokens": 32},
    ],
)
def test_it_comes_on_top_of_all_that_is_given_of_acceptance(more: dict[str, Any]) -> None:
    token = tokens("sd", p_hit=None, **more)
    assert tokens("sd", p_hit=None, acceptance_rule="relaxed", **more) > token


def test_its_factor_is_published_and_lies_in_the_range_of_its_settings() -> None:
    low, median, high = RULES.find("fly").odds
    found = odds_in(configure(**PLAIN, acceptance_rule="fly"))
    assert (found.standing, found.value) == ("published", round(median, 3))
    assert found.within == (round(low, 3), round(high, 3))
    assert "14 settings" in found.rests_on
    asked = {**PLAIN, "p_hit": None, "strategies": "ar,sd", "acceptance_rule": "fly"}
    assert predict(**asked, rule_odds=median).rates.likely("sd") is None  # nothing is open
    likely = predict(**asked).rates.likely("sd")
    assert likely is not None
    assert likely[1] > 1.1 * likely[0]


@given(temperature=st.floats(0.0, 2.0))
@settings(max_examples=15, deadline=None)
def test_block_verification_gains_nothing_of_greedy_decoding_and_ever_more_up_to_temperature_1(
    temperature: float,
) -> None:
    low, median, high = RULES.find("block").odds
    found = odds_in(configure(**PLAIN, acceptance_rule="block", temperature=temperature))
    assert found.value == pytest.approx(median ** min(1.0, temperature), abs=1e-3)
    least, most = found.within or (1.0, 1.0)
    assert least == pytest.approx(low if temperature >= 1.0 else 1.0, abs=1e-3)
    assert most == pytest.approx(high ** min(1.0, temperature), abs=1e-3)


def test_a_draft_that_is_looked_up_has_no_distribution_for_block_verification() -> None:
    found = configure(strategies="sd", drafter="ngram", temperature=1.0, acceptance_rule="block", k=4)
    assert odds_in(found).value == 1.0
    assert any("gains nothing" in each for each in found.warnings)


@pytest.mark.parametrize("rule", RULES.names())
def test_a_lossy_rule_says_that_it_changes_the_answers(rule: str) -> None:
    found = configure(**PLAIN, acceptance_rule=rule, temperature=1.0).warnings
    assert any("changes the answers" in each for each in found) == (rule != "block")


def test_it_is_refused_where_acceptance_is_already_another_rules(tmp_path: Path) -> None:
    with refused("--acceptance-rule", "synthetic:3"):
        configure(t_sd=0.2, k=5, acceptance="synthetic:3", acceptance_rule="fly")
    with refused("--rule-odds", "temperature"):
        configure(**PLAIN, acceptance_rule="block", rule_odds=1.2)
    with refused("--rule-odds", "--acceptance-rule"):
        configure(**PLAIN, rule_odds=1.2)
    pair = load_pair(PAIR)
    logged = tmp_path / "pair.json"
    pair.changed(settings=pair.settings.changed(acceptance_rule="block")).save(logged)
    asked = {"t_sd": 0.2, "k": 2, "strategies": "sd", "temperature": 1.0}
    with refused("--acceptance-rule", "block", "holds"):
        configure(**asked, pair=str(logged), acceptance_rule="block")
    own = configure(**asked, pair=str(logged)).scenarios["sd"].tokens.averages.tokens_per_round
    token = configure(**asked, pair=PAIR).scenarios["sd"].tokens.averages.tokens_per_round
    more = configure(**asked, pair=PAIR, acceptance_rule="block").scenarios["sd"].tokens.averages.tokens_per_round
    assert math.isclose(float(own), float(token))
    assert float(more) > float(token)


@pytest.mark.parametrize(
    ("engine", "asked", "lacks"),
    [
        ("vllm", {"acceptance_rule": "fly"}, None),
        ("vllm", {"acceptance_rule": "relaxed"}, "vLLM has no switch for --acceptance-rule relaxed"),
        ("trtllm", {"acceptance_rule": "relaxed", "acceptance_floor": 0.4}, None),
        ("trtllm", {"draft_p_min": 0.3}, "TensorRT-LLM has no switch for --draft-p-min"),
        ("llama-cpp", {"draft_p_min": 0.3}, None),
        ("sglang", {"acceptance_floor": 0.4}, "SGLang has no switch for --acceptance-floor"),
        ("kernels", {"acceptance_rule": "relaxed"}, None),
    ],
)
def test_a_named_engine_without_the_switch_is_told(engine: str, asked: dict[str, Any], lacks: str | None) -> None:
    warnings = configure(strategies="ar,sd", target="llama-3.1-8b", tp=1, engine=engine, **asked).warnings
    assert [each for each in warnings if "switch" in each] == (
        [f"{lacks}; this prices it as if it did"] if lacks else []
    )
