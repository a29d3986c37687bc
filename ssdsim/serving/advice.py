"""The answer in sentences: up to which rate the subject is worth it, and what to run above that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ssdsim.answers.evidence import SURE, RatioEvidence
from ssdsim.base.intervals import Interval
from ssdsim.base.record import Record
from ssdsim.pricing.occupancy import format_count
from ssdsim.serving.crossing import Crossing, Side

AUTO = "auto"
_WORTH = 0.01  # of the time per token: what a schedule must save to be named


class Advice(Record):
    """``sentence`` says up to which rate the subject is ahead of its first rival; ``above`` what to run beyond it
    (None where nothing is better), ``best`` the one of lowest time per output token at each rate asked for.
    """

    subject: str
    sentence: str
    above: str | None
    best: tuple[str | None, ...]


def advice(
    subject: str,
    sides: Mapping[str, Side],
    crossings: Sequence[Crossing],
    rates: Sequence[float | None],
    basis: RatioEvidence = SURE,
) -> Advice:
    """Advise on the subject by its crossings with its first rival; ``basis`` is what that rests on beside timings."""
    best = tuple(None if rate is None else _best(sides, rate) for rate in rates)
    title = sides[subject].title
    if not crossings:
        alone = f"{title} stands alone: give --strategies to hold it against others."
        return Advice(subject, alone, None, best)
    parts = [_said(each, basis) for each in crossings]
    why_open = "" if all(each.decided for each in crossings) else basis.why_open(any(each.turns for each in crossings))
    lead = basis.condition
    than = f"{lead[:1].upper()}{lead[1:]}{title} takes less time per output token than {crossings[0].over.title}"
    sentence = f"{than} {' and '.join(parts)}{why_open}."
    crossed = [each for each in crossings if each.rate is not None]
    if not crossed:
        return Advice(subject, sentence, None, best)
    last = max(crossed, key=lambda each: each.rate or 0.0)
    per_gpu = sides[subject].gpus if last.basis == "gpu" else None
    above = _best(sides, max(last.rate or 0.0, 1e-6) * 1.02, per_gpu)
    return Advice(subject, f"{sentence} {_above(above, sides, per_gpu)}", above, best)


def _said(crossing: Crossing, basis: RatioEvidence) -> str:
    where = {
        "replica": f"with a replica each ({format_count(crossing.of.gpus)} GPUs against "
        f"{format_count(crossing.over.gpus)})"
        if crossing.of.gpus != crossing.over.gpus
        else f"on the same {format_count(crossing.of.gpus)} GPUs",
        "gpu": "on as many GPUs each",
    }[crossing.basis]
    bounds = [] if crossing.interval is None else [f"95 %: {_rates(crossing.interval)}"]
    if crossing.across is not None and basis.range_clause:
        bounds.append(
            f"with {basis.range_clause}: {'up to ' if crossing.rate is None else ''}{_rates(crossing.across)}"
        )
    if crossing.rate is None:
        return f"at every rate that {crossing.over.title} can serve{_inside(bounds)} {where}"
    if crossing.rate == 0.0:
        return f"at no rate{_inside(bounds)} {where}"
    bounds += [] if crossing.running is None else [f"{crossing.running:.0f} running"]
    return f"below {crossing.rate:.1f} requests/s{_inside(bounds)} {where}"


def _rates(interval: Interval) -> str:
    return f"{interval.low:.1f}-{interval.high:.1f}"


def _inside(bounds: Sequence[str]) -> str:
    return f" ({'; '.join(bounds)})" if bounds else ""


def _above(above: str | None, sides: Mapping[str, Side], per_gpu: float | None) -> str:
    if above is None:
        return "Above that all of them are saturated."
    what = "switch by schedule (auto)" if above == AUTO else f"run {sides[above].title}"
    share = 1.0 if per_gpu is None else per_gpu / sides[above].gpus
    on = "" if per_gpu is None else f" on {format_count(per_gpu)} GPUs"
    return f"Above that {what}, up to {share * float(sides[above].sharing.capacity):.1f} requests/s{on}."


def _best(sides: Mapping[str, Side], rate: float, per_gpu: float | None = None) -> str | None:
    """The lowest time per output token at a rate of a replica, or of ``per_gpu`` GPUs; None where all saturate.

    A schedule only where it clearly saves.
    """
    shares = {name: 1.0 if per_gpu is None else side.gpus / per_gpu for name, side in sides.items()}
    tpot = {name: float(side.sharing.served(rate * shares[name]).tpot_s) for name, side in sides.items()}
    stable = {name: value for name, value in tpot.items() if np.isfinite(value)}
    if not stable:
        return None
    fixed = {name: value for name, value in stable.items() if name != AUTO} or stable
    best = min(fixed, key=fixed.__getitem__)
    return AUTO if stable.get(AUTO, np.inf) < (1.0 - _WORTH) * fixed[best] else best
