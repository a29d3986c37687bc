"""Warnings on a first screen are those that can move the answer; all others stay where all are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from ssdsim.base.record import replace
from ssdsim.cli.main import cli
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.timing import EXTRAPOLATED, Timing
from ssdsim.pricing.site import Site
from ssdsim.question.configuration import MOVES, Configuration, configure
from ssdsim.transformer.operations import Operation

CASES: list[dict[str, Any]] = [
    {},
    {"b": 64},
    {"hardware": "v100-sxm2-16gb", "target": "llama-3.1-8b"},
    {"hardware": "l40s", "target": "llama-3.1-8b"},
    {"hardware": "h200-sxm", "target": "deepseek-r1", "dtype": "nvfp4", "tp": 8, "strategies": ["ar"]},
    {"target": "gpt-oss-120b", "tp": 1, "strategies": ["ar"]},
]


class Slower(HardwareProfile):
    """A profile on which what is extrapolated takes as long as its error allows."""

    def seconds(self, op: Operation) -> Timing:
        timing = super().seconds(op)
        beyond = timing.warning is not None and EXTRAPOLATED.fullmatch(timing.warning)
        return replace(timing, seconds=timing.seconds * (1.0 + 1.96 * timing.log_sd)) if beyond else timing


def rates(asked: Configuration, site: Site) -> Mapping[str, float]:
    found = {}
    for name, scenario in asked.scenarios.items():
        steps = scenario.strategy.steps(replace(site, options=scenario.settings), scenario.drafter)
        found[name] = float(scenario.with_steps(steps).estimate.tokens_per_second)
    return found


@pytest.mark.parametrize("options", CASES)
def test_an_extrapolation_is_told_where_it_can_move_a_strategy(options: dict[str, Any]) -> None:
    """Against prices in which it is as wrong as it may be."""
    asked = configure(**{**options, "engine": "kernels"})
    assert asked.site is not None
    profile = asked.site.profile
    slower = Slower(**{name: getattr(profile, name) for name in profile.__struct_fields__})
    before = rates(asked, asked.site)
    after = rates(asked, replace(asked.site, profile=slower, draft_profile=slower))
    most = max(1.0 - after[name] / before[name] for name in before)
    told = any(EXTRAPOLATED.fullmatch(each) for each in asked.telling_warnings)
    assert math.isclose(most, MOVES, abs_tol=0.005) or told is (most > MOVES)


@pytest.mark.parametrize("options", CASES)
def test_what_is_told_is_among_the_warnings_and_only_timings_are_left_out(options: dict[str, Any]) -> None:
    asked = configure(**options)
    left_out = set(asked.warnings) - set(asked.telling_warnings)
    assert set(asked.telling_warnings) <= set(asked.warnings)
    assert all(EXTRAPOLATED.fullmatch(each) or " timed: " in each or "physics" in each for each in left_out)


def test_the_first_command_has_no_warning_and_its_json_has_all() -> None:
    assert CliRunner().invoke(cli, ["predict", "-b", "16"]).stderr == ""
    verbose = CliRunner().invoke(cli, ["predict", "-b", "16", "--verbose"]).stderr
    assert "is extrapolated" in verbose
    assert "is extrapolated" in CliRunner().invoke(cli, ["predict", "-b", "16", "--json"]).stdout
