"""The retrospective coupling against a real loop of the strategies' own programs, on chains that are known exactly."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import chain, product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from calibration.pairs.backups import looked_up
from calibration.pairs.coupling import AnswerTable, rounds_of
from calibration.pairs.curves import ssd_chain
from calibration.pairs.measure.checks import LoopCheck, against
from calibration.pairs.measure.loop import Loop, PlayedRound, Way
from calibration.pairs.measure.verification import EVERYTHING, Cut, Rules
from calibration.pairs.saguaro import rescaled, rescaled_above, rescaled_acceptance
from tests.calibration.measure.chains import VOCABULARY, answer, chain_pair
from tests.calibration.measure.side_by_side import played_together

PAIR = chain_pair()
TOKENS = 128  # of an answer, in the records and of the loop
TOGETHER = 50  # sequences, whose branches a core's cache holds
Played = Sequence[Sequence[PlayedRound]]
Counted = tuple[Any, Any]
"""A numerator and a denominator of each request."""

WAYS = [
    Way("ssd", 5, 3),
    Way("ssd", 5, 3, c=0.3),
    Way("ssd", 5, 8, c=0.3),
    Way("ssd", 1, 8),
    Way("ssd", 1, 3, c=0.3),
    Way("ssd", 12, 1),
    Way("ssd", 12, 1, c=0.3),
    Way("ssd", 5, 3, "ngram:3"),
    Way("ssd", 5, 1, "random"),
]
EVERY_WAY = [
    *(Way("ssd", k, f, c=c) for k, f, c in product((1, 5, 12), (1, 3, 8), (1.0, 0.3))),
    *(way for way in WAYS if way.backup != "jit"),
]

Cuts = tuple[Cut, Cut]
NO_CUTS = EVERYTHING, EVERYTHING


@cache
def table(requests: int = 800, cuts: Cuts = NO_CUTS) -> AnswerTable:
    return AnswerTable.of([answer(PAIR, TOKENS, 1.0, seed, cuts=cuts) for seed in range(requests)])


def played(way: Way, rounds: int, cuts: Cuts = NO_CUTS) -> list[list[PlayedRound]]:
    """Rounds of a real loop, request by request; of each those that the records' answers have room for."""
    rng = np.random.default_rng([way.k, way.fan_out, round(10 * way.c)])
    rules, count = Rules(1.0, rng, way.c, way.fan_out, cuts), 0
    played_rounds: list[list[PlayedRound]] = []
    while count < rounds:
        prompts = rng.integers(VOCABULARY, size=(TOGETHER, 1)).tolist()
        for each in played_together(PAIR, way, rules, prompts, TOKENS + way.k)[1]:
            starts = np.cumsum([1, *(one.accepted + 1 for one in each)])
            played_rounds.append([one for one, start in zip(each, starts, strict=False) if start + way.k < TOKENS])
            count += len(played_rounds[-1])
    return played_rounds


def counted(loop: Played, value: Callable[[PlayedRound], float], of: Callable[[PlayedRound], bool]) -> Counted:
    """The sum of a value over some of each request's rounds, and how many these are."""
    chosen = [[each for each in one if of(each)] for one in loop]
    return [sum(map(value, one)) for one in chosen], [len(one) for one in chosen]


def hits(loop: Played, of: Callable[[PlayedRound], bool]) -> Counted:
    return counted(loop, lambda each: float(bool(each.hit)), of)


def further_than(loop: Played, j: int) -> Counted:
    """Whether more than j tokens were accepted, of the rounds in which the j before were."""
    return counted(loop, lambda each: float(each.accepted > j), lambda each: each.accepted >= j)


def of_the_draft(way: Way, loop: Played, collected: AnswerTable) -> Iterator[tuple[str, Counted, Counted]]:
    """Rounds that the draft speculates for, always: lengths, rates by position, hits."""
    flat, fan_out = collected.flat, np.array([way.fan_out])
    accept = None if way.c == 1.0 else collected.scatter(rescaled_acceptance(flat, way.c, fan_out)[:, 0])
    above = flat.above if way.c == 1.0 else rescaled_above(flat, way.c)
    rounds = rounds_of(collected, way.k, accept=accept)
    foreseen = slice(way.fan_out + 1)
    rejected, bonus = collected.by_needed(rounds.rejected, above), collected.by_needed(rounds.bonus)
    tokens = counted(loop, lambda each: each.accepted + 1.0, lambda each: True)
    yield "tokens", (rounds.tokens, rounds.count), tokens
    yield (
        "hits after a rejection",
        (rejected[:, foreseen].sum(axis=1), rejected.sum(axis=1)),
        hits(loop, lambda each: each.accepted < way.k),
    )
    yield (
        "hits after all",
        (bonus[:, foreseen].sum(axis=1), bonus.sum(axis=1)),
        hits(loop, lambda each: each.accepted == way.k),
    )
    reached = np.cumsum(rounds.by_length()[::-1], axis=0)[::-1]
    for j in range(min(way.k, 4)):
        yield f"alpha_{j + 1}", (reached[j + 1], reached[j]), further_than(loop, j)


def of_a_backup(way: Way, loop: Played, collected: AnswerTable) -> Iterator[tuple[str, Counted, Counted]]:
    """SSD's own chain, in which a miss is answered by tokens that are looked up."""
    rounds = ssd_chain(collected, looked_up(collected, way.backup, way.k, VOCABULARY, 0), way.fan_out)
    after_hit, after_miss, hits_after_hit, hits_after_miss, tokens = (
        each[:, way.fan_out - 1]
        for each in (rounds.after_hit, rounds.after_miss, rounds.hits_after_hit, rounds.hits_after_miss, rounds.tokens)
    )
    yield "hits after a miss", (hits_after_miss, after_miss), hits(loop, lambda each: each.backup)
    yield "hits after a hit", (hits_after_hit, after_hit), hits(loop, lambda each: not each.backup)
    written = counted(loop, lambda each: each.accepted + 1.0, lambda each: True)
    yield "tokens", (tokens, after_hit + after_miss), written


def compared(way: Way, rounds: int, requests: int, cuts: Cuts = NO_CUTS) -> list[LoopCheck]:
    """Everything that coupling and loop both say; errors are over requests, of both."""
    sides = of_the_draft if way.backup == "jit" else of_a_backup
    loop = played(way, rounds, cuts)
    return [against(f"{what} of {way}", 1.0, *each) for what, *each in sides(way, loop, table(requests, cuts))]


@pytest.mark.long
@pytest.mark.parametrize("way", [WAYS[each] for each in (0, 2, 4, 6, 7, 8)], ids=str)  # every night all of them
def test_the_coupling_says_what_a_real_loop_does(way: Way) -> None:
    apart = [each for each in compared(way, 3_000, 800) if not each.agrees]
    assert apart == []


SAME, RAW = Cut(0.8, 12), EVERYTHING


@pytest.mark.long
@pytest.mark.parametrize(
    ("way", "draft"),
    [
        (WAYS[0], SAME),
        (WAYS[1], RAW),
        (WAYS[7], SAME),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((WAYS[0], RAW), (WAYS[1], SAME), (WAYS[7], RAW))),
    ],
    ids=str,
)
def test_it_does_where_the_samplers_leave_tokens_out(way: Way, draft: Cut) -> None:
    apart = [each for each in compared(way, 3_000, 800, (Cut(0.8, 12), draft)) if not each.agrees]
    assert apart == []


@pytest.mark.slow
def test_the_coupling_says_what_a_hundred_thousand_rounds_do() -> None:
    """Of every way. Some of so many comparisons lie beyond three standard errors by chance: no more than chance has."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        parts = pool.map(compared, EVERY_WAY, [100_000] * len(EVERY_WAY), [6_000] * len(EVERY_WAY))
        listed = list(chain.from_iterable(parts))
    apart = np.array([abs(each.coupling - each.loop) / each.error for each in listed])
    for each, errors in zip(listed, apart, strict=True):
        print(f"{each.what}: {each.coupling:.4f} by the coupling, {each.loop:.4f} by the loop, {errors:.2f} errors")
    beyond, chance = int((apart > 3.0).sum()), 2.0 * norm.sf(3.0)
    print(
        f"{len(listed)} comparisons: {beyond} beyond 3 errors ({len(listed) * chance:.2f} due), "
        f"{apart.max():.2f} at most"
    )
    assert apart.max() < 4.5
    assert binom.sf(beyond - 1, len(listed), chance) > 0.001


@pytest.mark.long
@pytest.mark.parametrize("backup", ["jit", "ngram:3", "random", "suffix"])
def test_side_by_side_a_loop_does_what_it_does_alone(backup: str) -> None:
    """Where nothing is random: tokens, accepted lengths and hits of each sequence."""
    way, prompts = Way("ssd", 4, 2, backup), [[i] for i in range(12)]
    texts, rounds = played_together(PAIR, way, Rules(0.0, np.random.default_rng(0)), prompts, 40)
    for number, prompt in enumerate(prompts):
        alone = Loop(*PAIR, way, Rules(0.0, np.random.default_rng(0))).play(prompt, 40, seed=number)
        assert texts[number][:40] == alone.tokens
        looked_up = alone.rounds[:-1]  # nobody looks the last outcome up
        assert rounds[number][: len(looked_up)] == looked_up


@pytest.mark.long
@pytest.mark.parametrize("c", [1.0, 0.3])
def test_two_programmes_over_starts_agree(c: float) -> None:
    """Of every fan-out at once (:func:`rescaled`), and of one."""
    way, flat = Way("ssd", 5, 3, c=c), table().flat
    (found,) = rescaled(table(), c, np.array([way.k]), 8)
    one = {what: np.sum(ours[0]) / np.sum(ours[1]) for what, ours, _ in of_the_draft(way, [[]], table())}
    assert found.tokens[2] == pytest.approx(one["tokens"], rel=1e-4)
    assert found.hit_rejected[2] == pytest.approx(one["hits after a rejection"], rel=1e-4)
    assert found.hit_all[2] == pytest.approx(one["hits after all"], rel=1e-4)
    assert flat.top_ids.shape[1] >= way.fan_out


@pytest.mark.long
def test_wrong_couplings_are_found_out() -> None:
    """A ratio that is not capped, and a bonus token's rank with the rejected one still counted."""
    way, flat = Way("ssd", 5, 3), table().flat
    right = {what: against(what, 1.0, *each) for what, *each in of_the_draft(way, played(way, 6_000), table())}
    uncapped = rounds_of(table(), 5, accept=table().scatter((flat.q / flat.p).astype(float)))
    tokens = right["tokens"]
    assert abs(uncapped.tokens.sum() / uncapped.count.sum() - tokens.loop) > 4.0 * tokens.error
    rejected = table().by_needed(rounds_of(table(), 5).rejected)  # as if nothing made room
    hit = right["hits after a rejection"]
    assert abs(rejected[:, :4].sum() / rejected.sum() - hit.loop) > 4.0 * hit.error


def test_two_estimates_of_alpha_agree() -> None:
    """``sum min(p, q)`` and ``min(1, q/p)`` of the token that came have one mean."""
    flat = table().flat
    difference = table().accept[table().at] - flat.overlap
    assert abs(difference.mean()) < 3.0 * difference.std() / np.sqrt(difference.size)


@pytest.mark.long
def test_greedy_rounds_are_the_loops_own() -> None:
    """Nothing is random: the coupling gives each request's rounds one by one."""
    way = Way("ssd", 4, 2)
    for seed in range(20):
        request = answer(PAIR, 60, 0.0, seed)
        one = AnswerTable.of([request])
        loop = Loop(*PAIR, way, Rules(0.0, np.random.default_rng(0))).play(request.prompt, 60 + way.k)
        assert loop.tokens[:60] == request.positions.token.tolist()
        starts = np.cumsum([1, *(each.accepted + 1 for each in loop.rounds)])
        counted = [each for each, start in zip(loop.rounds, starts, strict=False) if start + way.k < 60]
        rounds = rounds_of(one, way.k)
        lengths = np.bincount([each.accepted for each in counted], minlength=way.k + 1)
        np.testing.assert_allclose(rounds.by_length()[:, 0], lengths, atol=1e-12)
        needed = one.by_needed(rounds.rejected, one.flat.above) + one.by_needed(rounds.bonus)
        assert needed[0, : way.fan_out + 1].sum() == pytest.approx(sum(bool(each.hit) for each in counted))
