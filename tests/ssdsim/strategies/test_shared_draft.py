"""A draft whose devices serve several targets, against loops apart from this code, and what it must keep."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.machine.ranks import Ranks
from ssdsim.answers.simulation import actor
from ssdsim.answers.simulation import simulate as engine
from ssdsim.answers.simulation.durations import Durations, StepStreams
from ssdsim.answers.simulation.simulate import SimulatedRounds, simulate
from ssdsim.base.errors import DoesNotFit
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.strategies.protocols.cached import Cached
from ssdsim.strategies.protocols.shared import ahead
from ssdsim.strategies.protocols.strategy import Service
from tests.calibration.executor.run import CARDS, ROUNDS, overlap_s, run, small, spans
from tests.refusals import refused
from tests.ssdsim.strategies.checks import deviations_are_chance

ENGINES = ("mc", "des")


def sd(s: float, targets: int, **options: Any) -> Scenario:
    """A draft takes ``s`` passes of the target."""
    configuration = configure(
        strategies="sd", alpha=0.8, k=5, t_sd=s, targets=targets, **{"draft_serves": "in-turn"} | options
    )
    return configuration.scenarios["sd"]


def ssd(p: float, again: float, q: float, targets: int, **options: Any) -> Scenario:
    """Pre-speculation and fallback of so many passes; a share ``q`` of rounds misses."""
    times = {"t_sd": 0.3, "t_p": p, "t_b": again, "p_hit": 1.0 - q, "backup": "jit", "targets": targets}
    return configure(strategies="ssd", k=5, **times, **{"draft_serves": "in-turn"} | options).scenarios["ssd"]


def of_all(case: Scenario) -> float:
    """Rounds of all targets a pass of one."""
    return case.devices.targets / float(case.estimate.round_s)


class _Law:
    """Passes of the target of mean 1, by a law of its own: cv of a gamma, or of the normal up to 5 deviations."""

    def __init__(self, law: str, cv: float, seed: np.random.SeedSequence) -> None:
        self._rng, self._law, self._cv = np.random.default_rng(seed), law, cv

    def block(self, rounds: int) -> np.ndarray:
        if self._law == "gamma":
            return self._rng.gamma(1.0 / self._cv**2, self._cv**2, rounds)
        return np.maximum(0.2, self._rng.normal(1.0, self._cv, rounds))


def passes_vary(monkeypatch: pytest.MonkeyPatch, law: str, cv: float) -> None:
    """In the engines only a pass of the target varies, by a law."""

    class Varying(StepStreams):
        def stream(self, name: str, role: str = "") -> Any:
            seed = np.random.SeedSequence(
                self._seed.entropy, spawn_key=(*self._seed.spawn_key, *(name + role).encode())
            )
            return _Law(law, cv, seed) if name == "verify" else Durations(self._steps[name].seconds, 0.0, seed)

    monkeypatch.setattr(engine, "StepStreams", Varying)
    monkeypatch.setattr(actor, "StepStreams", Varying)


def deviation(ran: SimulatedRounds, targets: int, expected: float, error: float) -> float:
    """Of rounds of all targets from what is expected of them, in standard errors of both."""
    rate = targets / ran.round_s.value
    own = (ran.round_s.high - ran.round_s.low) / 2.0 / 2.576 / ran.round_s.value * rate
    return (rate - expected) / math.hypot(own, error)


# StarSD's server. S / Z, targets, rounds of all targets: for constant times; and by a loop apart from this code with a
# pass that varies by a gamma of cv 0.1, an exponential one, and for a server that takes all that wait (cv 0.1); each
# with its standard error
STARSD = [
    (0.1, 4, 3.6364, (3.5947, 0.0007), (3.5928, 0.0070), (3.5984, 0.0007)),
    (0.1, 8, 7.2727, (7.0210, 0.0014), (6.8756, 0.0112), (7.1027, 0.0014)),
    (0.25, 2, 1.6000, (1.5872, 0.0003), (1.5696, 0.0027), (1.5872, 0.0003)),
    (0.25, 4, 3.2000, (3.0841, 0.0006), (2.8997, 0.0037), (3.0885, 0.0006)),
    (0.25, 8, 4.0000, (4.0000, 0.0005), (3.9763, 0.0008), (5.9026, 0.0012)),
]

# SSD's server (vLLM RFC 42109): T_p, T_b, share of rounds that miss, targets, rounds of all targets for constant times,
# and by a loop apart from this code with a pass that varies by a normal of cv 0.05
RFC = [
    (0.4, 0.3, 0.15, 1, 0.9569, 0.9579),
    (0.4, 0.3, 0.15, 2, 1.9139, 1.8902),
    (0.4, 0.3, 0.15, 4, 2.2472, 2.2509),
    (0.4, 0.3, 0.15, 8, 2.2472, 2.2508),
    (0.2, 0.15, 0.15, 1, 0.9780, 0.9787),
    (0.2, 0.15, 0.15, 2, 1.9560, 1.9525),
    (0.2, 0.15, 0.15, 4, 3.9120, 3.8781),
    (0.2, 0.15, 0.15, 8, 4.4944, 4.5017),
    (0.2, 0.15, 0.9, 1, 0.8811, 0.8815),
    (0.2, 0.15, 0.9, 2, 1.7621, 1.7515),
    (0.2, 0.15, 0.9, 4, 2.9851, 2.9863),
    (0.2, 0.15, 0.9, 8, 2.9851, 2.9865),
]
MIXED_RATES = 0.02  # by which a fitted wait may cost more than a target adds, where the draft is always busy
OF_A_RATE = 2.5e-4  # the loop's standard error where it is not printed, as a share


@pytest.mark.parametrize(("s", "targets", "bound"), [row[:3] for row in STARSD])
def test_sds_closed_form_is_the_tables(s: float, targets: int, bound: float) -> None:
    assert of_all(sd(s, targets)) == pytest.approx(bound, abs=5e-5)


@pytest.mark.parametrize(("p", "b", "q", "targets", "bound", "drawn"), RFC)
def test_ssds_closed_form_is_the_tables(p: float, b: float, q: float, targets: int, bound: float, drawn: float) -> None:
    """Never more than targets in step make, and near what the loop does."""
    assert of_all(ssd(p, b, q, targets)) <= bound + 5e-5
    assert of_all(ssd(p, b, q, targets)) == pytest.approx(drawn, rel=0.02)


# Targets, T_p, T_b, share of rounds that miss, and a round by a loop apart from this code (passes vary by 5 %)
MIXED = [
    (3, 0.10, 1.02, 0.39, 1.737),
    (8, 0.024, 1.197, 0.102, 1.529),
    (4, 0.107, 1.042, 0.22, 1.538),
    (3, 0.37, 0.392, 0.278, 1.442),
    (6, 0.148, 0.84, 0.032, 1.081),
]


@pytest.mark.parametrize(("targets", "p", "b", "q", "round_s"), MIXED)
def test_misses_at_random_keep_targets_out_of_step(targets: int, p: float, b: float, q: float, round_s: float) -> None:
    """Targets in step would be up to 23 % faster."""
    assert float(ssd(p, b, q, targets).estimate.round_s) == pytest.approx(round_s, rel=0.08)


@pytest.mark.parametrize("targets", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("s", [0.05, 0.15, 0.3, 0.6, 0.7, 1.2])
def test_sd_served_together_falls_into_groups(s: float, targets: int) -> None:
    """As many as services begin in a round: within 6 % of drawn rounds. Two targets are two groups, as in turn."""
    case = sd(s, targets, draft_serves="together")
    ran = simulate(sd(s, targets, draft_serves="together", spread=0.07), solver="mc", rounds=8_000, seed=1)
    assert float(case.estimate.round_s) == pytest.approx(ran.round_s.value, rel=0.06)
    if targets == 2:
        assert case.estimate.round_s == pytest.approx(sd(s, 2).estimate.round_s)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("s", "targets", "groups"), [(0.8221, 4, 3), (0.7182, 3, 3), (0.9302, 8, 3), (0.5016, 6, 3)])
def test_constant_passes_fall_into_the_same_groups_in_every_engine(
    s: float, targets: int, groups: int, name: Any
) -> None:
    """Events began with all targets in one group, which never parted: up to 45 % faster than the staircase."""
    ran = simulate(sd(s, targets, draft_serves="together"), solver=name, rounds=2_000, seed=1)
    assert ran.round_s.value == pytest.approx(max(1.0 + s, groups * s), rel=0.01)
    assert float(sd(s, targets, draft_serves="together").estimate.round_s) == pytest.approx(ran.round_s.value, rel=0.17)


@pytest.mark.long
@pytest.mark.parametrize("name", ENGINES)
def test_sds_engines_are_the_loop(monkeypatch: pytest.MonkeyPatch, name: Any) -> None:
    listed = []
    for s, targets, _, little, much, together in STARSD:
        laws = [
            ("gamma", 0.1, little, "in-turn"),
            ("gamma", 1.0, much, "in-turn"),
            ("gamma", 0.1, together, "together"),
        ]
        for law, cv, expected, serves in laws:
            with monkeypatch.context() as patched:
                passes_vary(patched, law, cv)
                case = sd(s, targets, spread=cv, draft_serves=serves)
                ran = simulate(case, solver=name, rounds=2_000, seed=5, confidence=0.99)
            listed.append(deviation(ran, targets, *expected))
    deviations_are_chance(listed)


@pytest.mark.long
@pytest.mark.parametrize("name", ENGINES)
def test_ssds_engines_are_the_loop(monkeypatch: pytest.MonkeyPatch, name: Any) -> None:
    listed = []
    for p, b, q, targets, _, expected in RFC:
        with monkeypatch.context() as patched:
            passes_vary(patched, "normal", 0.05)
            ran = simulate(ssd(p, b, q, targets, spread=0.05), solver=name, rounds=2_000, seed=5, confidence=0.99)
        listed.append(deviation(ran, targets, expected, OF_A_RATE * expected))
    deviations_are_chance(listed)


@pytest.mark.long
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.8, 1.3])
@pytest.mark.parametrize("q", [0.0, 0.1])
@pytest.mark.parametrize("targets", [2, 4])
def test_served_together_two_groups_take_turns(p: float, q: float, targets: int) -> None:
    """The closed form's round is within 10 % of drawn ones that vary."""
    case = ssd(p, 0.3, q, targets, draft_serves="together")
    ran = simulate(ssd(p, 0.3, q, targets, draft_serves="together", spread=0.03), solver="mc", rounds=1_500, seed=1)
    assert 0.9 < float(case.estimate.round_s) / ran.round_s.value < 1.1


@pytest.mark.parametrize("name", ["sd", "ssd"])
@given(t=st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 2.0)), b=st.sampled_from([1, 4]), together=st.booleans())
@settings(deadline=None, max_examples=30)
def test_more_targets_wait_no_less_and_all_together_do_no_less(
    name: str, t: tuple[float, float], b: int, together: bool
) -> None:
    serves = "together" if together else "in-turn"
    of = {"t_sd": t[0], "b": b, "draft_serves": serves} | (
        {"t_p": t[1], "p_hit": 0.8, "backup": "jit"} if name == "ssd" else {}
    )
    rounds = [
        float(configure(strategies=name, targets=targets, **of).scenarios[name].estimate.round_s)
        for targets in (1, 2, 3, 5, 8)
    ]
    assert all(more >= fewer * (1.0 - 1e-12) for fewer, more in pairwise(rounds))
    rates = [n / each for n, each in zip((1, 2, 3, 5, 8), rounds, strict=True)]
    assert all(more >= fewer * (1.0 - MIXED_RATES) for fewer, more in pairwise(rates))


@given(first=st.floats(0.01, 2.0), away=st.floats(0.0, 2.0), missed=st.floats(0.0, 1.0), again=st.floats(0.0, 2.0))
def test_one_target_waits_for_nobody(first: float, away: float, missed: float, again: float) -> None:
    alone = Service(first, away)
    ahead = Service(first, 0.0, hidden_s=away, missed=missed, again_s=again)
    for together in (False, True):
        assert alone.waits_s(first + away, 1, together) == pytest.approx(0.0, abs=1e-12)
        assert ahead.waits_s(max(first, away) + missed * again, 1, together) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("options", [{"t_sd": 0.7, "b": 4}, {"b": 8, "k": 4, "engine": "vllm"}])
@pytest.mark.parametrize("name", ["sd", "ssd"])
def test_a_draft_of_one_target_is_its_own(name: str, options: dict[str, Any]) -> None:
    given = {**options, **({} if "t_sd" in options or name == "ssd" else {"sd_draft": "separate"})}
    for word in ("in-turn", "together", "auto"):
        one = configure(strategies=name, targets=1, draft_serves=word, **given).scenarios[name]
        own = configure(strategies=name, **given).scenarios[name]
        assert float(one.estimate.round_s) == pytest.approx(float(own.estimate.round_s), rel=1e-12)
        assert one.devices == own.devices


@pytest.mark.parametrize("together", [False, True])
def test_its_programs_for_one_target_are_ssds(monkeypatch: pytest.MonkeyPatch, together: bool) -> None:
    case = ssd(1.2, 0.3, 0.3, 1, b=3)
    own = simulate(case, rounds=2_000, seed=2)
    monkeypatch.setattr(Cached, "programs", lambda self, options, drafter: ahead(1, together))
    shared = simulate(case, rounds=2_000, seed=2)
    assert shared.round_s.value == pytest.approx(own.round_s.value, rel=1e-12)
    assert shared.tokens_per_second.value == pytest.approx(own.tokens_per_second.value, rel=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("spread", [0.0, 0.2])
def test_its_parts_sum_to_the_round(name: Any, spread: float) -> None:
    ran = simulate(ssd(0.6, 0.3, 0.3, 3, b=2, spread=spread), solver=name, rounds=2_000)
    assert sum(ran.breakdown_s.values()) == pytest.approx(ran.round_s.value)
    assert all(seconds >= 0.0 for seconds in ran.breakdown_s.values())


def test_gpus_are_counted_as_they_are_shared() -> None:
    scenarios = configure(strategies="ar,sd,ssd", targets=4, sd_draft="separate").scenarios
    assert {name: each.gpus for name, each in scenarios.items()} == {"ar": 4, "sd": 4.25, "ssd": 4.25}
    assert scenarios["ssd"].devices.total == 17
    assert float(scenarios["ssd"].estimate.per_gpu) == pytest.approx(
        float(scenarios["ssd"].estimate.tokens_per_second) / 4.25
    )


def test_the_drafts_device_holds_the_caches_of_all_targets() -> None:
    def caches(targets: int) -> Any:
        case = configure(strategies="ssd", targets=targets, b=4).scenarios["ssd"]
        (of_draft,) = list(case.strategy.occupancies(case.site, case.drafter))[1].demands  # type: ignore[arg-type]
        return of_draft

    one, four = caches(1), caches(4)
    assert four.sequence_bytes == 4 * one.sequence_bytes
    assert four.weights_bytes == one.weights_bytes
    with refused("64 targets", error=DoesNotFit):
        configure(strategies="ssd", targets=64, b=64, context=8192, target="llama-3.1-8b", tp=1)


def test_a_joint_pass_is_as_of_all_targets() -> None:
    of = {"sd_draft": "separate", "k": 4}
    joint = configure(strategies="sd", b=2, targets=4, draft_serves="together", **of).scenarios["sd"]
    wide = configure(strategies="sd", b=8, **of).scenarios["sd"]
    assert joint.seconds["draft"] == pytest.approx(wide.seconds["draft"])
    assert joint.seconds["verify"] < wide.seconds["verify"]


def test_the_faster_way_to_serve_is_taken() -> None:
    def rate(word: str) -> float:
        ssd = configure(strategies="ssd", b=4, targets=4, draft_serves=word, backup="jit").scenarios["ssd"]
        return float(ssd.estimate.tokens_per_second)

    assert rate("auto") == max(rate("in-turn"), rate("together"))


def test_a_window_is_that_of_all_targets() -> None:
    budgets = [
        configure(strategies="ssd", f="window", k=2, targets=targets, draft_serves="in-turn").settings["budget"]
        for targets in (1, 2)
    ]
    assert budgets[1] < budgets[0]


def test_messages_may_cross_a_network() -> None:
    case = configure(strategies="ssd", draft_link_us=50, draft_link_gbs=2).scenarios["ssd"]
    assert case.site is not None
    assert case.seconds["outcome"] == pytest.approx(50e-6 + case.steps["outcome"].message.sent_bytes / 2e9)
    assert configure(strategies="ssd", tp=8, draft_link_us=50, draft_link_gbs=2).scenarios["ssd"].gpus == 9
    with pytest.raises(DoesNotFit):
        configure(strategies="ssd", tp=8)


def test_more_than_a_node_without_a_network_is_said() -> None:
    def warned(**options: Any) -> bool:
        warnings = configure(strategies="ssd", **options).warnings
        return any("--draft-link-us" in each for each in warnings)

    assert warned(targets=4)
    assert not warned(targets=4, draft_link_us=5, draft_link_gbs=50)
    assert not warned(targets=2, tp=2)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"targets": 0}, "--targets"),
        ({"draft_serves": "in-turn"}, "--draft-serves, --targets"),
        ({"targets": 2, "draft_serves": "both"}, "--draft-serves, both"),
        ({"draft_link_us": 5}, "--draft-link-us, --draft-link-gbs"),
        ({"draft_link_us": 5, "draft_link_gbs": 0}, "--draft-link-gbs"),
        ({"t_sd": 0.2, "draft_link_us": 5, "draft_link_gbs": 1}, "--draft-link-us, has no effect with --t-sd"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], names: str) -> None:
    with refused(*names.split(", ")):
        configure(strategies="ssd", **options)


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("sd", {}, None),
        ("sd", {"draft_serves": "together"}, "give --draft-serves in-turn"),
        ("sd", {"tp": 2}, "has one rank"),
        ("ssd", {}, "the host of a shared draft looks outcomes up"),
    ],
)
def test_what_real_ranks_cannot_share_is_said(name: str, options: dict[str, Any], why: str | None) -> None:
    of = {"targets": 2, "draft_serves": "in-turn", "tp": 1, **CARDS, **options}
    scenario = configure(strategies=name, **of, **({"sd_draft": "separate"} if name == "sd" else {})).scenarios[name]
    cannot_run = scenario.strategy.cannot_run(scenario.settings)
    assert (cannot_run is None) if why is None else (cannot_run is not None and why in cannot_run)


@pytest.mark.ranks
def test_on_real_ranks_two_targets_share_a_draft(trio: Ranks) -> None:
    scenario = small("sd", sd_draft="separate", targets=2, draft_serves="in-turn").scenarios["sd"]
    first, second, draft = run(trio, scenario)
    assert [len(each.tokens) for each in (first, second)] == [ROUNDS, ROUNDS]
    assert first.tokens != second.tokens
    drafted = spans(draft, "draft step")
    assert len(drafted) == 3 * 2 * ROUNDS
    verified = [span for each in (first, second) for span in spans(each, "verify")]
    assert overlap_s(verified, drafted) > 0.0


@pytest.mark.parametrize("options", [{"strategies": "ssd"}, {"strategies": "sd", "sd_draft": "separate"}])
def test_a_look_up_has_no_device_to_share(options: dict[str, Any]) -> None:
    with refused("4 targets"):
        configure(**options, drafter="ngram", targets=4)
