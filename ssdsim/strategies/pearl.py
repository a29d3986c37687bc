"""PEARL: both models work in every step and meet at its end, so a draft is verified while the next one is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssdsim.base.errors import InputError
from ssdsim.base.kinds import NumberOrWord, Whole
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter, speculate
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece, Step
from ssdsim.rounds.kernel import Kernel, Tokens, tokens_of
from ssdsim.rounds.round import Round
from ssdsim.strategies.protocols.alternate import PrePost
from ssdsim.strategies.protocols.axes import LookaheadAxis
from ssdsim.strategies.protocols.strategy import own_lookahead

ADAPTIVE = "adaptive"
_GAMMAS = LookaheadAxis(option="gamma", about="PEARL's tokens a draft that may be chosen [default: 1:16]")
_PROFILED = (1, 2, 4, 8, 16, 32)
"""Sequences at which engines time both models; others have gamma of the next larger (nano-PEARL, TensorRT-LLM)."""
_AT, _BEHIND = "gamma_profiled", "gamma_behind"
_LITTLE = 0.01  # of tokens/s that another gamma would gain


class PEARL(PrePost):
    """``R = (1 - a^g) / [(1 - a) (1 + a - a^g) max(g d, 1)]`` tokens per T_v, for g tokens a draft and d = T_d / T_v.

    In the state ``pre`` the target checks the draft's first new token while g are drafted, in ``post`` also the g - 1
    that are pending from the step before. A rejection yields its correction and leads to ``pre``. The first new token
    is tested by rejection sampling in place of a bonus token. The draft sends while the target verifies. In a batch a
    step is a ``post`` step where it is one for some sequence.
    """

    name = "pearl"
    title = "PEARL"
    source = "Liu et al., ICLR 2025, arXiv 2408.11850"
    rival = "sd"
    drafted = "gamma"
    in_columns = True
    searched = (_GAMMAS,)
    options = (
        own_lookahead(
            name="gamma",
            kind=NumberOrWord(Whole(most=1_000), ADAPTIVE),
            about="PEARL's tokens a draft; adaptive: as many as fill a pass of the target, by batch as engines time it",
            axis="PEARL's tokens a draft γ",
            symbol="γ",
        ),
    )

    def follows_batch(self, options: Mapping[str, Any]) -> bool:
        return options.get("gamma") == ADAPTIVE or options.get(_AT) is not None

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        if settings["gamma"] == ADAPTIVE:
            gamma, at = _filling(site, drafter)
            settings.settle("gamma", gamma, f"{ADAPTIVE}: drafted and sent in a pass of the target at batch {at}")
            settings.settle(_AT, at, "the batch at which speeds are timed")
            if behind := self._behind(settings, site, drafter):
                settings.settle(_BEHIND, behind, "beside each gamma that a search tries")
        super().settle(settings, site, drafter)

    def _behind(self, settings: Settings, site: Site, drafter: Drafter) -> str:
        """What the best gamma would gain, in words; empty where that is little, or acceptance there is not known."""
        speeds = {}
        for gamma in range(1, _GAMMAS.most + 1):
            choice = settings.copy()
            choice.settle("gamma", gamma, "tried")
            try:
                averages = self.kernel(choice, drafter).averages
            except InputError:
                break
            steps = PrePost.steps(self, site.with_options(choice), drafter)
            seconds = {name: step.seconds for name, step in steps.items()}
            speeds[gamma] = float(self.closed_form(Round(site.batch, 1, seconds, averages)).tokens_per_second)
        best, own = max(speeds, key=speeds.__getitem__, default=0), settings["gamma"]
        if own not in speeds or speeds[best] < speeds[own] * (1.0 + _LITTLE):
            return ""
        gain = 100.0 * (speeds[best] / speeds[own] - 1.0)
        return f"PEARL's adaptive gamma at batch {site.batch} is {own}: {best} makes {gain:.0f} % more tokens/s"

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        steps, behind = super().steps(site, drafter), site.options.get(_BEHIND)
        return {**steps, "verify": steps["verify"].warning(behind)} if behind else steps

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        return tokens_of(drafter.accepted(settings, settings["gamma"]), Kernel.of_windows)

    def drafting(self, site: Site, drafter: Drafter) -> tuple[Piece, ...]:
        return speculate(site, drafter, self.lookahead(site.options), beside=False)


def _filling(site: Site, drafter: Drafter) -> tuple[int, int]:
    """The gamma whose passes and message fill one pass of the target, a row a sequence; the batch at which it is timed.

    It is the nearest of those that a search tries. On one node, where messages take no time, it is the ratio of the two
    models' speeds, rounded.
    """
    at = next((each for each in _PROFILED if each >= site.batch), _PROFILED[-1])
    there = site.with_batch(at)
    verify_s = there.verify_step("pre-verify", 1).seconds

    def early_s(gamma: int) -> float:
        draft = Step("draft", speculate(there, drafter, gamma, beside=False))
        return verify_s - draft.seconds - there.speculation_message(gamma).seconds

    return min(range(_GAMMAS.most, 0, -1), key=lambda gamma: abs(early_s(gamma))), at
