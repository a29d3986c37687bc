"""Speculative speculative decoding (Algorithm 1): the draft pre-speculates while the target verifies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.errors import CannotRun, InputError
from ssdsim.base.kinds import SHARE, Number, OneOf
from ssdsim.base.option import Excludes, Group, Option, Section, searched_choice, spelled
from ssdsim.base.record import replace
from ssdsim.base.settings import GIVEN, Settings
from ssdsim.pricing.drafter import Drafter, prespeculation, speculate, window_budget
from ssdsim.pricing.occupancy import check_place
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.kernel import Kernel, Tokens, tokens_of, tokens_of_each
from ssdsim.strategies.protocols.axes import LOOKAHEAD, SAGUARO, WordAxis
from ssdsim.strategies.protocols.cached import DRAFT_DEVICES, DRAFT_GPUS, DRAFT_PLACE, OUTCOMES, SHARED_DEVICES, Cached
from ssdsim.strategies.protocols.hits import CHAINS, SAGUARO_C, fan_out_of, settle_budget
from ssdsim.strategies.protocols.shared import (
    SHARED_DRAFT_OPTIONS,
    TARGETS_AXIS,
    cannot_share,
    check_shared,
    drafting_at,
    in_each_way,
    sharing_of,
)
from ssdsim.tokens.acceptance import accepted_length_pmf
from ssdsim.tokens.hit_rates import hits_given_accepted
from ssdsim.tokens.saguaro import scale_of

Backup = tuple[Array, Array]
"""P(k accepted) of the fast backup's tokens, and the hit rate by k after them."""

_ALPHA_BACKUP = Option(
    name="alpha_backup",
    section=Section.ACCEPTANCE,
    default=0.0,
    kind=SHARE,
    about="acceptance rate of the fast backup's tokens (0: random tokens)",
    axis="backup's acceptance rate",
    groups=(Group.ACCEPTANCE, Group.BACKUP_QUALITY),
)

_MISSES = (
    Option(
        name="hit_concentration",
        section=Section.HITS,
        kind=Number(),
        about="correlation of misses within a batch: a round's hit rate is Beta with a + b = this",
        axis="concentration of a batch's hit rates (a + b)",
        groups=(Group.ACCEPTANCE, Group.HITS),
        default_note="independent sequences",
    ),
    searched_choice(
        name="backup",
        section=Section.START,
        prominence=5,
        spellings=("--fallback",),
        default="auto",
        kind=OneOf(("jit", "fast", "auto")),
        about="on a cache miss: draft just in time, take a fast backup's tokens, or the better of the two",
        axis="backup",
        excludes=(
            Excludes(
                (Group.BACKUP_QUALITY,),
                "{it} has no effect with --backup jit (the backup is the primary)",
                when="jit",
                spared=True,
            ),
        ),
    ),
    Option(
        name="backup_ms",
        section=Section.HITS,
        default=0.0,
        kind=Number(),
        about="latency of the fast backup",
        axis="backup's latency (ms)",
        groups=(Group.BACKUP_QUALITY, Group.HARDWARE),
    ),
)


class SSD(Cached):
    """Chains for the likely outcomes of a verification; the round is :class:`.Cached`'s.

    Exact for constant durations: sequences are independent two-state chains, so all hit with probability ``p^b``
    (Corollary 16), or more often where ``hit_concentration`` says that misses go together. A sequence is in the state
    ``hit`` where its last outcome was in the speculation cache: its next speculation is then the primary's, otherwise
    the backup's (which may be the primary, just in time).
    """

    name = "ssd"
    title = "SSD"
    source = "Speculative Speculative Decoding, arXiv 2603.03251, Algorithm 1, Theorem 7, Corollary 16"
    rival = "sd"
    staged = True
    in_columns = True
    searched = (
        DRAFT_PLACE,
        DRAFT_DEVICES,
        TARGETS_AXIS,
        LOOKAHEAD,
        replace(OUTCOMES, implied=(("fan_out_policy", "optimal"),)),  # of the highest hit rate, and so never behind
        WordAxis(option="backup", about="on a miss [default: auto, the faster]", words=("auto",)),
        replace(SAGUARO, strategy="ssd"),
    )
    options = (DRAFT_GPUS, *SHARED_DEVICES, _ALPHA_BACKUP, *CHAINS, SAGUARO_C, *_MISSES, *SHARED_DRAFT_OPTIONS)
    shown_settings = ("backup", "budget")
    deployed = ("k", "budget", "fan_outs", "fan_outs_after_miss", "backup")

    def alternatives(self, settings: Settings) -> Iterable[Settings]:
        if settings["backup"] != "auto":
            return in_each_way(settings)
        choices = []
        for backup in ("jit", "fast"):
            choice = settings.copy()
            choice.settle("backup", backup, "auto: more tokens/s than the other")
            choices += in_each_way(choice)
        return choices

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        """Derive the cached outcomes a sequence and, without hardware, T_p and T_b."""
        check_shared(settings, drafter)
        if self.shares(settings, drafter):
            _check_beside(settings, site, drafter)
        if site.unit_free:
            _settle_units(settings)
        if settings["f"] == "window":
            if site.unit_free:
                raise InputError("--f window needs hardware: without it nothing says what a branch token costs")
            check_place(self.title, drafter.title, drafter.needs_target)
            targets, together = sharing_of(self.options, settings)
            served = 1 if together else targets
            budget = window_budget(site, drafter, settings["k"], drafting_at(site, self.options), served)
            settings.derive("budget", budget, "the largest that the draft finishes while the target verifies")
        settle_budget(settings)
        if settings["budget"] == 0 and not site.unit_free:
            raise InputError("--fl caches no outcome: at least one fan-out must be above 0")

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        k = settings["k"]
        scale = scale_of(settings)
        drafting = settings if scale is None else scale.accepting(settings, fan_out_of(settings))
        accepted = drafter.accepted(drafting, k)
        fast = settings["backup"] == "fast"
        backup_pmf = accepted_length_pmf(settings["alpha_backup"], k) if fast else accepted.pmf
        hit, backup_hit = hits_given_accepted(settings, accepted.pmf, backup_pmf, fast, scale)
        after_backup = {"hit": backup_pmf * backup_hit, "miss": backup_pmf * (1.0 - backup_hit)}

        def kernel(pmf: Array) -> Kernel:
            after_hit = {"hit": pmf * hit, "miss": pmf * (1.0 - hit)}
            return Kernel.by_state({"hit": after_hit, "miss": after_backup if fast else after_hit}, _shared(settings))

        if not drafter.self_conditions:
            return tokens_of(accepted, kernel)
        if settings.source("hit_concentration") == GIVEN:
            raise InputError(f"--hit-concentration: not known where {drafter.title} drafts, whose hits differ")
        cached = [drafter.accepted(drafting, k, unseen=length + 1) for length in range(k + 1)]
        backup = (backup_pmf, backup_hit) if fast else None
        return tokens_of_each([accepted, *cached], lambda pmfs: _self_conditioned(pmfs[0], pmfs[1:], hit, backup))

    def cannot_run(self, options: Mapping[str, Any]) -> str | None:
        if options[DRAFT_PLACE.option] == "shared":
            return "a rank has its device alone: --draft-devices shared is priced only"
        return cannot_share(self.options, options, caches=True)

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        k = self.lookahead(site.options)
        verify, beside = site.verify_step("verify", k + 1), self.shares(site.options, drafter)
        drafting = site.sharing_devices() if beside else drafting_at(site, self.options)
        prespeculate = prespeculation(drafting, drafter, k, site.options["budget"], beside)
        prespeculate = site.override("t_p", prespeculate)
        if site.options["backup"] == "fast":
            fallback = Step("fallback", (site.on_host("fast fallback", site.options["backup_ms"] / 1e3),))
        else:
            drafted = speculate(site if beside else drafting, drafter, k, beside)
            fallback = Step("fallback", drafted).with_piece_name("fallback step")
        fallback = site.override("t_b", fallback, f"{site.options['backup']} fallback")
        messages = site.outcome_message(k + 1), site.speculation_message(k)
        if beside:
            messages = Step("communicate"), site.broadcast_message(k, next(reversed(prespeculate.passes), None))
        return self.round_steps(site, verify, prespeculate, fallback, *messages, beside)


def _self_conditioned(just_in_time: Array, cached: Sequence[Array], hit: Array, backup: Backup | None) -> Kernel:
    """Kernel where cached speculations were drafted without the target's hidden states of the tokens before.

    ``cached[k]`` are the accepted lengths of one that followed k accepted tokens and a guessed bonus token. A state for
    each length whose cached speculation was hit, and one for a miss (appendix E; the chain is ours, and measured by
    nobody). In a batch the paper's
    engine drafts anew for all sequences when one misses; here those that hit keep what was cached for them.
    """
    hits = [f"hit {length}" for length in range(len(cached))]

    def row(pmf: Array, rate: Array) -> Mapping[str, Array]:
        alone = np.eye(pmf.shape[-1])
        return {**{name: alone[k] * pmf * rate for k, name in enumerate(hits)}, "miss": pmf * (1.0 - rate)}

    after_miss = (just_in_time, hit) if backup is None else backup
    rows = {name: row(pmf, hit) for name, pmf in zip(hits, cached, strict=True)}
    return Kernel.by_state({**rows, "miss": row(*after_miss)})


def _check_beside(settings: Settings, site: Site, drafter: Drafter) -> None:
    """Raise :class:`CannotRun` where a draft cannot work on its target's devices while that verifies."""
    without = {
        "targets": settings["targets"] > 1,
        "draft_gpus": settings["draft_gpus"] > 1,
        "f": settings["f"] == "window",
        "attention": site.data_parallel,
        "pp": site.pp > 1,
        "draft_link_us" if settings["draft_link"] is None else "draft_link": site.network is not None,
        "draft_hardware": site.draft_profile is not site.profile,
    }
    if drafter.needs_target:
        raise CannotRun(f"nobody pre-speculates with {drafter.title}")
    if given := [spelled(name) for name, asked in without.items() if asked]:
        raise CannotRun(f"--draft-devices shared puts the draft on its target's device: give no {given[0]}")


def _shared(settings: Settings) -> float | None:
    """Concentration of the hit rate that a batch shares."""
    hit_concentration: float | None = settings["hit_concentration"]
    if hit_concentration == 0.0:
        raise InputError("--hit-concentration must be above 0, got 0")
    return hit_concentration


def _settle_units(settings: Settings) -> None:
    """T_p and T_b in units of T_v."""
    if settings["t_p"] is None:
        settings.derive("t_p", settings["t_sd"], "same as t_sd")
    if settings["t_b"] is None:
        jit = settings["backup"] == "jit"
        settings.derive("t_b", *((settings["t_sd"], "same as t_sd") if jit else (0.0, "fast fallback")))
