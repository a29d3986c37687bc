"""Cards of drafters: what a published drafter is, for which target, and how much of it was seen to be accepted."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from operator import mul
from os.path import isfile
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from ssdsim.base.bundled import Shelf
from ssdsim.base.card import Card, OneLine
from ssdsim.base.documents import as_record, read_toml
from ssdsim.base.files import while_unchanged
from ssdsim.tokens.acceptance import rate_of

Text = Literal["chat", "code", "maths", "mixed"]
Rate = Annotated[float, Meta(ge=0.0, le=1.0)]
_KIND = "drafter card"


class PublishedAcceptance(Card):
    """Tokens that were seen to be accepted of a drafter's chains of ``k`` tokens on some ``data``.

    ``rates[i]`` is P(token i + 1 accepted | those before it are). Where only the mean ``tokens`` of a round (bonus
    token included) are published, the rates are the one that yields so many (``derived`` says so). ``found`` is the
    share of rounds in which it had anything to propose. ``paper`` marks what was read in a second place only.
    """

    data: str
    text: Text = "mixed"
    engine: str = ""
    temperature: Annotated[float, Meta(ge=0.0, le=10.0)] | None = 0.0
    k: Annotated[int, Meta(ge=1, le=1000)]
    rates: tuple[Rate, ...] = ()
    tokens: Annotated[float, Meta(ge=1.0, le=1001.0)] | None = None
    found: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0
    derived: str = ""
    source: str

    def __post_init__(self) -> None:
        if not self.rates and self.tokens is None:
            raise ValueError("acceptance needs rates, or the mean tokens of a round")
        if len(self.rates) > self.k:
            raise ValueError(f"{len(self.rates)} rates are more than k = {self.k}")
        if self.tokens is not None and self.tokens > self.k + 1:
            raise ValueError(f"a round of k = {self.k} yields at most {self.k + 1} tokens, got {self.tokens:g}")

    @property
    def by_position(self) -> tuple[float, ...]:
        """The rates; the one rate that yields the mean tokens where these alone are known."""
        return self.rates or (rate_of(1.0 + ((self.tokens or 1.0) - 1.0) / self.found, self.k),) * self.k

    @property
    def one_rate(self) -> float:
        """The one rate that yields the mean tokens of all rounds."""
        if not self.rates:
            return rate_of(self.tokens or 1.0, self.k)
        return rate_of(1.0 + self.found * sum(accumulate(self.rates, mul)), len(self.rates))

    @property
    def about(self) -> str:
        """The data that the numbers were measured on, and whose they are."""
        temperature = "" if self.temperature is None else f", temperature {self.temperature:g}"
        means = " (a mean length, as one rate)" if not self.rates else ""
        return f"{self.data}{temperature}, {self.source}{means}"


def middle_set(sets: Sequence[PublishedAcceptance], text: Text, temperature: float) -> PublishedAcceptance:
    """The set in the middle by its rate (the lower one of two), of those on the text, at the nearest temperature."""
    nearest = min(abs((each.temperature or 0.0) - temperature) for each in sets)
    near = [each for each in sets if abs((each.temperature or 0.0) - temperature) == nearest]
    own = near if text == "mixed" else [each for each in near if each.text == text] or near
    return sorted(own, key=lambda each: each.one_rate)[(len(own) - 1) // 2]


class DrafterCard(Card):
    """A published drafter: ``drafter`` is its kind (``--drafter``), ``target`` the card it was trained for.

    ``shape`` are the fields of its transformer card that its kind's recipe has otherwise for the target. ``checkpoint``
    is its name on the Hugging Face hub, ``ranks`` of Medusa's heads the accuracy of each one's first guesses, ``block``
    the most tokens that a block drafter was trained to make in its one pass.
    """

    name: OneLine
    drafter: str
    target: str = ""
    checkpoint: OneLine = ""
    block: Annotated[int, Meta(ge=1, le=64)] | None = None
    shape: Mapping[str, int] = field(default_factory=dict)
    ranks: tuple[tuple[Rate, ...], ...] = ()
    acceptance: tuple[PublishedAcceptance, ...] = ()
    source: str
    note: str = ""


@while_unchanged
def _load(path: Path) -> DrafterCard:
    return as_record(DrafterCard, read_toml(path, _KIND), path, "card")


DRAFTERS = Shelf(_KIND, "drafters", ".toml", _load)
drafter_names = DRAFTERS.names


def find_drafter(name: str) -> DrafterCard | None:
    """The bundled card, or that in a TOML file of this kind; None where it is neither."""
    path = Path(name)
    if name.lower() not in DRAFTERS.files and path.suffix == ".toml" and isfile(path):
        return _load(path) if "drafter" in read_toml(path, _KIND) else None
    return DRAFTERS.bundled(name.lower())


def drafters_for(kind: str, target: str) -> Iterator[DrafterCard]:
    """The bundled cards of a kind that were made for a target, by name; those for any target last."""
    cards = drafters_of(kind)
    yield from (card for card in cards if card.target and card.target == target)
    yield from (card for card in cards if not card.target)


def block_of(options: Mapping[str, Any], target: str) -> int | None:
    """The most tokens that the drafter of a target makes in its one pass; None where its card says none."""
    named = find_drafter(str(options.get("draft")))
    cards = drafters_for(str(options.get("drafter")), target) if named is None else [named]
    return next((card.block for card in cards), None)


@cache
def drafters_of(kind: str | None = None) -> tuple[DrafterCard, ...]:
    """The bundled cards, by name; those of a ``kind`` have names that begin with it, and the others are not read."""
    names = (name for name in DRAFTERS.files if kind is None or name.startswith(f"{kind}-"))
    return tuple(DRAFTERS.find(name) for name in names)
