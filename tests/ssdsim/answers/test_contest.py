"""One rule of what is decided, whichever verb is asked."""

from __future__ import annotations

import numpy as np

from ssdsim.answers.contest import contest
from ssdsim.answers.evidence import SURE
from ssdsim.base.intervals import Draws
from ssdsim.question.many import RateDraws

NAMES = ("ar", "sd", "ssd")


def of_timings(draws: Draws) -> RateDraws:
    """Nothing but timings errs."""
    return RateDraws(draws, draws)


def drawn_by_timings(draws: dict[str, Draws]) -> dict[str, RateDraws]:
    return {name: of_timings(each) for name, each in draws.items()}


def test_an_interval_that_rounds_to_one_is_as_fast_and_draws_that_agree_decide() -> None:
    rates, spread = {"a": 1.001, "b": 1.0}, np.linspace(0.9, 1.1, 101)
    alike = contest("a", ["b"], rates, {name: of_timings(rate * spread) for name, rate in rates.items()})
    assert alike.over["b"].is_tie
    assert alike.outcome == "loses"
    assert contest("a", ["b"], rates, None).outcome == "wins"
    for behind, outcome in ((4, "wins"), (5, "wins"), (6, "undecided"), (94, "undecided"), (95, "loses")):
        ratios = np.where(np.arange(100) < behind, 0.5, 1.5)
        assert contest("a", ["b"], rates, drawn_by_timings({"a": ratios, "b": np.ones(100)})).outcome == outcome


def test_a_subject_must_beat_all_its_rivals_together() -> None:
    """Each rival is behind in 97 of 100 draws, but in other ones."""
    draws = {name: np.ones(100) for name in ("a", "b", "c")}
    draws["b"] = np.where(np.arange(100) < 3, 1.5, 0.5)
    draws["c"] = np.where(np.arange(100) >= 97, 1.5, 0.5)
    decided = contest("a", ["b", "c"], {"a": 1.0, "b": 0.5, "c": 0.4}, drawn_by_timings(draws))
    assert all(versus.wins for versus in decided.over.values())
    assert (decided.outcome, decided.open, decided.decisive_rival) == ("undecided", [], "b")
    sentence = SURE.sentence(decided, [decided.decisive_rival], ("a", ""), "a is 2x b")
    assert sentence == "Undecided: a is 2x b; that it is faster than all of them has P 0.94."


def test_where_the_sign_turns_within_the_ranges_of_tokens_nothing_is_said() -> None:
    """Though 99 of 100 draws agree: the truth may be any of them."""
    ahead = np.where(np.arange(100) < 1, 0.9, 1.5)
    for looks, outcome in (([1.1, 1.5], "wins"), ([0.99, 1.5], "undecided"), ([0.5, 0.9], "undecided")):
        a, b = RateDraws(ahead, np.full(100, 1.4), np.array(looks)), RateDraws(np.ones(100), np.ones(100), np.ones(2))
        assert contest("a", ["b"], {"a": 1.4, "b": 1.0}, {"a": a, "b": b}).outcome == outcome
        reads_none = of_timings(np.ones(100))
        assert contest("a", ["b"], {"a": 1.4, "b": 1.0}, {"a": a, "b": reads_none}).outcome == outcome
        mirrored = contest("b", ["a"], {"a": 1.4, "b": 1.0}, {"a": a, "b": b}).outcome
        assert mirrored == {"wins": "loses"}.get(outcome, outcome)
