"""Options of the comparison: strategies, drafter, sequences and drafted tokens."""

from __future__ import annotations

from ssdsim import strategies
from ssdsim.base.kinds import Member, Whole
from ssdsim.base.kinds_of_lists import Names
from ssdsim.base.option import Option, Section, searched_choice
from ssdsim.strategies import drafters

WHOM = (
    Option(
        name="strategies",
        section=Section.START,
        prominence=3,
        default=strategies.default(),
        kind=Names(strategies.ALL),
        about="which ones, or all",
        axis="strategies",
        spellings=("--strategy",),
        varied_by=("schedule",),
    ),
    Option(
        name="subject",
        section=Section.START,
        kind=Member(strategies.ALL),
        about="the strategy that the verdict is about, held against the others",
        axis="subject",
        default_note=f"{strategies.SUBJECT} where it is among --strategies, else the last of them",
    ),
    Option(
        name="drafter",
        section=Section.MODELS,
        prominence=1,
        default="model",
        kind=Member(drafters.ALL),
        about="what drafts: a model, a head, a look-up (ssdsim models drafters)",
        axis="drafter",
    ),
    searched_choice(
        name="b",
        section=Section.START,
        prominence=7,
        default=1,
        kind=Whole(),
        about="batch: sequences decoded together",
        axis="batch size b (sequences)",
        spellings=("-b", "--batch-size", "--batch", "--bs"),
        doubling=True,
    ),
    searched_choice(
        name="k",
        section=Section.START,
        prominence=7,
        default=6,
        kind=Whole(most=1_000),
        about="lookahead K: drafted tokens that a round verifies",
        axis="lookahead K (tokens)",
        spellings=("--num-speculative-tokens",),
        symbol="K",
    ),
)
