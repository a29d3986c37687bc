"""Speculative decoding: K draft steps, then one verification; they alternate."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.errors import CannotRun
from ssdsim.base.kinds import SHARE
from ssdsim.base.option import Group, Option, Section
from ssdsim.base.record import replace
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter, Proposed, speculate
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.kernel import OFF, Kernel, Tokens, switched_off, tokens_of
from ssdsim.rounds.round import Seconds, States
from ssdsim.strategies.protocols.alternate import PLACES, SD_DRAFT, Alternate, is_apart
from ssdsim.strategies.protocols.axes import LOOKAHEAD, SAGUARO
from ssdsim.strategies.protocols.gate import OPTIONS, Gate
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
from ssdsim.tokens.accepted import Accepted
from ssdsim.tokens.saguaro import scale_of

_SD_K = own_lookahead(name="sd_k", about="SD's own lookahead", axis="SD's lookahead (tokens)", section=Section.START)

_FLOOR = Option(
    name="acceptance_floor",
    section=Section.ACCEPTANCE,
    kind=SHARE,
    about="accepted share of drafted tokens below which SD drafts no more (TensorRT-LLM's acceptance_rate_threshold)",
    axis="acceptance floor",
    default_note="none: SD always drafts",
    groups=(Group.CHOICE,),
)
DECODE, SAMPLE_ALONE = "decode", "sample alone"
"""Steps of rounds without drafts: AR's."""


class Speculative(Alternate):
    """``E / (K T_d + T_v + overheads)``, with the draft beside the target or on a device of its own.

    That device may serve several targets: StarSD, arXiv 2601.21622, of which no table was published. Where less than
    the acceptance floor of the drafted tokens is accepted, rounds are AR's: a server switches off for good.
    """

    name = "sd"
    title = "SD"
    source = "Leviathan et al., 2023"
    rival = "ar"
    drafted = "sd_k"
    staged = True
    in_columns = True
    searched = (PLACES, TARGETS_AXIS, LOOKAHEAD, replace(SAGUARO, strategy="sd"))
    options = (_SD_K, SD_DRAFT, SAGUARO_C, _FLOOR, *OPTIONS, *SHARED_DRAFT_OPTIONS)
    plain_steps = (DECODE, SAMPLE_ALONE)

    def alternatives(self, settings: Settings) -> Iterable[Settings]:
        if settings["sd_draft"] == "colocated" and settings["t_sd"] is None:
            return (settings,)
        return in_each_way(settings)

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        super().settle(settings, site, drafter)
        if settings["acceptance_floor"] is not None and is_apart(settings, drafter):
            raise CannotRun("an acceptance floor is of a draft beside its target: give no --sd-draft separate")
        if settings["sd_draft"] == "separate":
            check_shared(settings, drafter)
        if site.unit_free and drafter.needs_device and settings["targets"] > 1:
            settings.settle("sd_draft", "separate", "a draft of several targets is on none of their devices")

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        gated, accepted = _gate(settings, drafter), _accepted(settings, drafter)
        if gated is not None:
            return Kernel.of_tokens(gated.accepted_pmf)
        proposed = drafter.proposes(settings, settings["sd_k"])
        alike = proposed.share in (0.0, 1.0)
        tokens = tokens_of(accepted, Kernel.of_tokens if alike else lambda pmf: _now_and_then(pmf, proposed))
        floor = settings["acceptance_floor"]
        if floor is None:
            return tokens
        drafted = max(proposed.share * proposed.tokens, _SOME)
        return switched_off(tokens, (tokens.averages.tokens_per_round - 1.0) / drafted < floor - _SOME)

    def drawn_from(self, tokens: Tokens, settings: Settings, steps: Mapping[str, Step], drafter: Drafter) -> Tokens:
        gated = _gate(settings, drafter)
        return tokens if gated is None else gated.drawn(tokens)

    def is_ragged(self, settings: Mapping[str, Any]) -> bool:
        return bool(settings["draft_p_min"])

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        k = self.lookahead(site.options)
        apart = is_apart(site.options, drafter)
        drafting = drafting_at(site, self.options) if apart else site
        draft = Step("draft", speculate(drafting, drafter, k, beside=not apart))
        gated = _gate(site.options, drafter)
        if gated is not None:
            return self.round_steps(site, drafter, gated.draft(draft, int(site.options["b"])), gated.verify(site))
        proposed = drafter.proposes(site.options, k)
        verify = site.mixed_step("verify", (1 + proposed.tokens, 1), proposed.share)
        steps = self.round_steps(site, drafter, draft, verify)
        if site.options["acceptance_floor"] is None:
            return steps
        return {**steps, DECODE: site.verify_step(DECODE, 1), SAMPLE_ALONE: site.sampling_step(speculates=False)}

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        parts = super().parts(t, states)
        if DECODE not in t:
            return parts
        off = states.any_in(OFF)
        alone = {"verify": t[DECODE], "host": t[SAMPLE_ALONE]}
        return {part: (1.0 - off) * s + off * alone.get(part, 0.0) for part, s in parts.items()}

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return super().programs(options, drafter) if options["acceptance_floor"] is None else {"target": _may_be_off}

    def cannot_run(self, options: Mapping[str, Any]) -> str | None:
        if options["acceptance_floor"] is not None:
            return "ranks draft in every round: --acceptance-floor is priced only"
        if options["draft_p_min"]:
            return "ranks draft K tokens: --draft-p-min is priced only"
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


def _gate(options: Mapping[str, Any], drafter: Drafter) -> Gate | None:
    """What ends drafts early; None, and no rate is read, where nothing does."""
    if not options["draft_p_min"]:
        return None
    assert isinstance(options, Settings)
    return Gate.of(options, drafter, _accepted(options, drafter))


def _accepted(settings: Settings, drafter: Drafter) -> Accepted:
    scale = scale_of(settings)
    drafting = settings if scale is None else scale.accepting(settings, fan_out_of(settings))
    return drafter.accepted(drafting, settings["sd_k"])


def _may_be_off(me: Actor) -> Generator[Any, Any, None]:
    """Draft and verify in turn, or decode where speculation was switched off."""
    for _ in me.rounds():
        off = me.any_in(OFF)
        if not off:
            yield me.do("draft")
            yield me.tell("speculation")
        yield me.do(DECODE if off else "verify")
        yield me.do(SAMPLE_ALONE if off else "sample")
        me.end_round()


_SOME = 1e-12


def _now_and_then(pmf: Array, proposed: Proposed) -> Kernel:
    """A drafter that proposes in a share of rounds, independently; in the others a step decodes."""
    nothing = np.eye(pmf.shape[-1])[0]
    something = np.maximum(0.0, pmf - (1.0 - proposed.share) * nothing)
    something /= something.sum(axis=-1, keepdims=True)
    return now_and_then(something, nothing, proposed.share, (1 + proposed.tokens, 1))
