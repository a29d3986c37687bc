"""AMUSD: draft and target run without a pause; a mismatch makes the draft start again from the target's text."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.errors import CannotRun
from ssdsim.base.kinds import OneOf, Whole
from ssdsim.base.option import Option
from ssdsim.base.settings import Settings
from ssdsim.pricing.contention import always_beside
from ssdsim.pricing.drafter import Drafter, speculate
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.kernel import Kernel, Tokens
from ssdsim.rounds.round import PARTS, Estimate, Round, RoundBlock, Seconds
from ssdsim.strategies.protocols.hits import hit_rate
from ssdsim.strategies.protocols.strategy import Strategy

if TYPE_CHECKING:
    from ssdsim.rounds.outcomes import OutcomeBlock
    from ssdsim.tokens.free_running import MeanRound


_MOST_LEAD = 64
_RUN_IN = 256  # rounds
_PLACES = 1 << 24  # tokens of a text: two places fit into a message
_GAVE_UP = 0  # a message that is no text, which has a token at least
HANDSHAKES = ("ideal", "code")


class AMUSD(Strategy):
    """A round is a pass over all that the draft is ahead by: ``m`` tokens, at least two; it yields the accepted and
    one more token.

    Every divergence starts the same path anew, so the long run is a sum over the passes since the last one
    (:func:`ssdsim.tokens.free_running.long_run`): exact for constant durations, messages included. The first token
    drafted after all that was verified is the draft's guess of the bonus token, right with probability ``amusd_hit``;
    a wrong one is a divergence. Tokens are alike wherever in a pass they are, and a pass is as wide as the longest lead
    that may be verified. Greedy decoding of one sequence.

    So it is with the ``ideal`` handshake. That of the released ``code`` misses wrong guesses of the bonus token, and
    passes over one row where the draft's text is stale (:mod:`ssdsim.tokens.free_running`); its long run is drawn.
    """

    name = "amusd"
    title = "AMUSD"
    source = "McDanel, ISCAS 2025, arXiv 2410.17375"
    rival = "sd"
    drafted = "amusd_most"
    most_sequences = 1
    free_running = True
    drafts_ahead = True
    options = (
        Option(
            name="amusd_least",
            kind=Whole(most=_MOST_LEAD),
            default=2,
            about="drafted tokens that AMUSD's target waits for (its code: 2)",
            axis="AMUSD's shortest lead (tokens)",
        ),
        Option(
            name="amusd_most",
            kind=Whole(most=1_000),
            about="most drafted tokens that AMUSD's target verifies in a pass",
            axis="AMUSD's longest lead (tokens)",
            default_note=f"twice what is drafted during a pass, at most {_MOST_LEAD}",
        ),
        Option(
            name="amusd_handshake",
            kind=OneOf(HANDSHAKES),
            default="ideal",
            about="how AMUSD's sides come to agree again: ideal, or as in its released code, which races",
            axis="AMUSD's handshake",
        ),
        hit_rate(
            name="amusd_hit",
            about="P(AMUSD's draft guesses the bonus token)",
            axis="hit rate of the guessed bonus token",
            default_note="--alpha, which greedy decoding makes it",
        ),
    )

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        if settings["amusd_most"] is None:
            alone = self._steps(site, drafter, 1)
            pass_s, token_s = alone["verify"].seconds + alone["sample"].seconds, alone["draft"].seconds
            during = math.ceil(pass_s / token_s) if token_s * _MOST_LEAD > pass_s else _MOST_LEAD
            most = max(settings["amusd_least"], min(2 * during + 2, _MOST_LEAD))
            alpha = settings["alpha"]
            by_position = len(alpha) if isinstance(alpha, list | tuple) else most
            settings.derive("amusd_most", min(most, by_position), "more than the draft makes during a pass")

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        """Kernel of the longest pass; a shorter one accepts no more than it verifies. State: was the bonus guessed.

        Raises
        ------
        CannotRun : requests differ, whose passes depend on each other in more than the closed form has.
        """
        accepted = drafter.accepted(settings, settings["amusd_most"])
        if accepted.kinds is not None:
            raise CannotRun("AMUSD takes requests that are alike: give --alpha alone")
        pmf, given = accepted.pmf, settings["amusd_hit"]
        hit = 1.0 - float(pmf[0]) if given is None else given
        row = {"guessed": pmf * hit, "not guessed": pmf * (1.0 - hit)}
        return Kernel.by_state({"guessed": row, "not guessed": row})

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        return self._steps(site, drafter, self.lookahead(site.options))

    def _steps(self, site: Site, drafter: Drafter, lead: int) -> Mapping[str, Step]:
        draft = Step("draft", speculate(site, drafter, 1, beside=False))
        stale, _ = always_beside(site, site.verify_step("stale", 1), draft)
        verify, draft = always_beside(site, site.verify_step("verify", lead + 1), draft)
        return {
            "verify": verify,
            "stale": stale if _races(site.options) else Step("verify"),
            "sample": site.sampling_step(),
            "draft": draft,
            "shortest lead": Step("draft", draft.pieces * site.options["amusd_least"]),
            "outcome": site.outcome_message(lead + 1),
            "token": site.speculation_message(1),
        }

    def mean_round(self, round: Round) -> Estimate:
        rounds, verify_s = _long_run(round)
        sample_s = round.seconds["sample"]
        parts = dict.fromkeys(PARTS, 0.0 * rounds.seconds)
        waits = np.maximum(0.0, rounds.seconds - verify_s - sample_s)
        return Estimate(
            strategy=self.name,
            batch=round.batch,
            gpus=round.gpus,
            tokens_per_round=rounds.tokens,
            breakdown_s=parts | {"verify": verify_s + parts["verify"], "draft": waits, "host": sample_s},
        )

    def monte_carlo(self, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray]) -> RoundBlock:
        """Rounds one after the other; the block's last ones come before its first, so that none starts the run."""
        names = ("verify", "sample", "stale", "draft", "outcome", "token")
        columns = np.broadcast_arrays(np.zeros(outcomes.rounds), *(t[name] for name in names))[1:]
        play = _counted_round if _counts(t).any() else _ideal_round
        one = play(int(np.median(_least(t))), outcomes)
        times = list(zip(*(c.tolist() for c in columns), strict=True))
        for number in range(outcomes.rounds)[-_RUN_IN:]:
            one(*outcomes.one(number), *times[number])
        round_s, verify_s, accepted = np.empty(outcomes.rounds), np.empty(outcomes.rounds), []
        for number, of_round in enumerate(times):
            taken, round_s[number], verify_s[number] = one(*outcomes.one(number), *of_round)
            accepted.append(taken)
        return _with_parts(outcomes.shortened_to(accepted), t, round_s, verify_s)

    def clocked(self, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray], round_s: Array) -> RoundBlock:
        """Rounds timed by a clock: what is no pass is a wait for the draft, but waits before stale passes."""
        verify_s = np.minimum(t["verify"], round_s - t["sample"]) if _counts(t).any() else t["verify"]
        return _with_parts(outcomes, t, round_s, verify_s)

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return (with_counters if _races(options) else ideal)(options["amusd_least"], options["amusd_most"])

    def cannot_run(self, options: Mapping[str, Any]) -> str | None:
        return "AMUSD runs with one rank of the target" if options["tp"] > 1 else None


def _least(t: Mapping[str, Seconds]) -> Array:
    """Tokens that a pass waits for: any number, if the draft takes no time."""
    lead_s, token_s = (np.asarray(t[name], dtype=float) for name in ("shortest lead", "draft"))
    tokens = np.divide(lead_s, token_s, out=np.ones_like(lead_s * token_s), where=token_s > 0.0)
    return np.asarray(np.maximum(1.0, np.rint(tokens)))


def _races(options: Mapping[str, Any]) -> bool:
    return bool(options["amusd_handshake"] == "code")


def _counts(t: Mapping[str, Seconds]) -> NDArray[np.bool_]:
    """Tell per column whether the handshake is the code's: only that one has passes over one row."""
    return np.asarray(t["stale"]) > 0.0


def _long_run(round: Round) -> tuple[MeanRound, Array]:
    """The mean round, and its share of passes in seconds."""
    from ssdsim.tokens.free_running import (
        MeanRound,
        drawn_long_run,  # here, as below: other strategies start faster without
        long_run,
    )

    t, averages = round.seconds, round.averages
    assert averages.accepted is not None
    alike: dict[str, Any] = {"least": _least(t), "pass_s": t["verify"] + t["sample"], "token_s": t["draft"]}
    guessed, counts = averages.to["guessed"], _counts(t)
    rounds = long_run(averages.accepted, guessed, **alike, there_s=t["outcome"], back_s=t["token"])
    verify_s = np.asarray(t["verify"] + 0.0 * rounds.seconds)
    if not counts.any():
        return rounds, verify_s
    news_s, stale_s = t["outcome"] + t["token"], t["stale"] + t["sample"]
    raced, stale = drawn_long_run(averages.accepted, guessed, **alike, stale_s=stale_s, news_s=news_s)
    mixed_s = (1.0 - stale) * t["verify"] + stale * t["stale"]
    tokens, seconds, verify_s = (
        np.where(counts, drawn, sure)
        for drawn, sure in ((raced.tokens, rounds.tokens), (raced.seconds, rounds.seconds), (mixed_s, verify_s))
    )
    return MeanRound(tokens, seconds), verify_s


OneRound = Callable[..., tuple[int, float, float]]
"""What the longest pass would accept, was its bonus token guessed, seconds of the steps -> accepted, the round's and
the pass's seconds."""


def _ideal_round(least: int, outcomes: OutcomeBlock) -> OneRound:
    from ssdsim.tokens.free_running import FreeRun

    run = FreeRun(least, outcomes.most_accepted)

    def one(
        accepted: int, guessed: bool, verify_s: float, sample_s: float, stale_s: float, *others: float
    ) -> tuple[int, float, float]:
        taken, round_s = run.round(accepted, guessed, verify_s + sample_s, *others)
        return taken, round_s, verify_s

    return one


def _counted_round(least: int, outcomes: OutcomeBlock) -> OneRound:
    from ssdsim.tokens.free_running import CountedRun

    run = CountedRun(settled=outcomes.leads_to("not guessed").any())

    def one(
        accepted: int, guessed: bool, verify_s: float, sample_s: float, stale_s: float, token_s: float, *news_s: float
    ) -> tuple[int, float, float]:
        taken, round_s, stale = run.round(
            accepted,
            guessed,
            least=least,
            most=outcomes.most_accepted,
            pass_s=verify_s + sample_s,
            stale_s=stale_s + sample_s,
            token_s=token_s,
            news_s=sum(news_s),
        )
        return int(taken), float(round_s), stale_s if stale else verify_s

    return one


def _with_parts(
    outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray], round_s: Array, verify_s: FloatOrArray
) -> RoundBlock:
    parts: dict[str, FloatOrArray] = dict.fromkeys(PARTS, 0.0)
    waits = round_s - verify_s - t["sample"]
    return RoundBlock(outcomes, parts | {"verify": verify_s, "draft": waits, "host": t["sample"]}, round_s)


def ideal(least: int, most: int) -> dict[str, Program]:
    """The handshake of the paper: a divergence is known, and waited for, as soon as a message is there."""
    return {"target": partial(_target, least, most), "draft": _draft}


def with_counters(least: int, most: int) -> dict[str, Program]:
    """The handshake of the released code: counters of rollbacks, texts that are published at the end of a step."""
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
    """Draft token by token; where the target's text differs, restart from it and drop the last token."""
    epoch = 0
    for _ in me.rounds():
        yield me.do("draft")
        news = yield from me.look("outcome")
        if news and news[-1] != epoch:
            epoch = news[-1]
        else:
            me.post("target", "token", epoch, takes="token")


def _counting_target(least: int, most: int, me: Actor) -> Generator[Any, Any, None]:
    """The draft's text is the target's first ``taken`` tokens, then its own; stale if a later token was wrong."""
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
