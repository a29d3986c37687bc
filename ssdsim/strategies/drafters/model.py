"""A smaller transformer as draft, which may itself be drafted for: by n-grams, by a smaller model, or by both."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ssdsim.base.errors import CannotRun, InputError
from ssdsim.base.kinds import SHARE, Name, Whole
from ssdsim.base.kinds_of_lists import ListOf
from ssdsim.base.option import Needs, Option, choice
from ssdsim.base.record import Record, replace
from ssdsim.hardware.catalog import draft_for, find_transformer, one_vocabulary, other_vocabulary
from ssdsim.pricing.drafter import Draft, Drafter, passes_over
from ssdsim.pricing.occupancy import Demand, draft_on
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass, Piece, Repeats, rounds_until
from ssdsim.transformer.card import Transformer

NGRAMS = "ngram"
"""The word in the place of a model's name: n-grams of the context, looked up in no time."""
_MOST_STAGES = 2
_DRAFTED = 4

PassOver = Callable[[int], Pass]
"""A model's pass over so many tokens a sequence."""

OPTIONS = (
    choice(
        name="staged_by",
        kind=Name(files=False),
        about="what drafts for the draft model: ngram, a smaller model's card, or card+ngram, card+card",
        axis="stages below the draft",
        default_note="nothing",
    ),
    choice(
        name="staged_k",
        kind=ListOf(Whole(least=0, most=64)),
        about="tokens that each stage drafts for the model above it; 0 none",
        axis="tokens of a stage K_2",
        default_note=f"{_DRAFTED} each",
        symbol="K_2",
        needs=Needs(("staged_by",), "what drafts for the draft"),
    ),
    Option(
        name="staged_alpha",
        kind=ListOf(SHARE),
        about="P(the model above accepts a token of a stage | those before it); of n-grams over all rounds",
        axis="acceptance of a stage",
        default_note="must be given: nobody has published one",
        needs=Needs(("staged_by",), "what drafts for the draft"),
    ),
)


class Stage(Record):
    """A stage that drafts ``k`` tokens at a time for the model above it; ``card`` is None for n-grams."""

    card: Transformer | None
    k: int
    alpha: float


def stages_of(options: Mapping[str, Any], draft: Transformer) -> tuple[Stage, ...]:
    """Stages below a draft, from the top; none without ``--staged-by``."""
    if options.get("staged_by") is None:
        return ()
    names = options["staged_by"].split("+")
    if len(names) > _MOST_STAGES:
        raise InputError(f"--staged-by names at most {_MOST_STAGES} stages, got {len(names)}")
    if NGRAMS in names[:-1]:
        raise InputError("--staged-by: n-grams draft for a model and need no draft, so that they are named last")
    tokens, rates = options["staged_k"], options["staged_alpha"]
    if rates is None:
        raise InputError("--staged-by needs --staged-alpha: how often the model above accepts, which nobody published")
    tokens = [_DRAFTED] * len(names) if tokens is None else tokens
    for option, values in (("--staged-k", tokens), ("--staged-alpha", rates)):
        if len(values) != len(names):
            raise InputError(f"{option} has {len(values)} values for the {len(names)} stages of --staged-by")
    cards = [None if name == NGRAMS else find_transformer(name) for name in names]
    for card in cards:
        if card is not None and not one_vocabulary(card, draft) and not options["any_vocabulary"]:
            raise InputError(f"--staged-by: {other_vocabulary(card, draft)}")
    return tuple(Stage(*each) for each in zip(cards, tokens, map(float, rates), strict=True))


def staged(
    site: Site,
    passes: Sequence[PassOver],
    stages: Sequence[Stage],
    tokens: int,
    chains: int,
    rounds: tuple[tuple[float, ...], ...] = (),
) -> tuple[Piece, ...]:
    """Draft ``tokens`` tokens of each of ``chains``: ``passes`` are those of the draft, then of its stages' models.

    ``T_d`` is replaced by ``[K_2 T_d2 + T_v2] / E_2`` of a stage, with the whole rounds that the tokens take in its
    place: those of the chain that takes the most, which all wait for. A round is never longer than what is asked.
    ``rounds`` are those of the models above.
    """
    drafted = min(stages[0].k, tokens - 1) if stages else 0
    over = (drafted + 1) * (chains // site.in_a_pass)  # tokens of a sequence, in all its chains
    own, below = site.piece(passes[0](over), 1 if drafted else tokens), tuple[Piece, ...]()
    if drafted:
        rounds = (*rounds, rounds_until(tokens, drafted, stages[0].alpha, chains))
        below = staged(site, passes[1:], stages[1:], drafted, chains, rounds) if stages[0].card is not None else ()
    if rounds:
        drawn = Repeats(rounds, int(own.times))
        own = replace(own, times=drawn.mean, drawn=drawn)
    return (*below, own)


class ModelDrafter(Drafter):
    """The card that ``--draft`` names, else the smallest of the target's family, one pass a token.

    Pre-speculation is batched (SSD paper, appendix B).
    """

    name = "model"
    title = "draft model"
    source = (
        "Leviathan et al., 2023; pre-speculation: SSD paper, appendix B; staged: Spector & Re, 2023, arXiv 2308.04623"
    )
    options = OPTIONS

    def draft(self, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
        card = draft_for(target, named)
        if card.head is not None:
            raise InputError(f"--draft {named} is a draft head, no model: give --drafter eagle3, or the head's kind")
        stages_of(options, card)  # refused here, before anything is priced
        return Draft(card)

    def speculate(self, site: Site, tokens: int, beside: bool) -> tuple[Piece, ...]:
        """Draft in a pass a token; with stages, in a pass a round of theirs."""
        stages = stages_of(site.options, site.draft)
        passes = [each.draft_beside_target if beside else each.draft_pass for each in _models(site, stages)]
        steps = [partial(each, "draft step") for each in passes]
        pieces = staged(site, steps, stages, tokens, site.in_a_pass)
        if not beside:
            return pieces
        own = pieces[-1]
        assert isinstance(own.work, Pass)
        return (*pieces, *site.launches(own.work, math.ceil(own.times)))

    def prespeculate(self, site: Site, tokens: int, branches: int) -> tuple[Piece, ...]:
        """A glue pass over K+1 tokens a sequence, then K steps over the branches, which see the verified ones too.

        With stages all branches of a batch wait for the one whose tokens take the most rounds.
        """
        stages = stages_of(site.options, site.draft)
        models = _models(site, stages)
        glues = [each.piece(each.draft_pass("glue", tokens + 1)) for each in models]
        steps = [partial(each.draft_pass, "branch step", extra_context=tokens + 1, masked=True) for each in models]
        return *glues[::-1], *staged(site, steps, stages, tokens, site.in_a_pass * branches)

    def expand(self, site: Site, rows: Sequence[int], beside: bool) -> tuple[Piece, ...]:
        """Passes over a tree: over one row as for a chain, over several as branches that share the cache."""
        _check_no_tree(site)
        passes = site.draft_beside_target if beside else site.draft_pass
        return tuple(
            site.piece(passes("draft step", queries=each, masked=each > 1), times) for each, times in passes_over(rows)
        )

    def preexpand(self, site: Site, rows: Sequence[int], nodes: int, branches: int) -> tuple[Piece, ...]:
        """Passes as of :meth:`prespeculate`, with a glue pass over a tree and ``rows`` of each branch."""
        _check_no_tree(site)
        glue = site.draft_pass("glue", nodes + 1, masked=any(each > 1 for each in rows))
        steps = (
            (site.draft_pass("branch step", branches * each, extra_context=nodes + 1, masked=True), times)
            for each, times in passes_over(rows)
        )
        return site.piece(glue), *(site.piece(step, times) for step, times in steps)

    def demand(self, site: Site, tokens: int, branches: int, beside: bool = False) -> Demand:
        # of the devices that share the target, one has the whole draft
        tp = site.tp if beside and site.data_parallel else 1
        models = _models(site, stages_of(site.options, site.draft))
        own, *below = (draft_on(each, tp, tokens, branches, beside) for each in models)
        if not below:
            return own
        weights_bytes = own.weights_bytes + sum(each.weights_bytes for each in below)
        sequence_bytes = own.sequence_bytes + sum(each.sequence_bytes for each in below)
        return replace(own, weights_bytes=weights_bytes, sequence_bytes=sequence_bytes)

    def cannot_run(self, options: Mapping[str, Any]) -> str | None:
        by = options.get("staged_by")
        return None if by in (None, NGRAMS) else f"ranks hold a target and a draft, no models of stages: {by}"


def _models(site: Site, stages: Sequence[Stage]) -> list[Site]:
    """The site with the draft, then with each stage's model as draft."""
    return [site, *(replace(site, draft=stage.card) for stage in stages if stage.card is not None)]


def _check_no_tree(site: Site) -> None:
    """Raise :class:`CannotRun` at stages that would draft for a tree."""
    if site.options.get("staged_by") is not None:
        raise CannotRun("--staged-by drafts for a chain: what it would do for a tree is not described")
