"""MineDraft against its closed form, a literal loop apart from this code, and the systems that it equals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.machine.ranks import Ranks
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.laws import Interference, SlowDown
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from tests.calibration.executor.run import ROUNDS, overlap_s, run, small, spans


def mine(alpha: float, k: int, groups: int, of_group: int, draft: float = 0.5, **options: Any) -> Scenario:
    """In units of a group's pass; a group's draft takes ``draft``."""
    given: dict[str, Any] = {"alpha": alpha, "k": k, "t_sd": draft, "minedraft_groups": groups, "b": groups * of_group}
    return configure(strategies="minedraft", **given, **options).scenarios["minedraft"]


def rate(case: Scenario) -> float:
    return float(case.estimate.tokens_per_second)


# alpha, K, groups, sequences a group, T_v and T_draft of a group, tokens/s of the batch: a loop apart from this code
LOOPS = [
    (0.8, 5, 1, 16, 1.0, 0.5, 39.3523),
    (0.8, 5, 2, 8, 0.75, 0.4, 39.3523),
    (0.8, 5, 2, 8, 0.6, 0.9, 32.7936),
    (0.7, 3, 2, 4, 1.0, 0.5, 10.1320),
    (0.8, 5, 4, 4, 0.5, 0.3, 29.5142),
]


@pytest.mark.long
@pytest.mark.parametrize(("alpha", "k", "groups", "of_group", "verify", "draft", "expected"), LOOPS)
@pytest.mark.parametrize("solver", ["closed", "mc", "des"])
def test_its_rate_is_that_of_the_loop(
    alpha: float, k: int, groups: int, of_group: int, verify: float, draft: float, expected: float, solver: Any
) -> None:
    case = mine(alpha, k, groups, of_group, draft / verify)
    if solver == "closed":
        assert rate(case) / verify == pytest.approx(expected, rel=2e-6)
    else:
        run = simulate(case, solver=solver, rounds=10_000, seed=4, confidence=0.99)
        assert run.tokens_per_second.covers(expected * verify)


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_drawn_rounds_are_those_of_events_where_passes_vary(groups: int) -> None:
    """With three groups a side that is late makes up for it: rounds in lock-step would be up to 5 % longer."""
    case = mine(0.8, 4, groups, 2, 0.95, spread=0.15)
    drawn, events = (simulate(case, solver=solver, rounds=6_000, seed=2).round_s.value for solver in ("mc", "des"))
    assert drawn == pytest.approx(events, rel=0.006)


@given(alpha=st.floats(0.0, 1.0), k=st.integers(1, 12), b=st.integers(1, 40), draft=st.floats(0.0, 3.0))
@settings(deadline=None, max_examples=30)
def test_one_group_is_sd_with_a_draft_on_its_own_device(alpha: float, k: int, b: int, draft: float) -> None:
    sd = configure(strategies="sd", alpha=alpha, k=k, b=b, t_sd=draft).scenarios["sd"]
    assert rate(mine(alpha, k, 1, b, draft)) == pytest.approx(rate(sd))


def test_one_sequence_is_sd_on_hardware_too() -> None:
    scenarios = configure(strategies="sd,minedraft", sd_draft="separate", k=4).scenarios
    assert rate(scenarios["minedraft"]) == pytest.approx(rate(scenarios["sd"]))


def test_drafting_is_free_where_it_is_faster_and_weights_are_read_for_nothing() -> None:
    """With T_v(b) = v b the rate is E / v, whatever the groups and the draft take."""
    rates = [rate(mine(0.8, 5, groups, 16 // groups, draft)) * groups for groups in (2, 4, 8) for draft in (0.1, 1.0)]
    assert rates == pytest.approx([rates[0]] * len(rates))


def test_a_group_is_priced_with_its_own_sequences() -> None:
    """Of three sequences the larger group has two."""
    three, two = (configure(strategies="minedraft", b=b, k=4).scenarios["minedraft"] for b in (3, 4))
    assert three.steps["verify 1"].seconds == two.steps["verify 1"].seconds
    whole = configure(strategies="sd", b=2, k=4, sd_draft="separate").scenarios["sd"]
    (verify,) = two.steps["verify 1"].passes
    assert verify.forward == whole.steps["verify"].passes[0].forward


def test_it_beats_sd_where_reading_the_weights_takes_less_than_the_draft() -> None:
    """Llama-3.1-8B, 256 sequences: its weights take 5 ms, five steps of the 1B draft more than 10."""
    of = {"target": "llama-3.1-8b", "tp": 1, "k": 5, "context": 512, "sd_draft": "separate", "engine": "vllm"}
    small, large = (configure(strategies="sd,minedraft", b=b, **of).scenarios for b in (8, 256))
    assert rate(small["minedraft"]) < rate(small["sd"])
    assert rate(large["minedraft"]) > rate(large["sd"])


@pytest.mark.parametrize(("b", "sd", "ssd", "minedraft"), [(16, 1.5, 1.463, 1.4), (8, 1.2, 1.064, 1.1)])
def test_rounds_of_a_pass_that_reads_weights_and_works_on_rows(b: int, sd: float, ssd: float, minedraft: float) -> None:
    """T_v(b) = 0.4 + 0.6 b / 16, a draft of 0.5: it beats SD where 0.4 < 0.5, SSD where 0.4 < (1 - p^b) 0.5."""
    k = 5
    given: dict[str, Any] = {"k": k, "t_sd": 0.5, "t_v": [(0, 0.4), (16 * (k + 1), 1.0)], "b": b}
    hits: dict[str, Any] = {"t_p": 0.0, "p_hit": 0.85, "backup": "jit"}
    scenarios = configure(strategies="sd,ssd,minedraft", **given, **hits).scenarios
    rounds = {name: float(scenario.estimate.round_s) for name, scenario in scenarios.items()}
    assert rounds == pytest.approx({"sd": sd, "ssd": ssd, "minedraft": minedraft}, abs=5e-4)


@pytest.mark.ranks
def test_on_real_ranks_one_group_is_verified_while_the_next_is_drafted(pair: Ranks) -> None:
    scenario = small("minedraft").scenarios["minedraft"]
    target, draft = run(pair, scenario)
    assert len(target.tokens) == ROUNDS
    verified, drafted = spans(target, "verify"), spans(draft, "draft step")
    assert len(verified) == 2 * ROUNDS
    assert len(drafted) == 3 * (2 * ROUNDS - 1)
    assert overlap_s(verified, drafted) > 0.0


def test_a_group_is_slowed_only_while_the_draft_works_beside_it(tmp_path: Path) -> None:
    """Half as fast beside each other: the draft's own time is added to the pass, however short that is."""
    slow = SlowDown(**dict.fromkeys(SlowDown.__struct_fields__, 1.0))
    alone = find_hardware("h100-sxm")
    beside = alone.changed(interference=Interference(target=slow, draft=slow))
    beside.save(tmp_path / "beside.json")
    (verify_s, draft_s), (slowed_s, drafting_s) = (
        [
            configure(hardware=name, strategies="minedraft", b=8).scenarios["minedraft"].steps[f"{part} 1"].seconds
            for part in ("verify", "draft")
        ]
        for name in ("h100-sxm", str(tmp_path / "beside.json"))
    )
    assert draft_s < verify_s
    assert drafting_s == pytest.approx(2.0 * draft_s)
    assert slowed_s == pytest.approx(verify_s + draft_s)
