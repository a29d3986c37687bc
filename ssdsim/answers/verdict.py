"""The verdict on a strategy: is it worth its devices? All rivals are compared under the same draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from ssdsim import strategies
from ssdsim.answers.contest import Contest, Versus, contest
from ssdsim.answers.evidence import SURE, RatioEvidence, Uncertainty, field, filled, literally
from ssdsim.base.display import Display, Displayable
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.base.settings import DEFAULT
from ssdsim.pricing.occupancy import format_count
from ssdsim.question.configuration import Configuration
from ssdsim.question.many import RateDraws
from ssdsim.question.question import Question
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.round import Estimate

_NAMED = 2  # undecided rivals in a sentence


class Verdict(Displayable, Record):
    """The answer to whether ``subject`` is the strategy to use.

    ``best`` has the most tokens/s. ``over`` is the subject against each rival by name, the most important rival first.
    ``probability_best`` is P(faster than all of them) under the errors of timings and token inputs; ``decided`` is
    False if these leave open whether the subject is the fastest. ``doubts`` are the uncertainties of the ratio to the
    decisive rival, ``doubts_told`` the same in one line.
    """

    subject: str
    best: str
    over: Mapping[str, Versus]
    probability_best: float | None
    decided: bool
    sentence: str
    doubts: tuple[Uncertainty, ...] = ()
    doubts_told: str = ""

    @property
    def display(self) -> Display:
        """A row a rival."""
        title = strategies.ALL.named(self.subject).title
        rows = [
            (
                strategies.ALL.named(rival).title,
                f"{versus.ratio:.2f}x",
                "-" if versus.interval is None else f"{versus.low:.2f}-{versus.high:.2f}",
                "-" if versus.probability_faster is None else f"{versus.probability_faster:.2f}",
            )
            for rival, versus in self.over.items()
        ]
        return Display(f"The verdict on {title}", ("over", "ratio", "95 %", "P(faster)"), rows, self.sentence)


def verdict(
    subject: str,
    estimates: Mapping[str, Estimate],
    draws: Mapping[str, RateDraws] | None,
    refused: Mapping[str, str],
    scenarios: Mapping[str, Scenario] = MappingProxyType({}),
) -> Verdict:
    """The verdict on a subject among ``estimates``.

    Parameters
    ----------
    subject : a strategy's name.
    estimates : by strategy, those that have room.
    draws : of their tokens/s under all errors; None without errors.
    refused : why others do not fit.
    scenarios : of the estimates; without them the verdict has no evidence.
    """
    rates = {name: float(e.tokens_per_second) for name, e in estimates.items()}
    best = max(rates, key=lambda name: rates[name])
    if subject in refused:
        return Verdict(subject, best, {}, None, True, no_room(subject, refused[subject]))
    decided = contest(subject, rivals(subject, tuple(estimates)), rates, draws)
    if not decided.over:
        return Verdict(subject, best, {}, None, True, stands_alone(subject))
    gpus = {name: float(e.gpus) for name, e in estimates.items()}
    evidence = SURE
    if scenarios:
        rival = decided.decisive_rival
        evidence = RatioEvidence.of(scenarios[subject], scenarios[rival], decided.over[rival].timings)
    sentence = filled(
        template(evidence, decided, subject, gpus), decided, more_per_gpu=abs(_per_gpu(decided, subject, gpus))
    )
    return Verdict(
        subject, best, decided.over, decided.probability, decided.decided, sentence, evidence.doubts, evidence.summary
    )


def no_room(subject: str, why: str) -> str:
    """The sentence if the subject does not fit."""
    return f"No room for {strategies.ALL.named(subject).title}: {why}."


def stands_alone(subject: str) -> str:
    """The sentence if no other strategy is compared."""
    return f"{strategies.ALL.named(subject).title} stands alone: give --strategies to hold it against others."


def template(evidence: RatioEvidence, contest: Contest[str], subject: str, gpus: Mapping[str, float]) -> str:
    """The verdict's sentence with fields for its numbers, for :func:`ssdsim.answers.evidence.filled`.

    ``more_per_gpu`` is the relative difference of tokens/s per GPU from the decisive rival's.
    """
    told = _rivals_to_name(contest)
    return evidence.template(contest, told, _head(contest, subject, gpus), _clause(contest, told, subject, gpus))


def rivals(subject: str, names: Sequence[str]) -> tuple[str, ...]:
    """The others among ``names``: the subject's main rival first, then from the last to the first."""
    first = strategies.ALL.named(subject).rival
    others = [name for name in reversed(names) if name != subject]
    return tuple(sorted(others, key=lambda name: name != first))


def called_together(names: Sequence[str]) -> str:
    """``SD and AR``, or the first and the number of many."""
    first, *others = [strategies.ALL.named(name).title for name in names]
    if len(others) > _NAMED:
        return f"{first} and {len(others)} others"
    return " and ".join([", ".join([first, *others[:-1]]), *others[-1:]])


def _rivals_to_name(contest: Contest[str]) -> Sequence[str]:
    """The rivals to name: the one that decides, or the fastest of the undecided ones."""
    if contest.decided or not contest.open:
        return [contest.decisive_rival]
    fastest = sorted(contest.open, key=lambda rival: contest.over[rival].ratio)[:_NAMED]
    return [rival for rival in contest.open if rival in fastest]


def _head(contest: Contest[str], subject: str, gpus: Mapping[str, float]) -> tuple[str, str]:
    """The answer for latency, and an addition if the answer for the cost of a token differs."""
    if contest.outcome == "loses":
        return "No", ""
    rival = contest.decisive_rival
    versus, share = contest.over[rival], gpus[rival] / gpus[subject]
    ends = {ratio * share >= 1.0 for ratio in (versus.ratio, versus.lowest, versus.highest) if ratio is not None}
    if ends == {True}:
        return "Yes", ""
    return "Yes for latency", ", no for cost" if ends == {False} else ", undecided for cost"


def _clause(contest: Contest[str], told: Sequence[str], subject: str, gpus: Mapping[str, float]) -> str:
    title, own_gpus = strategies.ALL.named(subject).title, gpus[subject]
    places = list(contest.over)

    def held(rival: str) -> str:
        at, same = places.index(rival), gpus[rival] == own_gpus
        bounds = f" (95 %: {field(at, 'low')}-{field(at, 'high')})" if contest.over[rival].interval else ""
        devices = (
            f"the same {format_count(own_gpus)} GPUs"
            if same
            else f"{format_count(own_gpus)} GPUs against {format_count(gpus[rival])}"
        )
        return f"{field(at, 'ratio')}x {literally(strategies.ALL.named(rival).title)}{bounds} on {devices}"

    said = f"{literally(title)} is {' and '.join(map(held, told))}"
    if not contest.decided:
        others = len(contest.open) - len(told)
        return f"{said} (and open against {others} more)" if others > 0 else said
    rival = contest.decisive_rival
    if contest.outcome == "loses":
        faster = "as fast" if f"{contest.over[rival].ratio:.2f}" == "1.00" else "faster"
        return f"{said}; {literally(strategies.ALL.named(rival).winner_name)} is {faster}"
    if _per_gpu(contest, subject, gpus) >= 0.0:
        return f"{said}, {{more_per_gpu:.0%}} more tokens/s per GPU"
    return f"{said}, so {{more_per_gpu:.0%}} fewer tokens/s per GPU"


def _per_gpu(contest: Contest[str], subject: str, gpus: Mapping[str, float]) -> float:
    """The subject's relative gain in tokens/s per GPU over its decisive rival."""
    rival = contest.decisive_rival
    return contest.over[rival].ratio * gpus[rival] / gpus[subject] - 1.0


_LOOKED_AT = (1, 3)  # beside the default, where a long draft does not pay: each costs some milliseconds
_RIVALS = 2  # the fastest ones
_Rate = tuple[float, int]
"""Tokens/s and their K."""


def other_k(configuration: Configuration, verdict: Verdict, estimates: Mapping[str, Estimate]) -> str:
    """``K 6 is only the default``, and who leads with each strategy at its best K, if that is another strategy.

    Empty if K was given, follows from something else, or has no known cost (without hardware).
    """
    settings = configuration.settings
    if configuration.site is None or "k" not in settings or settings.source("k") != DEFAULT or not verdict.over:
        return ""
    now = {name: (float(each.tokens_per_second), int(settings["k"])) for name, each in estimates.items()}
    subject, rivals = verdict.subject, sorted(verdict.over, key=now.__getitem__)[-_RIVALS:]
    best = _at_the_best_k(configuration, {name: now[name] for name in (subject, *rivals)})
    default = f"K {settings['k']} is only the default"
    before, after = (max(rivals, key=rates.__getitem__) for rates in (now, best))
    if (now[subject] > now[before]) == (best[subject] > best[after]):
        return f"{default}; ssdsim recommend searches it."
    ratio = best[subject][0] / best[after][0]
    turned = f"{_at(subject, best)} is {ratio:.2f}x {_at(after, best)}"
    return f"{default}, and turns this: {turned}; ssdsim recommend searches it."


def _at(name: str, rates: Mapping[str, _Rate]) -> str:
    strategy = strategies.ALL.named(name)
    return f"{strategy.title} at K {rates[name][1]}" if strategy.drafts else strategy.title


def _at_the_best_k(configuration: Configuration, now: Mapping[str, _Rate]) -> dict[str, _Rate]:
    """Each strategy's rate at the best of some Ks and the one that it has ``now``."""
    best = dict(now)
    for k in _LOOKED_AT:
        with suppress(InputError):  # this K is not possible here
            question = Question.of({**configuration.given_options, "k": k})
            for name in now:
                if "k" in configuration.scenarios[name].reads:
                    with suppress(InputError):
                        rates = [float(each.estimate.tokens_per_second) for each in question.scenarios(name)]
                        best[name] = max(best[name], (max(rates), k))
    return best
