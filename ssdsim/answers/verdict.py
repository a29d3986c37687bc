"""Is a strategy worth its devices? One answer against each rival, under the same draws of the timings' errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ssdsim import strategies
from ssdsim.answers.contest import Contest, Versus, contest
from ssdsim.intervals import Draws
from ssdsim.rounds.estimate import Estimate


@dataclass(frozen=True)
class Verdict:
    """Is ``subject`` the strategy to use?

    ``best`` has the most tokens/s. ``over`` holds the subject against each rival by its name, the first of them first;
    ``probability_best`` is that of its being faster than all of them, given the timings' errors. ``decided`` is False
    where these leave open whether the subject is the fastest.
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
    title = strategies.ALL.named(subject).title
    if subject in no_room:
        return Verdict(subject, best, {}, None, True, f"No room for {title}: {no_room[subject]}.")
    found = contest(subject, rivals(subject, tuple(estimates)), rates, draws)
    if not found.over:
        alone = f"{title} stands alone: give --strategies to hold it against others."
        return Verdict(subject, best, {}, None, True, alone)
    sentence = _sentence(subject, found, {name: int(e.gpus) for name, e in estimates.items()})
    return Verdict(subject, best, found.over, found.probability, found.decided, sentence)


def rivals(subject: str, names: Sequence[str]) -> tuple[str, ...]:
    """The others among ``names``: the one that the subject is held against first, then from the last to the first."""
    first = strategies.ALL.named(subject).rival
    others = [name for name in reversed(names) if name != subject]
    return tuple(sorted(others, key=lambda name: name != first))


def _sentence(subject: str, found: Contest[str], gpus: Mapping[str, int]) -> str:
    """What was found, of the rival that decides it, or of each that leaves it open."""
    title, own_gpus = strategies.ALL.named(subject).title, gpus[subject]

    def held(rival: str) -> str:
        versus, same = found.over[rival], gpus[rival] == own_gpus
        bounds = f" (95 %: {versus.low:.2f}-{versus.high:.2f})" if versus.interval else ""
        devices = f"the same {own_gpus} GPUs" if same else f"{own_gpus} GPUs against {gpus[rival]}"
        return f"{versus.ratio:.2f}x {strategies.ALL.named(rival).title}{bounds} on {devices}"

    if not found.decided:
        undecided = found.open or [found.closest]
        return f"Undecided: {title} is {' and '.join(map(held, undecided))}; {found.why_open}."
    rival = found.closest
    ratio = found.over[rival].ratio
    if found.outcome == "loses":
        faster = "as fast" if f"{ratio:.2f}" == "1.00" else "faster"
        return f"No: {title} is {held(rival)}; {strategies.ALL.named(rival).called} is {faster}."
    per_gpu = ratio * gpus[rival] / own_gpus - 1.0
    if per_gpu >= 0.0:
        return f"Yes: {title} is {held(rival)}, {per_gpu:.0%} more tokens/s per GPU."
    return f"Yes for latency, no for cost: {title} is {held(rival)}, so {-per_gpu:.0%} fewer tokens/s per GPU."
