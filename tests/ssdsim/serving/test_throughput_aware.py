"""SGLang's throughput-aware K against a small program apart from this code, and rounds that predict prices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ssdsim.question.configuration import configure
from ssdsim.serving.batching import Batching
from ssdsim.serving.serve import serve
from ssdsim.serving.throughput_aware import KS, ThroughputAware
from tests.ssdsim.serving.sample_runs import SMALL, full_batches

GIVEN: dict[str, Any] = {**SMALL, "alpha": 0.8, "strategies": "sd"}
ELSEWHERE = Batching(k_table="throughput-aware", prefill="none", max_batch=64)


class Literal:
    """The rule as its source has it: windows of survivals by position, scores, and a margin of a tenth."""

    def __init__(self, cost_s: Any) -> None:
        self.cost_s, self.steps, self.since = cost_s, 5, 0
        self.windows: list[list[float]] = [[] for _ in range(7)]

    def expected(self, steps: int) -> float:
        rates: list[float] = []
        for window in self.windows[:steps]:
            if window:
                rates.append(sum(window) / len(window))
            elif len(rates) == 1:
                rates.append(rates[0])
            elif rates[0] <= 0:
                rates.append(0.0)
            else:
                ratio = (rates[-1] / rates[0]) ** (1.0 / (len(rates) - 1))
                rates.append(max(0.0, min(rates[-1], rates[-1] * ratio)))
        return 1.0 + sum(rates)

    def steps_for(self, batch: int) -> int:
        if self.since >= 5:
            self.since = 0
            if min(len(window) for window in self.windows[: self.steps]) == 20:
                scores = [(steps, self.expected(steps) / self.cost_s(batch, steps)) for steps in (1, 3, 5, 7)]
                best, best_score = self.steps, -1.0
                for steps, score in scores:
                    if score > best_score:
                        best, best_score = steps, score
                if best != self.steps and best_score > dict(scores)[self.steps] * 1.1:
                    if best < self.steps:
                        for window in self.windows[best:]:
                            window.clear()
                    self.steps = best
        return self.steps

    def heard(self, accepted: Any) -> None:
        for position in range(self.steps):
            self.windows[position].append(sum(a > position for a in accepted) / len(accepted))
            del self.windows[position][:-20]
        self.since += 1


@pytest.mark.long
@pytest.mark.parametrize("row_s", [0.002, 0.02, 0.1])
def test_it_chooses_what_the_rule_of_its_source_chooses_while_texts_and_batches_change(row_s: float) -> None:
    def cost_s(batch: int, k: int) -> float:
        return 1.0 + 0.1 * k + row_s * batch * (k + 1)

    rng = np.random.default_rng(5)
    own, literal = ThroughputAware(cost_s), Literal(cost_s)
    batch, chosen = 5, set()
    for number in range(6_000):
        alpha = (0.95, 0.3, 0.7)[number // 400 % 3]
        batch = int(np.clip(batch + rng.integers(-3, 4), 1, 60))
        k = literal.steps_for(batch)
        assert own.k(batch) == k
        chosen.add(k)
        accepted = (rng.random((batch, k)) < alpha).cumprod(axis=1).sum(axis=1)
        own.heard(accepted, k)
        literal.heard(accepted.tolist())
    assert len(chosen) > 2


def test_no_position_was_ever_right() -> None:
    """The series goes on from nothing."""
    own = ThroughputAware(lambda _batch, k: 1.0 + 0.1 * k)
    for _ in range(200):
        own.heard(np.zeros(4, dtype=int), own.k(4))
        assert own.k(4) in KS
    assert own.k(4) == 1


def _round_s(batch: int, context: int, alpha: float) -> dict[int, float]:
    at = {**GIVEN, "alpha": alpha, "b": batch, "context": context}
    return {k: float(configure(**at, sd_k=k).scenarios["sd"].estimate.round_s) for k in KS}


@pytest.mark.long
@pytest.mark.parametrize(("alpha", "batch"), [(0.5, 4), (0.9, 9)])
def test_a_run_is_a_literal_loop_of_rounds(alpha: float, batch: int) -> None:
    """Decided by rounds over 128 cached tokens of the next captured batch (9 counts as 10), run over the real ones."""
    workload, run, labels = full_batches(batch, ELSEWHERE, **{**GIVEN, "alpha": alpha})
    timed, real = _round_s({4: 4, 9: 10}[batch], 128, alpha), _round_s(batch, 450, alpha)
    rng, literal = np.random.default_rng(3), Literal(lambda _, k: timed[k])
    used, made, took = dict.fromkeys(KS, 0), 0.0, 0.0
    for _ in range(20_000):
        k = literal.steps_for(batch)
        accepted = (rng.random((batch, k)) < alpha).cumprod(axis=1).sum(axis=1)
        used[k], made, took = used[k] + 1, made + float(accepted.sum()) + batch, took + real[k]
        literal.heard(accepted.tolist())
    for k, count in used.items():
        assert labels.count(f"SD K {k}") / len(labels) == pytest.approx(count / 20_000, abs=0.06)
    tokens, made_s = float((workload.output_tokens - 1).sum()), float(run.columns[1].max())
    wasted = 1.0 + 0.5 * sum(k * count for k, count in used.items()) / 20_000 / 100.0  # past the end of an answer
    assert made / took * 0.97 / wasted <= tokens / made_s <= made / took * 1.02


def _long_run(alpha: float, batch: int, cost_s: Any) -> list[int]:
    own, rng, ks = ThroughputAware(cost_s), np.random.default_rng(7), []
    for _ in range(2_000):
        ks.append(own.k(batch))
        own.heard((rng.random((batch, ks[-1])) < alpha).cumprod(axis=1).sum(axis=1), ks[-1])
    return ks


@pytest.mark.parametrize("alpha", [0.7, 0.9])
def test_where_much_is_accepted_it_loses_at_most_its_margin_to_the_best_of_its_ks(alpha: float) -> None:
    def cost_s(_batch: int, k: int) -> float:
        return 1.0 + 0.15 * k

    ks = _long_run(alpha, 32, cost_s)
    made = {k: (1.0 - alpha ** (k + 1)) / (1.0 - alpha) for k in KS}
    rate = sum(made[k] for k in ks) / sum(cost_s(32, k) for k in ks)
    assert rate >= max(made[k] / cost_s(32, k) for k in KS) / 1.1


def test_where_little_is_accepted_it_goes_back_to_7_after_every_five_rounds_of_1() -> None:
    """From K 1 it knows one rate, which it takes all later positions to have: 20 of 25 rounds draft for nothing."""
    ks = _long_run(0.4, 64, lambda _batch, k: 1.0 + 0.2 * k)
    assert ks[-25:].count(7) == 20
    assert ks[-25:].count(1) == 5


@pytest.mark.long
def test_every_replica_has_rates_of_its_own_and_is_served_elsewhere_too() -> None:
    answer = serve(
        rate=6.0, requests=60, replicas=2, k_table="throughput-aware", solver="loop", jobs=2, **GIVEN
    ).points[0]
    assert set(answer.fixed_k) == set(KS)
    assert answer.best_k in KS
