"""Programs on ranks: states of a strategy's own, messages that cross, a drafter without a model."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any

import pytest

from calibration.machine.executor.actor import RankActor, outcomes_of
from calibration.machine.executor.plan import RankPlan
from calibration.machine.ranks import Ranks
from calibration.validation.bench import executor_options
from ssdsim import strategies
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.pricing.drafter import Drafter
from ssdsim.rounds.actor import Actor, Program
from ssdsim.strategies import drafters
from ssdsim.strategies.pearl import PEARL
from tests.calibration.executor.run import ROUNDS, SEED, run, small, spans, whats
from tests.ssdsim.strategies.wary import NGrams


class Crossing(PEARL):
    """PEARL whose sides both send before either receives; its target samples nothing."""

    name = "crossing"
    title = "Crossing"

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {**super().programs(options, drafter), "target": _sends_first}


def _sends_first(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        yield me.do("verify" if me.any_in("post") else "pre-verify")
        yield me.send("draft", "outcome", me.outcome())
        yield me.receive("speculation")
        me.end_round()


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    strategies.ALL.register(Crossing())
    drafters.ALL.register(NGrams())
    yield
    strategies.ALL.forget(Crossing.name)
    drafters.ALL.forget(NGrams.name)


@pytest.mark.ranks
def test_a_strategys_own_states_decide_what_its_target_runs_and_messages_may_cross(pair: Ranks) -> None:
    scenario = small("crossing", b=1).scenarios["crossing"]
    target, draft = run(pair, scenario)
    post = outcomes_of(RankPlan.of(scenario), SEED, ROUNDS).any_in("post").astype(bool).tolist()
    assert set(post) == {True, False}
    passes = ["verify" if after else "pre-verify" for after in post]
    rounds = [what for name in passes for what in (name, "send outcome", "wait for speculation")]
    assert whats(target) == rounds
    assert whats(draft) == ["draft step", "draft step", "draft step", "send speculation", "wait for outcome"] * ROUNDS
    assert sum(target.tokens) / ROUNDS == simulate(scenario, rounds=ROUNDS, seed=SEED).tokens_per_round.value


@pytest.mark.ranks
def test_a_drafter_without_a_model_keeps_a_core_busy_and_holds_no_weights(pair: Ranks) -> None:
    """SD's runs beside the target, SSD's on a core of its own, though neither occupies a device for it."""
    configuration = small("sd", "ssd", "pearl", drafter="ngrams", ngram_us=500.0, p_hit=0.6)
    assert set(executor_options([configuration], 1, "bfloat16")["buffers"]) == {"target"}
    scenarios = configuration.scenarios
    assert {scenario.devices.draft for scenario in scenarios.values()} == {0}
    (sd, idle), (_, ssd_draft), (_, draft) = (run(pair, scenario) for scenario in scenarios.values())
    assert idle is None
    for timeline in (sd, ssd_draft, draft):
        looked = spans(timeline, "look up n-grams")
        assert len(looked) == ROUNDS
        assert min(end - start for start, end in looked) >= 5e-4
    misses = outcomes_of(RankPlan.of(scenarios["ssd"]), SEED, ROUNDS).count_to("miss")
    assert ssd_draft.misses == misses.tolist()


def test_only_the_leading_role_knows_outcomes() -> None:
    plan = RankPlan.of(small("pearl").scenarios["pearl"])
    draft = RankActor(plan, 1, None, None, lambda step: ())  # type: ignore[arg-type]  # it sends nothing
    for ask in (draft.outcome, draft.end_round, lambda: draft.any_in("post")):
        with pytest.raises(ValueError, match="only the target knows outcomes"):
            ask()
    with pytest.raises(ValueError, match="PEARL caches nothing"):
        draft.misses(outcomes_of(plan, SEED, 1).tokens)
