"""What every strategy must keep, whichever it is: run over all that are registered."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ssdsim import strategies
from ssdsim.answers.predict import as_json, predict
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.base.errors import InputError
from ssdsim.base.kinds import Whole
from ssdsim.base.option import Option
from ssdsim.pricing.occupancy import Occupancy
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.kernel import Kernel
from ssdsim.rounds.round import PARTS
from ssdsim.strategies import ALL, drafters
from ssdsim.strategies.protocols.shared import TARGETS
from tests.refusals import refused

NAMES = list(ALL.names)
UNIT_FREE: list[dict[str, Any]] = [
    {"t_sd": 0.3, "b": 1, "alpha": 0.8, "k": 4, "p_hit": 0.7},
    {"t_sd": 0.9, "t_p": 1.4, "b": 4, "alpha": 0.6, "k": 7, "f": 2, "backup": "fast", "alpha_backup": 0.3},
    {"t_sd": 0.2, "b": 16, "alpha": 0.9, "k": 2, "p_hit": 0.9, "backup": "jit"},
]
ON_HARDWARE: list[dict[str, Any]] = [
    {},
    {"b": 16, "k": 9, "sd_draft": "separate", "alpha": 0.8},
    {"b": 4, "temperature": 0.5, "draft_gpus": 2},
]
OF_REQUESTS_ALIKE = ("amusd", "swiftspec", "adaptive", "spectre")
EACH = pytest.mark.parametrize("name", NAMES)


def scenario(name: str, **options: Any) -> Scenario:
    """With as many sequences as the strategy decodes, where those asked for are more."""
    most = ALL.named(name).most_sequences
    batch = options.get("b", 1) if most is None else min(most, options.get("b", 1))
    return configure(strategies=(name,), **{**options, "b": batch}).scenarios[name]


@EACH
@pytest.mark.parametrize("options", [*UNIT_FREE, *ON_HARDWARE])
def test_rows_of_its_kernel_are_distributions_over_at_least_one_token(name: str, options: dict[str, Any]) -> None:
    kernel = scenario(name, **options).tokens
    assert isinstance(kernel, Kernel)
    assert kernel.p.sum(axis=(1, 2)) == pytest.approx(1.0)
    assert np.all(kernel.p >= 0.0)
    assert not np.any(kernel.p[:, 0])
    assert kernel.stationary @ kernel.transitions == pytest.approx(kernel.stationary)


@EACH
@pytest.mark.parametrize("options", [*UNIT_FREE, *ON_HARDWARE])
def test_parts_are_known_and_sum_to_the_round(name: str, options: dict[str, Any]) -> None:
    estimate = scenario(name, **options).estimate
    assert list(estimate.breakdown_s) == list(PARTS)
    assert all(float(seconds) >= 0.0 for seconds in estimate.breakdown_s.values())
    assert sum(map(float, estimate.breakdown_s.values())) == pytest.approx(float(estimate.round_s))


@pytest.mark.long
@EACH
@pytest.mark.parametrize(
    ("solver", "rounds"), [("mc", 20_000), ("des", 5_000), pytest.param("des", 20_000, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "options", [*UNIT_FREE, ON_HARDWARE[1], {**UNIT_FREE[0], "alpha_concentration": 3.0, "output_tokens": 60}]
)
def test_its_engines_agree(name: str, options: dict[str, Any], solver: Any, rounds: int) -> None:
    """Each in its own interval; at 99.9 %, so that the whole file's comparisons are seldom wrong.

    Where a round's tokens scatter by 60 %, 20,000 rounds show a mean that is 2 % off in nine of ten cases, 5,000 one
    that is 4 % off.
    """
    if name in OF_REQUESTS_ALIKE and "alpha_concentration" in options:
        with refused("requests"):
            scenario(name, **options)
        return
    case = scenario(name, **options)
    run = simulate(case, solver=solver, rounds=rounds, seed=11, confidence=0.999)
    estimate = case.estimate
    # a kind of round that did not occur may be 3 in all of them: an interval from the others has no width
    alike = run.round_s.high - run.round_s.low < 1e-9 * float(estimate.round_s)
    near = 2e-4 if name == "adaptive" else 1e-5  # rows that follow confidence are a mean in closed form
    rare = (3.0 / rounds if alike and not case.tokens.is_certain else near) * float(estimate.round_s)
    assert run.round_s.covers(float(estimate.round_s)) or run.round_s.value == pytest.approx(estimate.round_s, abs=rare)
    assert run.tokens_per_second.covers(float(estimate.tokens_per_second))
    assert run.tokens_per_round.covers(float(estimate.tokens_per_round))
    assert sum(run.breakdown_s.values()) == pytest.approx(run.round_s.value), "the clock shows what the parts say"
    for share, truth in ((run.p_hit, estimate.p_hit), (run.p_all_hit, estimate.p_all_hit)):
        assert (share is None) == (truth is None)
        assert share is None or truth is None or share.covers(float(truth))


@EACH
@pytest.mark.parametrize("solver", ["mc", "des"])
def test_rounds_that_vary_still_add_up(name: str, solver: Any) -> None:
    run = simulate(scenario(name, **UNIT_FREE[1], spread=0.2), solver=solver, rounds=4_000)
    assert sum(run.breakdown_s.values()) == pytest.approx(run.round_s.value)


@EACH
@given(
    alphas=st.tuples(st.floats(0.0, 0.99), st.floats(0.0, 0.99)).map(sorted),
    k=st.integers(1, 12),
    t_sd=st.floats(0.0, 2.0),
    p_hit=st.floats(0.0, 1.0),
    b=st.sampled_from([1, 2, 16]),
    backup=st.sampled_from(["jit", "fast"]),
)
@settings(deadline=None, max_examples=25)
def test_a_higher_acceptance_rate_is_never_slower(name: str, alphas: list[float], **options: Any) -> None:
    """Unit-free and without overheads; a fast backup's rate is its own."""
    # a block that takes longer than a verification, or a tree's pass of more than half of one, delays what that yields
    assume(name != "dsi" or options["t_sd"] <= 1.0)
    assume(name != "swiftspec" or options["t_sd"] / options["k"] <= 0.5)
    assume(name != "spectre" or options["b"] <= 4)  # a larger batch that fails less is retried less, by a fixed ratio
    low, high = (float(scenario(name, alpha=alpha, **options).estimate.tokens_per_second) for alpha in alphas)
    assert high >= low * (1.0 - 1e-12)


@EACH
@given(alpha=st.floats(0.0, 1.0), k=st.integers(1, 12), p_hit=st.floats(0.0, 1.0), b=st.sampled_from([1, 3, 16]))
@settings(deadline=None, max_examples=25)
def test_a_free_drafter_is_never_slower_than_decoding_without_one(name: str, **options: Any) -> None:
    assume(name != "minedraft" or options["b"] == 1)  # each of its groups takes a pass
    case = scenario(name, t_sd=0.0, t_p=0.0, t_b=0.0, **options)
    assert float(case.estimate.tokens_per_second) >= case.batch * (1.0 - 1e-12)


@EACH
@pytest.mark.parametrize("options", ON_HARDWARE)
def test_demands_and_devices_are_finite(name: str, options: dict[str, Any]) -> None:
    case = scenario(name, **options)
    assert case.site is not None
    assert 1 <= case.devices.target <= case.gpus <= 16
    occupancies: list[Occupancy] = list(case.strategy.occupancies(case.site, case.drafter))
    assert occupancies
    for occupancy in occupancies:
        for demand in occupancy.demands:
            assert 0 < demand.total_bytes(case.batch) < occupancy.profile.device.memory_bytes


@EACH
def test_a_batch_that_no_memory_holds_is_refused_in_one_line_that_names_what_fits(name: str) -> None:
    most = ALL.named(name).most_sequences
    fits = (
        r"the largest batch that fits is \d+" if most is None else f"decodes {most} sequence at a time, got --b 900000"
    )
    with pytest.raises(InputError, match=fits):
        configure(strategies=(name,), b=900_000)


@EACH
def test_its_steps_are_priced_and_belong_to_a_part(name: str) -> None:
    case = scenario(name)
    assert all(step.part in PARTS for step in case.steps.values())
    assert all(np.isfinite(step.seconds) and step.seconds >= 0.0 for step in case.steps.values())
    assert case.steps.keys() == scenario(name, t_sd=0.2).steps.keys(), "unit-free mode has the same steps"
    assert case.seconds.keys() == case.steps.keys()


@EACH
def test_its_options_are_records_of_which_no_other_has_another(name: str) -> None:
    records: dict[str, Option] = {}
    for owner in (*ALL, *drafters.ALL):
        for option in owner.options:
            assert records.setdefault(option.name, option) is option, "strategies that share an option share its record"
    assert all(isinstance(option, Option) for option in ALL.named(name).options)


@EACH
def test_json_and_table_show_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from ssdsim.cli.render_prediction import print_prediction

    title = ALL.named(name).title
    prediction = predict(strategies=tuple(dict.fromkeys(("ar", name))), subject=name, t_sd=0.3)
    found = as_json(prediction)
    assert found["verdict"]["subject"] == name
    assert found["strategies"][name]["tokens_per_second"] > 0.0
    for explain in (False, True):
        print_prediction(prediction, explain, quiet=False)
        shown = capsys.readouterr().out
        assert re.search(rf"^{title}\s", shown, re.M)
        assert title in shown.splitlines()[1]


@pytest.mark.long
def test_one_table_shows_them_all() -> None:
    from ssdsim.cli.main import cli

    asked = ["predict", "--strategies", ",".join(NAMES), "--subject", NAMES[-1], "--t-sd", "0.3"]
    shown = CliRunner().invoke(cli, asked, standalone_mode=False)
    assert shown.exception is None
    for strategy in ALL:
        assert re.search(rf"^{strategy.title}\s", shown.output, re.M)


@EACH
def test_it_says_where_it_comes_from(name: str) -> None:
    strategy = ALL.named(name)
    assert strategy.title
    assert strategy.source
    assert strategy.rival is None or strategy.rival in NAMES


@EACH
@pytest.mark.parametrize("options", [*UNIT_FREE, *ON_HARDWARE])
@pytest.mark.parametrize("serves", ["in-turn", "together"])
def test_a_draft_shared_by_one_target_is_its_own(name: str, options: dict[str, Any], serves: str) -> None:
    """And one that cannot be shared is each target's own, whatever is asked."""
    own, shared = scenario(name, **options), scenario(name, **options, targets=1, draft_serves=serves)
    assert float(shared.estimate.round_s) == pytest.approx(float(own.estimate.round_s), rel=1e-12)
    assert shared.devices == own.devices
    if TARGETS not in ALL.named(name).options:
        several = scenario(name, **options, targets=4, draft_serves=serves)
        assert float(several.estimate.round_s) == pytest.approx(float(own.estimate.round_s), rel=1e-12)
        assert several.gpus == own.gpus


@pytest.mark.parametrize("name", [strategy.name for strategy in ALL if TARGETS in strategy.options])
@pytest.mark.parametrize("solver", ["mc", "des"])
@pytest.mark.parametrize("serves", ["in-turn", "together"])
def test_engines_agree_on_a_shared_draft(name: str, solver: Any, serves: str) -> None:
    """Where its devices are seldom busy, and so seldom asked by two; the closed form is then exact to 1 %."""
    case = scenario(name, t_sd=0.05, t_p=0.1, t_b=0.1, p_hit=0.9, alpha=0.8, k=4, targets=3, draft_serves=serves)
    run = simulate(case, solver=solver, rounds=4_000, seed=7)
    assert run.round_s.value == pytest.approx(float(case.estimate.round_s), rel=0.01)
    assert run.tokens_per_second.value == pytest.approx(float(case.estimate.tokens_per_second), rel=0.05)


# what one system is at the end of another's options: (name, options), on one pair, at one batch
NGRAMS_OFF: dict[str, Any] = {"staged_by": "ngram", "staged_k": [0], "staged_alpha": [0.6]}
REDUCTIONS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    *(
        (name, NGRAMS_OFF, name, {})
        for name in NAMES
        if name not in ("ar", "lookahead", "tree", "treessd", "swiftspec")
    ),
    ("hybrid", {"hybrid_found": 0.0, "hybrid_by": "ngram"}, "sd", {"sd_draft": "colocated"}),
    ("tree", {"tree_widths": [1, 1, 1, 1]}, "sd", {"sd_draft": "colocated", "k": 4}),
    ("minedraft", {"b": 1}, "sd", {"b": 1, "sd_draft": "separate"}),
]


@pytest.mark.parametrize(("name", "at", "other", "equals"), REDUCTIONS)
def test_at_the_end_of_its_options_it_is_another(
    name: str, at: dict[str, Any], other: str, equals: dict[str, Any]
) -> None:
    """A draft whose inner level is off, look-ups that find nothing, a tree without siblings, one group."""
    options: dict[str, Any] = {"b": 1, "k": 4, "alpha": 0.7, "sd_draft": "colocated"}
    case, same = scenario(name, **{**options, **at}), scenario(other, **{**options, **equals})
    assert float(case.estimate.round_s) == pytest.approx(float(same.estimate.round_s), rel=1e-9)
    assert float(case.estimate.tokens_per_second) == pytest.approx(float(same.estimate.tokens_per_second), rel=1e-9)


@pytest.mark.parametrize("b", [1, 4])
def test_lookahead_with_an_empty_pool_is_ar_at_its_width(b: int) -> None:
    case = scenario("lookahead", lookahead_found=0.0, lookahead_window=3, lookahead_ngram=4, b=b)
    site = case.site
    assert site is not None
    wide = site.verify_step("guess", 1 + 3 * 3, masked=True).seconds
    assert float(case.estimate.tokens_per_round) == 1.0
    assert float(case.estimate.round_s) == pytest.approx(wide + site.sampling_step().seconds)


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="'ar' already"):
        strategies.ALL.register(ALL.named("ar"))


def test_one_whose_option_is_another_ones_is_refused_and_leaves_everything_as_it_was() -> None:
    class Impostor(strategies.Autoregressive):
        name = "impostor"
        options = (Option(name="k", kind=Whole(), about="something else", axis="something else"),)

    with pytest.raises(ValueError, match="two different options are called k"):
        strategies.ALL.register(Impostor())
    assert "impostor" not in strategies.ALL.names
    assert configure(t_sd=0.2, k=3).settings["k"] == 3
