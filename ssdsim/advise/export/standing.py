"""Evidence behind an export: the inputs of its tokens, and the cells in which another strategy may be better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ssdsim.advise.schedule.candidates import Candidates
from ssdsim.advise.schedule.schedule import DRAWS, scenario_of
from ssdsim.answers.contest import contest
from ssdsim.answers.evidence import Basis
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.many import Drawn
from ssdsim.question.standing import TokenInput


def standing_notes(candidates: Candidates, names: Sequence[str], inputs: Sequence[TokenInput], seed: int) -> list[str]:
    """Notes on what ``names`` assume of tokens, and in how many cells the one rule leaves open which is best."""
    condition = Basis(tuple(each for each in inputs if not set(names).isdisjoint(each.read_by))).condition
    notes = [f"{condition}this is best: measure it and give --pair"] if condition else []
    cells = candidates.best(names).to_dict("records")
    said = [sentence for cell in cells if (sentence := _undecided(candidates, cell, names, seed))]
    if said:
        notes.append(f"at {len(said)} of {len(cells)} cells another strategy may be as good. {said[0]}")
    return notes


def _undecided(candidates: Candidates, best: Mapping[Any, Any], names: Sequence[str], seed: int) -> str:
    """The sentence on the cell's best of another strategy; empty where that is decided, or nothing else fits."""
    others = [name for name in names if name != best["strategy"]]
    rivals = candidates.best(others).to_dict("records") if others else []
    same = [row for row in rivals if (row["b"], row["context"]) == (best["b"], best["context"])]
    if not same:
        return ""
    sides = {row["strategy"]: scenario_of(candidates.points[row["point"]]) for row in (best, *same)}
    errors = TimingErrors(DRAWS, seed)
    rates = {name: float(each.estimate.tokens_per_second) for name, each in sides.items()}
    drawn = {name: Drawn.of(each, errors) for name, each in sides.items()}
    first, (other,) = best["strategy"], [row["strategy"] for row in same]
    held = contest(first, [other], rates, drawn)
    if held.decided:
        return ""
    versus = held.over[other]
    basis = Basis.of(sides[first], sides[other], versus.timings)
    titles = {name: each.strategy.title for name, each in sides.items()}
    clause = f"{titles[first]} is {versus.ratio:.2f}x {titles[other]} (95 %: {versus.low:.2f}-{versus.high:.2f})"
    where = f" at batch {best['b']}, context {best['context']}"
    return basis.sentence(held, [other], (titles[first], ""), clause, where)
