"""Handshakes by which a draft and a target that never pause come to agree again (AMUSD's, of paper and code)."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from ssdsim.rounds.actor import Actor, Program

_PLACES = 1 << 24  # tokens of a text: two places fit into a message
_GAVE_UP = 0  # a message that is no text, which has a token at least


def ideal(least: int, most: int) -> dict[str, Program]:
    """Every divergence is known, and waited for, as soon as a message is there."""
    return {"target": partial(_target, least, most), "draft": _draft}


def counted(least: int, most: int) -> dict[str, Program]:
    """The released code's: counters of rollbacks, and texts that are published at the end of a step."""
    return {"target": partial(_counting_target, least, most), "draft": _counting_draft}


def _target(least: int, most: int, me: Actor) -> Generator[Any, Any, None]:
    epoch = lead = 0  # divergences so far, and tokens that the draft is ahead by; those of an older epoch are void
    for _ in me.rounds():
        lead += (yield from me.look("token")).count(epoch)
        while lead < least:
            lead += int((yield me.receive("token")) == epoch)
        verified = min(lead, most)
        yield me.do("verify")
        yield me.do("sample")
        accepted, guessed = me.judge(verified)
        if accepted == verified and guessed:
            lead -= verified + 1
        else:
            epoch, lead = epoch + 1, 0
        me.post("draft", "outcome", epoch, takes="outcome")
        me.end_round()


def _draft(me: Actor) -> Generator[Any, Any, None]:
    """A token after the other; where the target's text differs, start from it: the token just made is lost."""
    epoch = 0
    for _ in me.rounds():
        yield me.do("draft")
        news = yield from me.look("outcome")
        if news and news[-1] != epoch:
            epoch = news[-1]
        else:
            me.post("target", "token", epoch, takes="token")


def _counting_target(least: int, most: int, me: Actor) -> Generator[Any, Any, None]:
    """The draft's text is ``taken`` tokens of the target's and then its own; it is stale if a later one was wrong."""
    length = taken = drafted = asked = answered = 0
    wrong = -1  # the last place where the draft's token would be wrong
    for _ in me.rounds():
        news = yield from me.look("token")
        while True:
            for message in news:
                if message == _GAVE_UP:
                    answered += 1
                else:
                    taken, drafted = divmod(message, _PLACES)
            if answered >= asked and drafted >= length + least:
                break
            news = [(yield me.receive("token"))]
        stale = taken <= wrong
        verified = 0 if stale else min(drafted - length, most)
        yield me.do("stale" if stale else "verify")
        yield me.do("sample")
        accepted, guessed = me.judge(verified)
        length += accepted + 1
        asked += accepted < verified
        right = accepted == verified and guessed
        wrong = wrong if right else length - 1
        me.post("draft", "outcome", 2 * length + int(right), takes="outcome")
        me.end_round()


def _counting_draft(me: Actor) -> Generator[Any, Any, None]:
    taken = length = 0
    wrong: list[int] = []  # places at which it would draft another token than the target has
    for _ in me.rounds():
        yield me.do("draft")
        length += 1
        me.post("target", "token", taken * _PLACES + length, takes="token")
        news = yield from me.look("outcome")
        if not news:
            continue
        known = news[-1] // 2
        wrong += [message // 2 - 1 for message in news if message % 2 == 0]
        if any(place < length for place in wrong):
            if known < length:
                me.post("target", "token", _GAVE_UP, takes="token")
            taken = length = known
            wrong = []
