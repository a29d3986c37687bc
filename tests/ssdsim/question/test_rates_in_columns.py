"""Kernels of many rates of acceptance and hits at once, against the same one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from ssdsim import strategies
from ssdsim.answers.swings import swings, swings_over
from ssdsim.base.errors import InputError
from ssdsim.question.configuration import configure
from ssdsim.question.many import ScenarioTable
from ssdsim.question.scenario import Scenario
from ssdsim.question.token_errors import averages_under, each_of
from ssdsim.strategies import drafters
from ssdsim.strategies.protocols.strategy import Strategy

OTHERS: Mapping[str, Mapping[str, Any]] = {
    "defaults": {},
    "hits of its own where all are accepted": {"hit_c_all": 0.2},
    "another backup": {"f": 5, "backup": "fast", "alpha_backup": 0.1, "hit_c_backup": 0.9},
    "a hit rate": {"p_hit": 0.8, "backup": "fast"},
    "misses that go together": {"hit_concentration": 5.0},
    "requests that differ": {"alpha_concentration": 4.0},
    "requests that differ, by another rule": {"alpha_concentration": 4.0, "acceptance_rule": "fly"},
    "requests that differ, whose drafts may be off": {"alpha_concentration": 4.0, "acceptance_floor": 0.6},
    "matches of a length": {"drafter": "suffix", "alpha": 0.7, "suffix_match": 6.0},
    "now and then a match": {"drafter": "ngram", "alpha": 0.7, "found": 0.6},
}


def _scenarios(strategy: Strategy, more: Mapping[str, Any]) -> Iterator[Scenario]:
    for drafter in drafters.ALL.names if "drafter" not in more else (more["drafter"],):
        try:
            options = {**more, "drafter": drafter, "strategies": (strategy.name,), "subject": strategy.name}
            yield configure(b=4, **options).scenarios[strategy.name]
        except InputError:  # some drafters draft on the target's devices only
            continue


@pytest.mark.long
@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("strategy", [each for each in strategies.ALL if each.in_columns], ids=lambda each: each.name)
def test_columns_of_rates_are_what_each_rate_is(strategy: Strategy, case: str) -> None:
    rng = np.random.default_rng(0)
    for scenario in _scenarios(strategy, OTHERS[case]):
        known = scenario.known
        read = {each.name for each in known.inputs}
        names = [name for name in ("alpha", "p_hit", "hit_c", "hit_r", "rule_odds") if name in read]
        changes = {name: rng.uniform(0.3, 1.0, 5).tolist() for name in names if isinstance(known.settings[name], float)}
        if not changes:
            continue
        found = known.over(changes).averages
        for row, change in enumerate(each_of(changes)):
            alone = averages_under(strategy, known.settings, scenario.drafter, change)
            assert np.asarray(found.tokens_per_round)[row] == pytest.approx(alone.tokens_per_round, rel=1e-12)
            for many, one in ((found.inside, alone.inside), (found.to, alone.to)):
                assert {state: float(np.asarray(share)[row]) for state, share in many.items()} == pytest.approx(one)


def test_swings_in_columns_are_those_of_each_row() -> None:
    """Rows whose tokens differ in what is given, and whose prices differ."""
    points = [{"b": b, "f": f, "alpha": alpha} for b, f, alpha in ((1, 2, 0.6), (16, 2, 0.6), (64, 8, 0.9))]
    sides = [configure(**point).scenarios for point in points]
    own, its = (ScenarioTable.of([each[name] for each in sides]) for name in ("ssd", "sd"))
    moving = swings_over(own, its)
    for row, each in enumerate(sides):
        alone = {swing.what: swing for swing in swings(each["ssd"], each["sd"])}
        for swing in moving:
            assert swing.at(row).lowest == pytest.approx(alone[swing.what].lowest, rel=1e-12)
            assert swing.at(row).highest == pytest.approx(alone[swing.what].highest, rel=1e-12)
