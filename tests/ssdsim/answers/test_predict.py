"""The closed-form answer against the laws of the SSD paper and of the proposal."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.answers.decision import RULES
from ssdsim.answers.predict import as_json, predict
from ssdsim.base.intervals import bounds_95, centred_on
from ssdsim.question.configuration import Configuration, configure
from ssdsim.rounds.kernel import Kernel
from ssdsim.rounds.round import PARTS
from ssdsim.strategies.protocols.cached import MOST_RUN
from ssdsim.tokens.theory import sandwich_bounds, ssd_speedup
from tests.refusals import refused

rates = st.floats(0.0, 1.0)
ratios = st.floats(0.01, 3.0)
lookaheads = st.integers(1, 12)
batches = st.integers(1, 64)


def speedups(**options: Any) -> dict[str, float]:
    """Speed of SD and SSD over AR in the unit-free mode."""
    scenarios = configure(**options).scenarios
    rates = {name: float(scenario.estimate.tokens_per_second) for name, scenario in scenarios.items()}
    return {name: rate / rates["ar"] for name, rate in rates.items()}


def expected_tokens(configuration: Configuration, strategy: str) -> float:
    """Of a round that begins in the first state: where SSD's primary speculates."""
    tokens = configuration.scenarios[strategy].tokens
    assert isinstance(tokens, Kernel)
    return float(tokens.expected_tokens[0])


@pytest.mark.parametrize(
    ("alpha", "k", "t_sd", "expected"), [(0.9, 5, 0.1, 4.26), (0.9, 5, 0.3, 3.60), (0.7, 3, 0.2, 2.11)]
)
def test_the_proposals_targets_for_sd(alpha: float, k: int, t_sd: float, expected: float) -> None:
    assert speedups(alpha=alpha, k=k, t_sd=t_sd, p_hit=0.5)["sd"] == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize("t_sd", [0.2, 0.25, 0.3])
def test_the_proposals_targets_for_ssd(t_sd: float) -> None:
    """15-25 % over SD at b = 1; near zero from b = 8 to 16 with just-in-time fallback."""
    options: dict[str, Any] = {"alpha": 0.9, "k": 5, "t_sd": t_sd, "p_hit": 0.85, "backup": "jit"}
    one, sixteen = speedups(**options), speedups(**options, b=16)
    assert 1.15 < one["ssd"] / one["sd"] < 1.25
    assert 1.0 < sixteen["ssd"] / sixteen["sd"] < 1.02
    assert (configure(**options, b=16).scenarios["ssd"].estimate.p_hit or 0) ** 16 == pytest.approx(0.074, abs=0.0005)


@given(alpha=rates, k=lookaheads, p_hit=rates, b=batches, t_sd=ratios, t_p=ratios, t_b=st.floats(0.0, 3.0))
@settings(derandomize=True, deadline=None)
def test_the_event_round_is_the_papers_formula_while_the_draft_is_in_time(
    alpha: float, k: int, p_hit: float, b: int, t_sd: float, t_p: float, t_b: float
) -> None:
    configuration = configure(alpha=alpha, k=k, p_hit=p_hit, b=b, t_sd=t_sd, t_p=t_p, t_b=t_b, backup="jit")
    ssd = configuration.scenarios["ssd"].estimate
    e = expected_tokens(configuration, "ssd")
    assert float(ssd.paper_tokens_per_second or 0) / b == pytest.approx(ssd_speedup(p_hit, e, e, t_p, t_b, b))
    event = float(ssd.tokens_per_second)
    if t_p <= 1.0:
        assert event == pytest.approx(float(ssd.paper_tokens_per_second or 0))
    else:  # a late draft finishes before it falls back
        assert event <= float(ssd.paper_tokens_per_second or 0) * (1 + 1e-12)


@given(alpha=rates, k=lookaheads, p_hit=rates, b=batches, t_sd=st.floats(0.0, 1.0))
@settings(derandomize=True, deadline=None)
def test_ssd_never_loses_to_sd_with_the_same_speculator(
    alpha: float, k: int, p_hit: float, b: int, t_sd: float
) -> None:
    """Corollary 8, whose assumption is T_p = T_b = T_SD <= 1."""
    speed = speedups(alpha=alpha, k=k, p_hit=p_hit, b=b, t_sd=t_sd, backup="jit")
    assert speed["ssd"] >= speed["sd"] * (1 - 1e-12)


@given(alpha=rates, k=lookaheads, p_hit=st.floats(0.01, 0.99), b=st.integers(1, 8), t_sd=st.floats(1.01, 20.0))
@settings(derandomize=True, deadline=None)
def test_where_drafting_outlasts_verification_ssd_wins_only_if_it_hits_often_enough(
    alpha: float, k: int, p_hit: float, b: int, t_sd: float
) -> None:
    """Corollary 8 beyond its assumption: T_p > 1, and what is pre-speculated cannot be interrupted."""
    speed = speedups(alpha=alpha, k=k, p_hit=p_hit, b=b, t_sd=t_sd, backup="jit")
    margin = p_hit**b - (1.0 - 1.0 / t_sd)
    if abs(margin) > 1e-9:
        assert (speed["ssd"] > speed["sd"]) == (margin > 0.0)


def test_ssd_with_late_drafts_that_miss_is_slower_than_sd() -> None:
    speed = speedups(alpha=0.8, k=6, p_hit=0.2, t_sd=2.0, backup="jit")
    assert speed["ssd"] / speed["sd"] == pytest.approx(3.0 / 3.6)


@pytest.mark.long
@given(alpha=rates, alpha_b=rates, k=lookaheads, p=rates, p_b=rates, t_sd=ratios, t_p=st.floats(0.0, 1.0))
@settings(derandomize=True, deadline=None)
def test_the_sandwich_of_corollary_9(
    alpha: float, alpha_b: float, k: int, p: float, p_b: float, t_sd: float, t_p: float
) -> None:
    alpha_b = min(alpha, alpha_b)
    options: dict[str, Any] = {"alpha": alpha, "alpha_backup": alpha_b, "k": k, "p_hit": p, "p_hit_backup": p_b}
    configuration = configure(**options, t_sd=t_sd, t_p=t_p, t_b=0.0, backup="fast")
    sd, ssd = (configuration.scenarios[name].estimate for name in ("sd", "ssd"))
    ratio = float(ssd.tokens_per_second) / float(sd.tokens_per_second)
    assert ssd.p_hit is not None
    e_sd, e_ssd = (expected_tokens(configuration, name) for name in ("sd", "ssd"))
    low, high = sandwich_bounds(float(ssd.p_hit), e_ssd, e_sd, t_sd)
    assert low * (1 - 1e-12) <= ratio <= high * (1 + 1e-12)


@pytest.mark.long
@given(alpha=rates, k=lookaheads, b=batches, t_sd=ratios, t_p=st.floats(0.0, 1.0))
@settings(derandomize=True, deadline=None)
def test_limits_of_the_hit_rate(alpha: float, k: int, b: int, t_sd: float, t_p: float) -> None:
    """p_hit = 0 with jit is SD; p_hit = 1 with T_p <= T_v is 1 + T_SD times SD."""
    shape: dict[str, Any] = {"alpha": alpha, "k": k, "b": b, "t_sd": t_sd, "t_p": t_p, "backup": "jit"}
    never, always = speedups(**shape, p_hit=0.0), speedups(**shape, p_hit=1.0)
    assert never["ssd"] == pytest.approx(never["sd"])
    assert always["ssd"] == pytest.approx((1 + t_sd) * always["sd"])


def test_a_chain_that_never_leaves_its_start_has_no_average_but_its_start() -> None:
    configuration = configure(t_sd=0.2, p_hit=1.0, p_hit_backup=0.0, backup="fast")
    assert configuration.scenarios["ssd"].estimate.p_hit == 1.0


@pytest.mark.long
@given(p_hit=st.floats(0.0, 0.99), b=st.integers(1, 63))
@settings(derandomize=True, deadline=None)
def test_a_larger_batch_never_helps_jit(p_hit: float, b: int) -> None:
    shape: dict[str, Any] = {"t_sd": 0.3, "p_hit": p_hit, "backup": "jit"}
    assert speedups(**shape, b=b + 1)["ssd"] <= speedups(**shape, b=b)["ssd"] * (1 + 1e-12)


@pytest.mark.long
@given(b=batches, p_hit=rates, t_sd=ratios)
@settings(derandomize=True, deadline=None)
def test_auto_is_the_faster_fallback(b: int, p_hit: float, t_sd: float) -> None:
    shape: dict[str, Any] = {"b": b, "p_hit": p_hit, "t_sd": t_sd}
    auto, jit, fast = (speedups(**shape, backup=kind)["ssd"] for kind in ("auto", "jit", "fast"))
    assert auto == max(jit, fast)


def test_breakdowns_add_up_and_json_is_complete() -> None:
    answer = as_json(predict(t_sd=0.3, t_p=1.4, p_hit=0.7, b=4, alpha=0.8))
    json.dumps(answer, allow_nan=False)
    assert answer["schema"] == 5
    for name, result in answer["strategies"].items():
        assert sum(result["breakdown_ms"].values()) == pytest.approx(result["round_ms"]), name
        assert set(result["breakdown_ms"]) == set(PARTS)
    rates = {name: result["tokens_per_second"] for name, result in answer["strategies"].items()}
    for name, result in answer["strategies"].items():
        assert result["speedup_over"] == {other: rates[name] / rates[other] for other in rates if other != name}
    assert answer["verdict"]["subject"] == "ssd"
    for rival, held in answer["verdict"]["over"].items():
        assert held["ratio"] == answer["strategies"]["ssd"]["speedup_over"][rival]
    assert list(answer["verdict"]["over"]) == ["sd", "ar"]
    assert answer["no_room"] == {}
    assert answer["scenario"]["t_b"] == {"value": 0.3, "source": "same as t_sd"}


@pytest.mark.parametrize(
    ("options", "best"),
    [
        ({"b": 16, "p_hit": 0.69, "alpha": 0.8}, "ssd"),
        ({"b": 16, "p_hit": 0.3, "alpha": 0.8}, "sd"),
        ({"b": 16, "p_hit": 0.3, "alpha": 0.8, "engine": "kernels"}, "sd"),
        ({"b": 64, "alpha": 0.3, "k": 4, "p_hit": 0.9}, "ar"),
        ({"b": 64, "alpha": 0.1, "k": 6, "p_hit": 0.9}, "ar"),
    ],
)
def test_the_verdict_weighs_sd_and_ar_under_the_same_errors(options: dict[str, Any], best: str) -> None:
    verdict = predict(**options).verdict
    assert verdict.best == best
    told = as_json(predict(**options))["verdict"]
    assert (told["sentence"], told["sure"]) == (verdict.sentence, verdict.sure)
    assert sum(told["best_in"].values()) == pytest.approx(1.0)
    assert told["loss"]["mean"] == told["losses"][best]
    assert told["by_rule"]["mean-log"]["strategy"] == best


def test_each_strategy_is_at_its_own_best_unless_its_k_is_given() -> None:
    """On V100s an 8B draft's long speculation does not pay; at K 6 SSD would lose there."""
    here: dict[str, Any] = {"hardware": "v100-sxm2-16gb", "dtype": "float16", "target": "llama-3.1-8b", "b": 8}
    answer = as_json(predict(**here))
    ks = {name: each["k"] for name, each in answer["strategies"].items()}
    assert ks["ar"] is None
    assert ks["sd"] < 4
    assert answer["scenario"]["k"] == {"value": "auto", "source": "each strategy's own best"}
    assert {each["k"] for name, each in as_json(predict(**here, k=6))["strategies"].items() if name != "ar"} == {6}
    at_six = predict(**here, k=6)
    for name, estimate in predict(**here).estimates.items():
        assert estimate.tokens_per_second >= 0.99 * at_six.estimates[name].tokens_per_second
    assert as_json(predict(**here, k="auto")) == answer


@pytest.mark.parametrize("options", [{}, {"k": 12}, {"k": 7, "b": 4}, {"strategies": "treessd", "k": 4}])
def test_no_more_outcomes_are_cached_than_anybody_ran(options: dict[str, Any]) -> None:
    for scenario in predict(**options).configuration.scenarios.values():
        assert (scenario.settings.get("budget") or 0) <= MOST_RUN


@pytest.mark.parametrize("options", [{"k": 12, "f": 3}, {"k": 7, "budget": 39}])
def test_more_outcomes_are_cached_where_they_are_asked_for(options: dict[str, Any]) -> None:
    assert predict(**options).configuration.scenarios["ssd"].settings["budget"] == 39


@pytest.mark.parametrize(
    ("options", "most"),
    [({"alpha": [0.9, 0.8, 0.3]}, 3), ({"acceptance": "synthetic:3.3"}, 6), ({"t_sd": 0.2}, 6), ({"k": 5}, 5)],
)
def test_k_goes_no_further_than_is_known(options: dict[str, Any], most: int) -> None:
    """Rates by position end; a mean length and T_SD are those of one K."""
    found = as_json(predict(**options, strategies="sd", b=4))["strategies"]["sd"]["k"]
    assert found <= most if "alpha" in options else found == most


def test_a_k_that_is_chosen_is_near_the_best_of_all() -> None:
    for name in ("sd", "ssd"):
        best, *every = [
            predict(b=16, alpha=0.8, hit_c=0.4, hit_r=0.7, **k).estimates[name].tokens_per_second
            for k in ({}, *({"k": k} for k in range(1, 17)))
        ]
        assert best >= 0.985 * max(every)


def test_the_old_choice_is_one_rule_of_several() -> None:
    by_point, by_log = (predict(b=16, rule=rule).configuration.scenarios["sd"] for rule in RULES[1::-1])
    assert by_log.settings["k"] <= by_point.settings["k"]
    with refused("pont", "point"):
        predict(b=16, rule="pont")  # type: ignore[arg-type]


def test_rates_by_position_replace_the_power_of_one_rate() -> None:
    by_position = configure(t_sd=0.2, k=3, alpha=[0.9, 0.5, 0.2], p_hit=0.5)
    assert expected_tokens(by_position, "sd") == pytest.approx(1 + 0.9 + 0.45 + 0.09)
    constant, one = (configure(t_sd=0.2, k=3, alpha=alpha, p_hit=0.5) for alpha in ([0.7] * 3, 0.7))
    for name in ("sd", "ssd"):
        by_list, by_rate = (each.scenarios[name].tokens for each in (constant, one))
        assert np.allclose(by_list.p, by_rate.p)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"alpha": 1.2}, "--alpha, got 1.2"),
        ({"alpha": [0.9, 0.8]}, "2 rates by position, but the lookahead is 6"),
        ({"t_sd": 0.2, "p_hit": 0.5, "f": 3}, "--f, --p-hit, --t-sd"),
        ({"t_sd": 0.2, "tp": 4}, "--tp, --t-sd"),
        ({"t_p": 0.2}, "--t-p, --t-sd"),
        ({"backup": "jit", "alpha_backup": 0.1}, "--alpha-backup, --backup jit"),
        ({"budget": 8, "f": 2}, "--f, --budget"),
        ({"p_hit_backup": 0.5}, "--p-hit-backup, --p-hit"),
        ({"b": 0}, "--b, got 0"),
        ({"t_sd": float("nan")}, "--t-sd, got nan"),
        ({"lookahead": 3}, "lookahead"),
        ({"backup": "jti"}, "--backup, jti, jit"),
    ],
)
def test_mistakes_are_one_clear_line(options: dict[str, Any], names: str) -> None:
    with refused(*names.split(", ")) as caught:
        configure(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("strategy", ["ar", "sd"])
def test_a_strategy_by_itself_may_use_every_device(strategy: str) -> None:
    """The verdict at equal GPU count needs SD at TP 8 on 8 devices, where SSD finds no room for its draft."""
    with refused("SSD", "8 target", "1 draft"):
        configure(tp=8, strategies="ssd")
    assert configure(tp=8, strategies=strategy).scenarios[strategy].gpus == 8
    with refused("SD", "8 target", "1 draft"):
        configure(tp=8, strategies=("sd",), sd_draft="separate")


def test_a_strategy_without_room_leaves_the_others_and_says_why() -> None:
    prediction = predict(tp=8, p_hit=0.85)
    why = prediction.configuration.no_room
    assert list(prediction.estimates) == ["ar", "sd"]
    assert list(why) == ["ssd"]
    assert why["ssd"].startswith("SSD needs 8 target and 1 draft devices, h100-sxm has 8")
    assert prediction.verdict.sentence.startswith(
        f"No room for SSD: {why['ssd']}. Measure acceptance first: SD may be the fastest"
    )
    assert (prediction.verdict.subject, prediction.verdict.best, prediction.verdict.over) == ("ssd", "sd", {})
    answer = as_json(prediction)
    assert answer["no_room"] == why
    assert set(answer["strategies"]) == {"ar", "sd"}
    alone = predict(tp=8, strategies=("ar", "sd"))
    for name, estimate in alone.estimates.items():
        assert prediction.estimates[name] == estimate


def test_where_nobody_drafts_nobody_is_warned_of_acceptance() -> None:
    """A target that has a head drafts with it by default, at rates that were published."""
    alone, together = (predict(target="gpt-oss-20b", tp=1, strategies=names) for names in ("ar", "ar,sd"))
    assert any("acceptance" in warning for warning in together.configuration.warnings)
    assert not any("acceptance" in warning for warning in alone.configuration.warnings)
    assert alone.verdict.sentence == "AR stands alone: name others in --strategies to hold it against them."


def test_where_none_has_room_the_subjects_reason_is_told() -> None:
    with refused("SD", "8 target", "1 draft"):
        configure(tp=8, strategies=("sd", "ssd"), subject="sd", sd_draft="separate")
    with refused("SSD", "8 target", "1 draft"):
        configure(tp=8, strategies=("sd", "ssd"), sd_draft="separate")


def test_a_verdict_on_another_subject_turns_the_ratios() -> None:
    ssd, sd = (predict(b=16, alpha=0.8, p_hit=0.85, subject=subject).verdict for subject in ("ssd", "sd"))
    assert sd.over["ssd"].ratio == pytest.approx(1 / ssd.over["sd"].ratio, rel=1e-4)
    assert sd.over["ssd"].probability_faster == pytest.approx(1 - (ssd.over["sd"].probability_faster or 0))
    assert list(sd.over) == ["ar", "ssd"]
    assert sd.best == ssd.best
    assert sd.sentence == ssd.sentence
    with refused("--subject ssd", "--strategies ar,sd"):
        predict(t_sd=0.2, strategies=("ar", "sd"), subject="ssd")


def test_memory_is_asked_of_the_named_strategy_only() -> None:
    """400 cached outcomes of 10 tokens with their logits, times 64 sequences, are more than a draft device holds."""
    shape = {"tp": 4, "b": 64, "k": 10, "budget": 400, "temperature": 1.0, "p_hit": 0.8}
    with refused("400 cached"):
        configure(**shape, strategies="ssd")
    together = configure(**shape)
    assert list(together.scenarios) == ["ar", "sd"]
    assert "400 cached outcomes a sequence needs" in together.no_room["ssd"]
    for strategy in ("ar", "sd"):
        assert list(configure(**shape, strategies=strategy).scenarios) == [strategy]


@pytest.mark.parametrize("count", [1, 2, 3, 400, 999])
def test_intervals_have_the_quantiles_of_numpy(count: int) -> None:
    draws = np.exp(np.random.default_rng(count).standard_normal((3, count)))
    draws[1, 0] = np.nan
    np.testing.assert_allclose(bounds_95(draws), np.percentile(draws, (2.5, 97.5), axis=-1), rtol=1e-14)
    np.testing.assert_allclose(centred_on(2.0, draws), 2.0 * draws / np.median(draws, axis=-1)[:, None], rtol=1e-14)
