"""SGLang's tiers of K against a small program apart from this code, printed shares, and rounds that predict prices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from site_generator.json_reference import undescribed
from ssdsim import figures
from ssdsim.cli.main import cli
from ssdsim.question.configuration import configure
from ssdsim.reports.figure import Figure
from ssdsim.reports.serving import serving
from ssdsim.serving.answer import as_json
from ssdsim.serving.batching import Batching
from ssdsim.serving.ema_tiers import KS, EmaTiers
from ssdsim.serving.policies import AUTO
from ssdsim.serving.serve import serve
from tests.ssdsim.serving.sample_runs import SMALL, full_batches, policies_of, requests

GIVEN: dict[str, Any] = {**SMALL, "alpha": 0.8, "strategies": "sd"}
ELSEWHERE = Batching(k_table="ema", prefill="none", max_batch=64)


class Literal:
    """The rule as its source has it, in lists: candidates, thresholds for going down, K, average and rounds a slot."""

    def __init__(self) -> None:
        self.candidates = [[1, 3, 5, 7], [0, 1, 3], [0, 1], [0]]
        self.falls = [[0.25, 2.25, 4.25], [0.5, 0.5], [0.5], []]
        self.k = [3, 3, 1, 0]
        self.ema = [2.0, 2.0, 0.0, -1.0]
        self.rounds = [0, 0, 0, 0]

    @staticmethod
    def slot(batch: int) -> int:
        captured = [*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8)]
        padded = min(size for size in captured if size >= batch)
        return sum(padded >= first for first in (8, 32, 64))

    def heard(self, batch: int, accepted: float) -> None:
        s = self.slot(batch)
        if self.k[s] > 0:
            self.ema[s] = 0.8 * self.ema[s] + 0.2 * accepted
        self.rounds[s] += 1
        if self.rounds[s] <= 10 or (self.rounds[s] - 10) % 5 != 0:
            return
        of, i = self.candidates[s], self.candidates[s].index(self.k[s])
        if self.k[s] == 0:
            if len(of) > 1:
                self.k[s] = of[1]
                if self.ema[s] < 0.0:
                    self.ema[s] = of[1] - 1.0
            return
        j = i
        while j > 0 and self.ema[s] <= self.falls[s][j - 1]:
            j -= 1
        if j == i:
            while j + 1 < len(of) and self.ema[s] > of[j] - 0.5:
                j += 1
        self.k[s] = of[j]


@pytest.mark.parametrize("alpha", [0.1, 0.4, 0.6, 0.8, 0.9, 0.97])
def test_it_chooses_what_the_rule_of_its_source_chooses_while_batches_come_and_go(alpha: float) -> None:
    rng = np.random.default_rng(5)
    own, literal = EmaTiers(), Literal()
    batch, chosen = 5, set()
    for _ in range(4_000):
        batch = int(np.clip(batch + rng.integers(-3, 4), 1, 90))
        k = literal.k[literal.slot(batch)]
        assert own.k(batch) == k
        chosen.add(k)
        accepted = (rng.random((batch, k)) < alpha).cumprod(axis=1).sum(axis=1)
        own.heard(accepted, k)
        literal.heard(batch, float(accepted.mean()))
    assert len(chosen) > 2


PRINTED = [(0.5, {1: 0.04, 3: 0.96}), (0.8, {3: 0.75, 5: 0.25}), (0.9, {5: 0.77, 7: 0.20}), (0.95, {7: 0.91})]


@pytest.mark.long
@pytest.mark.parametrize(("alpha", "printed"), PRINTED)
def test_the_printed_shares_of_rounds_of_one_sequence(alpha: float, printed: dict[int, float]) -> None:
    rng = np.random.default_rng(7)
    tiers, used = EmaTiers(), dict.fromkeys(KS, 0)
    for _ in range(40_000):
        k = tiers.k(1)
        used[k] += 1
        tiers.heard((rng.random((1, k)) < alpha).cumprod(axis=1).sum(axis=1), k)
    for k, share in printed.items():
        assert used[k] / 40_000 == pytest.approx(share, abs=0.015)


@pytest.mark.parametrize("alpha", [0.5, 0.7, 0.9])
def test_sixteen_sequences_stay_at_three_whatever_it_costs(alpha: float) -> None:
    policy = policies_of(requests(8, inputs="400", outputs="100"), ELSEWHERE, **{**GIVEN, "alpha": alpha}).by_name[AUTO]
    assert policy.at(16, 450.0).label == "SD K 3"
    three = configure(**{**GIVEN, "alpha": alpha, "b": 16, "context": 450, "sd_k": 3}).scenarios["sd"].estimate
    assert float(policy.mean(16, 450.0).tokens_per_second) == pytest.approx(float(three.tokens_per_second), rel=5e-3)


def test_where_little_is_accepted_every_second_five_rounds_draft_to_see_whether_it_pays_again() -> None:
    tiers, ks = EmaTiers(), []
    for _ in range(60):
        ks.append(tiers.k(16))
        tiers.heard(np.full(16, 0.1 * ks[-1]), ks[-1])
    assert ks[-20:] == [0] * 5 + [1] * 5 + [0] * 5 + [1] * 5 or ks[-20:] == [1] * 5 + [0] * 5 + [1] * 5 + [0] * 5


def _by_hand(alpha: float, batch: int, rounds: int, seed: int) -> tuple[float, dict[int, float]]:
    """Tokens a second of so many sequences that never change, and shares of rounds; rounds priced by predict."""
    rng, literal = np.random.default_rng(seed), Literal()
    at = {**GIVEN, "alpha": alpha, "b": batch, "context": 450}
    round_s = {k: float(configure(**at, sd_k=k).scenarios["sd"].estimate.round_s) for k in (1, 3, 5, 7)}
    used, made, took = dict.fromkeys(round_s, 0), 0.0, 0.0
    for _ in range(rounds):
        k = literal.k[literal.slot(batch)]
        accepted = (rng.random((batch, k)) < alpha).cumprod(axis=1).sum(axis=1)
        used[k], made, took = used[k] + 1, made + float(accepted.sum()) + batch, took + round_s[k]
        literal.heard(batch, float(accepted.mean()))
    return made / took, {k: count / rounds for k, count in used.items()}


@pytest.mark.long
@pytest.mark.parametrize(("alpha", "batch"), [(0.8, 1), (0.9, 4)])
def test_a_run_is_a_literal_loop_of_rounds(alpha: float, batch: int) -> None:
    workload, run, labels = full_batches(batch, ELSEWHERE, **{**GIVEN, "alpha": alpha})
    rate, shares = _by_hand(alpha, batch, 20_000, seed=3)
    for k, share in shares.items():
        assert labels.count(f"SD K {k}") / len(labels) == pytest.approx(share, abs=0.06)
    made_s = float(run.columns[1].max())
    wasted = 1.0 + 0.5 * sum(k * share for k, share in shares.items()) / 100.0  # past the end of an answer, at most
    tokens = float((workload.output_tokens - 1).sum())
    assert tokens / made_s <= rate * 1.02
    assert tokens * wasted / made_s >= rate * 0.97


@pytest.mark.long
def test_every_replica_has_averages_of_its_own() -> None:
    answer = serve(rate=6.0, requests=60, replicas=2, k_table="ema", solver="loop", **GIVEN).points[0]
    assert set(answer.fixed_k) == set(KS)
    assert answer.best_k in KS
    assert sum(answer.metrics[AUTO].variant_share) == pytest.approx(1.0)


@pytest.mark.long
@pytest.mark.parametrize("solver", ["closed", "loop"])
def test_the_page_shows_each_k_for_good_beside_the_policy(solver: Any) -> None:
    options = {**GIVEN, "rate": [4.0, 8.0], "requests": 120, "k_table": "ema", "solver": solver}
    answer = as_json(serve(**options))
    shown = {each.key: each for each in serving(answer) if isinstance(each, Figure)}["serving-fixed-k"].table
    assert list(shown["what"].unique()) == [*(f"K {k}" for k in KS), "K by the policy"]
    assert len(shown) == 2 * (len(KS) + 1)
    assert shown["tpot_ms"].notna().all()
    assert shown["low"].notna().all() == (solver == "loop")
    assert figures.figure(answer, "serving-fixed-k").data
    assert answer["variants"] == [f"SD K {k}" for k in KS]
    assert undescribed("plan", answer) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "by"),
    [
        ("1-:4", "the table"),
        ("throughput", "the most tokens a second"),
        ("ema", "SGLang's tiers"),
        ("throughput-aware", "SGLang's scores"),
    ],
)
def test_the_terminal_says_what_moves_k(table: str, by: str) -> None:
    """It said a table of all of them."""
    asked = [
        "plan",
        "--rate",
        "4",
        "--solver",
        "closed",
        "--strategies",
        "sd",
        "--target",
        "llama-3.1-8b",
        "--tp",
        "1",
    ]
    shown = CliRunner().invoke(
        cli, [*asked, "--tp", "1", "--k-table", table, "--quiet", "--explain"], standalone_mode=False
    )
    assert shown.exception is None
    assert f"K by {by}: " in " ".join(shown.output.split())
