"""Degrees of tensor parallelism that a plan's replicas may have, and each strategy at each of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

from ssdsim.base.checks import listed
from ssdsim.base.errors import InputError
from ssdsim.base.option import spelled
from ssdsim.base.record import Record, replace
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.options import ALL, DEFAULTS
from ssdsim.serving.batching import Batching
from ssdsim.serving.lookahead import DRAWS, NONE, OwnK, Served, rate_within
from ssdsim.serving.options import Slo
from ssdsim.serving.policies import Policies, policies
from ssdsim.serving.policy import Policy
from ssdsim.serving.workload import Workload
from ssdsim.strategies.protocols.axes import TARGET, Scope
from ssdsim.transformer.context_parallel import legal_context_parallel
from ssdsim.transformer.forward import DATA_PARALLEL
from ssdsim.transformer.parallel_degrees import check_tensor_parallel, legal_expert_parallel

SEARCHED = "the fewest GPUs within the SLO"
"""The source of a degree that was searched."""

_ROUGH_K = 3  # with which the closed form orders the degrees
_OPTIMISTIC = 1.3  # times what a replica holds by the closed form: more than any run is likely to find


def degrees_of(asked: Any, options: Mapping[str, Any], searched: bool) -> tuple[int, ...]:
    """The degrees to try: those that are ``asked`` for; else, where they are ``searched``, all up to a node that divide
    the model. Empty: nobody searches, ``--tp``'s default holds.

    Raises
    ------
    InputError : several are asked for where none is searched; or one does not divide the model.
    """
    given = [] if asked is None else [ALL["tp"].checked(each) for each in listed(spelled("tp"), asked)]
    if len(given) > 1 and not searched:
        raise InputError(
            f"--tp {','.join(map(str, given))}: several are searched for the GPUs of a load alone (--slo with a --log "
            "or one --rate; no --replicas, --capacity, --schedule, --k-table); give one"
        )
    if len(given) == 1 or not searched:
        return tuple(given)
    asked_for = {**DEFAULTS, **{name: value for name, value in options.items() if value is not None}}
    target, spread = find_transformer(asked_for["target"]), asked_for["attention"] == DATA_PARALLEL
    for tp in given:
        check_tensor_parallel(target, tp, tp if spread else asked_for["ep"])
    node = find_hardware(asked_for["hardware"]).device.count
    allowed = TARGET.possible(Scope(node, target, options)) or ()
    ep, dcp = asked_for["ep"], asked_for["dcp"]
    even = (tp for tp in allowed if dcp in legal_context_parallel(target, tp))
    return tuple(sorted(given)) or tuple(tp for tp in even if spread or ep in legal_expert_parallel(target, tp))


class Degrees(Record):
    """Strategies at each of the degrees that are ``tried`` (none of them: the default alone), made when somebody asks,
    and kept. ``ks`` are those of which each may choose; a ``schedule`` or a table ``switches`` between strategies.
    """

    options: Mapping[str, Any]
    workload: Workload
    batching: Batching
    tried: tuple[int, ...]
    schedule: Path | None
    ks: tuple[int, ...]
    switches: bool
    seed: int

    @property
    def is_open(self) -> bool:
        """Whether there is a choice."""
        return len(self.tried) > 1

    @cached_property
    def _made(self) -> dict[tuple[int, bool], Policies]:
        return {}

    @cached_property
    def _served(self) -> dict[int, Served]:
        return {}

    def policies(self, tp: int, rough: bool = False) -> Policies:
        """All strategies that have room at a degree, each with the Ks; ``rough``: with one of them."""
        if (tp, rough) not in self._made:
            options = {**self.options, "tp": tp} if self.tried else self.options
            ks = tuple(k for k in self.ks if k == _ROUGH_K or not rough)
            self._made[tp, rough] = policies(options, self.workload, self.batching, self.schedule, ks, self.switches)
        return self._made[tp, rough]

    @cached_property
    def possible(self) -> Mapping[int, Policies]:
        """What has room at each degree at which anything has, with one K.

        Raises
        ------
        InputError : nothing is possible at any degree; the reason is that of the last one.
        """
        found: dict[int, Policies] = {}
        reason: InputError | None = None
        for tp in self.tried or (DEFAULTS["tp"],):
            try:
                found[tp] = self.policies(tp, rough=self.is_open)
            except InputError as error:
                reason = error
        if not found:
            assert reason is not None
            raise reason
        return found

    @property
    def names(self) -> list[str]:
        """The strategies that have room at some degree."""
        return list(dict.fromkeys(name for each in self.possible.values() for name in each.by_name))

    def own(self, name: str, tp: int, rough: bool = False) -> OwnK:
        """A strategy at a degree, with each of the Ks that it may have; ``rough``: with one of them."""
        made = self.policies(tp, rough)
        return self.own_of(
            name, made.by_k.get(name) or {NONE: made.by_name[name]}, made.configuration.errors(DRAWS, self.seed)
        )

    def own_of(self, name: str, by_k: Mapping[int, Policy], errors: TimingErrors | None) -> OwnK:
        """A strategy with its policy of each K; what was worked out of one is kept."""
        for policy in by_k.values():
            if id(policy) not in self._served:
                self._served[id(policy)] = Served(policy, self.workload, self.batching, errors)
        return OwnK(name, {k: self._served[id(policy)] for k, policy in by_k.items()})

    def in_order(self, name: str, rate: float, slo: Slo) -> list[tuple[int, float]]:
        """Degrees at which a strategy has room, and the fewest GPUs that it could need there for so many requests a
        second; first that at which the closed form has it need the fewest.
        """
        there = [tp for tp, each in self.possible.items() if name in each.by_name]
        if len(there) == 1:
            return [(there[0], 0.0)]

        def gpus(tp: int, factor: float) -> float:
            own = self.own(name, tp, rough=True)
            holds = max(float(rate_within(each.mean, slo)[0]) for each in own.by_k.values())
            return own.gpus * ceil(rate / (factor * holds))

        return sorted(((tp, gpus(tp, _OPTIMISTIC)) for tp in there), key=lambda each: (gpus(each[0], 1.0), each[1]))

    def chosen(self, degrees: Mapping[str, int], leader: str) -> Policies:
        """Each strategy at its own degree; all else is as at the leader's."""
        each = {name: self.policies(tp) for name, tp in degrees.items()}
        base = each[leader]
        if not self.is_open:
            return base
        configuration, settings = base.configuration, base.configuration.settings.copy()
        settings.settle("tp", degrees[leader], SEARCHED)
        scenarios = {name: made.configuration.scenarios[name] for name, made in each.items()}
        return replace(
            base,
            by_name={name: made.by_name[name] for name, made in each.items()},
            by_k={name: made.by_k[name] for name, made in each.items() if name in made.by_k},
            configuration=replace(configuration, settings=settings, scenarios=scenarios, refused=self._refused),
        )

    @property
    def _refused(self) -> Mapping[str, str]:
        """Why a strategy can run at no degree."""
        reasons = {name: why for each in self.possible.values() for name, why in each.configuration.refused.items()}
        return {name: why for name, why in reasons.items() if name not in self.names}
