"""Is SSD worth its devices? One answer against SD and against AR, under the same draws of the timings' errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssdsim.intervals import Draws, Interval
from ssdsim.rounds.estimate import Estimate


@dataclass(frozen=True)
class Verdict:
    """Is SSD worth one more device than SD?

    ``best`` has the most tokens/s. ``probability`` is that of SSD being faster than SD, given the timings' errors, and
    ``probability_best`` that of its being faster than both; ``decided`` is False where the 95 % interval of SSD over
    SD, or over AR, leaves open whether SSD is the fastest.
    """

    best: str
    ssd_over_sd: float
    interval: Interval | None
    probability: float | None
    probability_best: float | None
    decided: bool
    sentence: str


@dataclass(frozen=True)
class _Against:
    """SSD over a rival: the ratio of tokens/s with its interval (None where nothing errs), and the devices of both."""

    rival: str
    ratio: float
    interval: Interval | None
    ssd_gpus: int
    gpus: int

    @property
    def wins(self) -> bool:
        return self.ratio > 1.0 if self.interval is None else self.interval.low > 1.0

    @property
    def loses(self) -> bool:
        """Or is as fast: an interval that rounds to 1 leaves nothing open."""
        if self.interval is None:
            return self.ratio <= 1.0
        return self.interval.high < 1.0 or f"{self.interval.low:.2f} {self.interval.high:.2f}" == "1.00 1.00"

    def __str__(self) -> str:
        bounds = f" (95 %: {self.interval.low:.2f}-{self.interval.high:.2f})" if self.interval else ""
        same = self.gpus == self.ssd_gpus
        devices = f"the same {self.gpus} GPUs" if same else f"{self.ssd_gpus} GPUs against {self.gpus}"
        return f"{self.ratio:.2f}x {self.rival.upper()}{bounds} on {devices}"


def verdict(estimates: Mapping[str, Estimate], draws: Mapping[str, Draws] | None) -> Verdict:
    """The verdict on ``ar``, ``sd`` and ``ssd``; ``draws`` are of their tokens/s, None where nothing errs."""
    rates = {name: float(e.tokens_per_second) for name, e in estimates.items()}
    sd, ar = (_against(rival, estimates, rates, draws) for rival in ("sd", "ar"))
    lost = [against for against in (sd, ar) if against.loses]
    open_ = [against for against in (sd, ar) if not (against.wins or against.loses)]
    if lost:
        sentence = _no(max(lost, key=lambda against: rates[against.rival]))
    elif open_:
        ratios = " and ".join(map(str, open_))
        sentence = f"Undecided: SSD is {ratios}; the timings' errors leave the sign open."
    else:
        sentence = _yes(max((sd, ar), key=lambda against: rates[against.rival]))
    return Verdict(
        best=max(rates, key=lambda name: rates[name]),
        ssd_over_sd=sd.ratio,
        interval=sd.interval,
        probability=None if draws is None else float(np.mean(draws["ssd"] > draws["sd"])),
        probability_best=(
            None if draws is None else float(np.mean(draws["ssd"] > np.maximum(draws["sd"], draws["ar"])))
        ),
        decided=bool(lost or not open_),
        sentence=sentence,
    )


def _against(
    rival: str, estimates: Mapping[str, Estimate], rates: Mapping[str, float], draws: Mapping[str, Draws] | None
) -> _Against:
    interval = Interval.of(draws["ssd"] / draws[rival]) if draws else None
    return _Against(rival, rates["ssd"] / rates[rival], interval, estimates["ssd"].gpus, estimates[rival].gpus)


def _no(against: _Against) -> str:
    faster = "as fast" if f"{against.ratio:.2f}" == "1.00" else "faster"
    rival = {"sd": "SD", "ar": "at this batch plain autoregressive decoding"}[against.rival]
    return f"No: SSD is {against}; {rival} is {faster}."


def _yes(against: _Against) -> str:
    """Against the faster rival."""
    per_gpu = against.ratio * against.gpus / against.ssd_gpus - 1.0
    if per_gpu >= 0.0:
        return f"Yes: SSD is {against}, {per_gpu:.0%} more tokens/s per GPU."
    return f"Yes for latency, no for cost: SSD is {against}, so {-per_gpu:.0%} fewer tokens/s per GPU."


def as_json(found: Verdict) -> dict[str, Any]:
    """The ``verdict`` of ``ssdsim predict --json``."""
    return {
        "best": found.best,
        "ssd_over_sd": found.ssd_over_sd,
        "low": found.interval.low if found.interval else None,
        "high": found.interval.high if found.interval else None,
        "probability_ssd_beats_sd": found.probability,
        "probability_ssd_best": found.probability_best,
        "decided": found.decided,
        "sentence": found.sentence,
    }
