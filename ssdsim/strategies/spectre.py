"""SPECTRE: the draft is another tenant's model that works beside the target; where most of a batch fail, all wait."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.errors import CannotRun
from ssdsim.base.kinds import SHARE, Number, Whole
from ssdsim.base.option import Option
from ssdsim.base.settings import Settings
from ssdsim.pricing.contention import beside_each_other
from ssdsim.pricing.drafter import Drafter, speculate
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.kernel import AGAIN, POST, PRE, Kernel, Retried, Tokens
from ssdsim.rounds.round import Seconds, States
from ssdsim.strategies.protocols.axes import LookaheadAxis
from ssdsim.strategies.protocols.strategy import Strategy, late, own_lookahead
from ssdsim.tokens.chains import Retrying, retrying_of

PEARLS, RETRIES = "rounds are PEARL's", "most rounds are retried"
_ALIKE = 1e-9  # all of a batch are retried, or none
_LASTS = 100  # rounds
_MOST = 256  # sequences of the chain, which stands for larger batches, too; drawn rounds have them all


class Spectre(Strategy):
    """PEARL with ``gamma = K + 1`` whose batch drafts anew together where too many failed: no closed form is printed.

    The target verifies K drafts of every sequence (junk where there are none: the rows stay) while the draft guesses
    the bonus token and makes K more. They are the next drafts where all were accepted and the guess was right; else the
    next verification yields one token. Where more than ``--spectre-ratio`` of a batch of more than ``--spectre-least``
    failed, those draft at once, and all wait: ``max(1, (K + 1) d + messages) + K d + messages``. How many sequences
    have drafts is a Markov chain, solved exactly (:mod:`ssdsim.tokens.chains`). It may have two branches that
    both last: PEARL's, and that in which every round is retried. A step of AR, where more than half of a small batch
    has no draft, is not described.
    """

    name = "spectre"
    title = "SPECTRE"
    source = "arXiv 2605.08151; SGLang PR 22272, spectre_worker.py d0e56df"
    rival = "pearl"
    drafted = "spectre_k"
    drafts_ahead = True
    searched = (LookaheadAxis(option="spectre_k", about="SPECTRE's tokens a draft that may be chosen [default: 1:16]"),)
    options = (
        own_lookahead(
            name="spectre_k", about="SPECTRE's tokens a draft", axis="SPECTRE's tokens a draft K", symbol="K"
        ),
        Option(
            name="spectre_ratio",
            kind=SHARE,
            default=0.5,
            about="share of a batch that may fail before all wait for new drafts (1: never)",
            axis="SPECTRE's retry ratio",
        ),
        Option(
            name="spectre_least",
            kind=Whole(least=0, most=1_000),
            default=4,
            about="sequences up to which SPECTRE never drafts anew for a batch",
            axis="SPECTRE's least batch with retries",
        ),
        Option(
            name="spectre_load",
            kind=Number(0.99),
            default=0.0,
            about="share of the draft's time that its own tenant takes: drafts take 1 / (1 - load) as long",
            axis="the draft's own load",
        ),
    )

    def follows_batch(self, options: Mapping[str, Any]) -> bool:
        return True

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        super().settle(settings, site, drafter)
        settings.settle(
            "spectre_branch", _branch_warning(_retrying(settings, _alone(settings, drafter))), "by the chain of batches"
        )

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        alone = _alone(settings, drafter)
        retrying, whole = _retrying(settings, alone), _retrying(settings, alone, most=None)
        rows = {state: _row(alone, retrying, state) for state in (AGAIN, PRE, POST)}  # the first is all of a batch's
        mean = Kernel.by_state(rows, _ALIKE)
        return Retried(mean.states, mean.p, _ALIKE, alone=alone, most_failed=whole.most_failed)

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        k, slower = self.lookahead(site.options), 1.0 / (1.0 - float(site.options["spectre_load"]))
        draft = Step("draft", speculate(site, drafter, k + 1, beside=False)).stretched(slower)
        verify, draft = beside_each_other(site, site.verify_step("verify", k + 1), draft)
        branch = site.options["spectre_branch"]
        if branch != PEARLS:
            verify = verify.warning(f"SPECTRE at batch {site.batch}: {branch} (--spectre-ratio)")
        inline = Step("fallback", speculate(site, drafter, k, beside=False)).with_piece_name("inline step")
        return {
            "verify": verify,
            "sample": site.sampling_step(),
            "draft": draft,
            "outcome": site.outcome_message(k + 1),
            "speculation": site.speculation_message(k + 1),
            "inline": inline.stretched(slower),
            "retried": site.speculation_message(k),
        }

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        retried = states.any_to(AGAIN)
        return {
            "verify": t["verify"],
            "draft": late(t["draft"] + t["speculation"], t["verify"]),
            "communicate": t["outcome"],
            "fallback": retried * (t["inline"] + t["retried"]),
            "host": t["sample"],
        }

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {"target": _target, "draft": _draft}


def _alone(settings: Settings, drafter: Drafter) -> Kernel:
    """Kernel of a sequence without the rule: PEARL's, with K + 1 tokens.

    Raises
    ------
    CannotRun : requests differ, whose batches nobody has described.
    """
    accepted = drafter.accepted(settings, int(settings["spectre_k"]) + 1)
    if accepted.kinds is not None:
        raise CannotRun("SPECTRE takes requests that are alike: give --alpha alone")
    return Kernel.of_windows(accepted.pmf)


def _retrying(settings: Mapping[str, Any], alone: Kernel, most: int | None = _MOST) -> Retrying:
    """Retries of the batch, or of the ``most`` sequences that stand for it."""
    after_none, after_drafts = alone.transitions[:, 1].tolist()
    ratio, least, batch = float(settings["spectre_ratio"]), int(settings["spectre_least"]), int(settings["b"])
    never = batch <= least
    stands_for_it = batch if most is None else min(batch, most)
    return retrying_of(stands_for_it, after_drafts, after_none, ratio, stands_for_it if never else 0)


def _row(alone: Kernel, retrying: Retrying, state: str) -> Mapping[str, Array]:
    """Accepted tokens with the state that a round leads to, from one in ``state``; over what the others do."""
    failed, kept = (alone.p[int(state != PRE), 1:, to] for to in (0, 1))
    after_failing, after_keeping = (retrying.retried_with(state, each) for each in (False, True))
    return {
        PRE: (1.0 - after_failing) * failed,
        POST: (1.0 - after_keeping) * kept,
        AGAIN: after_failing * failed + after_keeping * kept,
    }


def _branch_warning(retrying: Retrying) -> str:
    """Warning about the branch that a batch is in, or about both if it stays in each for ``_LASTS`` rounds."""
    stays, begins = retrying.branches
    if 0.0 < retrying.retries < 1.0 and max(1.0 - stays, begins) < 1.0 / _LASTS:
        return f"two branches last, {PEARLS} {1.0 - retrying.retries:.0%} of rounds, {RETRIES} {retrying.retries:.0%}"
    return RETRIES if retrying.retries > 0.5 else PEARLS


def _target(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        retried = me.any_to(AGAIN)
        yield me.do("verify")
        yield me.receive("speculation")
        yield me.do("sample")
        yield me.send("draft", "outcome", int(retried))
        if retried:
            yield me.receive("retried")
        me.end_round()


def _draft(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        yield me.do("draft")
        yield me.send("target", "speculation")
        if (yield me.receive("outcome")):
            yield me.do("inline")
            yield me.send("target", "retried")
