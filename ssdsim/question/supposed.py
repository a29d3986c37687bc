"""Acceptance that nobody gave: what was published of the drafter, of a relative or of its kind, and how wide of it.

Moves and spreads are in logits of the one rate that yields as much: of texts that were not published, of what differs
between sets and between drafters, of another temperature, of a context beyond what heads are trained at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ssdsim.base.record import Record, replace
from ssdsim.base.settings import GIVEN, Settings
from ssdsim.hardware.catalog import find_transformer, siblings
from ssdsim.pricing.drafter import Draft
from ssdsim.strategies import drafters
from ssdsim.strategies.drafters.model import ModelDrafter
from ssdsim.strategies.drafters.mtp import MTP
from ssdsim.tokens.acceptance import one_rate
from ssdsim.tokens.drafter_card import DrafterCard, PublishedAcceptance, Text, drafters_of, middle_set
from ssdsim.tokens.priors import ABOVE, BELOW, MIXED, TEXTS, KindPrior, logit, moved, prior_of, priors, share_of
from ssdsim.transformer.operations import WEIGHT_BYTES

PUBLISHED, PRIOR = "published: ", "prior: "
"""The words with which the source of a published acceptance begins, and that of one supposed for want of any."""
MOST_TIMES_SMALLER = 150
"""The published pairs' targets have 44 to 57 times the parameters of their drafts: far beyond is another size class."""
_STRANGER = 0.4
"""The middle for drafts of another family than their target's: the most that users report of them."""
_FEW_BITS = 0.75  # bytes a weight, below which a module is quantised to four bits

_DIGITS = 3  # of a supposed rate

Rates = float | tuple[float, ...]


class Supposed(Record):
    """A value, the range in which its :func:`one_rate` may lie, and what both rest on."""

    value: Rates
    within: tuple[float, float]
    source: str


class _Span(Record):
    """Logits of the low end, the middle and the high end."""

    low: float
    middle: float
    high: float

    def spread(self, by: float) -> _Span:
        """The span with ends so many spreads farther away."""
        return replace(self, low=self.low - BELOW * by, high=self.high + ABOVE * by)

    def falling(self, by: float) -> _Span:
        """The span where the rate may have fallen by as much, or not at all: the middle is half of the way."""
        return replace(self, low=self.low + by, middle=self.middle + by / 2.0)

    def ends(self, off: float = 0.0) -> tuple[float, float]:
        """The ends as rates that are ``off``, to three digits."""
        return round(share_of(self.low + off), _DIGITS), round(share_of(self.high + off), _DIGITS)


def _shown(rates: Any, by: float) -> Any:
    """What was published, or where it is moved, to as many digits as are shown."""
    if by == 0.0:
        return rates
    there = moved(rates, by)
    return round(there, _DIGITS) if isinstance(there, float) else tuple(round(rate, _DIGITS) for rate in there)


def supposed(settings: Settings, draft: Draft | None) -> Supposed | None:
    """What is supposed of the acceptance of ``draft`` (None without hardware); None if nothing is known of its kind.

    What was published of it comes first, then what was of relatives, drafters of its kind for the target's family.
    """
    prior = prior_of(settings["drafter"])
    if prior is None:
        return None
    if draft is not None and draft.published is not None:
        return _published(settings, draft, draft.published, prior)
    kin = [] if draft is None else _relatives(settings)
    return _of_relatives(settings, draft, kin, prior) if kin else _of_kind(settings, draft, prior)


def _published(settings: Settings, draft: Draft, known: PublishedAcceptance, prior: KindPrior) -> Supposed:
    """The card's chosen set, and all that its other sets, and the texts that it lacks, may make of it.

    Where nobody named the head, it may be another one for the same target.
    """
    named = settings["draft_set"] is not None
    text: Text = known.text if named else settings["text"]
    sets = [known] if named else [each for each in draft.sets if each.temperature == known.temperature]
    span = _over_texts(sets, known, text, prior)
    of_another = draft.published_for or (
        settings["drafter"] in priors().context.kinds and settings.source("draft") != GIVEN
    )
    span = span.spread(math.hypot(priors().sets, priors().heads if of_another else 0.0))
    span = _beyond(settings, draft, _at_temperature(settings, span, known.temperature))
    if _has_four_bits(settings):
        span = replace(span, low=min(span.low, logit(priors().least)))
    value = _shown(known.rates or known.one_rate, span.middle - logit(known.one_rate))
    of = f"for another model, {draft.published_for}:" if draft.published_for else draft.card.name
    within = span.ends(logit(one_rate(value)) - span.middle)  # of rounds with a proposal alone
    return Supposed(value, within, f"{PUBLISHED}{of} on {known.about}{_moved_to(known, text)}{_where(settings, draft)}")


def _of_relatives(settings: Settings, draft: Draft | None, kin: Sequence[DrafterCard], prior: KindPrior) -> Supposed:
    """The one in the middle, as one rate, with what differs between two drafters of a kind."""
    text: Text = settings["text"]
    sets = [middle_set(each.acceptance, text, settings["temperature"]) for each in kin]
    known = middle_set(sets, MIXED, settings["temperature"])
    span = _over_texts(sets, known, text, prior).spread(math.hypot(priors().sets, math.sqrt(2.0) * priors().heads))
    span = _beyond(settings, draft, _at_temperature(settings, span, known.temperature))
    card = kin[sets.index(known)]
    said = f"{PRIOR}{card.name}, of {card.target}, on {known.data}{_moved_to(known, text)}{_where(settings, draft)}"
    return Supposed(round(share_of(span.middle), _DIGITS), span.ends(), said)


def _relatives(settings: Settings) -> list[DrafterCard]:
    target = find_transformer(settings["target"])
    return [each for each in drafters_of(settings["drafter"]) if each.acceptance and siblings(each.target, target)]


def _of_kind(settings: Settings, draft: Draft | None, prior: KindPrior) -> Supposed:
    """The kind's prior on the text; lower where drafters were reported that hardly work."""
    text: Text = settings["text"]
    low, middle, high = prior.on(text)
    of, unit = (
        drafters.ALL.named(prior.like or prior.drafter).title,
        "pair" if settings["drafter"] == ModelDrafter.name else "card",
    )
    counts = f"{_count(prior.sets, 'set')} of {_count(prior.cards, unit)}"
    said = f"{PRIOR}{of}{' (it has no card of its own)' if prior.like else ''}, {counts}, {text} text"
    why = "" if draft is None else _doubtful(settings, draft)
    if why:
        low, said = priors().least, f"{said}; {why}"
        middle, high = (min(middle, _STRANGER), middle) if why == _OTHER_FAMILY else (middle, high)
    span = _beyond(settings, draft, _at_temperature(settings, _Span(logit(low), logit(middle), logit(high)), 0.0))
    value = middle if span.middle == logit(middle) else round(share_of(span.middle), _DIGITS)
    return Supposed(value, span.ends(), said + _where(settings, draft))


_OTHER_FAMILY = "a draft of another family"


def _doubtful(settings: Settings, draft: Draft) -> str:
    """Why little may be accepted; empty where nothing speaks for it."""
    if _has_four_bits(settings):
        return "a module of four bits"
    if settings["drafter"] != ModelDrafter.name:
        return ""
    target, card = find_transformer(settings["target"]), draft.card
    if card.family and target.family and card.family != target.family:
        return _OTHER_FAMILY
    return "a far smaller draft" if target.parameters > MOST_TIMES_SMALLER * card.parameters else ""


def _has_four_bits(settings: Settings) -> bool:
    """Tell whether an MTP module is quantised to four bits."""
    if settings["drafter"] != MTP.name:
        return False
    return WEIGHT_BYTES.get(settings["draft_dtype"] or settings["dtype"], 2.0) < _FEW_BITS


def _count(number: int, of: str) -> str:
    return f"{number} {of}{'' if number == 1 else 's'}"


def _over_texts(sets: Sequence[PublishedAcceptance], known: PublishedAcceptance, text: Text, prior: KindPrior) -> _Span:
    """The set that is known, moved to the text, and the lowest and the highest of all sets on it.

    Kinds of text of which there is no set are that set, moved as texts differ for the kind of drafter.
    """
    middle = logit(known.one_rate)
    here = middle if text in (MIXED, known.text) else middle + prior.move(known.text, text)
    all_of_it = [here]
    for each in TEXTS if text == MIXED else (text,):
        own = [logit(one.one_rate) for one in sets if one.text == each]
        there = middle + prior.move(known.text, each)
        all_of_it += own or ([there - BELOW * prior.texts, there + ABOVE * prior.texts] if each != MIXED else [])
    return _Span(min(all_of_it), here, max(all_of_it))


def _moved_to(known: PublishedAcceptance, text: Text) -> str:
    return "" if text in (MIXED, known.text) else f", moved from {known.text} text to {text}"


def _at_temperature(settings: Settings, span: _Span, measured: float | None) -> _Span:
    """Twice as wide as the mean move with the temperature."""
    if measured is None:
        return span
    off = 2.0 * priors().per_temperature * (settings["temperature"] - measured)
    return replace(span, low=span.low + min(0.0, off), high=span.high + max(0.0, off))


def _beyond(settings: Settings, draft: Draft | None, span: _Span) -> _Span:
    """Lower where a head reads more than it was trained at; only there does the context matter."""
    law = priors().context
    more = min(_untrained(settings, draft), law.longest - law.trained)
    return span.falling(law.per_1024 * more / 1024.0) if more > 0 else span


def _untrained(settings: Settings, draft: Draft | None) -> int:
    """Tokens of the context that a head reads beyond those that heads of the kind are trained at."""
    law = priors().context
    if settings["drafter"] not in law.kinds or settings["t_sd"] is not None:
        return 0
    seen = None if draft is None else draft.card.seen
    context = int(settings["context"])
    return (context if seen is None else min(context, seen)) - law.trained


def _where(settings: Settings, draft: Draft | None) -> str:
    more = _untrained(settings, draft)
    return f"; lower {more} tokens beyond the context of such heads' training" if more > 0 else ""
