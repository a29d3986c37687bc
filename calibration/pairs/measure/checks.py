"""Checks of a real loop: whether it says what the coupling does, and keeps the target's tokens.

The tokens are the target's exactly where decoding is greedy, and by distribution where it samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from calibration.pairs.coupling import AnswerTable, rounds_of
from calibration.pairs.measure.collect import TokenizedPrompt
from calibration.pairs.measure.loop import Loop, PlayedRound, Way
from calibration.pairs.measure.models import CausalModel
from calibration.pairs.measure.roles import LanguageModel
from calibration.pairs.measure.verification import Cut, Rules
from calibration.pairs.records import RecordedAnswer
from ssdsim.base.checks import Array
from ssdsim.base.intervals import student_quantile
from ssdsim.base.progress import Progress
from ssdsim.base.record import Record
from ssdsim.tokens.pair_file import Greedy, Lossless, Sampling

_FOR_TOLERANCE = 3  # texts
_BY_CHANCE = 1.0 - 1.0 / 16_000.0


class LoopCheck(Record):
    """A quantity by the coupling and by a real loop, with its standard error over requests, the fewer of both's."""

    what: str
    temperature: float
    coupling: float
    loop: float
    error: float
    requests: int

    @property
    def agrees(self) -> bool:
        """Say whether the two lie within as many standard errors as one in 16,000 comparisons leaves by chance.

        Four of them where requests are many; of few their spread is hardly known, and Student's t says how many.
        """
        most = student_quantile(_BY_CHANCE, max(1, self.requests - 1))
        return abs(self.coupling - self.loop) <= most * self.error


def ways(k: int, fan_out: int, backups: Sequence[str]) -> list[Way]:
    """SD, and SSD with each fallback: a just-in-time one and those that look tokens up."""
    return [Way("sd", k), *(Way("ssd", k, fan_out, backup) for backup in ("jit", *backups))]


def check_lossless(
    target: CausalModel,
    draft: CausalModel,
    asked: Sequence[TokenizedPrompt],
    each_way: Sequence[Way],
    new_tokens: int,
    seed: int,
    cuts: tuple[Cut, Cut],
    progress: Progress,
) -> Lossless:
    """Greedy loops against the target alone, and sampled ones (temperature 1) against its distribution."""
    prompts = [list(each.ids) for each in asked]
    own = [target.write([p], new_tokens, target.end)[0] for p in prompts]
    texts = [[*p, *answer] for p, answer in zip(prompts, own, strict=True)]
    tolerance = tolerance_of(target, texts[:_FOR_TOLERANCE], max(way.k for way in each_way))
    greedy, tests, done = [], [], 0
    for number, way in enumerate(each_way):
        by_temperature: dict[float, list[list[int]]] = {}
        for temperature in (0.0, 1.0):
            rules = Rules(temperature, np.random.default_rng([seed, number]), cuts=cuts)
            loop = Loop(target, draft, way, rules)
            by_temperature[temperature] = []
            for i, prompt in enumerate(prompts):
                by_temperature[temperature].append(loop.play(prompt, new_tokens, target.end, seed + i).tokens)
                progress(done := done + 1, 2 * len(each_way) * len(prompts))
        greedy.append(compare_greedy(target, prompts, own, by_temperature[0.0], tolerance))
        tests.append(sampled(target, zip(prompts, by_temperature[1.0], strict=True), rules, draft, seed))
    worst = min(tests, key=lambda test: test.p)
    gaps = [each.largest_gap for each in greedy if each.largest_gap is not None and np.isfinite(each.largest_gap)]
    return Lossless(
        greedy=Greedy(
            requests=sum(each.requests for each in greedy),
            identical=sum(each.identical for each in greedy),
            near_ties=sum(each.near_ties for each in greedy),
            bugs=sum(each.bugs for each in greedy),
            largest_gap=max(gaps, default=None),
            tolerance=tolerance,
        ),
        sampling=Sampling(
            chi2=worst.chi2,
            degrees=worst.degrees,
            p=min(1.0, worst.p * len(tests)),  # the worst of several tests
            passed=min(1.0, worst.p * len(tests)) > 0.001,
        ),
    )


def check_loop(
    target: CausalModel,
    draft: CausalModel,
    asked: Sequence[TokenizedPrompt],
    collected: Sequence[RecordedAnswer],
    way: Way,
    seed: int,
    cuts: tuple[Cut, Cut],
    progress: Progress,
) -> list[LoopCheck]:
    """Tokens a round, acceptance and hits of a real SSD loop, beside what the coupling makes of the same requests.

    Loop and records answer the same prompts; at temperature 0 with the same tokens, else with other draws.
    """
    checks = []
    for temperature in sorted({request.temperature for request in collected}):
        some = [request for request in collected if request.temperature == temperature]
        chosen = [each for each in asked if any(request.id == each.id for request in some)]
        loop = Loop(target, draft, way, Rules(temperature, np.random.default_rng(seed), cuts=cuts))
        played = []
        for number, each in enumerate(chosen):
            played.append(loop.play(each.ids, max(map(len, some)), target.end, seed + number).rounds)
            progress(number + 1, len(chosen))
        some = [request for request in some if any(request.id == each.id for each in chosen)]
        checks += _compared(AnswerTable.of(some), played, way, temperature)
    return checks


def _compared(
    table: AnswerTable, played: Sequence[Sequence[PlayedRound]], way: Way, temperature: float
) -> list[LoopCheck]:
    rounds = rounds_of(table, way.k)
    needed = table.by_needed(rounds.rejected, table.flat.above, way.fan_out)
    every = table.by_needed(rounds.bonus, None, way.fan_out)
    hits = (needed + every)[:, : way.fan_out + 1].sum(axis=1)
    full = [[each for each in of_one if each.hit is not None] for of_one in played]
    pairs = {
        "tokens a round": (
            (rounds.tokens, rounds.count),
            ([sum(r.accepted + 1 for r in one) for one in full], [len(one) for one in full]),
        ),
        "acceptance": (
            (rounds.accepted, rounds.drafted),
            (
                [sum(r.accepted for r in one) for one in full],
                [sum(min(r.accepted + 1, r.drafted) for r in one) for one in full],
            ),
        ),
        f"hits with {way.fan_out} guesses": (
            (hits, rounds.count),
            ([sum(bool(r.hit) for r in one) for one in full], [len(one) for one in full]),
        ),
    }
    return [against(what, temperature, ours, theirs) for what, (ours, theirs) in pairs.items()]


def against(what: str, temperature: float, ours: tuple[object, object], theirs: tuple[object, object]) -> LoopCheck:
    """The coupling's and the loop's ratio of sums over requests, which were measured apart: their errors add up.

    ``ours`` and ``theirs`` are each request's numerators and denominators.
    """
    (coupling, a, some), (loop, b, others) = _ratio(*ours), _ratio(*theirs)
    return LoopCheck(what, temperature, coupling, loop, float(np.hypot(a, b)), min(some, others))


def _ratio(numerator: object, denominator: object) -> tuple[float, float, int]:
    """The ratio, its standard error, and of how many requests it is."""
    above, below = np.asarray(numerator, dtype=float), np.asarray(denominator, dtype=float)
    ratio, requests = float(above.sum() / below.sum()), int((below > 0.0).sum())
    few = requests / max(1, requests - 1)
    return ratio, float(np.sqrt(few * ((above - ratio * below) ** 2).sum()) / below.sum()), requests


BINS = 20
SIGNIFICANT = 0.001
_FLOAT_GAP = 1e-6
_MARGIN = 4.0


class GreedyCheck(Record):
    """Requests with the target's own tokens; others by whether a near tie or a bug parted them.

    ``largest_gap`` is that of the target's two likeliest logits where a request parted, ``first`` the first place where
    one did: request, position, the loop's and the target's token.
    """

    requests: int
    identical: int
    near_ties: int
    bugs: int
    largest_gap: float | None
    tolerance: float
    first: tuple[int, int, int, int] | None


class SamplingCheck(Record):
    """Chi-square of the tokens' places in the target's distribution, in the order that shows more; p is for both."""

    chi2: float
    degrees: int
    p: float

    @property
    def passed(self) -> bool:
        return self.p > SIGNIFICANT


def tolerance_of(target: LanguageModel, texts: Iterable[Sequence[int]], k: int) -> float:
    """Largest difference of a logit between a pass over one token and one over K + 1: kernels add in another order.

    Twice that (both tokens' logits move) and a margin is what two likeliest logits can differ by in a near tie.
    """
    largest = 0.0
    for text in texts:
        for end in range(max(1, len(text) - 3 * (k + 1)), len(text) - k):
            alone = target.after(text[:end], 1)[0]
            # over other tokens first, so that what is kept of the beginning is worked out again
            together = target.after(text[: end + k], k + 1)[0]
            largest = max(largest, float(np.abs(alone - together).max()))
    return max(_FLOAT_GAP, 2.0 * _MARGIN * largest)


def compare_greedy(
    target: LanguageModel,
    prompts: Sequence[Sequence[int]],
    own: Sequence[Sequence[int]],
    loop: Sequence[Sequence[int]],
    tolerance: float,
) -> GreedyCheck:
    """The loop's tokens against the target's own, request by request."""
    identical = near_ties = bugs = 0
    largest, first = None, None
    for number, (prompt, alone, spoken) in enumerate(zip(prompts, own, loop, strict=True)):
        if list(alone) == list(spoken):
            identical += 1
            continue
        shared = min(len(alone), len(spoken))
        at = next((i for i in range(shared) if alone[i] != spoken[i]), shared)
        token = spoken[at] if at < len(spoken) else None
        logits = target.after([*prompt, *alone[:at]], 1)[0]
        gap = float(np.inf) if token is None else float(logits.max() - logits[token])
        near_ties, bugs = near_ties + (gap <= tolerance), bugs + (gap > tolerance)
        largest = gap if largest is None else max(largest, gap)
        first = first or (number, at, spoken[at] if at < len(spoken) else -1, alone[at] if at < len(alone) else -1)
    return GreedyCheck(len(prompts), identical, near_ties, bugs, largest, tolerance, first)


def sampled(
    target: LanguageModel,
    texts: Iterable[tuple[Sequence[int], Sequence[int]]],
    rules: Rules,
    other: LanguageModel,
    seed: int,
) -> SamplingCheck:
    """Check that tokens that came after each prompt have the target's distribution by ``rules``, given earlier ones.

    A token's place is the mass of the tokens before it plus a random share of its own: uniform, and independent of the
    places before, if and only if the token was drawn from the target's distribution (Rosenblatt's transform). So every
    token of every text counts, in any vocabulary. Two orders, Bonferroni's correction: by q/p of the ``other`` model,
    where a wrong residual or a wrong test shows, and by p, where a liking for the likeliest token does.
    """
    rng = np.random.default_rng(seed)
    places: list[list[Array]] = [[], []]
    for prompt, came in texts:
        text = [*prompt, *came[:-1]]
        p = rules.target(target.after(text, len(came)))
        q = rules.draft(other.after(text, len(came)))
        ratio = np.log(np.maximum(q, 1e-300)) - np.log(np.maximum(p, 1e-300))
        coins = rng.random(len(came))
        for into, scores in zip(places, (ratio, p), strict=True):
            into.append(_places(p, scores, np.asarray(came), coins))
    tests = [uniformity(np.concatenate(each)) for each in places]
    chi2, p_value = max(tests)
    return SamplingCheck(chi2, BINS - 1, min(1.0, len(tests) * p_value))


def _places(p: Array, scores: Array, came: NDArray[np.int64], coins: Array) -> Array:
    own = np.take_along_axis(scores, came[:, None], 1)
    earlier = np.arange(p.shape[1]) < came[:, None]
    before = (p * ((scores < own) | ((scores == own) & earlier))).sum(axis=1)
    return np.asarray(before + coins * np.take_along_axis(p, came[:, None], 1)[:, 0])


def uniformity(places: Array) -> tuple[float, float]:
    """Chi-square of places in [0, 1] over 20 bins, and its p."""
    from scipy.special import chdtrc

    counts = np.bincount(np.minimum((places * BINS).astype(int), BINS - 1), minlength=BINS)
    due = places.size / BINS
    value = float(((counts - due) ** 2 / due).sum())
    return value, float(chdtrc(BINS - 1, value))
