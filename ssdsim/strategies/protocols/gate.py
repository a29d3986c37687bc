"""Drafts that end at a token of little confidence: which tokens are proposed, and what passes and rows that takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.errors import CannotRun
from ssdsim.base.kinds import SHARE, Number
from ssdsim.base.option import Excludes, Group, Option, Section, choice
from ssdsim.base.record import Record, replace
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece, RowTable, Step
from ssdsim.rounds.kernel import GatedDrafts, Kernel, Tokens
from ssdsim.tokens.acceptance import rates_of
from ssdsim.tokens.acceptance_models import RequestKinds
from ssdsim.tokens.accepted import Accepted
from ssdsim.tokens.confidence import passing

_NEVER = 1e-12  # chances below it are left out

P_MIN = choice(
    name="draft_p_min",
    section=Section.ACCEPTANCE,
    kind=SHARE,
    about="SD's draft of a sequence ends at the first token of less confidence (llama.cpp's --spec-draft-p-min)",
    axis="least confidence of a draft",
    default_note="0: always K tokens",
    excludes=(
        Excludes(("acceptance_floor",), "{it} has no effect with --draft-p-min (no engine has both): give one of them"),
    ),
)
CONFIDENCE_SPREAD = Option(
    name="confidence_spread",
    kind=Number(1e6),
    default=2.8,
    about="a + b of the Beta of a drafter's confidences: 0.05 knows the outcome, 1000 knows nothing",
    axis="spread of confidences s",
    groups=(Group.ACCEPTANCE,),
    plausible=(1.8, 5.0),
)
OPTIONS = (P_MIN, CONFIDENCE_SPREAD)


class Gate(Record):
    """Drafts of K tokens whose confidences are ``Beta(a s, (1 - a) s)`` about the acceptance ``rates`` by position.

    All sequences of a batch draft together: as long as one goes on, there is another pass. The pass of the token that
    is not proposed was made. Requests that differ are taken as one, with the rates of all their rounds.
    """

    rates: Array
    concentration: float
    least: float

    @classmethod
    def of(cls, settings: Mapping[str, Any], drafter: Drafter, accepted: Accepted) -> Gate:
        """The gate that the options ask for.

        Raises
        ------
        CannotRun : what drafts states no confidence, or the target is on several stages.
        """
        if settings["pp"] > 1:
            raise CannotRun("--draft-p-min over pipeline stages (--pp) is not described")
        if not drafter.needs_device:
            raise CannotRun(f"{drafter.title} states no confidence in its tokens: give no --draft-p-min")
        pmf = accepted.pmf if accepted.kinds is None else _of_all_rounds(accepted.kinds)
        return cls(rates_of(pmf), float(settings["confidence_spread"]), float(settings["draft_p_min"]))

    @property
    def accepted_pmf(self) -> Array:
        """P(exactly k tokens are proposed and accepted), the last axis ``(K+1,)``."""
        reached = np.cumprod(passing(self.rates, self.concentration, self.least)[1], axis=-1)
        ends = [(0, 0)] * (reached.ndim - 1)
        at_least = np.pad(np.pad(reached, [*ends, (1, 0)], constant_values=1.0), [*ends, (0, 1)])
        return np.maximum(0.0, -np.diff(at_least, axis=-1))

    @property
    def proposed(self) -> Array:
        """P(exactly n tokens of a sequence are proposed), shape ``(K+1,)``."""
        at_least = np.cumprod(passing(self.rates, self.concentration, self.least)[0])
        return np.maximum(0.0, -np.diff([1.0, *at_least, 0.0]))

    def passes(self, batch: int) -> float:
        """Passes of the draft on average: the first, and one more as long as some sequence goes on."""
        ended = np.cumsum(self.proposed)[:-2]  # before the second, third, ... pass
        return 1.0 + float(np.sum(1.0 - ended**batch))

    def rows(self, batch: int) -> Mapping[float, float]:
        """P(so many rows are in the target's pass)."""
        size = 1 + batch * (self.rates.size)
        chances = np.fft.irfft(np.fft.rfft(self.proposed, 2 * size) ** batch, 2 * size)[:size]
        kept = np.flatnonzero(chances > _NEVER)
        total = float(chances[kept].sum())
        return {float(batch + n): float(chances[n]) / total for n in kept.tolist()}

    def draft(self, step: Step, batch: int) -> Step:
        """The step of a whole draft, with the passes that are made.

        Raises
        ------
        CannotRun : it has stages of its own.
        """
        k = self.rates.size
        if any(piece.drawn is not None for piece in step.pieces):
            raise CannotRun("--draft-p-min: what it does to a draft with --staged-by is not described")
        numbers = np.arange(1.0, k + 1.0)
        seconds = [replace(step, pieces=_with_passes(step.pieces, k, each)).seconds for each in numbers.tolist()]
        table = RowTable(1, k, numbers, np.array(seconds), of_passes=True)
        return replace(step, pieces=_with_passes(step.pieces, k, self.passes(batch)), by_rows=table)

    def verify(self, site: Site) -> Step:
        """The target's pass over what is proposed."""
        batch = int(site.options["b"])
        return site.ragged_step("verify", self.rows(batch), batch * (1 + self.rates.size))

    def drawn(self, kernel: Tokens) -> GatedDrafts:
        """The literal rule of drawn rounds."""
        assert isinstance(kernel, Kernel)
        rates = tuple(self.rates.tolist())
        return GatedDrafts(kernel.states, kernel.p, rates=rates, concentration=self.concentration, least=self.least)


def _of_all_rounds(kinds: RequestKinds) -> Array:
    """Accepted lengths over the rounds of long answers, of which a slow kind of request has more."""
    rounds = kinds.weights / (kinds.pmfs @ np.arange(1.0, kinds.pmfs.shape[1] + 1.0))
    return np.asarray(rounds @ kinds.pmfs / rounds.sum())


def _with_passes(pieces: Sequence[Piece], k: int, passes: float) -> tuple[Piece, ...]:
    """The pieces of a draft of K tokens in so many passes: of the first, of every one, of all but the first."""

    def times(number: int, piece: Piece) -> float:
        if piece.times == k:
            return passes
        return piece.times if number == 0 else piece.times * (passes - 1.0) / max(k - 1.0, 1.0)

    return tuple(replace(piece, times=times(number, piece)) for number, piece in enumerate(pieces))
