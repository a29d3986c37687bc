"""AMUSD: draft and target run without a pause; a mismatch makes the draft start again from the target's text."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.checks import FloatOrArray
from ssdsim.kinds import SHARE, Whole
from ssdsim.option import Option
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.occupancy import Occupancy, target_alone
from ssdsim.pricing.prespeculation import always_beside
from ssdsim.pricing.room import Devices, NoRoom
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step, unit_free
from ssdsim.protocols.lockstep import Lockstep
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.block import RoundBlock
from ssdsim.rounds.estimate import PARTS, Estimate
from ssdsim.rounds.kernel import Kernel, Tokens
from ssdsim.rounds.outcomes import OutcomeBlock
from ssdsim.rounds.round import Round, Seconds
from ssdsim.settings import Settings
from ssdsim.speculation.free_running import FreeRun, long_run

_MOST_LEAD = 64


class AMUSD(Lockstep):
    """A round is a pass over all that the draft is ahead by: ``m`` tokens, at least two; it yields the accepted and
    one more token.

    Every divergence starts the same path anew, so the long run is a sum over the passes since the last one
    (:func:`ssdsim.speculation.free_running.long_run`): exact for constant durations, messages included. The first token
    drafted after all that was verified is the draft's guess of the bonus token, right with probability ``amusd_hit``;
    a wrong one is a divergence (the released code does not notice it: settled here). Tokens are alike wherever in a
    pass they are, and a pass is as wide as the longest lead that may be verified. Greedy decoding of one sequence.
    """

    name = "amusd"
    title = "AMUSD"
    source = "McDanel, ISCAS 2025, arXiv 2410.17375"
    rival = "sd"
    most_sequences = 1
    free_running = True
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
            otherwise=f"twice what is drafted during a pass, at most {_MOST_LEAD}",
        ),
        Option(
            name="amusd_hit",
            kind=SHARE,
            about="P(AMUSD's draft guesses the bonus token)",
            axis="hit rate of the guessed bonus token",
            otherwise="--alpha, which greedy decoding makes it",
        ),
    )

    def settle(self, settings: Settings, site: Site | None, drafter: Drafter) -> None:
        if settings["amusd_most"] is None:
            alone = self.unit_free_steps(settings) if site is None else self._steps(site, drafter, 1)
            pass_s, token_s = alone["verify"].seconds + alone["sample"].seconds, alone["draft"].seconds
            during = math.ceil(pass_s / token_s) if token_s * _MOST_LEAD > pass_s else _MOST_LEAD
            most = max(settings["amusd_least"], min(2 * during + 2, _MOST_LEAD))
            alpha = settings["alpha"]
            by_position = len(alpha) if isinstance(alpha, list | tuple) else most
            settings.derive("amusd_most", min(most, by_position), "more than the draft makes during a pass")

    def lookahead(self, options: Mapping[str, Any]) -> int:
        return int(options["amusd_most"])

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        """Of the longest pass; a shorter one accepts no more than it verifies. States: was the bonus guessed.

        Raises
        ------
        NoRoom : requests differ, whose passes depend on each other in more than the closed form has.
        """
        accepted = drafter.accepted(settings, settings["amusd_most"])
        if accepted.kinds is not None:
            raise NoRoom("AMUSD takes requests that are alike: give --alpha alone")
        pmf, given = accepted.pmf, settings["amusd_hit"]
        hit = 1.0 - float(pmf[0]) if given is None else given
        row = {"guessed": pmf * hit, "not guessed": pmf * (1.0 - hit)}
        return Kernel.by_state({"guessed": row, "not guessed": row})

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        return Devices(tp, int(drafter.needs_device))

    def occupancies(self, site: Site, drafter: Drafter) -> Iterable[Occupancy]:
        most = self.lookahead(site.options)
        yield target_alone(site, most)
        if drafter.needs_device:
            what = f"{site.draft.name} on a device of its own (AMUSD)"
            yield Occupancy(what, [drafter.demand(site, most, 0)], site.draft_profile)

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        return self._steps(site, drafter, self.lookahead(site.options))

    def _steps(self, site: Site, drafter: Drafter, lead: int) -> Mapping[str, Step]:
        draft = Step("draft", drafter.speculate(site, 1, beside=False))
        verify = Step("verify", (site.piece(site.target_pass("verify", lead + 1)),))
        verify, draft = always_beside(site, verify, draft)
        return {
            "verify": verify,
            "sample": site.sampling_step(),
            "draft": draft,
            "shortest lead": Step("draft", draft.pieces * site.options["amusd_least"]),
            "outcome": site.outcome_message(lead + 1),
            "token": site.speculation_message(1),
        }

    def unit_free_steps(self, settings: Settings) -> Mapping[str, Step]:
        draft_step = settings["t_sd"] / settings["k"]
        return {
            "verify": unit_free("verify", ("verify", 1.0, 1)),
            "sample": Step("host"),
            "draft": unit_free("draft", ("draft step", draft_step, 1)),
            "shortest lead": unit_free("draft", ("draft step", draft_step, settings["amusd_least"])),
            "outcome": Step("communicate"),
            "token": Step("communicate"),
        }

    def closed_form(self, round: Round) -> Estimate:
        t, averages = round.seconds, round.averages
        assert averages.accepted is not None
        rounds = long_run(
            averages.accepted,
            averages.to["guessed"],
            least=_least(t),
            pass_s=t["verify"] + t["sample"],
            token_s=t["draft"],
            there_s=t["outcome"],
            back_s=t["token"],
        )
        parts = dict.fromkeys(PARTS, 0.0 * rounds.seconds)
        waits = rounds.seconds - t["verify"] - t["sample"]
        return Estimate(
            strategy=self.name,
            batch=round.batch,
            gpus=round.gpus,
            tokens_per_round=rounds.tokens,
            breakdown_s=parts | {"verify": t["verify"] + parts["verify"], "draft": waits, "host": t["sample"]},
        )

    def monte_carlo(self, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray]) -> RoundBlock:
        """Rounds since a divergence, one after the other; a block starts as a divergence does."""
        run = FreeRun(int(np.median(_least(t))), outcomes.most_accepted)
        columns = np.broadcast_arrays(
            np.zeros(outcomes.rounds), t["verify"] + t["sample"], t["draft"], t["outcome"], t["token"]
        )
        round_s, accepted = np.empty(outcomes.rounds), []
        for number, (_, pass_s, token_s, there_s, back_s) in enumerate(
            zip(*(c.tolist() for c in columns), strict=True)
        ):
            most, guessed = outcomes.one(number)
            taken, round_s[number] = run.round(most, guessed, pass_s, token_s, there_s, back_s)
            accepted.append(taken)
        return self.clocked(outcomes.shortened_to(accepted), t, round_s)

    def clocked(
        self, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray], round_s: NDArray[np.float64]
    ) -> RoundBlock:
        """What is no pass is waiting for the draft."""
        parts: dict[str, FloatOrArray] = dict.fromkeys(PARTS, 0.0)
        waits = round_s - t["verify"] - t["sample"]
        return RoundBlock(outcomes, parts | {"verify": t["verify"], "draft": waits, "host": t["sample"]}, round_s)

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {"target": partial(_target, options["amusd_least"], options["amusd_most"]), "draft": _draft}

    def cannot_run(self, options: Mapping[str, Any]) -> str | None:
        return "AMUSD runs with one rank of the target" if options["tp"] > 1 else None


def _least(t: Mapping[str, Seconds]) -> NDArray[np.float64]:
    """How many tokens a pass waits for (of a draft that takes no time any number)."""
    lead_s, token_s = (np.asarray(t[name], dtype=float) for name in ("shortest lead", "draft"))
    tokens = np.divide(lead_s, token_s, out=np.ones_like(lead_s * token_s), where=token_s > 0.0)
    return np.asarray(np.maximum(1.0, np.rint(tokens)))


def _target(least: int, most: int, me: Actor) -> Generator[Any, Any, None]:
    epoch = lead = 0  # divergences so far, and tokens that the draft is ahead by; those of an older epoch are void
    for _ in me.rounds():
        lead += (yield from me.look("token")).count(epoch)
        while lead < least:
            lead += int((yield me.receive("token")) == epoch)
        verified = min(lead, most)
        yield me.do("verify")
        yield me.do("sample")
        if me.judge(verified):
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
