"""Adaptive verification: of what was drafted, only tokens that are likely enough to be accepted get a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.errors import CannotRun, InputError
from ssdsim.base.kinds import Number, Whole
from ssdsim.base.option import Option
from ssdsim.base.settings import GIVEN, Settings
from ssdsim.pricing.drafter import Drafter, speculate
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.kernel import ChosenRows, Kernel, Tokens
from ssdsim.strategies.protocols.alternate import PLACES, SD_DRAFT, Alternate, is_apart
from ssdsim.strategies.protocols.axes import LookaheadAxis
from ssdsim.strategies.protocols.gate import CONFIDENCE_SPREAD
from ssdsim.strategies.protocols.strategy import own_lookahead
from ssdsim.tokens.acceptance import rates_of
from ssdsim.tokens.confidence import accepted_pmf, best_rows

_LONGEST = 64
_OLDEST = 8


class Adaptive(Alternate):
    """``R = b E(n) / (T_d + T_v(b (1 + n)))`` with the best number ``n`` of verified tokens a sequence.

    A round drafts K tokens of every sequence, whatever is verified of them. The target's pass has a row for each
    sequence and ``b n`` more, for the tokens of the batch that are likeliest to be accepted. A token's chance is the
    product of the confidences up to it, which are calibrated and have one concentration
    (:mod:`ssdsim.tokens.confidence`). The form is that of a large batch, where the likeliest tokens are those
    above a threshold. vLLM chooses the rows anew in each round, from confidences one step old: at the default spread
    that yields up to 0.7 % less in batches from 8 on.
    """

    name = "adaptive"
    title = "Adaptive SD"
    source = "Cheng et al., 2026, arXiv 2607.05147; vLLM PR 52228"
    rival = "sd"
    drafted = "adaptive_k"
    searched = (
        PLACES,
        LookaheadAxis(option="adaptive_k", about="adaptive SD's blocks that may be chosen [default: 1:16]"),
    )
    shown_settings = ("adaptive_rows",)
    options = (
        SD_DRAFT,
        own_lookahead(
            name="adaptive_k",
            about="tokens that adaptive SD drafts",
            axis="adaptive SD's drafted tokens K",
            symbol="K",
            kind=Whole(most=_LONGEST),
        ),
        Option(
            name="adaptive_rows",
            kind=Number(float(_LONGEST)),
            about="drafted tokens a sequence that adaptive SD verifies on average",
            axis="adaptive SD's verified tokens n",
            default_note="those of the most tokens/s",
            symbol="n",
        ),
        CONFIDENCE_SPREAD,
        Option(
            name="adaptive_lag",
            kind=Whole(least=0, most=_OLDEST),
            default=1,
            about="age in rounds of the confidences that say how many rows there are (of drawn rounds; vLLM: 1)",
            axis="age of confidences (rounds)",
        ),
        Option(
            name="adaptive_ms",
            kind=Number(1e6),
            default=0.0,
            about="time a round in which adaptive SD chooses rows (ms; T_v with --t-sd)",
            axis="choice of rows (ms)",
        ),
    )

    def follows_batch(self, options: Mapping[str, Any]) -> bool:
        return True

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        super().settle(settings, site, drafter)
        _ = settings["adaptive_lag"]  # read, since drawn rounds rest on it; their mean does not
        k = self.lookahead(settings)
        if settings["adaptive_rows"] is None:
            round_s = _rounds_s(self._steps(site, drafter, k))
            rates, concentration, b = _rates(settings, drafter), float(settings["confidence_spread"]), settings["b"]
            best = best_rows(rates, concentration, lambda rows: round_s(b * (1.0 + rows)))
            settings.derive("adaptive_rows", best, "those of the most tokens/s")
        if settings["adaptive_rows"] > k:
            raise InputError(f"--adaptive-rows {settings['adaptive_rows']:g} is more than the {k} that are drafted")

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        rates, concentration = _rates(settings, drafter), float(settings["confidence_spread"])
        return Kernel.of_tokens(accepted_pmf(rates, concentration, float(settings["adaptive_rows"])))

    def drawn_from(self, tokens: Tokens, settings: Settings, steps: Mapping[str, Step], drafter: Drafter) -> Tokens:
        assert isinstance(tokens, Kernel)
        b, k = settings["b"], self.lookahead(settings)
        return ChosenRows(
            tokens.states,
            tokens.p,
            rates=_rates(settings, drafter),
            concentration=float(settings["confidence_spread"]),
            seconds=_rounds_s(steps)(b + np.arange(b * k + 1)),
            lag=settings["adaptive_lag"],
            budget=round(b * settings["adaptive_rows"]) if settings.source("adaptive_rows") == GIVEN else None,
        )

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        return self._steps(site, drafter, site.options["adaptive_rows"])

    def _steps(self, site: Site, drafter: Drafter, rows: float) -> Mapping[str, Step]:
        draft = speculate(site, drafter, self.lookahead(site.options), beside=not is_apart(site.options, drafter))
        b, k = site.options["b"], self.lookahead(site.options)
        verify = site.ragged_step("verify", {b * (1.0 + rows): 1.0}, b * (1 + k))
        steps = self.round_steps(site, drafter, Step("draft", draft), verify)
        choose = site.on_host("choose rows", site.options["adaptive_ms"] * (1.0 if site.unit_free else 1e-3))
        return {**steps, "sample": Step("host", (choose, *steps["sample"].pieces))}


def _rounds_s(steps: Mapping[str, Step]) -> Callable[[FloatOrArray], Array]:
    """Seconds of rounds by the rows of their passes."""
    table = steps["verify"].by_rows
    assert table is not None
    beside_s = sum(step.seconds for name, step in steps.items() if name != "verify")
    return lambda rows: beside_s + table.at(rows)


def _rates(settings: Settings, drafter: Drafter) -> tuple[float, ...]:
    """Acceptance rates by position.

    Raises
    ------
    CannotRun : requests differ, whose confidences nobody has described.
    """
    accepted = drafter.accepted(settings, settings["adaptive_k"])
    if accepted.kinds is not None:
        raise CannotRun("adaptive SD takes requests that are alike: give --alpha alone")
    return tuple(rates_of(accepted.pmf).tolist())
