"""A pair as a measurement would write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ssdsim.tokens.pair_file import (
    AtTemperature,
    Backup,
    Batch,
    Correlation,
    Findings,
    HitLaw,
    Hits,
    Length,
    Mean,
    Pair,
    Participant,
    RequestSpread,
)

RATES = (0.76, 0.77, 0.75, 0.78, 0.84, 0.82)
HOT_RATES = (0.70, 0.71, 0.74, 0.71, 0.70, 0.69)
ALL_CURVE = ((1, 0.88), (2, 0.90), (4, 0.97), (8, 0.98))
"""No power law: it stands still, and then it does not."""


def law(c: float, r: float, width: float = 0.1) -> HitLaw:
    """A curve that a power law describes, its misses known to ``width``."""
    points = [(f, 1.0 - c * f**-r) for f in (1, 2, 3, 5, 8, 16, 32)]
    curve = tuple((f, h, max(0.0, 1.0 - (1.0 - h) * (1 + width)), 1.0 - (1.0 - h) * (1 - width)) for f, h in points)
    return HitLaw(curve=curve, c=c, r=r, r2=0.995, max_error=0.005)


def at(temperature: float | None, rates: tuple[float, ...], c: float, r: float, **others: Any) -> AtTemperature:
    curve = tuple((f, h, None, None) for f, h in ALL_CURVE)
    found: dict[str, Any] = {
        "alpha": Mean(mean=rates[0], low=rates[0] - 0.03, high=rates[0] + 0.03),
        "alpha_k": rates,
        "length": Length(pooled=3.6, k=len(rates)),
        "requests": RequestSpread(alike=True),
        "hits": Hits(
            rejected=law(c, r),
            all_accepted=HitLaw(curve=curve, c=0.12, r=0.9, r2=0.8, max_error=0.05),
            after_backup={"random": law(0.3, 0.8), "ngram:3": law(0.35, 0.8)},
        ),
        "backups": {"ngram:3": Backup(coverage=0.5, alpha=0.3, length=1.5, k=6)},
        "sets": {
            "code": Findings(alpha=Mean(mean=0.9), alpha_k=(0.9,) * len(rates), hits=Hits(rejected=law(0.3, 0.7)))
        },
    }
    return AtTemperature(temperature=temperature, **{**found, **others})


def pair(**others: Any) -> Pair:
    given: dict[str, Any] = {
        "target": Participant(id="meta-llama/Llama-3.1-70B-Instruct"),
        "draft": Participant(id="meta-llama/Llama-3.2-1B-Instruct"),
        "how": "teacher-forced",
        "requests": 64,
        "by_temperature": (at(0.0, RATES, 0.56, 0.67), at(1.0, HOT_RATES, 0.84, 0.32)),
    }
    return Pair(**{**given, **others})


def written(folder: Path, made: Pair | None = None) -> str:
    path = folder / "pair.json"
    (made or pair()).save(path)
    return str(path)


def rich() -> Pair:
    """With all that a report can show: sets, and rounds of batches."""
    batches = tuple(
        Batch(
            b=b, p_all_hit=0.7**b + 0.02, low=0.7**b + 0.01, high=0.7**b + 0.03, independent=0.7**b, by_request=0.69**b
        )
        for b in (2, 4, 8, 16)
    )
    correlation = Correlation(lag1=0.1, lag1_hits=0.15, icc=0.08, batch=batches)
    bounds = tuple((rate - 0.03, rate + 0.03) for rate in RATES)
    return pair(by_temperature=(at(0.0, RATES, 0.56, 0.67, correlation=correlation, alpha_k_bounds=bounds),))
