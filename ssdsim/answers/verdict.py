"""Is a strategy worth its devices? One answer against each rival, under the same draws of the timings' errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssdsim import strategies
from ssdsim.intervals import Draws, Interval
from ssdsim.protocols.strategy import Strategy
from ssdsim.rounds.estimate import Estimate


@dataclass(frozen=True)
class Versus:
    """The subject over a rival: the ratio of tokens/s, its interval and P(faster) given the timings' errors.

    ``interval`` and ``probability`` are None where nothing errs; ``subject_gpus`` and ``gpus`` are the devices of both.
    """

    subject: Strategy
    rival: Strategy
    ratio: float
    interval: Interval | None
    probability: float | None
    subject_gpus: int
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
        same = self.gpus == self.subject_gpus
        devices = f"the same {self.gpus} GPUs" if same else f"{self.subject_gpus} GPUs against {self.gpus}"
        return f"{self.ratio:.2f}x {self.rival.title}{bounds} on {devices}"


@dataclass(frozen=True)
class Verdict:
    """Is ``subject`` the strategy to use?

    ``best`` has the most tokens/s. ``over`` holds the subject against each rival by its name, the first of them first;
    ``probability_best`` is that of the subject's being faster than all of them, given the timings' errors. ``decided``
    is False where a 95 % interval leaves open whether the subject is the fastest.
    """

    subject: str
    best: str
    over: Mapping[str, Versus]
    probability_best: float | None
    decided: bool
    sentence: str


def verdict(
    subject: str,
    estimates: Mapping[str, Estimate],
    draws: Mapping[str, Draws] | None,
    no_room: Mapping[str, str],
) -> Verdict:
    """The verdict on a subject among ``estimates``.

    Parameters
    ----------
    subject : a strategy's name.
    estimates : by strategy, those that have room.
    draws : of their tokens/s under the timings' errors; None where nothing errs.
    no_room : why others do not fit.
    """
    rates = {name: float(e.tokens_per_second) for name, e in estimates.items()}
    best = max(rates, key=lambda name: rates[name])
    if subject in no_room:
        title = strategies.ALL.named(subject).title
        return Verdict(subject, best, {}, None, True, f"No room for {title}: {no_room[subject]}.")
    over = {rival: _versus(subject, rival, estimates, rates, draws) for rival in rivals(subject, tuple(estimates))}
    lost = [versus for versus in over.values() if versus.loses]
    undecided = [versus for versus in over.values() if not (versus.wins or versus.loses)]
    title = strategies.ALL.named(subject).title
    if not over:
        sentence = f"{title} stands alone: give --strategies to hold it against others."
    elif lost:
        sentence = _no(max(lost, key=lambda versus: rates[versus.rival.name]))
    elif undecided:
        ratios = " and ".join(map(str, undecided))
        sentence = f"Undecided: {title} is {ratios}; the timings' errors leave the sign open."
    else:
        sentence = _yes(max(over.values(), key=lambda versus: rates[versus.rival.name]))
    return Verdict(
        subject=subject,
        best=best,
        over=over,
        probability_best=_probability_best(subject, tuple(over), draws),
        decided=bool(lost or not undecided),
        sentence=sentence,
    )


def rivals(subject: str, names: Sequence[str]) -> tuple[str, ...]:
    """The others among ``names``: the one that the subject is held against first, then from the last to the first."""
    first = strategies.ALL.named(subject).rival
    others = [name for name in reversed(names) if name != subject]
    return tuple(sorted(others, key=lambda name: name != first))


def _versus(
    subject: str,
    rival: str,
    estimates: Mapping[str, Estimate],
    rates: Mapping[str, float],
    draws: Mapping[str, Draws] | None,
) -> Versus:
    return Versus(
        subject=strategies.ALL.named(subject),
        rival=strategies.ALL.named(rival),
        ratio=rates[subject] / rates[rival],
        interval=Interval.of(draws[subject] / draws[rival]) if draws else None,
        probability=float(np.mean(draws[subject] > draws[rival])) if draws else None,
        subject_gpus=estimates[subject].gpus,
        gpus=estimates[rival].gpus,
    )


def _probability_best(subject: str, others: Sequence[str], draws: Mapping[str, Draws] | None) -> float | None:
    if draws is None or not others:
        return None
    return float(np.mean(draws[subject] > np.max([draws[name] for name in others], axis=0)))


def _no(versus: Versus) -> str:
    faster = "as fast" if f"{versus.ratio:.2f}" == "1.00" else "faster"
    return f"No: {versus.subject.title} is {versus}; {versus.rival.called} is {faster}."


def _yes(versus: Versus) -> str:
    """Against the fastest rival."""
    per_gpu = versus.ratio * versus.gpus / versus.subject_gpus - 1.0
    what = f"{versus.subject.title} is {versus}"
    if per_gpu >= 0.0:
        return f"Yes: {what}, {per_gpu:.0%} more tokens/s per GPU."
    return f"Yes for latency, no for cost: {what}, so {-per_gpu:.0%} fewer tokens/s per GPU."


def as_json(found: Verdict) -> dict[str, Any]:
    """The ``verdict`` of ``ssdsim predict --json``."""
    return {
        "subject": found.subject,
        "best": found.best,
        "over": {
            name: {
                "ratio": versus.ratio,
                "low": versus.interval.low if versus.interval else None,
                "high": versus.interval.high if versus.interval else None,
                "probability_faster": versus.probability,
            }
            for name, versus in found.over.items()
        },
        "probability_best": found.probability_best,
        "decided": found.decided,
        "sentence": found.sentence,
    }
