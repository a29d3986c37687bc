"""Crossings: the rate from which another strategy has the lower time per output token; and the advice that follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ssdsim.answers.decision import SURE_SHARE
from ssdsim.answers.verdict import stands_alone
from ssdsim.base.checks import Array
from ssdsim.base.intervals import Interval
from ssdsim.base.record import Record
from ssdsim.pricing.occupancy import format_count
from ssdsim.serving.closed_form import Sharing
from ssdsim.serving.lookahead import AtBestK

Basis = Literal["replica", "gpu"]
Shared = Sharing | AtBestK

_COARSE = 24
_HALVINGS = 16
_SLOWEST_SHARE = 1e-3  # of the lower capacity: where a search begins


class RateCurve(Record):
    """A strategy in a contest: its name and title, the devices of a replica, and how it is shared, at its best K where
    nobody gives one; also in draws, and over the ranges of tokens where it rests on any.
    """

    name: str
    title: str
    gpus: float
    sharing: Shared
    drawn: Shared | None = None
    across: Shared | None = None


class Crossing(Record):
    """``of`` has the lower mean time per output token below ``rate`` requests a second, ``over`` above it.

    The rate is that of one replica of ``of``. On the basis ``gpu`` every GPU of both sides gets as many requests, so a
    replica of ``over`` gets ``over_gpus / of_gpus`` of them. ``rate`` is 0 where ``of`` is never ahead, and None where
    it is ahead as far as either can be loaded. ``running`` are the requests that then decode on a replica of ``of``.
    ``interval`` is at 95 % from all that is not known, which moves both sides together; ``across`` is where the rate
    lies over the ranges of tokens, timings being as they are predicted. ``decided`` is False where these leave open
    whether ``of`` is ahead at the lowest rates, and ``turns`` where the ranges do.
    """

    of: RateCurve
    over: RateCurve
    basis: Basis
    rate: float | None
    interval: Interval | None
    running: float | None
    decided: bool
    across: Interval | None = None
    turns: bool = False

    @property
    def share(self) -> float:
        """Requests of a replica of ``over`` for each of ``of``."""
        return self.over.gpus / self.of.gpus if self.basis == "gpu" else 1.0


def crossing(of: RateCurve, over: RateCurve, basis: Basis) -> Crossing:
    """The first rate at which ``over`` is no slower than ``of``."""
    share = over.gpus / of.gpus if basis == "gpu" else 1.0
    rate = float(_first(of.sharing, over.sharing, share))
    most = _most(of.sharing, over.sharing, share)
    ahead = rate >= float(most) * (1.0 - 1e-6) and float(over.sharing.capacity) <= share * float(of.sharing.capacity)
    drawn = None if of.drawn is None or over.drawn is None else _first(of.drawn, over.drawn, share)
    interval = None if drawn is None or ahead else Interval.of(drawn)
    leads = ahead or rate > 0.0
    looks = None
    if of.across is not None or over.across is not None:
        looks = _first(of.across or of.sharing, over.across or over.sharing, share)
    turns = looks is not None and bool(np.any((looks > 0.0) != leads))
    decided = (drawn is None or float(np.mean((drawn > 0.0) == leads)) >= SURE_SHARE) and not turns
    running = None if ahead else float(of.sharing.served(rate).running) if rate > 0.0 else 0.0
    if running is not None and not np.isfinite(running):
        running = None
    across = None if looks is None else Interval(float(looks.min()), float(looks.max()))
    return Crossing(of, over, basis, None if ahead else rate, interval, running, decided, across, turns)


def _most(of: Shared, over: Shared, share: float) -> Array:
    """Find where the first of both is saturated."""
    return np.asarray(np.minimum(of.capacity, over.capacity / share))


def _first(of: Shared, over: Shared, share: float) -> Array:
    """The lowest rate from which ``over`` is no slower: a look at some rates, then halving; one a draw.

    A draw is looked at until it has crossed, and halved only where it crosses between two of those rates.
    """
    most = _most(of, over, share)
    grid = np.linspace(_SLOWEST_SHARE, 1.0 - 1e-9, _COARSE)
    limits, first = most.ravel(), np.full(most.size, _COARSE)
    left, of_left, over_left = np.arange(most.size), of, over
    for number, at in enumerate(grid):
        there = _behind(of_left, over_left, share, at * limits[left])
        if there.any():
            first[left[there]], left = number, left[~there]
            of_left, over_left = of.under(left), over.under(left)
        if not left.size:
            break
    found = np.where(first == 0, 0.0, limits)
    between = np.flatnonzero((first > 0) & (first < _COARSE))
    of_between, over_between = of.under(between), over.under(between)
    low, high = grid[first[between] - 1], grid[first[between]]
    for _ in range(_HALVINGS if between.size else 0):
        middle = (low + high) / 2.0
        there = _behind(of_between, over_between, share, middle * limits[between])
        low, high = np.where(there, low, middle), np.where(there, middle, high)
    found[between] = high * limits[between]
    return found.reshape(most.shape)


def _behind(of: Shared, over: Shared, share: float, rate: Array) -> NDArray[np.bool_]:
    return np.asarray(of.tpot_s(rate) >= over.tpot_s(rate * share))


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
    subject: str, sides: Mapping[str, RateCurve], crossings: Sequence[Crossing], rates: Sequence[float | None]
) -> Advice:
    """Advise on the subject by its crossings with its first rival."""
    best = tuple(None if rate is None else _best(sides, rate) for rate in rates)
    title = sides[subject].title
    if not crossings:
        return Advice(subject, stands_alone(subject), None, best)
    first, *others = (_crossing_text(each) for each in crossings)
    said = [f"{title} takes less time per output token than {crossings[0].over.title} {first}."]
    said += [f"{other[:1].upper()}{other[1:]}." for other in others]
    if any(each.turns for each in crossings):
        said.append("What is assumed of the tokens decides who is faster: measure it.")
    elif not all(each.decided for each in crossings):
        said.append("What is not known leaves open who is faster.")
    crossed = [each for each in crossings if each.rate is not None]
    if not crossed:
        return Advice(subject, " ".join(said), None, best)
    last = max(crossed, key=lambda each: each.rate or 0.0)
    per_gpu = sides[subject].gpus if last.basis == "gpu" else None
    above = _best(sides, max(last.rate or 0.0, 1e-6) * 1.02, per_gpu)
    return Advice(subject, " ".join([*said, _above(above, sides, per_gpu)]), above, best)


def _crossing_text(crossing: Crossing) -> str:
    """``GPU for GPU below 8.2 requests/s (95 %: 0.4-9.9)``, with its one interval."""
    of, over = format_count(crossing.of.gpus), format_count(crossing.over.gpus)
    same = "on the same GPU " if of == "1" else f"on the same {of} GPUs "
    each = f"with a replica each ({of} GPUs against {over}) " if of != over else same
    where = "GPU for GPU " if crossing.basis == "gpu" else each
    if crossing.rate is None:
        return f"{where}at every rate that {crossing.over.title} can serve"
    if crossing.rate == 0.0:
        return f"{where}at no rate"
    within = "" if crossing.interval is None else f" (95 %: {crossing.interval.low:.1f}-{crossing.interval.high:.1f})"
    return f"{where}below {crossing.rate:.1f} requests/s{within}"


def _above(above: str | None, sides: Mapping[str, RateCurve], per_gpu: float | None) -> str:
    if above is None:
        return "Above that all of them are saturated."
    what = "switch by schedule (auto)" if above == AUTO else f"run {sides[above].title}"
    share = 1.0 if per_gpu is None else per_gpu / sides[above].gpus
    on = "" if per_gpu is None else f" on {format_count(per_gpu)} GPUs"
    return f"Above that {what}, up to {share * float(sides[above].sharing.capacity):.1f} requests/s{on}."


def _best(sides: Mapping[str, RateCurve], rate: float, per_gpu: float | None = None) -> str | None:
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
