"""The retrospective coupling against a real loop of the strategies' own programs, on chains that are known exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ssdsim.measure.loop import Loop, Played, Way
from ssdsim.measure.verification import Rules
from ssdsim.pairs.chain import ssd_chain
from ssdsim.pairs.coupling import Rounds, rounds_of
from ssdsim.pairs.looked_up import looked_up
from ssdsim.pairs.saguaro import rescaled
from ssdsim.pairs.table import Table
from tests.measure.chains import VOCABULARY, answer, chain_pair

PAIR = chain_pair()
Compared = tuple[str, float, float, float]  # what, coupling, loop, the loop's standard error

WAYS = [
    Way("ssd", 5, 3),
    Way("ssd", 5, 3, c=0.3),
    Way("ssd", 5, 8, c=0.3),
    Way("ssd", 1, 8),
    Way("ssd", 12, 1),
    Way("ssd", 5, 3, "ngram:3"),
    Way("ssd", 5, 1, "random"),
]


@cache
def table(requests: int = 400) -> Table:
    return Table.of([answer(PAIR, 500, 1.0, seed) for seed in range(requests)])


def played(way: Way, rounds: int) -> Played:
    """Rounds of a real loop; it writes one long text, so that hardly any round is cut."""
    rules = Rules(1.0, np.random.default_rng(7), way.c, way.fan_out)
    found = Loop(*PAIR, way, rules).play([3], int(1.6 * rounds))
    while len(found.rounds) < rounds:
        more = Loop(*PAIR, way, rules).play([3], rounds)
        found.rounds += more.rounds
    return found


def share(name: str, expected: float, hits: list[bool]) -> Compared:
    return name, expected, float(np.mean(hits)), float(np.sqrt(expected * (1.0 - expected) / len(hits)))


def of_draft(way: Way, rounds: Rounds, loop: Played) -> Iterator[Compared]:
    """Lengths and rates by position of rounds that the draft speculated for."""
    own = [each for each in loop.rounds if not each.backup]
    lengths = rounds.by_length().sum(axis=1)
    reached = np.cumsum(lengths[::-1])[::-1]
    for j in range(min(way.k, 4)):
        came = [each.accepted > j for each in own if each.accepted >= j]
        yield share(f"alpha_{j + 1}", float(reached[j + 1] / reached[j]), came)


def compared(way: Way, loop: Played, collected: Table) -> Iterator[Compared]:
    """Everything that coupling and loop both say."""
    hits = [each for each in loop.rounds if each.hit is not None]
    own = [each for each in hits if not each.backup]
    rounds = rounds_of(collected, way.k)
    at = way.fan_out - 1
    if way.backup == "jit":
        (found,) = rescaled(collected, way.c, np.array([way.k]), way.fan_out)
        tokens = np.array([each.accepted + 1.0 for each in loop.rounds])
        yield "tokens", float(found.tokens[at]), float(tokens.mean()), float(tokens.std() / np.sqrt(tokens.size))
        rejected = [bool(each.hit) for each in own if each.accepted < way.k]
        every = [bool(each.hit) for each in own if each.accepted == way.k]
        yield share("hits after a rejection", float(found.hit_rejected[at]), rejected)
        yield share("hits after all", float(found.hit_all[at]), every)
        if way.c == 1.0:
            yield from of_draft(way, rounds, loop)
        return
    chain = ssd_chain(collected, looked_up(collected, way.backup, way.k, VOCABULARY, 0), way.fan_out)
    after_miss = [bool(each.hit) for each in hits if each.backup]
    ratio = chain.hits_after_miss.sum(axis=0) / chain.after_miss.sum(axis=0)
    yield share("hits after a miss", float(ratio[at]), after_miss)
    ratio = chain.hits_after_hit.sum(axis=0) / chain.after_hit.sum(axis=0)
    yield share("hits after a hit", float(ratio[at]), [bool(each.hit) for each in own])
    tokens = np.array([each.accepted + 1.0 for each in loop.rounds])
    mean = chain.tokens.sum(axis=0)[at] / (chain.after_hit + chain.after_miss).sum(axis=0)[at]
    yield "tokens", float(mean), float(tokens.mean()), float(tokens.std() / np.sqrt(tokens.size))


def check(way: Way, rounds: int, collected: Table, errors: float) -> None:
    """Within so many standard errors of the loop."""
    for what, coupling, loop, error in compared(way, played(way, rounds), collected):
        assert abs(coupling - loop) < errors * error, f"{what}: {coupling:.4f} by the coupling, {loop:.4f}±{error:.4f}"


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_the_coupling_says_what_a_real_loop_does(way: Way) -> None:
    check(way, 1_500, table(), 4.0)  # a hundred comparisons: at three one of them fails by chance


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_the_coupling_says_what_a_hundred_thousand_rounds_do(way: Way) -> None:
    check(way, 100_000, table(1_500), 3.0)  # whose own error is well below the loop's


@pytest.mark.long
def test_wrong_couplings_are_found_out() -> None:
    """A ratio that is not capped, and a bonus token's rank with the rejected one still counted."""
    way = Way("ssd", 5, 3)
    loop = played(way, 2_000)
    right = {what: (value, error) for what, value, _, error in compared(way, loop, table())}
    seen = {what: value for what, _, value, _ in compared(way, loop, table())}
    flat = table().flat
    uncapped = rounds_of(table(), 5, accept=table().spread((flat.q / flat.p).astype(float)))
    tokens = uncapped.tokens.sum() / uncapped.count.sum()
    assert abs(tokens - seen["tokens"]) > 3.0 * right["tokens"][1]
    blind = [replace(r, positions=replace(r.positions, above=0.0 * r.positions.above)) for r in table().requests]
    (unshifted,) = rescaled(Table.of(blind), 1.0, np.array([5]), 3)
    what = "hits after a rejection"
    assert abs(float(unshifted.hit_rejected[2]) - seen[what]) > 3.0 * right[what][1]


def test_two_estimates_of_alpha_agree() -> None:
    """``sum min(p, q)`` and ``min(1, q/p)`` of the token that came have one mean."""
    flat = table().flat
    difference = table().accept[table().at] - flat.overlap
    assert abs(difference.mean()) < 3.0 * difference.std() / np.sqrt(difference.size)


def test_greedy_rounds_are_the_loops_own() -> None:
    """Nothing is random: the coupling gives each request's rounds one by one."""
    way = Way("ssd", 4, 2)
    for seed in range(20):
        request = answer(PAIR, 60, 0.0, seed)
        one = Table.of([request])
        loop = Loop(*PAIR, way, Rules(0.0, np.random.default_rng(0))).play(request.prompt, 60 + way.k)
        assert loop.tokens[:60] == request.positions.token.tolist()
        starts = np.cumsum([1, *(each.accepted + 1 for each in loop.rounds)])
        counted = [each for each, start in zip(loop.rounds, starts, strict=False) if start + way.k < 60]
        rounds = rounds_of(one, way.k)
        lengths = np.bincount([each.accepted for each in counted], minlength=way.k + 1)
        np.testing.assert_allclose(rounds.by_length()[:, 0], lengths, atol=1e-12)
        needed = one.by_needed(rounds.rejected, one.flat.above) + one.by_needed(rounds.bonus)
        assert needed[0, : way.fan_out + 1].sum() == pytest.approx(sum(bool(each.hit) for each in counted))
