"""Look-up first: what was said before is verified where it is found, and a model or a head drafts where it is not."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Generator, Mapping
from typing import Any

from ssdsim.base.checks import FloatOrArray
from ssdsim.base.errors import CannotRun
from ssdsim.base.kinds import OneOf, Whole
from ssdsim.base.option import choice
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter, speculate
from ssdsim.pricing.occupancy import Devices, Occupancy
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.kernel import Tokens, tokens_of
from ssdsim.rounds.round import Seconds, States
from ssdsim.strategies.drafters.lookup import NGram, Suffix
from ssdsim.strategies.protocols.alternate import beside_target
from ssdsim.strategies.protocols.axes import LookaheadAxis
from ssdsim.strategies.protocols.hits import FOUND_NOTHING, acceptance_share, now_and_then
from ssdsim.strategies.protocols.strategy import Strategy, own_lookahead
from ssdsim.tokens.rules import TOKEN

LOOK_UPS = {each.name: each for each in (NGram(), Suffix())}


class Hybrid(Strategy):
    """``R = b (f E_s + (1 - f) E_m) / (E[T_v(rows)] + (1 - f^b) T_m)``, rows ``b + n K_s + (b - n) K_m``.

    Each sequence looks up what ends its text. n of them, a share f on average, find something in a round, K_s tokens
    long; for the others the drafter makes K_m, in a pass over the whole batch (as engines pad it), beside the target.
    All are verified in one pass. ``E_m`` is of rounds without a match: texts that were not said before are harder to
    draft, so that the drafter's own ``--alpha`` is too good for it, by how much nobody has published.
    """

    name = "hybrid"
    title = "Look-up first"
    winner_name = "looking up first"
    source = "Oliaro et al., 2025, arXiv 2411.04975 (hybrid); SGLang PR 27628"
    rival = "sd"
    drafted = "hybrid_k"
    ragged = True
    searched = (
        LookaheadAxis(option="hybrid_k", about="tokens of look-up first's drafter that may be chosen [default: 1:16]"),
    )
    shown_settings = ("hybrid_found",)
    options = (
        own_lookahead(
            name="hybrid_k",
            about="tokens that look-up first's drafter makes where nothing was found",
            axis="look-up first's drafted tokens K_m",
            symbol="K_m",
        ),
        choice(
            name="hybrid_by",
            kind=OneOf(tuple(LOOK_UPS)),
            default="suffix",
            about="what look-up first looks up: n-grams of the context, or suffixes of all past outputs",
            axis="look-up",
        ),
        choice(
            name="hybrid_lookup_k",
            kind=Whole(most=1_000),
            default=8,
            about="tokens that look-up first verifies of what it found",
            axis="looked-up tokens K_s",
            symbol="K_s",
        ),
        acceptance_share(
            name="hybrid_alpha",
            default=0.7,
            about="P(a looked-up token is right | those before it are)",
            axis="acceptance of looked-up tokens",
            plausible=(0.5, 0.9),
        ),
        acceptance_share(
            name="hybrid_found",
            default=0.3,
            about="share of rounds in which look-up first finds anything",
            axis="share of rounds with a match",
            symbol="f",
            plausible=(0.1, 0.6),
        ),
    )

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        super().settle(settings, site, drafter)
        if not drafter.needs_device:
            raise CannotRun(
                f"{self.title} asks another drafter where it finds nothing: {drafter.title} is a look-up, too"
            )

    def lookahead(self, options: Mapping[str, Any]) -> int:
        return max(int(options["hybrid_k"]), int(options["hybrid_lookup_k"]))

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        found = LOOK_UPS[settings["hybrid_by"]].accepted(_looked_up(settings), settings["hybrid_lookup_k"]).pmf
        drafted, share = drafter.accepted(settings, settings["hybrid_k"]), float(settings["hybrid_found"])
        return tokens_of(drafted, lambda pmf: now_and_then(found, pmf, share, _verified(settings)))

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        return Devices(tp)

    def occupancies(self, site: Site, drafter: Drafter) -> tuple[Occupancy, ...]:
        return beside_target(self, site, drafter)

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        options, look_up = site.options, LOOK_UPS[site.options["hybrid_by"]]
        k = int(options["hybrid_k"])
        draft = Step("draft", speculate(site, drafter, k, beside=True))
        looking_s = 0.0 if site.unit_free else look_up.seconds(options, options["hybrid_lookup_k"])
        return {
            "look up": Step("draft", (site.on_host("look up", looking_s),)),
            "draft": draft,
            "speculation": site.broadcast_message(k, draft.passes[0] if draft.passes else None),
            "verify": site.mixed_step("verify", _verified(options), float(options["hybrid_found"])),
            "sample": site.sampling_step(),
        }

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        drafted = states.any_in(FOUND_NOTHING)
        return {
            "verify": t["verify"],
            "draft": t["look up"] + drafted * t["draft"],
            "communicate": drafted * t["speculation"],
            "host": t["sample"],
        }

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {"target": _target}


def _verified(options: Mapping[str, Any]) -> tuple[float, int]:
    """Tokens of a sequence in a pass that found something, and that did not."""
    look_up = LOOK_UPS[options["hybrid_by"]]
    proposed = look_up.proposes(_looked_up(options), options["hybrid_lookup_k"]).tokens
    return 1 + proposed, 1 + int(options["hybrid_k"])


def _looked_up(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options as the look-up reads them: it always proposes what it finds, at the given acceptance."""
    own = {
        "alpha": options["hybrid_alpha"],
        "found": None,
        "acceptance": None,
        "alpha_concentration": None,
        "acceptance_rule": TOKEN,
    }
    return ChainMap({**own, "pair": None}, options)  # type: ignore[arg-type]


def _target(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        yield me.do("look up")
        if me.any_in(FOUND_NOTHING):
            yield me.do("draft")
            yield me.tell("speculation")
        yield me.do("verify")
        yield me.do("sample")
        me.end_round()
