"""Speculative decoding: K draft steps, then one verification; they alternate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.option import Section
from ssdsim.base.record import replace
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter, Proposed, speculate
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.kernel import Kernel, Tokens, tokens_of
from ssdsim.strategies.protocols.alternate import PLACES, SD_DRAFT, Alternate, is_apart
from ssdsim.strategies.protocols.axes import LOOKAHEAD, SAGUARO
from ssdsim.strategies.protocols.hits import SAGUARO_C, fan_out_of, now_and_then
from ssdsim.strategies.protocols.shared import (
    SHARED_DRAFT_OPTIONS,
    TARGETS_AXIS,
    cannot_share,
    check_shared,
    drafting_at,
    in_each_way,
)
from ssdsim.strategies.protocols.strategy import own_lookahead
from ssdsim.tokens.saguaro import scale_of

_SD_K = own_lookahead(name="sd_k", about="SD's own lookahead", axis="SD's lookahead (tokens)", section=Section.START)


class Speculative(Alternate):
    """``E / (K T_d + T_v + overheads)``, with the draft beside the target or on a device of its own.

    That device may serve several targets: StarSD, arXiv 2601.21622, of which no table was published.
    """

    name = "sd"
    title = "SD"
    source = "Leviathan et al., 2023"
    rival = "ar"
    drafted = "sd_k"
    staged = True
    in_columns = True
    searched = (PLACES, TARGETS_AXIS, LOOKAHEAD, replace(SAGUARO, strategy="sd"))
    options = (_SD_K, SD_DRAFT, SAGUARO_C, *SHARED_DRAFT_OPTIONS)

    def alternatives(self, settings: Settings) -> Iterable[Settings]:
        if settings["sd_draft"] == "colocated" and settings["t_sd"] is None:
            return (settings,)
        return in_each_way(settings)

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        super().settle(settings, site, drafter)
        if settings["sd_draft"] == "separate":
            check_shared(settings, drafter)
        if site.unit_free and drafter.needs_device and settings["targets"] > 1:
            settings.settle("sd_draft", "separate", "a draft of several targets is on none of their devices")

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        scale = scale_of(settings)
        drafting = settings if scale is None else scale.accepting(settings, fan_out_of(settings))
        accepted = drafter.accepted(drafting, settings["sd_k"])
        proposed = drafter.proposes(settings, settings["sd_k"])
        alike = proposed.share in (0.0, 1.0)
        return tokens_of(accepted, Kernel.of_tokens if alike else lambda pmf: _now_and_then(pmf, proposed))

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        k = self.lookahead(site.options)
        apart = is_apart(site.options, drafter)
        drafting = drafting_at(site, self.options) if apart else site
        draft = Step("draft", speculate(drafting, drafter, k, beside=not apart))
        proposed = drafter.proposes(site.options, k)
        verify = site.mixed_step("verify", (1 + proposed.tokens, 1), proposed.share)
        return self.round_steps(site, drafter, draft, verify)

    def cannot_run(self, options: Mapping[str, Any]) -> str | None:
        return cannot_share(self.options, options, caches=False)


class Paused(Speculative):
    """SD that drafts nothing for now: one step of decoding, after a draft pass over the target's tokens.

    Engines that vary K run that pass at K 0 too, so that the draft's cache is there when K rises again (vLLM PR 32374).
    What looks up instead of drafting has no cache, and no pass.
    """

    def lookahead(self, options: Mapping[str, Any]) -> int:
        return 0

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        return Kernel.of_tokens(np.ones(1))

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        apart = is_apart(site.options, drafter)
        drafting = drafting_at(site, self.options) if apart else site
        synced = speculate(drafting, drafter, 1, beside=not apart) if drafter.needs_device else ()
        steps = self.round_steps(site, drafter, Step("draft", synced), site.verify_step("decode", 1))
        nothing_told = Step("communicate")
        return {**steps, "sample": site.sampling_step(speculates=False), "speculation": nothing_told}


def _now_and_then(pmf: Array, proposed: Proposed) -> Kernel:
    """A drafter that proposes in a share of rounds, independently; in the others a step decodes."""
    nothing = np.eye(pmf.shape[-1])[0]
    something = np.maximum(0.0, pmf - (1.0 - proposed.share) * nothing)
    something /= something.sum(axis=-1, keepdims=True)
    return now_and_then(something, nothing, proposed.share, (1 + proposed.tokens, 1))
