"""Options of the comparison: strategies, drafter, sequences and drafted tokens."""

from __future__ import annotations

from ssdsim import drafters, strategies
from ssdsim.base.kinds import Member, Names, Whole
from ssdsim.base.option import Group, Option

WHOM = (
    Option(
        name="strategies",
        default=strategies.default(),
        kind=Names(strategies.ALL),
        about="whom to compare",
        axis="strategies",
        spellings=("--strategy",),
        varied_by=("schedule",),
    ),
    Option(
        name="subject",
        kind=Member(strategies.ALL),
        about="the strategy that the verdict is about, held against the others",
        axis="subject",
        otherwise=f"{strategies.SUBJECT} where it is among --strategies, else the last of them",
    ),
    Option(
        name="drafter",
        default="model",
        kind=Member(drafters.ALL),
        about="what drafts the tokens",
        axis="drafter",
    ),
    Option(
        name="b",
        default=1,
        kind=Whole(),
        about="sequences decoded together",
        axis="batch size b (sequences)",
        spellings=("--batch", "--bs"),
        doubling=True,
        varied_by=("recommend", "schedule"),
        groups=(Group.CHOICE,),
    ),
    Option(
        name="k",
        default=6,
        kind=Whole(most=1_000),
        about="speculative lookahead: draft tokens verified in a round",
        axis="lookahead K (tokens)",
        spellings=("--num-speculative-tokens",),
        symbol="K",
        varied_by=("recommend", "schedule"),
        groups=(Group.CHOICE,),
    ),
    Option(
        name="sd_k",
        kind=Whole(most=1_000),
        about="SD's own lookahead",
        axis="SD's lookahead (tokens)",
        otherwise="the same as --k",
        varied_by=("recommend", "schedule"),
        groups=(Group.CHOICE,),
    ),
)
