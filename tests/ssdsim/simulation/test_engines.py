"""Three ways to one answer: closed form, Monte Carlo and SimPy check each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import ssdsim
from ssdsim.answers.simulation.events import Clock
from ssdsim.answers.simulation.simulate import SimulatedRounds, simulate
from ssdsim.base.intervals import Measured
from ssdsim.question.configuration import Configuration, configure
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.drawn import chain_states
from ssdsim.rounds.outcome_sources import long_run_source, outcome_source
from ssdsim.rounds.round import Estimate
from tests.refusals import assert_refused
from tests.ssdsim.cli.in_process import asked

pytestmark = pytest.mark.long

ROUNDS = {"des": 6_400, "mc": 65_536}
Truth = Callable[[Scenario, Estimate], dict[str, float]]


def random_scenarios(count: int, seed: int) -> Iterator[Configuration]:
    """Unit-free scenarios of both fallbacks, b from 1 to 64, early and late drafts."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        options: dict[str, Any] = {
            "b": int(rng.choice([1, 2, 4, 8, 16, 32, 64])),
            "k": int(rng.integers(1, 11)),
            "alpha": float(rng.uniform(0.2, 0.98)),
            "t_sd": float(rng.uniform(0.05, 1.0)),
            "t_p": float(rng.uniform(0.1, 1.6)),
            "t_b": float(rng.uniform(0.0, 1.0)),
        }
        if i % 4 == 3:  # hits that depend on the accepted length
            cache = {"f": int(rng.integers(1, 9)), "hit_c": float(rng.uniform(0.1, 0.9)), "hit_r": 0.6}
            options |= cache | {"fan_out_policy": ["uniform", "geometric", "optimal"][i % 3]}
        else:
            options["p_hit"] = float(rng.uniform(0.1, 0.99))
        if i % 2:
            options |= {"alpha_backup": float(rng.uniform(0.0, 0.9)), "backup": "fast"}
            if "p_hit" in options:
                options["p_hit_backup"] = float(rng.uniform(0.05, 0.99))
        else:
            options["backup"] = "jit"
        yield configure(**options)


def closed_form_truth(scenario: Scenario, estimate: Estimate) -> dict[str, float]:
    truth = {"tokens_per_second": float(estimate.tokens_per_second), "round_s": float(estimate.round_s)}
    if estimate.p_hit is not None and estimate.p_all_hit is not None:
        truth |= {"p_hit": estimate.p_hit, "p_all_hit": estimate.p_all_hit}
    return truth


def wrong_truth(scenario: Scenario, estimate: Estimate) -> dict[str, float]:
    """The formula of b = 1 for every batch: the mistake that a batch's shared stall invites."""
    truth = closed_form_truth(scenario, estimate)
    if estimate.p_hit is not None:
        miss = 1.0 - estimate.p_hit
        round_s = float(estimate.round_s) - float(estimate.breakdown_s["fallback"])
        truth["round_s"] = round_s + miss * scenario.seconds["fallback"]
        truth["tokens_per_second"] = scenario.batch * estimate.tokens_per_round / truth["round_s"]
    return truth


def misses(solver: Any, truth_of: Truth, count: int, seed: int) -> tuple[int, int, float]:
    """How many of all comparisons fall outside their own 99 % interval, of how many, and the farthest in widths."""
    outside, total, farthest = 0, 0, 0.0
    for index, configuration in enumerate(random_scenarios(count, seed)):
        for scenario in configuration.scenarios.values():
            rounds = ROUNDS[solver]
            run = simulate(scenario, solver=solver, rounds=rounds, seed=index + rounds, confidence=0.99)
            for name, truth in truth_of(scenario, scenario.estimate).items():
                measured: Measured = getattr(run, name)
                total += 1
                outside += not measured.covers(truth)
                half = (measured.high - measured.low) / 2 + 1e-9 * abs(truth)
                farthest = max(farthest, abs(measured.value - truth) / half if truth else 0.0)
    return outside, total, farthest


@pytest.mark.parametrize(
    ("solver", "scenarios"), [("mc", 50), *(pytest.param(solver, 200, marks=pytest.mark.slow) for solver in ROUNDS)]
)
def test_the_engines_agree_with_the_closed_form(solver: str, scenarios: int) -> None:
    """Misses of the 99 % intervals over random scenarios are as rare as they should be, and none is gross.

    With 50 scenarios a mistake that puts 5 % of the comparisons outside (1 % expected) is caught with a probability of
    0.98, one with 3 % of 0.54; with 200 scenarios 3 % are caught with 0.997. What Monte Carlo shows holds for events,
    too: they see the same rounds (the test after the next).
    """
    outside, total, farthest = misses(solver, closed_form_truth, count=scenarios, seed=1)
    assert total == scenarios * 8
    assert outside <= binom.ppf(0.999, total, 0.01), f"{outside} of {total} outside"
    assert farthest < 2.0


def test_a_wrong_formula_is_caught() -> None:
    """The negative control: the same comparison with a plausible mistake fails."""
    outside, total, _ = misses("mc", wrong_truth, count=20, seed=1)
    assert outside > 0.1 * total


def test_events_see_the_rounds_of_monte_carlo() -> None:
    """From one seed the very same rounds, to rounding: values and both ends of the intervals, of every strategy."""
    for seed, configuration in enumerate(random_scenarios(50, seed=1)):
        for scenario in configuration.scenarios.values():
            events, columns = (simulate(scenario, solver=e, rounds=256, seed=seed) for e in ("des", "mc"))
            for name in ("tokens_per_second", "tokens_per_round", "round_s", "p_hit", "p_all_hit"):
                one, other = getattr(events, name), getattr(columns, name)
                assert (one is None) == (other is None)
                if one is not None:
                    ends = (other.value, other.low, other.high)
                    assert (one.value, one.low, one.high) == pytest.approx(ends, rel=1e-9, abs=1e-12), (seed, name)


@pytest.mark.parametrize("backup", ["jit", "fast"])
@pytest.mark.parametrize(
    ("solver", "seeds", "least", "most"),
    [
        ("mc", 100, 0.89, 0.99),
        *(pytest.param(solver, 300, 0.92, 0.98, marks=pytest.mark.slow) for solver in ROUNDS),
    ],
)
def test_intervals_cover_the_truth_as_often_as_they_say(
    solver: Any, backup: str, seeds: int, least: float, most: float
) -> None:
    """A 95 % interval covers the exact value as often, give or take the chance of so many seeds.

    An interval that covers 95 % fails with a probability of 0.01. 100 seeds catch one that covers 80 % with 0.99
    (85 %: 0.84) and one that covers 99.9 % with 0.91; 300 seeds 85 % and 99.9 % with 1.00 (90 %: 0.86).
    """
    quality = {"alpha_backup": 0.3, "p_hit_backup": 0.5} if backup == "fast" else {}
    scenario = configure(t_sd=0.4, t_b=0.3, k=5, b=4, p_hit=0.85, backup=backup, **quality).scenarios["ssd"]
    truth = closed_form_truth(scenario, scenario.estimate)
    covered = dict.fromkeys(truth, 0)
    for seed in range(seeds):
        run = simulate(scenario, solver=solver, rounds=3_200, seed=seed)
        for name, value in truth.items():
            covered[name] += getattr(run, name).covers(value)
    for name, count in covered.items():
        assert least <= count / seeds <= most, f"{name}: {count / seeds:.3f}"


DIFFERENT: list[dict[str, Any]] = [
    {"alpha": 0.8, "alpha_concentration": 4.0, "k": 6},
    {"alpha": 0.5, "alpha_concentration": 2.0, "k": 1},
    {"alpha": 0.8, "alpha_concentration": 4.0, "k": 6, "b": 8},
    {"alpha": 0.8, "alpha_concentration": 4.0, "k": 6, "output_tokens": 64},
]


@pytest.mark.parametrize(
    ("solver", "how"),
    [
        ("mc", {"rounds": 2_000}),
        ("des", {"rounds": 2_000}),
        pytest.param("mc", {"rounds": 20_000}, marks=pytest.mark.slow),
        pytest.param("mc", {"precision": 0.02}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("requests", DIFFERENT[:2] + [pytest.param(each, marks=pytest.mark.slow) for each in DIFFERENT])
def test_intervals_hold_where_requests_differ(requests: dict[str, Any], solver: Any, how: dict[str, Any]) -> None:
    """A batch of a run is as independent of the next one as it says, although a request lasts for hundreds of rounds.

    Of 40 intervals that cover 95 %, fewer than 34 do with a probability of 0.004; 34 of ones of 70 % with 0.02.
    """
    scenario = configure(t_sd=0.2, **requests).scenarios["sd"]
    truth = float(scenario.estimate.tokens_per_second)
    runs = (simulate(scenario, solver=solver, seed=seed, **how) for seed in range(40))
    assert sum(run.tokens_per_second.covers(truth) for run in runs) >= 34


@pytest.mark.parametrize("solver", ["mc", "des"])
def test_an_event_rarer_than_the_rounds_has_its_place_in_the_interval(solver: Any) -> None:
    """None was seen; but they happen, and an interval of no width would say that they never do."""
    scenario = configure(t_sd=0.2, alpha=1e-6, k=4).scenarios["sd"]
    run = simulate(scenario, solver=solver, rounds=2_000, seed=1)
    assert run.tokens_per_round.value == 1.0
    assert run.tokens_per_round.low < 1.0 + 1e-6 < run.tokens_per_round.high < 1.001
    assert run.tokens_per_second.low < float(scenario.estimate.tokens_per_second) < run.tokens_per_second.high


def test_blocks_of_sides_that_never_wait_start_in_the_middle() -> None:
    """AMUSD's rounds since a divergence are not those of the long run: many short replicas would average its start."""
    scenario = configure(t_sd=0.2, strategies="amusd", alpha=1.0, k=4).scenarios["amusd"]
    run = simulate(scenario, solver="mc", rounds=20_000, seed=1)
    assert run.tokens_per_second.value == pytest.approx(float(scenario.estimate.tokens_per_second), rel=1e-4)


def run_of(solver: Any, rounds: int = 4_096, **options: Any) -> SimulatedRounds:
    return simulate(configure(**options).scenarios["ssd"], solver=solver, rounds=rounds)


@pytest.mark.parametrize("solver", ["des", "mc"])
def test_no_hits_with_jit_is_sd(solver: Any) -> None:
    scenarios = configure(t_sd=0.3, p_hit=0.0, backup="jit", b=4).scenarios
    ssd = simulate(scenarios["ssd"], solver=solver, rounds=6_400, seed=3)
    sd = simulate(scenarios["sd"], solver=solver, rounds=6_400, seed=3)
    assert ssd.round_s.value == pytest.approx(sd.round_s.value)
    assert ssd.tokens_per_second.value == pytest.approx(sd.tokens_per_second.value, rel=0.02)


@pytest.mark.parametrize("solver", ["des", "mc"])
def test_only_hits_and_a_draft_in_time_hide_all_drafting(solver: Any) -> None:
    run = run_of(solver, t_sd=0.3, t_p=0.9, p_hit=1.0, backup="jit", b=16)
    assert run.round_s.value == pytest.approx(1.0)
    assert run.p_all_hit.value == 1.0
    assert run.breakdown_s["fallback"] == run.breakdown_s["draft"] == 0.0


@pytest.mark.parametrize("solver", ["des", "mc"])
def test_a_late_draft_shows_as_drafting(solver: Any) -> None:
    run = run_of(solver, t_sd=0.3, t_p=1.4, t_b=0.5, p_hit=0.8, backup="jit")
    assert run.breakdown_s["draft"] == pytest.approx(0.4)
    assert sum(run.breakdown_s.values()) == pytest.approx(run.round_s.value)


def test_the_proposals_batch_of_sixteen_has_seven_clean_rounds_in_a_hundred() -> None:
    run = run_of("mc", rounds=1_000_000, t_sd=0.2, p_hit=0.85, b=16)
    assert run.p_all_hit.covers(0.85**16)
    assert run.p_all_hit.value == pytest.approx(0.074, abs=0.001)


@pytest.mark.parametrize("solver", ["des", "mc"])
def test_a_seed_reproduces_a_run_exactly_and_another_does_not(solver: Any) -> None:
    shape: dict[str, Any] = {"t_sd": 0.3, "p_hit": 0.7, "b": 8, "spread": 0.1}
    scenario = configure(**shape).scenarios["ssd"]
    first, again, other = (simulate(scenario, solver=solver, rounds=2_000, seed=s) for s in (5, 5, 6))
    assert first.tokens_per_second == again.tokens_per_second
    assert first.tokens_per_second != other.tokens_per_second


def test_des_and_monte_carlo_see_the_same_outcomes() -> None:
    scenario = configure(t_sd=0.3, p_hit=0.7, b=8, backup="fast").scenarios["ssd"]
    des, mc = (simulate(scenario, solver=solver, rounds=1_024, seed=9) for solver in ("des", "mc"))
    assert des.tokens_per_round.value == mc.tokens_per_round.value
    assert des.round_s.value == pytest.approx(mc.round_s.value)


@pytest.mark.parametrize("strategy", ["ar", "sd", "ssd"])
def test_jitter_keeps_the_engines_together(strategy: str) -> None:
    scenario = configure(t_sd=0.3, t_p=0.95, p_hit=0.7, b=4, spread=0.2).scenarios[strategy]
    des = simulate(scenario, solver="des", rounds=30_000, confidence=0.999)
    mc = simulate(scenario, solver="mc", rounds=300_000, confidence=0.999)
    assert des.round_s.low < mc.round_s.high
    assert mc.round_s.low < des.round_s.high


def test_jitter_makes_the_slower_of_two_slower_than_either() -> None:
    run = run_of("mc", rounds=100_000, t_sd=0.3, t_p=1.0, p_hit=1.0, spread=0.2)
    # the mean of the larger of two equal lognormals: 1 + erf(spread / 2)
    assert run.round_s.covers(1.1125) or run.round_s.value == pytest.approx(1.1125, rel=2e-3)


@pytest.mark.parametrize("solver", ["mc", "des"])
def test_precision_stops_a_run_when_it_is_reached(solver: Any) -> None:
    scenario = configure(t_sd=0.3, p_hit=0.7, b=2).scenarios["ssd"]
    loose, tight = (simulate(scenario, solver=solver, precision=p, seed=2) for p in (0.02, 0.005))
    assert loose.rounds == 32 * 1024
    for run, precision in ((loose, 0.02), (tight, 0.005)):
        rate = run.tokens_per_second
        assert (rate.high - rate.low) / 2 <= precision * rate.value
    assert loose.rounds < tight.rounds


def test_rounds_that_go_together_for_long_are_drawn_in_long_blocks() -> None:
    """AMUSD's blocks are runs of their own: short ones would hardly be of the long run."""
    scenario = configure(t_sd=0.3, strategies="amusd").scenarios["amusd"]
    assert simulate(scenario, solver="mc", precision=0.5, seed=2).rounds == 32 * 16_384


@pytest.mark.parametrize("backup", ["jit", "fast"])
@pytest.mark.parametrize("strategy", ["sd", "ssd"])
@pytest.mark.parametrize(
    ("solver", "rounds"), [("mc", 40_000), ("des", 5_000), pytest.param("des", 40_000, marks=pytest.mark.slow)]
)
def test_requests_that_differ_match_the_renewal_recursion(solver: Any, rounds: int, strategy: str, backup: str) -> None:
    """Means over rounds lean towards slow requests; the recursion over the tokens left is exact.

    Intervals of 5,000 rounds are 2.8 times as wide as those of 40,000.
    """
    shape: dict[str, Any] = {"alpha": 0.7, "alpha_concentration": 3.0, "output_tokens": 60, "f": 2, "b": 4}
    scenario = configure(**shape, t_sd=0.3, t_b=0.2, backup=backup).scenarios[strategy]
    run = simulate(scenario, solver=solver, rounds=rounds, seed=4, confidence=0.999)
    truth = closed_form_truth(scenario, scenario.estimate)
    for name, value in truth.items():
        assert getattr(run, name).covers(value), f"{name}: {getattr(run, name)} against {value}"


def test_requests_that_differ_yield_less_than_their_mean() -> None:
    alike = configure(t_sd=0.3, alpha=0.7, p_hit=0.8).scenarios["sd"]
    mixed = configure(t_sd=0.3, alpha=0.7, alpha_concentration=2.0, p_hit=0.8).scenarios["sd"]
    assert mixed.estimate.tokens_per_round < alike.estimate.tokens_per_round


def test_quantiles_of_constant_rounds_are_exact() -> None:
    run = run_of("des", t_sd=0.25, t_p=0.5, t_b=0.25, p_hit=0.85, b=1, backup="jit", alpha=0.8, k=4)
    assert run.round_histogram.quantile(0.5) == pytest.approx(1.0)
    assert run.round_histogram.quantile(0.99) == pytest.approx(1.25)
    assert run.gap_quantile_s(0.5) == 0.0
    assert run.gap_quantile_s(0.99) == pytest.approx(1.25)


def test_utilisation_is_what_the_round_says() -> None:
    run = simulate(configure(t_sd=0.3, t_p=0.6, p_hit=1.0).scenarios["ssd"], rounds=1_000)
    assert run.utilisation["target"] == pytest.approx(1.0)
    assert run.utilisation["draft"] == pytest.approx(0.6, rel=2e-3)


@pytest.mark.parametrize(
    "options",
    [{"p_hit": 0.7, "backup": "jit"}, {"p_hit": 0.7, "backup": "fast"}, {"p_hit": 0.7, "alpha_concentration": 3.0}],
)
@pytest.mark.parametrize("source_of", [outcome_source, long_run_source])
def test_a_stream_does_not_depend_on_how_it_is_cut_into_blocks(options: dict[str, Any], source_of: Any) -> None:
    scenario = configure(t_sd=0.3, b=5, **options).scenarios["ssd"]
    whole = source_of(scenario.tokens, scenario.batch, np.random.SeedSequence(3)).block(8_000).draws
    source = source_of(scenario.tokens, scenario.batch, np.random.SeedSequence(3))
    parts = [source.block(size).draws for size in (1, 7, 992, 3_000, 4_000)]
    assert np.array_equal(np.concatenate(parts, axis=1), whole)


@pytest.mark.parametrize("solver", ["des", "mc"])
def test_a_missed_round_is_longer_by_its_fallback(solver: Any) -> None:
    run = run_of(solver, t_sd=0.3, t_p=0.6, t_b=0.25, p_hit=0.8, backup="jit", b=2)
    assert run.clean_round_s == pytest.approx(1.0)
    assert run.missed_round_s == pytest.approx(1.25)


def test_sequences_of_a_finite_run_all_get_their_tokens() -> None:
    from ssdsim.answers.simulation.simulate import simulate_requests

    scenarios = configure(t_sd=0.3, p_hit=0.8, b=3, k=4).scenarios
    ar = simulate_requests(scenarios["ar"], 40, runs=5)
    assert ar.rounds == 5 * 40
    ssd = simulate_requests(scenarios["ssd"], 40, runs=50)
    assert ssd.tokens_per_round.value * ssd.rounds * 3 == pytest.approx(50 * 3 * 40)
    # the last to finish rules: fewer tokens a round than in the long run
    assert ssd.tokens_per_round.value < scenarios["ssd"].estimate.tokens_per_round


def test_few_rounds_are_refused_by_the_verb_alone() -> None:
    """``simulate`` says that they say nothing; a validation goes on with its own few rounds, whose interval is wide."""
    scenario = ssdsim.configure(t_sd=0.2, spread=2.0).scenarios["ar"]
    rate = simulate(scenario, rounds=3).tokens_per_second
    assert rate.low <= 0.0 < rate.value
    done = asked("simulate", "--t-sd", "0.2", "--spread", "2", "--rounds", "3")
    assert_refused(done, "3 rounds say nothing of the tokens/s of AR")


@pytest.mark.parametrize("p_first", [(0.9, 0.3), (0.2, 0.95), (1.0, 0.0), (0.0, 1.0)])
def test_chains_are_in_the_states_that_they_walk_to_one_by_one(p_first: tuple[float, float]) -> None:
    """Also those that never forget how they began, and those that turn about in each round."""
    uniform, start = np.random.default_rng(7).random((3, 200)), np.array([True, False, True])
    if_first, if_second = (uniform < p for p in p_first)
    now, walked = start, []
    for number in range(200):
        now = np.where(now, if_first[:, number], if_second[:, number])
        walked.append(now)
    assert np.array_equal(chain_states(if_first, if_second, start), np.transpose(walked))


def test_a_clock_says_where_nothing_is_left_to_happen() -> None:
    clock = Clock()
    clock.after(1.0)
    with pytest.raises(RuntimeError, match="no event is left"):
        clock.run_to(clock.event())
    assert clock.now == 1.0
