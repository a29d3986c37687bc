"""A strategy and a drafter without a model, defined in a file of the tests, are known everywhere at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import ssdsim
from calibration.machine.ranks import Ranks
from ssdsim import strategies
from ssdsim.answers.predict import predict
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.question.configuration import configure
from ssdsim.strategies import drafters
from tests.calibration.executor.run import ROUNDS, SEED, run, small
from tests.refusals import refused
from tests.ssdsim.strategies.wary import NGrams, Wary

ALL_FOUR = ("ar", "sd", "ssd", "wary")


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    strategies.ALL.register(Wary())
    drafters.ALL.register(NGrams())
    yield
    strategies.ALL.forget("wary")
    drafters.ALL.forget("ngrams")


def test_its_closed_form_is_what_pencil_and_paper_say() -> None:
    """At K = 1 it is SD; at alpha = 1 it is never shy; at b = 1 its chain has two states."""
    one = configure(strategies=ALL_FOUR, t_sd=0.2, k=1, wary_k=1).scenarios
    assert float(one["wary"].estimate.tokens_per_second) == pytest.approx(float(one["sd"].estimate.tokens_per_second))
    alpha, k, d = 0.8, 4, 0.05
    wary = configure(strategies=("wary",), t_sd=d * 6, k=6, alpha=alpha, wary_k=k).scenarios["wary"]
    sure = alpha / (1.0 - alpha**k + alpha)
    tokens = sure * sum(alpha**j for j in range(k + 1)) + (1.0 - sure) * (1.0 + alpha)
    seconds = 1.0 + d * (sure * k + 1.0 - sure)
    assert float(wary.estimate.tokens_per_second) == pytest.approx(tokens / seconds)


@pytest.mark.parametrize("drafter", ["model", "ngrams"])
@pytest.mark.parametrize("b", [1, 4])
def test_it_is_predicted_and_simulated(drafter: str, b: int) -> None:
    prediction = predict(strategies=ALL_FOUR, subject="wary", drafter=drafter, b=b, wary_k=3)
    assert list(prediction.estimates) == list(ALL_FOUR)
    assert prediction.verdict.subject == "wary"
    assert list(prediction.verdict.over) == ["sd", "ssd", "ar"]
    assert "Wary SD" in prediction.verdict.sentence
    assert prediction.configuration.settings["wary_k"] == 3
    for name, scenario in prediction.configuration.scenarios.items():
        run = simulate(scenario, rounds=6_000, confidence=0.999)
        assert run.tokens_per_second.covers(float(prediction.estimates[name].tokens_per_second)), name


def test_a_drafter_without_a_model_takes_no_device_and_prices_no_pass_of_a_draft() -> None:
    scenarios = configure(strategies=ALL_FOUR, drafter="ngrams", ngram_us=500.0, sd_draft="separate").scenarios
    assert {scenario.gpus for scenario in scenarios.values()} == {4}
    assert scenarios["sd"].seconds["draft"] == pytest.approx(5e-4)
    passes = [work for scenario in scenarios.values() for step in scenario.steps.values() for work in step.passes]
    assert {work.model for work in passes} == {"target"}


def test_its_option_is_an_axis_of_a_sweep() -> None:
    table = ssdsim.sweep(strategies=ALL_FOUR, wary_k=[1, 4], t_sd=0.2, alpha=[0.5, 0.9])
    assert table["wary_k"].tolist() == [1, 1, 4, 4] or table["alpha"].tolist() == [0.5, 0.5, 0.9, 0.9]
    assert {"wary_over_sd", "wary_over_ssd", "wary_over_ar", "wary_tokens_per_second"} <= set(table.columns)
    for _, row in table.iterrows():
        alone = predict(strategies=("wary",), t_sd=0.2, wary_k=int(row["wary_k"]), alpha=row["alpha"])
        assert row["wary_tokens_per_second"] == pytest.approx(float(alone.estimates["wary"].tokens_per_second))


def test_it_is_recommended_where_it_is_best() -> None:
    recommendation = ssdsim.recommend(gpus=4, b=1, strategies=("ar", "wary"), subject="wary", tp=4)
    best = recommendation.answers[0].best
    assert best is not None
    assert best.shape.strategy == "wary"
    assert "Wary SD" in recommendation.sentence


@pytest.mark.long
def test_it_is_in_the_report(tmp_path: Path) -> None:
    ssdsim.sweep(strategies=ALL_FOUR, subject="wary", b=[1, 2], wary_k=[2, 4], folder=tmp_path / "run")
    page = ssdsim.report(tmp_path / "run")
    assert page.html.count("Wary SD") > 3


def test_the_command_line_knows_both() -> None:
    from ssdsim.cli.main import cli

    asked = ["predict", "--strategies", "ar,wary", "--drafter", "ngrams", "--json"]
    shown = CliRunner().invoke(cli, asked, standalone_mode=False)
    assert shown.exception is None
    document = json.loads(shown.output)
    assert set(document["strategies"]) == {"ar", "wary"}
    assert document["scenario"]["ngram_us"] == {"value": 300.0, "source": "default"}


@pytest.mark.ranks
def test_its_program_runs_on_real_ranks_with_the_simulators_tokens(pair: Ranks) -> None:
    for drafter in ("model", "ngrams"):
        scenario = small("wary", drafter=drafter, wary_k=3).scenarios["wary"]
        target, idle = run(pair, scenario)
        assert idle is None
        simulated = simulate(scenario, rounds=ROUNDS, seed=SEED)
        assert np.mean(target.tokens) / 2 == simulated.tokens_per_round.value


def test_it_is_gone_when_it_is_forgotten() -> None:
    strategies.ALL.forget("wary")
    with refused("wary"):
        configure(strategies=("wary",), t_sd=0.2)
    with refused("wary_k"):
        configure(wary_k=2, t_sd=0.2)
    strategies.ALL.register(Wary())


@pytest.mark.parametrize("given", [{"wary_k": 2}, {"ngram_us": 5.0}])
def test_an_option_of_one_who_has_no_part_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ssdsim.InputError, match=r"has no effect without --(strategies wary|drafter ngrams)"):
        predict(t_sd=0.2, **given)
    with pytest.raises(ssdsim.InputError, match="has no effect without"):
        ssdsim.sweep(t_sd=0.2, b=[1, 2], **given)
