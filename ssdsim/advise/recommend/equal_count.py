"""The subject against everything else that as many GPUs could do, with the probability that the answer holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from msgspec.structs import asdict

from ssdsim import strategies
from ssdsim.advise.recommend.deployment import Deployment, best, score
from ssdsim.advise.recommend.request import Rank, SearchRequest
from ssdsim.answers.contest import Contest, Versus, contest
from ssdsim.answers.evidence import RatioEvidence, Uncertainty
from ssdsim.answers.predict import DRAWS
from ssdsim.answers.verdict import rivals
from ssdsim.base.record import MutableRecord, Record, field
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.many import RateDraws


class Rival(Versus, kw_only=True):
    """The subject over ``what`` else as many GPUs could do, at its best in ``deployment``."""

    what: str
    deployment: Deployment


class EqualCount(Record):
    """The subject's fastest on at most ``gpus`` GPUs against each kind of rival on as many.

    ``best`` is the fastest of all and ``probability`` that of being so, under all that is not known. ``doubts`` are by
    how much the ratio to the closest rival may be off for each of them, in one line ``doubts_told``.
    """

    gpus: int
    subject: Deployment
    best: Deployment
    probability: float | None
    sentence: str
    over: tuple[Rival, ...]
    doubts: tuple[Uncertainty, ...] = ()
    doubts_told: str = ""

    @property
    def closest(self) -> Rival:
        """The rival that the subject is least ahead of, or most behind."""
        return min(self.over, key=lambda rival: rival.ratio)


class DeploymentDraws(MutableRecord):
    """Draws of tokens/s per user under all that is not known: a timing's error, an input's place is shared by all."""

    request: SearchRequest
    _drawn: dict[tuple[object, int], RateDraws] = field(default_factory=dict)

    @cached_property
    def _timings(self) -> TimingErrors:
        return TimingErrors(DRAWS, self.request.seed)

    def per_user(self, deployment: Deployment) -> RateDraws:
        """Shape ``(DRAWS,)`` each."""
        shape, batch = deployment.shape, deployment.copy_batch
        if (shape, batch) not in self._drawn:
            self._drawn[shape, batch] = RateDraws.of(deployment.scenario, self._timings).scaled(1.0 / batch)
        return self._drawn[shape, batch]


def held_against(
    first: Deployment, others: Sequence[Deployment], errors: DeploymentDraws, rank: Rank = "user"
) -> Contest[Deployment]:
    """Contest by what ``rank`` maximises."""
    scores = {d: score(d, rank) for d in (first, *others)}
    draws = {d: errors.per_user(d).scaled(scores[d] / d.per_user) for d in scores}
    return contest(first, others, scores, draws)


def equal_count(deployments: Sequence[Deployment], gpus: int, errors: DeploymentDraws) -> EqualCount | None:
    """The verdict on ``gpus`` GPUs; None where the subject or every rival finds no room there."""
    request = errors.request
    within = [d for d in deployments if d.gpus <= gpus]
    subject = best((d for d in within if d.shape.strategy == request.subject), "user")
    if subject is None:
        return None
    best_of_each = {what: best(filter(is_one, within), "user") for what, is_one in _rivals(subject, request).items()}
    others = {what: rival for what, rival in best_of_each.items() if rival is not None}
    if not others:
        return None
    contest = held_against(subject, tuple(others.values()), errors)
    over = tuple(Rival(**asdict(contest.over[d]), what=what, deployment=d) for what, d in others.items())
    fastest = max((*others.values(), subject), key=lambda d: d.per_user)
    probability = contest.probability
    if fastest is not subject:
        slower = (subject, *(d for d in others.values() if d is not fastest))
        probability = held_against(fastest, slower, errors).probability
    evidence = evidence_of(subject, contest.decisive_rival, contest)
    sentence = _sentence(gpus, subject, contest, evidence)
    return EqualCount(gpus, subject, fastest, probability, sentence, over, evidence.doubts, evidence.summary)


def _rivals(subject: Deployment, request: SearchRequest) -> dict[str, Callable[[Deployment], bool]]:
    """Rivals by name: what else the GPUs of ``subject`` could do; of its first rival by placement."""
    first = strategies.ALL.named(subject.shape.strategy).rival
    is_rival: dict[str, Callable[[Deployment], bool]] = {}
    for name in rivals(subject.shape.strategy, request.strategies):
        if name == first:
            is_rival |= _placements(subject, name)
        else:
            is_rival[strategies.ALL.named(name).title] = lambda d, name=name: d.shape.strategy == name  # type: ignore[misc]
    return is_rival


def _placements(subject: Deployment, name: str) -> dict[str, Callable[[Deployment], bool]]:
    """The ways to spend the GPUs of ``subject`` on a rival."""
    title, tp = strategies.ALL.named(name).title, subject.shape.tp

    def one(d: Deployment) -> bool:
        return d.shape.strategy == name and d.copies == 1

    return {
        f"{title}, TP {tp} as {subject.title}": lambda d: one(d) and d.shape.tp == tp,
        f"{title}, larger TP": lambda d: one(d) and d.shape.tp > tp,
        f"{title}, smaller TP": lambda d: one(d) and d.shape.tp < tp,
        f"{title}, copies": lambda d: d.shape.strategy == name and d.copies > 1,
    }


def evidence_of(subject: Deployment, rival: Deployment, contest: Contest[Deployment]) -> RatioEvidence:
    """Basis of the subject's rate over a rival's."""
    return RatioEvidence.of(subject.scenario, rival.scenario, contest.over[rival].timings)


def _sentence(gpus: int, subject: Deployment, contest: Contest[Deployment], evidence: RatioEvidence) -> str:
    """Sentence of what was found, of the rival that decides it, or of the closest where it is open."""
    rival = contest.decisive_rival
    versus = contest.over[rival]
    is_faster = versus.ratio >= 1.0
    faster = float(is_faster) if versus.probability_faster is None else versus.probability_faster
    sure = faster if is_faster else 1.0 - faster  # of what the ratio says, which draws may contradict
    clause = (
        f"{subject.name} is {versus.ratio:.2f}x {rival.name} (95 %: {versus.low:.2f}-{versus.high:.2f}, P {sure:.2f})"
    )
    if contest.outcome == "wins":
        clause += ", the best of its rivals"
    if contest.outcome == "loses" and versus.is_tie:
        clause += ", as fast"
    head = subject.title if contest.outcome == "wins" else rival.title
    where = f" on {gpus} GPU{'s' if gpus > 1 else ''}"
    return evidence.sentence(contest, [rival], (head, ""), clause, where)
