"""The interface between strategies and drafters: what drafts, what it takes at a site, how much of it a round hides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol, cast, runtime_checkable

from ssdsim.base.option import Option
from ssdsim.base.record import Record
from ssdsim.pricing.occupancy import Demand
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass, Piece, Step
from ssdsim.pricing.unit_free import UnitFree
from ssdsim.tokens.accepted import Accepted, accepted_by_options
from ssdsim.tokens.drafter_card import PublishedAcceptance
from ssdsim.transformer.card import Transformer

MOST_OUTCOMES = 4096  # a sequence; the search for the budget ends there


class Draft(Record):
    """Drafter of a target: its shape (the target's own where it has no model), and what was published of it.

    ``published`` is the chosen one of its card's ``sets``. ``published_for`` is the model that it was published of,
    where it is another one of the target's family. ``ranks[d]`` are P(its guess of rank r of the token d + 1 is right),
    where those of several guesses are known.
    """

    card: Transformer
    published: PublishedAcceptance | None = None
    ranks: tuple[tuple[float, ...], ...] = ()
    published_for: str = ""
    sets: tuple[PublishedAcceptance, ...] = ()


class Proposed(Record):
    """Share of rounds in which a sequence has a proposal, and its mean length in tokens."""

    share: float
    tokens: float


class Drafter(ABC):
    """Anything that drafts tokens for a strategy to verify: a model, a head, a look-up of n-grams.

    A drafter derives from it, has ``name``, ``title`` and ``source``, and overrides what is its own. ``options`` are
    the drafter's own. ``needs_device`` is False where it runs on the host: it then occupies no GPU, wherever a strategy
    would put it, and holds no memory there. ``needs_target``: it reads what lies on the target's devices, and can draft
    nowhere else. ``needs_verified``: it reads what the target makes of tokens while it verifies them, and cannot draft
    on from others. ``on_one_stage``: its passes have no layers of the target. ``self_conditions``: how
    much of a draft is accepted depends on how many tokens before it have not been verified. Strategies call the
    functions below, which know what drafting takes without hardware, too.
    """

    name: str
    title: str
    source: str
    options: tuple[Option, ...] = ()
    needs_device = True
    needs_target = False
    needs_verified = False
    on_one_stage = True
    self_conditions = False

    @abstractmethod
    def draft(self, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
        """Find what drafts for ``target``: what ``--draft`` named, or its own where nothing was.

        The name of what it gave itself is found again.
        """

    @abstractmethod
    def speculate(self, site: Site, tokens: int, beside: bool) -> tuple[Piece, ...]:
        """Draft ``tokens`` tokens of every sequence, one after the other.

        ``beside`` the target on its devices, or on a device of its own.
        """

    def prespeculate(self, site: Site, tokens: int, branches: int) -> tuple[Piece, ...]:
        """Draft ``tokens`` tokens for each of ``branches`` outcomes a sequence, on one device of its own."""
        raise NotImplementedError(f"{self.title} drafts beside its target only")

    def accepted(self, options: Mapping[str, Any], tokens: int, unseen: int = 0) -> Accepted:
        """Acceptance of ``tokens`` drafted tokens, over all rounds.

        ``unseen``: tokens before the first of them that it drafted itself and whose verification it has not seen.
        """
        return accepted_by_options(options, tokens)

    def proposes(self, options: Mapping[str, Any], tokens: int) -> Proposed:
        """Tokens to verify where ``tokens`` tokens are asked for."""
        return Proposed(1.0, tokens)

    @abstractmethod
    def demand(self, site: Site, tokens: int, branches: int, beside: bool = False) -> Demand:
        """Bytes on the device that it runs on, with ``branches`` cached outcomes a sequence.

        ``beside`` the target: on each of the target's devices.
        """

    def cannot_run(self, options: Mapping[str, Any]) -> str | None:
        """Why real ranks cannot run it; None where they can."""
        return None


def passes_over(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of equal numbers of rows: each number, and how often it repeats in a row."""
    return ((each, len(list(alike))) for each, alike in groupby(rows))


@runtime_checkable
class TreeDrafter(Protocol):
    """A drafter that can make several guesses of a token, and continue from each of them in one pass."""

    def expand(self, site: Site, rows: Sequence[int], beside: bool) -> tuple[Piece, ...]:
        """Draft a tree for every sequence: a pass over each number of ``rows``, whose children are guessed in it.

        ``beside`` the target on its devices, or on a device of its own.
        """
        ...

    def preexpand(self, site: Site, rows: Sequence[int], nodes: int, branches: int) -> tuple[Piece, ...]:
        """Draft such a tree for each of ``branches`` outcomes of a tree of ``nodes``, on one device of its own."""
        ...


def speculate(site: Site, drafter: Drafter, tokens: int, beside: bool) -> tuple[Piece, ...]:
    """Price a draft of ``tokens`` tokens; without hardware each takes T_SD / K, whatever drafts."""
    if isinstance(site, UnitFree):
        return (Piece("draft step", site.pass_of_draft, tokens),)
    return drafter.speculate(site, tokens, beside)


def prespeculate(site: Site, drafter: Drafter, tokens: int, branches: int) -> tuple[Piece, ...]:
    """Price a draft for each of ``branches`` outcomes a sequence."""
    if isinstance(site, UnitFree):
        return Piece("glue", site.pass_of_draft), Piece("branch step", site.pass_of_draft, tokens)
    return drafter.prespeculate(site, tokens, branches)


def expand(site: Site, drafter: Drafter, rows: Sequence[int], beside: bool) -> tuple[Piece, ...]:
    """Price a draft of a tree."""
    if isinstance(site, UnitFree):
        return speculate(site, drafter, len(rows), beside)
    return cast(TreeDrafter, drafter).expand(site, rows, beside)


def preexpand(site: Site, drafter: Drafter, rows: Sequence[int], nodes: int, branches: int) -> tuple[Piece, ...]:
    """Price a draft of a tree for each of ``branches`` outcomes of a tree of ``nodes``."""
    if isinstance(site, UnitFree):
        return (Piece("pre-speculation", site.pass_of_draft * len(rows)),)
    return cast(TreeDrafter, drafter).preexpand(site, rows, nodes, branches)


def branches_per_device(budget: int, devices: int) -> int:
    """Branches of one draft device: devices share them evenly, each with its own copy of the draft."""
    return -(-budget // devices)


def prespeculation(site: Site, drafter: Drafter, k: int, budget: int, beside: bool = False) -> Step:
    """Step of a draft device: a glue pass over ``b (K+1)`` tokens, then K passes over its branch tokens.

    ``beside``: on one of the target's, whose host launches its kernels, too.
    """
    devices = site.options["draft_gpus"]
    pieces = prespeculate(site, drafter, k, branches_per_device(budget, devices))
    last = pieces[-1].work
    if beside and isinstance(last, Pass) and site.draft.head is None:
        pieces += site.launches(last, k)
    return Step("draft", pieces, devices)


def window_budget(site: Site, drafter: Drafter, k: int, drafting: Site | None = None, targets: int = 1) -> int:
    """The most outcomes a sequence that the draft caches before the target's outcome arrives (at least K + 1).

    ``drafting`` has the draft's batch, where that is another. For several ``targets``, and for the microbatches of
    each, it works one after the other.

    By bisection, since the time of a branch step never falls with its tokens.
    """
    verify = site.verify_step("verify", k + 1)
    window_s = (verify.cost + site.sampling_step().cost + site.outcome_message(k + 1).cost).seconds

    def fits(budget: int) -> bool:
        return targets * site.microbatches * prespeculation(drafting or site, drafter, k, budget).seconds <= window_s

    low, high = k + 1, MOST_OUTCOMES
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
