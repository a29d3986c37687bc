"""The page of K over a day is what its script prints: some of its cells are worked out again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "k_over_a_day.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    sys.path.insert(0, str(DOCS))
    try:
        import k_over_a_day

        yield k_over_a_day
    finally:
        sys.path.remove(str(DOCS))


def test_requests_come_at_the_rate_of_the_hour(study: ModuleType) -> None:
    """Counts of each hour over many days: within four standard errors of a Poisson law."""
    night, busiest = study.DAYS["a day below capacity"]
    days = [study.day(seed, night, busiest).arrival_s for seed in range(30)]
    hour_s = study.DAY_S / 24.0
    counts = sum(np.histogram(times, np.arange(25) * hour_s)[0] for times in days)
    expected = 30 * hour_s * study.rate(np.arange(24) + 0.5, night, busiest)
    assert np.abs((counts - expected) / np.sqrt(expected)).max() < 4.0


@pytest.mark.long
def test_a_row_is_what_its_script_works_out(study: ModuleType) -> None:
    name, (night, busiest) = next(iter(study.DAYS.items()))
    days = [study.day(seed, night, busiest) for seed in study.SEEDS]
    by_policy, fixed = study.policies_of_k(days[0])
    policy, batching = by_policy["SGLang's tiers"]
    best = {5: study.seen(fixed[5], study.batching_of(), days)}
    cells = [study.beside(metric, study.seen(policy, batching, days), best) for metric in study.METRICS]
    of_day = PAGE.split(f"## {name.capitalize()}")[1].split("## ")[0]
    assert f"| SGLang's tiers | {' | '.join(cells)} |" in of_day


def test_the_answer_is_that_of_the_tables(study: ModuleType) -> None:
    """It is written by hand above numbers that are not."""
    assert study.ANSWER in PAGE
    below, rush = (part.split("\n## ")[0] for part in PAGE.split("\n## ")[1:])

    def seconds(part: str, what: str) -> float:
        row = next(line for line in part.splitlines() if line.startswith(f"| {what}"))
        return float(row.split("|")[2])

    def alone(part: str, k: int) -> float:
        line = next(line for line in part.splitlines() if line.startswith("Fixed Ks, s to the last token"))
        return float(line.split(f"K {k} ")[1].split(",")[0].rstrip("."))

    tiers, most = "SGLang's tiers", "the most tokens a second"
    assert round(seconds(below, tiers) / alone(below, 5), 1) == 2.3
    assert round(seconds(rush, tiers) / alone(rush, 3), 1) == 2.2
    assert seconds(below, most) == alone(below, 5)
    assert 1.0 - seconds(rush, most) / alone(rush, 3) == pytest.approx(0.003, abs=0.001)
    assert 1.0 - seconds(rush, most) / alone(rush, 5) == pytest.approx(0.13, abs=0.005)
