"""A real loop on some of the requests: whether it says what the coupling does, and keeps the target's tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibration.pairs.coupling import rounds_of
from calibration.pairs.measure.collect import Asked
from calibration.pairs.measure.cuts import Cut
from calibration.pairs.measure.loop import Loop, Way
from calibration.pairs.measure.lossless import compare_greedy, sampled, tolerance_of
from calibration.pairs.measure.models import CausalModel
from calibration.pairs.measure.sides import PlayedRound
from calibration.pairs.measure.verification import Rules
from calibration.pairs.records import Request
from calibration.pairs.table import Table
from ssdsim.base.intervals import student_quantile
from ssdsim.base.progress import Progress
from ssdsim.base.record import Record
from ssdsim.tokens.pair_file import Greedy, Lossless, Sampling

_FOR_TOLERANCE = 3  # texts
_BY_CHANCE = 1.0 - 1.0 / 16_000.0


class Compared(Record):
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
    asked: Sequence[Asked],
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
    asked: Sequence[Asked],
    collected: Sequence[Request],
    way: Way,
    seed: int,
    cuts: tuple[Cut, Cut],
    progress: Progress,
) -> list[Compared]:
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
        checks += _compared(Table.of(some), played, way, temperature)
    return checks


def _compared(table: Table, played: Sequence[Sequence[PlayedRound]], way: Way, temperature: float) -> list[Compared]:
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


def against(what: str, temperature: float, ours: tuple[object, object], theirs: tuple[object, object]) -> Compared:
    """The coupling's and the loop's ratio of sums over requests, which were measured apart: their errors add up.

    ``ours`` and ``theirs`` are each request's numerators and denominators.
    """
    (coupling, a, some), (loop, b, others) = _ratio(*ours), _ratio(*theirs)
    return Compared(what, temperature, coupling, loop, float(np.hypot(a, b)), min(some, others))


def _ratio(numerator: object, denominator: object) -> tuple[float, float, int]:
    """The ratio, its standard error, and of how many requests it is."""
    above, below = np.asarray(numerator, dtype=float), np.asarray(denominator, dtype=float)
    ratio, requests = float(above.sum() / below.sum()), int((below > 0.0).sum())
    few = requests / max(1, requests - 1)
    return ratio, float(np.sqrt(few * ((above - ratio * below) ** 2).sum()) / below.sum()), requests
