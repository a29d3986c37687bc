"""A strategy that nothing in ssdsim knows of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ssdsim import strategies
from ssdsim.base.checks import FloatOrArray
from ssdsim.base.kinds import OneOf, Whole
from ssdsim.base.option import Option
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.occupancy import Occupancy, target_alone
from ssdsim.pricing.room import Devices
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.protocols.axes import Lookahead, Words
from ssdsim.protocols.strategy import Strategy
from ssdsim.rounds.actor import Program
from ssdsim.rounds.kernel import Kernel, Tokens
from ssdsim.rounds.mixing import tokens_of
from ssdsim.rounds.round import Seconds
from ssdsim.rounds.states import States


class Toy(Strategy):
    """Drafts ``reach`` tokens on a device of its own while the target verifies; ``pace`` says who waits for whom."""

    name, title, source, rival = "toy", "Toy", "nowhere", "sd"
    options = (
        Option(name="reach", kind=Whole(), default=4, about="tokens that the toy drafts", axis="reach", symbol="R"),
        Option(name="pace", kind=OneOf(("even", "uneven")), default="even", about="of the toy", axis="pace"),
    )
    searched = (
        Lookahead(option="reach", about="what the toy may draft", says="{symbol} {value}", most=6),
        Words(option="pace", about="of the toy", words=("even", "uneven"), tabled=("even", "uneven")),
    )

    def lookahead(self, options: Mapping[str, Any]) -> int:
        return int(options["reach"])

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        return tokens_of(drafter.accepted(settings, settings["reach"]), Kernel.of_tokens)

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        return Devices(tp, 1)

    def occupancies(self, site: Site, drafter: Drafter) -> Iterable[Occupancy]:
        yield target_alone(site, self.lookahead(site.options))

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        reach = self.lookahead(site.options)
        return {
            "verify": site.verify_step("verify", reach + 1),
            "draft": Step("draft", site.speculate(drafter, reach, beside=False)),
            "pause": Step("host", (site.on_host("pause", 0.0 if site.options["pace"] == "even" else 1e-3),)),
        }

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        return {"verify": t["verify"], "draft": t["draft"] / 2.0, "host": t["pause"]}

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {}


@contextmanager
def registered() -> Iterator[Toy]:
    """The toy, known by its name for a while."""
    toy = Toy()
    strategies.ALL.register(toy)
    try:
        yield toy
    finally:
        strategies.ALL.forget(toy.name)
