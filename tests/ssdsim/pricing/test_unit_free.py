"""Without hardware the same steps are told: a pass takes T_v, one of the draft T_SD / K."""

from __future__ import annotations

from typing import Any

import pytest

from ssdsim import strategies
from ssdsim.base.errors import CannotRun
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario


def unit_free(strategy: str, **options: Any) -> Scenario:
    return configure(strategies=strategy, t_sd=0.6, k=6, alpha=0.8, **options).scenarios[strategy]


@pytest.mark.parametrize("strategy", [strategy.name for strategy in strategies.ALL])
@pytest.mark.parametrize("drafter", ["eagle3", "medusa"])
def test_steps_take_as_long_whatever_drafts(strategy: str, drafter: str) -> None:
    try:
        with_it = unit_free(strategy, drafter=drafter)
    except CannotRun:
        assert strategy == "enumeration"  # takes a draft model alone
    else:
        assert with_it.seconds == unit_free(strategy).seconds


def test_a_look_up_drafts_as_long_as_a_model() -> None:
    assert unit_free("sd", drafter="ngram", ngram_lookup_us=1e6, found=0.5).seconds == unit_free("sd").seconds


@pytest.mark.parametrize("strategy", [strategy.name for strategy in strategies.ALL])
def test_steps_are_those_on_hardware(strategy: str) -> None:
    here, there = unit_free(strategy), configure(strategies=strategy).scenarios[strategy]
    assert {name: step.part for name, step in here.steps.items()} == {
        name: step.part for name, step in there.steps.items()
    }


def test_what_is_given_of_a_whole_step_is_shared_by_its_passes() -> None:
    steps = unit_free("ssd", t_p=1.4, t_b=0.5, backup="jit").steps
    glue, branch = steps["pre-speculate"].pieces
    assert (glue.times, branch.times) == (1, 6)
    assert glue.cost.seconds == branch.cost.seconds == pytest.approx(1.4 / 7)
    assert steps["pre-speculate"].seconds == pytest.approx(1.4)
    assert steps["fallback"].seconds == 0.5


def test_trees_take_so_many_passes_where_no_time_is_given() -> None:
    free = unit_free("treessd", tree_children=[2, 1, 1])
    assert free.seconds["pre-speculate"] == free.seconds["fallback"] == pytest.approx(0.3)
    given = unit_free("treessd", tree_children=[2, 1, 1], t_p=0.7, t_b=0.2)
    assert (given.seconds["pre-speculate"], given.seconds["fallback"]) == (0.7, 0.2)
