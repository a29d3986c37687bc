"""``--pair``: what was measured takes the place of defaults, in every answer and in every solver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ssdsim import evaluate, predict
from ssdsim.advise.export.export import export
from ssdsim.advise.recommend.recommendation import recommend
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.base.errors import InputError
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.question.token_errors import drawn
from ssdsim.serving.schedule_file import Schedule
from ssdsim.tokens.acceptance import accepted_length_pmf, pooled_rate
from ssdsim.tokens.acceptance_models import beta_kinds_by_position
from ssdsim.tokens.hit_models import PowerLawHits
from ssdsim.tokens.pair_file import AtTemperature, HitLaw, Hits, Length, Mean, Pair, Participant, RequestSpread
from tests.calibration.pairs import sample
from tests.refusals import refused


@pytest.fixture
def pair(tmp_path: Path) -> str:
    return sample.written(tmp_path)


def test_acceptance_by_position_and_three_curves_come_from_the_pair(pair: str) -> None:
    settings = configure(pair=pair, backup="fast").settings
    assert settings["alpha"] == sample.RATES
    assert (settings["hit_c"], settings["hit_r"]) == (0.56, 0.67)
    assert settings["hit_curve_all"] == tuple((float(f), h) for f, h in sample.ALL_CURVE)  # the law misfits there
    assert (settings["hit_c_backup"], settings["hit_r_backup"]) == (0.3, 0.8)
    assert settings.source("alpha") == "pair.json: measured on 64 requests, temperature 0"
    assert "hit_c_all" not in settings
    assert settings["fan_out_policy"] == "optimal"


def test_hits_are_those_of_the_three_curves(pair: str) -> None:
    """By hand: each accepted length with its own curve, after the primary and after the backup."""
    fl = [4, 3, 2, 2, 1, 1, 8]
    scenario = configure(pair=pair, backup="fast", fl=fl).scenarios["ssd"]
    pmf = accepted_length_pmf(sample.RATES, 6)
    hits = np.append(PowerLawHits(c=0.56, r=0.67)(fl[:6]), 0.98)
    backup_hits = PowerLawHits(c=0.3, r=0.8)(fl)
    assert scenario.settings["p_hit"] == pytest.approx(pmf @ hits)
    assert scenario.settings["p_hit_backup"] == pytest.approx(backup_hits[0])  # random tokens: nothing is accepted


def test_how_sure_hits_are_moves_the_interval(tmp_path: Path) -> None:
    """Each curve with bounds is a direction of its own, up to what its requests leave open."""
    wide = [(f, h, max(0.0, h - 0.1), min(1.0, h + 0.1)) for f, h in sample.ALL_CURVE]
    known = sample.pair()
    (at, *others) = known.by_temperature
    hits = at.hits.changed(rejected=HitLaw(curve=tuple(wide)), all_accepted=HitLaw(curve=tuple(wide)))
    copy = known.changed(by_temperature=(at.changed(hits=hits), *others))
    copy.save(tmp_path / "wide.json")
    moves = configure(pair=str(tmp_path / "wide.json"), backup="jit").scenarios["ssd"].known.moves
    moved = {name.split(" of ")[0]: float(each.to["miss"]) for name, each in moves.items()}
    assert moved["hits"] < -0.001
    assert moved["hits_all"] < -0.001


def test_another_temperature_is_another_pair(pair: str) -> None:
    hot = configure(pair=pair, temperature=1.0)
    assert hot.settings["alpha"] == sample.HOT_RATES
    assert (
        predict(pair=pair, b=16, temperature=1.0).verdict.over["sd"].ratio
        < predict(pair=pair, b=16).verdict.over["sd"].ratio
    )
    with refused("--temperature 0.5"):
        configure(pair=pair, temperature=0.5)


def test_the_only_temperature_is_the_scenarios(tmp_path: Path) -> None:
    only = sample.written(tmp_path, sample.pair(by_temperature=(sample.at(0.7, sample.RATES, 0.5, 0.5),)))
    assert configure(pair=only).settings["temperature"] == 0.7
    with refused("--temperature 0", "0.7", "--extrapolate"):
        configure(pair=only, temperature=0.0)


def test_a_temperature_that_nobody_said_is_taken_with_a_warning(tmp_path: Path) -> None:
    unsaid = sample.written(tmp_path, sample.pair(by_temperature=(sample.at(None, sample.RATES, 0.5, 0.5),)))
    for temperature in (None, 1.0):
        configuration = configure(pair=unsaid, temperature=temperature)
        assert configuration.settings["alpha"] == sample.RATES
        assert any("does not say at which temperature" in warning for warning in configuration.warnings)


def test_a_set_is_chosen_by_name(pair: str) -> None:
    assert configure(pair=pair, pair_set="code").settings["alpha"] == (0.9,) * 6
    with refused("cod", "code"):
        configure(pair=pair, pair_set="cod")
    with refused("--pair-set", "--pair"):
        configure(pair_set="code")


def test_a_backup_is_chosen_by_name(pair: str) -> None:
    settings = configure(pair=pair, backup="fast", pair_backup="ngram:3").settings
    assert settings["hit_c_backup"] == 0.35
    tokens = accepted_length_pmf(settings["alpha_backup"], 6) @ np.arange(1, 8)
    assert tokens == pytest.approx(1.5)  # what the backup yielded, rounds without a proposal among them
    with refused("ngram", "ngram:3"):
        configure(pair=pair, backup="fast", pair_backup="ngram")


def test_what_is_given_overrides_and_is_said(pair: str) -> None:
    configuration = configure(pair=pair, alpha=0.6, hit_c=0.2)
    settings = configuration.settings
    assert (settings["alpha"], settings["hit_c"], settings["hit_r"]) == (0.6, 0.2, 0.7)
    assert any("overridden by --alpha, --hit-c" in warning for warning in configuration.warnings)
    assert configure(pair=pair, p_hit=0.5).settings["p_hit"] == 0.5
    assert "hit_c" not in configure(pair=pair, p_hit=0.5).settings


@pytest.mark.parametrize("options", [{"acceptance": "kumar2026-llama"}, {"strategies": "ar"}])
def test_a_pair_that_would_have_no_part_is_refused(pair: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"no effect with"):
        predict(pair=pair, **options)


def test_a_pair_of_other_models_is_named(tmp_path: Path, pair: str) -> None:
    assert not any("measured with" in warning for warning in configure(pair=pair).warnings)
    other = sample.written(tmp_path, sample.pair(draft=Participant(id="HuggingFaceTB/SmolLM2-135M")))
    warnings = configure(pair=other).warnings
    assert "pair.json: measured with draft HuggingFaceTB/SmolLM2-135M, not with --draft llama-3.2-1b" in warnings
    assert not any("measured with target" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("options", "guessed"),
    [
        ({}, "alpha 0.79, c 0.4 and r 0.7"),
        ({"alpha": 0.7}, "c 0.4 and r 0.7"),
        ({"alpha": 0.7, "p_hit": 0.5}, None),
        ({"strategies": "ar,sd", "alpha": 0.7}, None),
        ({"strategies": "ar"}, None),
        ({"temperature": 0.0}, None),
    ],
)
def test_placeholders_above_temperature_0_may_turn_the_verdict(options: dict[str, Any], guessed: str | None) -> None:
    given = {"temperature": 1.0, **options}
    warnings = [warning for warning in configure(**given).warnings if "placeholders" in warning]
    assert len(warnings) == (guessed is not None)
    assert guessed is None or guessed in warnings[0]
    assert [w for w in evaluate([given]).attrs["warnings"] if "placeholders" in w] == warnings


def test_an_engines_log_has_no_hits_which_is_said(tmp_path: Path) -> None:
    log = sample.written(tmp_path, sample.pair(how="vllm-metrics", by_temperature=(_acceptance_alone(),)))
    configuration = configure(pair=log)
    assert any("has no hit rates, so that c 0.4 and r 0.7 are placeholders" in w for w in configuration.warnings)
    assert configuration.pair == "pair.json: read from vllm-metrics, 64 requests, temperature 0"
    assert configuration.settings["hit_c"] == 0.4


def _acceptance_alone(**others: Any) -> AtTemperature:
    given: dict[str, Any] = {"alpha": Mean(mean=0.7), "alpha_k": (0.7, 0.8, 0.9), **others}
    return AtTemperature(temperature=0.0, **given)


@pytest.mark.long
def test_a_lookahead_beyond_what_was_measured(tmp_path: Path) -> None:
    short = sample.written(tmp_path, sample.pair(by_temperature=(_acceptance_alone(),)))
    settings = configure(pair=short).settings
    assert (settings["k"], settings.source("k")) == (3, "as far as pair.json knows acceptance")
    with refused("3 positions", "lookahead is 4"):
        configure(pair=short, k=4)
    recommendation = recommend(gpus=5, b=1, pair=short, strategies="ar,sd")
    assert max(recommendation.request.searched["k"] or ()) == 3


@pytest.mark.parametrize("rates", [(0.7, 0.8, 0.9), None], ids=["by position", "one rate"])
@pytest.mark.parametrize("drafting", [{}, {"drafter": "eagle3", "target": "llama-3.1-8b", "tp": 1}])
def test_no_pair_is_used_beyond_its_k_unless_somebody_extrapolates(
    tmp_path: Path, rates: tuple[float, ...] | None, drafting: dict[str, Any]
) -> None:
    """A pair with one rate went on to any K, as did the last of a head's; one by position did not."""
    at_temperature = _acceptance_alone(alpha_k=rates, length=Length(pooled=2.5, k=3))
    pair = sample.written(tmp_path, sample.pair(by_temperature=(at_temperature,)))
    with refused("3 positions", "lookahead is 4", "--extrapolate"):
        predict(pair=pair, k=4, **drafting)
    beyond = predict(pair=pair, k=4, extrapolate=True, **drafting).configuration
    assert any("known up to K 3; the last rate is taken for more" in warning for warning in beyond.warnings)
    assert configure(pair=pair, **drafting).settings["k"] == 3


@pytest.mark.long
def test_searches_stop_at_what_a_pair_knows_and_say_so(tmp_path: Path) -> None:
    """``export`` wrote K 4 for vLLM and K 8 as csv of a pair that was measured to K 3."""
    at_temperature = _acceptance_alone(alpha_k=None, length=Length(pooled=2.5, k=3))
    pair = sample.written(tmp_path, sample.pair(by_temperature=(at_temperature,)))
    stopped = "K is searched up to 3, as far as the pair knows acceptance (--extrapolate goes on)"
    recommended = recommend(gpus=5, pair=pair, strategies="ar,sd")
    assert stopped in recommended.warnings
    assert recommended.request.searched["k"] == (1, 2, 3)
    exported = {format: export(format, pair=pair, b=[1, 16], strategies=("ar", "sd")) for format in ("vllm", "csv")}
    assert all(stopped in each.warnings for each in exported.values())
    assert json.loads(exported["vllm"].text)["num_speculative_tokens"] == 3
    assert {cell.settings["k"] for cell in Schedule.parse(exported["csv"].text).cells} == {3}
    with refused("--k 4", "3"):
        export("vllm", pair=pair, b=1, k=[2, 4])
    left = recommend(gpus=5, pair=pair, strategies="ar,sd", k=[2, 4])
    assert any(warning.startswith("--k 4: acceptance is known at 3 positions") for warning in left.warnings)
    assert left.request.searched["k"] == (2,)
    assert recommend(gpus=5, pair=pair, strategies="ar,sd", k=[2, 4], extrapolate=True).request.searched["k"] == (2, 4)


def test_a_pair_is_not_used_beyond_its_fan_outs(pair: str) -> None:
    with refused("32", "40"):
        configure(pair=pair, f=40)
    held = [configure(pair=pair, budget=7 * f, fan_out_policy="uniform").settings["p_hit"] for f in (32, 64)]
    assert held[0] == held[1]
    further = configure(pair=pair, f=64, fan_out_policy="uniform", extrapolate=True)
    assert further.settings["p_hit"] > held[0]
    assert any("beyond that by the fitted law" in warning for warning in further.warnings)
    with refused("--f 40", "32 guesses", "--extrapolate"):
        export("csv", pair=pair, b=1, f=[8, 40])


def test_a_temperature_between_is_the_nearest_where_somebody_extrapolates(pair: str) -> None:
    near = configure(pair=pair, temperature=0.7, extrapolate=True)
    assert near.settings["alpha"] == sample.HOT_RATES
    assert "pair.json: measured at temperature 1, taken for 0.7" in near.warnings
    with refused("--extrapolate", "--pair"):
        configure(extrapolate=True)


def test_lengths_alone_are_no_acceptance(tmp_path: Path) -> None:
    blind = sample.written(
        tmp_path, sample.pair(by_temperature=(AtTemperature(temperature=0.0, length=Length(pooled=2.0)),))
    )
    with pytest.raises(InputError, match="has no acceptance rate, only lengths"):
        configure(pair=blind)
    assert configure(pair=blind, alpha=0.5).settings["alpha"] == 0.5


# requests that differ


@pytest.mark.parametrize("concentration", [2.0, 8.0, 100.0])
def test_requests_that_differ_have_together_the_rates_by_position(concentration: float) -> None:
    """Counted as an engine counts: over rounds, of which requests that accept less have more."""
    kinds = beta_kinds_by_position(sample.RATES, concentration)
    assert kinds.pmfs.sum(axis=1) == pytest.approx(1.0)
    lengths = kinds.pmfs @ np.arange(1, 8)
    rounds = kinds.weights / lengths
    pooled = rounds @ kinds.pmfs / rounds.sum()
    assert pooled == pytest.approx(accepted_length_pmf(sample.RATES, 6), abs=1e-6)
    assert np.ptp(lengths) > 0.3  # and they differ


def test_a_pairs_concentration_keeps_its_mean_and_changes_what_requests_do(tmp_path: Path) -> None:
    differing = sample.at(0.0, sample.RATES, 0.56, 0.67, requests=RequestSpread(concentration=5.0, alike=False))
    scenario = configure(pair=sample.written(tmp_path, sample.pair(by_temperature=(differing,)))).scenarios["sd"]
    assert scenario.settings["alpha_concentration"] == 5.0
    length = float(accepted_length_pmf(sample.RATES, 6) @ np.arange(1, 8))
    assert scenario.tokens.averages.tokens_per_round == pytest.approx(length, rel=0.01)


# engines


@pytest.mark.parametrize("solver", ["mc", "des"])
@pytest.mark.parametrize("name", ["sd", "ssd", "pearl"])
@pytest.mark.parametrize("differ", [False, True])
@pytest.mark.long
def test_engines_agree_under_a_pair(tmp_path: Path, name: str, solver: Any, differ: bool) -> None:
    requests = RequestSpread(concentration=6.0, alike=False) if differ else RequestSpread(alike=True)
    hot = sample.at(1.0, sample.HOT_RATES, 0.84, 0.32, requests=requests)
    path = sample.written(tmp_path, sample.pair(by_temperature=(hot,)))
    scenario = configure(
        pair=path,
        b=4,
        backup="fast",
        pair_backup="ngram:3",
        strategies=name,
        **({"output_tokens": 60} if differ else {}),
    ).scenarios[name]
    _agree(scenario, solver)


def _agree(scenario: Scenario, solver: Any) -> None:
    run = simulate(scenario, solver=solver, rounds=20_000 if solver == "mc" else 5_000, seed=5, confidence=0.999)
    estimate = scenario.estimate
    assert run.tokens_per_second.covers(float(estimate.tokens_per_second))
    assert run.tokens_per_round.covers(float(estimate.tokens_per_round))
    for share, truth in ((run.p_hit, estimate.p_hit), (run.p_all_hit, estimate.p_all_hit)):
        assert (share is None) == (truth is None)
        assert share is None or truth is None or share.covers(float(truth))


# intervals


def test_a_pairs_intervals_reach_the_verdict(tmp_path: Path) -> None:
    """Sharper rates, sharper verdict; the timings' errors alone at rates that are sure."""

    def width(sure: float) -> float:
        rates = sample.HOT_RATES
        hits = Hits(
            rejected=sample.law(0.84, 0.32, 0.3 * sure), after_backup={"random": sample.law(0.5, 0.5, 0.3 * sure)}
        )
        alpha = Mean(mean=0.7, low=0.7 - 0.1 * sure, high=0.7 + 0.1 * sure)
        found = sample.at(1.0, rates, 0.84, 0.32, alpha=alpha, hits=hits)
        over = predict(pair=sample.written(tmp_path, sample.pair(by_temperature=(found,))), b=8).verdict.over["sd"]
        assert over.interval is not None
        return over.interval.high - over.interval.low

    sure, known, rough = (width(factor) for factor in (0.0, 1.0, 2.0))
    assert sure < known < rough
    given = predict(alpha=list(sample.HOT_RATES), hit_c=0.84, hit_r=0.32, hit_c_backup=0.5, hit_r_backup=0.5, b=8)
    over = given.verdict.over["sd"].interval
    assert over is not None
    assert over.high - over.low == pytest.approx(sure, rel=0.02)


def test_an_interval_is_that_of_the_rate_through_the_whole_answer(tmp_path: Path) -> None:
    """SD alone, its timings cancelled by AR's: tokens a round move as alpha does within its bounds."""
    alpha = Mean(mean=0.7, low=0.65, high=0.75)
    at_temperature = AtTemperature(temperature=0.0, alpha=alpha, alpha_k=(0.7,) * 6)
    path = sample.written(tmp_path, sample.pair(by_temperature=(at_temperature,)))
    scenario = configure(pair=path, strategies="sd").scenarios["sd"]
    from ssdsim.pricing.cost import TimingErrors

    moved = drawn(scenario.tokens.averages, scenario.known.moves, TimingErrors(4000, 0))
    tokens = np.asarray(moved.tokens_per_round)
    low, high = np.percentile(tokens, (2.5, 97.5))
    expected = [float(accepted_length_pmf(rate, 6) @ np.arange(1, 8)) for rate in (0.65, 0.75)]
    assert (low, high) == pytest.approx(expected, rel=0.03)  # moves are straight lines, 1.3 % off at these bounds


def test_sweeps_have_the_same_intervals_as_a_prediction(pair: str) -> None:
    points = [
        {"pair": pair, "b": b, "k": 6, "f": 3, "temperature": t, "backup": "fast"} for b in (1, 16) for t in (0.0, 1.0)
    ]
    frame = evaluate([*points, {"b": 16}], draws=1000)
    for row, point in zip(frame.to_dict("records"), points, strict=False):
        prediction = predict(**point)
        for name in ("sd", "ssd"):
            interval = prediction.intervals[name]
            assert interval is not None
            assert (row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx((interval.low, interval.high))


# other answers


@pytest.mark.long
def test_recommend_and_export_read_the_pair(pair: str) -> None:
    recommendation = recommend(gpus=5, b=16, pair=pair, temperature=1.0)
    assert recommendation.pair == "pair.json: measured on 64 requests, temperature 1"
    assert not any("placeholder" in warning for warning in recommendation.warnings)
    (alpha,) = (each for each in recommendation.break_evens if each.what == "acceptance rate alpha")
    k = recommendation.answers[0].by_strategy["ssd"].shape.settings["k"]
    assert alpha.present == pytest.approx(pooled_rate(sample.HOT_RATES, k))
    assert alpha.bound in ("at least", "at most", "always")  # SSD leads: what it has is enough
    assert alpha.value is None or alpha.value <= alpha.present
    exported = export("json", b=[16], context=[1024], k=[2, 4], f=3, pair=pair)
    assert not any("placeholder" in note for note in exported.notes)
    assert exported.text != export("json", b=[16], context=[1024], k=[2, 4], f=3).text


def test_an_engines_pair_from_its_log_to_a_prediction(tmp_path: Path) -> None:
    """A single length: one rate at all positions that were drafted, of no interval."""
    at_temperature = AtTemperature(temperature=0.0, alpha=Mean(mean=0.65), length=Length(pooled=2.5, k=4))
    path = sample.written(tmp_path, sample.pair(how="sglang-server", requests=None, by_temperature=(at_temperature,)))
    assert configure(pair=path, k=4).settings["alpha"] == (0.65,) * 4


def test_a_law_without_its_curve_and_a_curve_without_its_law(tmp_path: Path) -> None:
    bare = Hits(rejected=HitLaw(c=0.5, r=0.5), all_accepted=HitLaw(curve=((1, 0.5, None, None),)))
    at_temperature = _acceptance_alone(hits=bare)
    settings = configure(pair=sample.written(tmp_path, sample.pair(by_temperature=(at_temperature,)))).settings
    assert (settings["hit_c"], settings["hit_curve_all"]) == (0.5, ((1.0, 0.5),))


def test_what_pair_is_one_of_several_files_is_the_one_named(tmp_path: Path) -> None:
    """A folder keeps its copy: a sweep of two pairs."""
    paths = []
    for name, rates in (("cold", sample.RATES), ("hot", sample.HOT_RATES)):
        (tmp_path / name).mkdir()
        paths.append(sample.written(tmp_path / name, sample.pair(by_temperature=(sample.at(0.0, rates, 0.5, 0.5),))))
    frame = evaluate([{"pair": path, "strategies": "ar,sd"} for path in paths])
    assert frame[
        "tokens_per_round_sd" if "tokens_per_round_sd" in frame else "tokens_per_round"
    ].is_monotonic_decreasing


def test_no_pair_there(tmp_path: Path) -> None:
    with refused("none.json"):
        configure(pair=str(tmp_path / "none.json"))
    assert isinstance(sample.pair(), Pair)


@pytest.mark.parametrize("b", [38, 256])
def test_shares_of_rounds_under_draws_are_one_together(pair: str, b: int) -> None:
    """SPECTRE has three states. Two of them grew to more than all rounds, and what a retry takes fell below nothing."""
    found = predict(pair=pair, t_sd=0.2, k=2, b=b, strategies="ar,spectre")
    likely = found.rates.likely("spectre")
    assert likely is not None
    assert 0.0 < likely[0] < likely[1]
    scenario = configure(pair=pair, t_sd=0.2, k=2, b=b, strategies="spectre").scenarios["spectre"]
    made = drawn(scenario.known.tokens.averages, scenario.known.moves, TimingErrors(500, 1))
    for shares in (made.inside, made.to):
        assert np.min([*shares.values()]) >= 0.0
        assert sum(shares.values()) == pytest.approx(1.0)


def test_a_direction_may_lead_to_trees_of_another_size(pair: str) -> None:
    """SwiftSpec's trees follow the rates; one that was in the better case alone was looked for in the other."""
    rates = {"t_sd": 0.2, "k": 2, "strategies": "swiftspec", "swift_guesses": 8, "pair": pair, "pair_set": "code"}
    for alpha in (0.7, 0.8, 0.9):
        known = configure(**rates, alpha=alpha).scenarios["swiftspec"].known
        assert known.moves
        made = drawn(known.tokens.averages, known.moves, TimingErrors(100, 1))
        assert sum(made.inside.values()) == pytest.approx(1.0)
