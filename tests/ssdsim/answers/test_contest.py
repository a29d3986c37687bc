"""One rule of what is decided, whichever verb is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim import compare, predict, recommend
from ssdsim.advise.recommend.deployment import Deployment, Shape
from ssdsim.advise.recommend.equal_count import DeploymentDraws, equal_count, held_against
from ssdsim.advise.recommend.request import make_request
from ssdsim.answers.contest import DECIDED, contest
from ssdsim.answers.evidence import SURE
from ssdsim.answers.verdict import called_together, verdict
from ssdsim.base.intervals import Draws, centred_on
from ssdsim.base.record import field
from ssdsim.pricing.occupancy import Devices
from ssdsim.question.many import RateDraws
from ssdsim.rounds.round import PARTS, Estimate
from tests.ssdsim.answers.decoding import decoding

NAMES = ("ar", "sd", "ssd")


@pytest.mark.long
@pytest.mark.parametrize("p_hit", [0.65, 0.66])
def test_predict_recommend_and_compare_decide_alike(p_hit: float) -> None:
    """P is .955 and .968 there, and the 95 % interval holds 1: predict said "Undecided", recommend "the best"."""
    predicted = predict(b=16, p_hit=p_hit, alpha=0.8)
    chosen = predicted.configuration.settings
    here: dict[str, Any] = {name: chosen[name] for name in ("k", "tp", "budget", "backup", "draft_gpus")}
    here |= {"gpus": 5, "b": 16, "p_hit": p_hit, "alpha": chosen["alpha"], "strategies": ("sd", "ssd")}
    versus = predicted.verdict.over["sd"]
    assert versus.low is not None
    assert versus.low < 1.0
    assert (versus.probability_faster or 0.0) >= DECIDED
    assert predicted.verdict.decided
    assert predicted.verdict.sentence.startswith("Yes for latency, no for cost: SSD is 1.1")
    (answer,) = recommend(**here).answers
    assert answer.equal is not None
    assert answer.equal.sentence.startswith("SSD on 5 GPUs: SSD TP 4 + 1 is 1.1")
    assert answer.equal.over[0].probability_faster == pytest.approx(versus.probability_faster, abs=1e-9)
    assert compare(**here).winner == "ssd"


def of_timings(draws: Draws) -> RateDraws:
    """Nothing but timings errs."""
    return RateDraws(draws, draws)


class Given(DeploymentDraws):
    """Rates whose draws are given."""

    given: dict[str, RateDraws] = field(default_factory=dict)

    def per_user(self, deployment: Deployment) -> RateDraws:
        return self.given[deployment.shape.strategy]


def drawn_by_timings(draws: dict[str, Draws]) -> dict[str, RateDraws]:
    return {name: of_timings(each) for name, each in draws.items()}


near_draws = st.lists(st.floats(0.9, 1.1), min_size=40, max_size=40)


@pytest.mark.long
@given(rates=st.tuples(*[st.floats(0.9, 1.1)] * 3), draws=st.tuples(*[near_draws] * 3))
@settings(derandomize=True, deadline=None)
def test_on_the_same_draws_all_verbs_decide_alike(rates: tuple[float, ...], draws: tuple[list[float], ...]) -> None:
    drawn = {name: of_timings(centred_on(rate, each)) for name, rate, each in zip(NAMES, rates, draws, strict=True)}
    parts = dict.fromkeys(PARTS, 0.0)
    estimates = {
        name: Estimate(name, 1, 1, 1.0, parts | {"verify": 1.0 / rate}) for name, rate in zip(NAMES, rates, strict=True)
    }
    request = make_request(gpus=1, b=1, rank="user", gpu_hour=None, at_least=None, seed=0, strategies=NAMES)
    deployments = {
        name: Deployment(Shape(name, (("tp", 1),), devices=Devices(1)), 1, 1, decoding(float(e.tokens_per_second)))
        for name, e in estimates.items()
    }
    errors = Given(request, given=drawn)
    predicted = verdict("ssd", estimates, drawn, {})
    counted = equal_count(list(deployments.values()), 1, errors)
    others = [deployments[name] for name in ("ar", "sd")]
    answered = held_against(deployments["ssd"], others, errors).outcome
    assert counted is not None
    said = {"Yes": "wins", "No": "loses", "Undecided": "undecided"}[predicted.sentence.split()[0].rstrip(":")]
    by_title = {"SSD": "wins", "Undecided": "undecided"}
    assert by_title.get(counted.sentence.split()[0], "loses") == said == answered
    by_name = dict(zip(NAMES, rates, strict=True))
    turned = {name: contest(name, [n for n in NAMES if n != name], by_name, drawn) for name in NAMES}
    assert turned["ssd"].outcome == said
    assert sum(each.outcome == "wins" for each in turned.values()) <= 1
    if any(turned[name].outcome == "wins" for name in ("ar", "sd")):
        assert said == "loses"


def test_an_interval_that_rounds_to_one_is_as_fast_and_draws_that_agree_decide() -> None:
    rates, spread = {"a": 1.001, "b": 1.0}, np.linspace(0.9, 1.1, 101)
    alike = contest("a", ["b"], rates, {name: of_timings(rate * spread) for name, rate in rates.items()})
    assert alike.over["b"].is_tie
    assert alike.outcome == "loses"
    assert contest("a", ["b"], rates, None).outcome == "wins"
    for behind, outcome in ((4, "wins"), (5, "wins"), (6, "undecided"), (94, "undecided"), (95, "loses")):
        ratios = np.where(np.arange(100) < behind, 0.5, 1.5)
        assert contest("a", ["b"], rates, drawn_by_timings({"a": ratios, "b": np.ones(100)})).outcome == outcome


def test_a_subject_must_beat_all_its_rivals_together() -> None:
    """Each rival is behind in 97 of 100 draws, but in other ones."""
    draws = {name: np.ones(100) for name in ("a", "b", "c")}
    draws["b"] = np.where(np.arange(100) < 3, 1.5, 0.5)
    draws["c"] = np.where(np.arange(100) >= 97, 1.5, 0.5)
    decided = contest("a", ["b", "c"], {"a": 1.0, "b": 0.5, "c": 0.4}, drawn_by_timings(draws))
    assert all(versus.wins for versus in decided.over.values())
    assert (decided.outcome, decided.open, decided.decisive_rival) == ("undecided", [], "b")
    sentence = SURE.sentence(decided, [decided.decisive_rival], ("a", ""), "a is 2x b")
    assert sentence == "Undecided: a is 2x b; that it is faster than all of them has P 0.94."


def test_where_the_sign_turns_within_the_ranges_of_tokens_nothing_is_said() -> None:
    """Though 99 of 100 draws agree: the truth may be any of them."""
    ahead = np.where(np.arange(100) < 1, 0.9, 1.5)
    for looks, outcome in (([1.1, 1.5], "wins"), ([0.99, 1.5], "undecided"), ([0.5, 0.9], "undecided")):
        a, b = RateDraws(ahead, np.full(100, 1.4), np.array(looks)), RateDraws(np.ones(100), np.ones(100), np.ones(2))
        assert contest("a", ["b"], {"a": 1.4, "b": 1.0}, {"a": a, "b": b}).outcome == outcome
        reads_none = of_timings(np.ones(100))
        assert contest("a", ["b"], {"a": 1.4, "b": 1.0}, {"a": a, "b": reads_none}).outcome == outcome
        mirrored = contest("b", ["a"], {"a": 1.4, "b": 1.0}, {"a": a, "b": b}).outcome
        assert mirrored == {"wins": "loses"}.get(outcome, outcome)


def test_an_undecided_verdict_names_two_rivals_and_counts_the_others() -> None:
    """With --strategies all it named sixteen."""
    names = ("sd", "tree", "pearl", "minedraft", "ssd")
    parts = dict.fromkeys(PARTS, 0.0)
    rates = dict(zip(names, (0.97, 1.0, 0.98, 0.9, 1.0), strict=True))
    rng = np.random.default_rng(0)
    draws = {name: centred_on(rate, np.exp(0.3 * rng.standard_normal(200))) for name, rate in rates.items()}
    estimates = {name: Estimate(name, 1, 4, 1.0, parts | {"verify": 1.0 / rate}) for name, rate in rates.items()}
    found = verdict("ssd", estimates, {name: RateDraws(each, each) for name, each in draws.items()}, {})
    assert found.sentence.startswith("Undecided: SSD is 1.02x PEARL (95 %: ")
    assert " and 1.00x tree" in found.sentence.lower()
    assert "(and open against 2 more)" in found.sentence
    assert called_together(list(found.over)) == "SD and 3 others"
