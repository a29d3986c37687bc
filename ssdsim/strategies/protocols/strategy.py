"""A strategy of decoding: what its round does to a sequence, what it costs where, and who does what when."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.kinds import Whole
from ssdsim.base.option import Option, searched_choice
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.occupancy import Devices, Occupancy, target_alone
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.actor import Program
from ssdsim.rounds.kernel import Tokens
from ssdsim.rounds.round import PARTS, Estimate, Round, RoundBlock, Seconds, States, Stationary, others, total
from ssdsim.strategies.protocols.axes import SearchAxis

if TYPE_CHECKING:
    from ssdsim.rounds.outcomes import OutcomeBlock


class Strategy(ABC):
    """What closed form, Monte Carlo, SimPy, real ranks, pricing, memory checks and searches ask of a strategy.

    None of these asks which strategy it is. A strategy derives from this class, has ``name``, ``title`` and ``source``,
    and overrides what differs.

    Attributes
    ----------
    name : key of options, JSON and columns.
    title : what a person reads.
    source : paper and section.
    rival : name of the strategy that it is compared with first.
    miss_state : the state that an outcome which was not foreseen leads to; None where nothing is cached.
    options : its own; the shared ones are in :mod:`ssdsim.question.options`.
    searched : settings that a search for the best deployment varies, besides the target's parallelism.
    described_as : name of the strategy whose round it is taken to have: what the description leaves out is both's.
    drafted : the option of the drafted tokens a sequence; one of its own is the same as ``k`` where nobody gives it.
    shown_settings : settings that tables of predictions show as columns.
    plain_steps : steps that decoding without drafts has, too: the error of its own rounds does not move them.
    ragged : its passes have as many rows as the inputs of tokens make them, so that other inputs are other prices.
    in_columns : its kernel takes single rates (:data:`.hits.RATES`) as columns, too, shape ``(n, 1)``,
        and makes as many kernels.
    drafts : it needs a drafter.
    staged : its round is described where pipeline stages share the target's layers.
    drafts_ahead : it drafts on from tokens that were not verified, and takes what follows to be accepted as a fresh
        draft.
    most_sequences : the largest batch that it decodes; None where any.
    sends_async : its sides send messages while passes run, and nobody waits until they are through.
    free_running : its sides do not wait for each other, so a round's tokens depend on durations: programs find them
        out.
    """

    name: str
    title: str
    source: str
    rival: str | None = None
    described_as: str | None = None
    miss_state: str | None = None
    options: tuple[Option, ...] = ()
    searched: tuple[SearchAxis, ...] = ()
    drafted: str = "k"
    shown_settings: tuple[str, ...] = ()
    plain_steps: tuple[str, ...] = ()
    ragged: bool = False
    in_columns: bool = False
    drafts: bool = True
    staged: bool = False
    drafts_ahead: bool = False
    most_sequences: int | None = None
    sends_async: bool = False
    free_running: bool = False

    @property
    def winner_name(self) -> str:
        """Its name in the sentence that declares it the winner."""
        return self.title

    @property
    def deployed(self) -> tuple[str, ...]:
        """Settings that a deployment needs: those of a schedule."""
        return tuple(axis.option for axis in self.searched if not axis.placing)

    # from options to what they mean

    def is_ragged(self, settings: Mapping[str, Any]) -> bool:
        """Tell whether its passes are ``ragged`` with these settings."""
        return self.ragged

    def alternatives(self, settings: Settings) -> Iterable[Settings]:
        """Settings to choose the faster of, where a word such as ``auto`` leaves a choice; else ``settings``."""
        return (settings,)

    def least_sequences(self, options: Mapping[str, Any]) -> int:
        """The smallest batch that can be asked for."""
        return 1

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        """Derive what follows from the given options."""
        if self.drafts and settings[self.drafted] is None:
            settings.derive(self.drafted, settings["k"], "same as k")

    def follows_batch(self, options: Mapping[str, Any]) -> bool:
        """Tell whether what it derives of them, it derives anew for each number of sequences that run."""
        return False

    def lookahead(self, options: Mapping[str, Any]) -> int:
        """Drafted tokens a sequence in flight; 0 without drafting."""
        return int(options[self.drafted]) if self.drafts else 0

    # tokens

    @abstractmethod
    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        """The kernel of its rounds: what one does to a sequence."""

    def drawn_from(self, tokens: Tokens, settings: Settings, steps: Mapping[str, Step], drafter: Drafter) -> Tokens:
        """The literal rule that simulations draw rounds from, where ``tokens`` are only its mean."""
        return tokens

    def guesses(self, settings: Mapping[str, Any]) -> tuple[int, ...] | None:
        """Bonus tokens that are cached for each of the K+1 accepted lengths; None where nothing is cached."""
        return None

    # costs

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        """Devices that it occupies with a target on ``tp`` of them: one more for the draft."""
        return Devices(tp, int(self.drafts and drafter.needs_device))

    def occupancies(self, site: Site, drafter: Drafter) -> tuple[Occupancy, ...]:
        """Memory of the devices, and what lies there: the target alone, the draft on devices of its own."""
        occupancies = [target_alone(site, self.lookahead(site.options))]
        if self.drafts and drafter.needs_device:
            which, tokens, branches = self.draft_holds(site)
            demand = drafter.demand(site, tokens, branches)
            targets = self.devices(site.options, site.tp, drafter).targets
            if targets > 1:  # so many caches beside one draft
                which = f"{which} for {targets} targets"
                demand = replace(demand, sequence_bytes=targets * demand.sequence_bytes)
            occupancies.append(Occupancy(f"{site.draft.name} {which}", [demand], site.draft_profile))
        return tuple(occupancies)

    def draft_holds(self, site: Site) -> tuple[str, int, int]:
        """Text about the draft's device in a refusal, and the tokens and branches of each sequence there."""
        return f"on a device of its own ({self.title})", self.lookahead(site.options), 0

    @abstractmethod
    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        """The round's steps by name, messages among them, as ``site`` prices them: on hardware, or in units of T_v."""

    # the round

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        """Seconds of each part of a round, made of its steps; ``t`` are the steps' durations.

        With constant durations a round is linear in what ``states`` tells, so its mean is these parts at the mean. One
        whose sides do not wait for each other has none.
        """
        raise NotImplementedError

    def mean_round(self, round: Round) -> Estimate:
        """The mean round in the long run, its tokens and its seconds; exact for constant durations."""
        return Estimate(
            strategy=self.name,
            batch=round.batch,
            gpus=round.gpus,
            tokens_per_round=round.averages.tokens_per_round,
            breakdown_s=_all_parts(self.mean_parts(round, Stationary(round.in_a_pass, round.averages))),
        )

    def closed_form(self, round: Round) -> Estimate:
        """:meth:`mean_round` with hit rates, and with the paper's round."""
        states = Stationary(round.in_a_pass, round.averages)
        alone = np.asarray(round.targets) == 1  # papers know no draft of several targets
        paper_s = self.paper_round_s(round.seconds, states) if alone.any() else None
        if paper_s is not None and not alone.all():
            paper_s = np.where(alone, paper_s, np.nan)
        return replace(
            self.mean_round(round),
            p_hit=None if self.miss_state is None else others(round.averages.to, self.miss_state),
            p_all_hit=None if self.miss_state is None else states.none_to(self.miss_state),
            paper_round_s=paper_s,
        )

    def mean_parts(self, round: Round, states: States) -> Mapping[str, FloatOrArray]:
        """:meth:`parts`, with the wait for a draft that serves other targets."""
        parts = dict(self.parts(round.seconds, states))
        service = self.service(round.seconds, states) if np.any(np.asarray(round.targets) > 1) else None
        if service is not None:
            waits = service.waits_s(sum(parts.values()), round.targets, round.together)
            parts["draft"] = parts["draft"] + np.where(np.asarray(round.targets) > 1, waits, 0.0)
        return parts

    def paper_round_s(self, t: Mapping[str, Seconds], states: Stationary) -> Seconds | None:
        """The round by the paper's own formula, where it differs from ours."""
        return None

    def monte_carlo(self, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray]) -> RoundBlock:
        """Drawn rounds without a clock: the closed form's round, with drawn outcomes and durations."""
        parts = _all_parts(self.parts(t, outcomes))
        return RoundBlock(outcomes, parts, total(parts, outcomes.rounds))

    def clocked(self, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray], round_s: Array) -> RoundBlock:
        """Rounds timed by a clock, with the parts of their time."""
        return RoundBlock(outcomes, self.monte_carlo(outcomes, t).parts_s, round_s)

    def service(self, t: Mapping[str, Seconds], states: States) -> Service | None:
        """Work that a round asks of the draft's devices; None where other targets cannot share them."""
        return None

    @abstractmethod
    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        """Programs, one a role (``target`` first, ``draft``), that say who does what when: for SimPy and real ranks."""

    def cannot_run(self, options: Mapping[str, Any]) -> str | None:
        """The reason why real ranks cannot run it; None where they can."""
        return None


def _all_parts(parts: Mapping[str, FloatOrArray]) -> dict[str, FloatOrArray]:
    """Every part in its order, 0 where a strategy has none of it."""
    if not parts.keys() <= set(PARTS):
        raise ValueError(f"a round's parts are {', '.join(PARTS)}, not {', '.join(parts)}")
    return {name: parts.get(name, 0.0) for name in PARTS}


def late(seconds: FloatOrArray, hidden_behind: FloatOrArray) -> FloatOrArray:
    """Remainder of ``seconds`` when ``hidden_behind`` is over."""
    return np.maximum(0.0, seconds - hidden_behind)


own_lookahead = partial(searched_choice, kind=Whole(most=1_000), default_note="the same as --k")
"""A strategy's own number of drafted tokens, which :meth:`Strategy.settle` takes from ``k`` where it is not given."""


class Service(Record):
    """A round's work for the draft's devices. Seconds, as numbers or columns of them.

    They make a speculation in ``first_s``, and a target asks for the next one ``away_s`` after its answer is made.
    Where ``hidden_s`` is given it then verifies for so long, and needs both. ``look_up_s`` later the ``missed`` ask for
    ``again_s`` more before they have an answer (a probability, or what was drawn).
    """

    first_s: FloatOrArray
    away_s: FloatOrArray
    hidden_s: FloatOrArray | None = None
    look_up_s: FloatOrArray = 0.0
    missed: FloatOrArray = 0.0
    again_s: FloatOrArray = 0.0

    @property
    def busy_s(self) -> FloatOrArray:
        """Seconds that a round needs the devices."""
        return self.first_s + self.missed * self.again_s

    def waits_s(self, round_s: FloatOrArray, targets: FloatOrArray, together: FloatOrArray) -> FloatOrArray:
        """Seconds by which a round of ``round_s`` is longer where the devices serve ``targets``.

        Two that are served ``together`` are each a group of its own, as in turn. The numbers are ours: they are fitted
        to 1,576 drawn queues.
        """
        at_once_s = self._wait_of_groups_s if self.hidden_s is None else self._wait_of_two_groups_s
        at_once = np.logical_and(together, np.asarray(targets) > 2)
        return np.asarray(np.where(at_once, at_once_s(round_s, targets), self._wait_in_turn_s(round_s, targets)))

    def _wait_in_turn_s(self, round_s: FloatOrArray, targets: FloatOrArray) -> FloatOrArray:
        """One after the other: a round takes no less than the work for all.

        That is all for constant times, where targets fall into step. Misses that come at random keep them out of step:
        a miss waits for the rest of what is served, and the work for all varies.
        """
        hits = 1.0 - self.missed
        alone_s = round_s + 2.4 * hits ** (2.0 / 3.0) * self._rest_s(round_s, targets)
        all_s = targets * self.busy_s
        width_s = self.again_s * np.sqrt(self.missed * hits * targets * (targets - 1.0)) / 8.0
        gap = np.minimum(np.abs(alone_s - all_s) / np.maximum(width_s, _NO_TIME), 700.0)
        return np.maximum(alone_s, all_s) + width_s * np.log1p(np.exp(-gap)) - round_s

    def _wait_of_groups_s(self, round_s: FloatOrArray, targets: FloatOrArray) -> FloatOrArray:
        """All that wait at once: they fall into as many groups as services begin in a round.

        With constant times that is a staircase over the round's length in services. Passes that vary by 10 % round its
        steps: two waves of its Fourier series are left.
        """
        services = round_s / np.maximum(self.first_s, _NO_TIME)
        variance = 0.01 * (1.0 + (services - 1.0) ** 2)
        waves = (
            np.exp(-2.0 * variance * (np.pi * n) ** 2) * np.sin(2.0 * np.pi * n * services) / (np.pi * n)
            for n in (1, 2)
        )
        groups = np.minimum(targets, services + 0.5 + sum(waves))
        return np.maximum(0.0, groups * self.first_s - round_s)

    def _wait_of_two_groups_s(self, round_s: FloatOrArray, targets: FloatOrArray) -> FloatOrArray:
        """All that wait at once, drafts ahead: a miss waits for what is served, and two groups take turns."""
        return np.maximum(1.7 * self._rest_s(round_s, targets), self._wait_in_turn_s(round_s, 2))

    def _rest_s(self, round_s: FloatOrArray, targets: FloatOrArray) -> FloatOrArray:
        """Mean seconds of a round that misses wait for the rest of another target's work, in step with nobody."""
        work_s = np.maximum(self.busy_s, _NO_TIME)
        rest_s = (self.first_s**2 + self.missed * self.again_s**2) / (2.0 * work_s)
        return self.missed * np.minimum(1.0, (targets - 1.0) * work_s / round_s) * rest_s


_NO_TIME = 1e-100
