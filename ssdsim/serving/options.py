"""What serve is asked beside its load and its batching: replicas, what a good request is, and how it is worked out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array, whole
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.kinds import SHARE, Flag, Kind, Number, OneOf, Whole
from ssdsim.base.option import OptionRecord, Section, option_field
from ssdsim.base.record import Record
from ssdsim.question.options import ALL

Router = Literal["round-robin", "least-loaded"]


class Fleet(OptionRecord):
    """``replicas`` of each strategy, to which ``router`` gives the requests. Replicas may share drafts: ``draft_pool``
    of them for all together; else each has its own.
    """

    section, prominence = Section.REQUESTS, 0

    replicas: int = option_field(Whole(most=1024), "of each strategy, that share the requests", 1, prominence=3)
    router: Router = option_field(OneOf(get_args(Router)), "round-robin or least-loaded", "round-robin")
    draft_pool: int | None = option_field(
        Whole(most=1024), "that draft for all replicas together", default_note="one each"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        pool, replicas = self.draft_pool, self.replicas
        if pool is None:
            return
        if replicas == 1:
            raise InputError("--draft-pool has no effect with one replica (its draft has a device of its own)")
        if replicas % pool:
            raise InputError(f"--draft-pool {pool}: {replicas} replicas cannot share {pool} drafts evenly")

    def targets(self, given: int | None) -> int | None:
        """Number of replicas that share a draft, for which ``--targets`` may be given; None where nobody says."""
        if self.draft_pool is not None and given is not None:
            raise InputError("--draft-pool has no effect with --targets (which says how many replicas share a draft)")
        if self.draft_pool is not None:
            return self.replicas // self.draft_pool
        if given is not None and self.replicas % ALL["targets"].checked(given):
            few = f"--replicas {given}, or a multiple, not {self.replicas}"
            raise InputError(f"--targets {given} share a draft: give {few}")
        return given


METRICS = ("ttft", "tpot", "e2el", "queue")
"""Metrics of a request that a bound may be put on, in milliseconds (vLLM's names)."""


_ENOUGH = 0.9  # of requests


class Slo(Record):
    """Bounds by metric, in milliseconds; a good request keeps all of them.

    ``assumed`` are the metrics whose bound was said without a unit.
    """

    bounds_ms: Mapping[str, float]
    assumed: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> Slo:
        """``ttft:500,tpot:20`` in milliseconds, or with units, ``ttft:1s,tpot:20ms``."""
        bounds, assumed = {}, []
        for part in text.split(","):
            if "=" in part:
                raise InputError(f"--slo {text}: a colon stands before a bound, such as {part.replace('=', ':')}")
            name, _, value = part.partition(":")
            name, value = name.strip(), value.strip()
            if name not in METRICS:
                raise InputError(
                    f"--slo {text}: unknown metric '{name}'{nearest(name, METRICS)} Allowed: {', '.join(METRICS)}"
                )
            bounds[name] = _milliseconds(value)
            if not 0.0 < bounds[name] < np.inf:
                raise InputError(f"--slo {text}: {name} wants milliseconds above 0, such as {name}:500 or {name}:0.5s")
            if value[-1:].lower() != "s":
                assumed.append(name)
        return Slo(bounds, tuple(assumed))

    def good(self, metrics_ms: Mapping[str, Array]) -> NDArray[np.bool_]:
        """Say which requests keep all bounds; what is not defined of a request (TPOT of one token) counts as 0."""
        kept = [np.nan_to_num(metrics_ms[name], nan=0.0) <= bound for name, bound in self.bounds_ms.items()]
        return np.asarray(np.logical_and.reduce(kept))

    @property
    def sentence(self) -> str:
        """``TTFT up to 500 ms, TPOT up to 20 ms``, and whether a unit was taken for granted."""
        bounds = ", ".join(f"{name.upper()} up to {bound:g} ms" for name, bound in self.bounds_ms.items())
        return (
            f"{bounds} (a number without a unit is in ms: {self.assumed[0]}:1s is a second)" if self.assumed else bounds
        )

    @property
    def words(self) -> str:
        """``TTFT 1 s and TPOT 30 ms``."""
        order = sorted(self.bounds_ms, key=METRICS.index)
        return " and ".join(f"{name.upper()} {_duration(self.bounds_ms[name])}" for name in order)

    def __str__(self) -> str:
        return ",".join(f"{name}:{bound:g}ms" for name, bound in self.bounds_ms.items())


def _duration(ms: float) -> str:
    return f"{ms / 1e3:g} s" if ms >= 1e3 else f"{ms:g} ms"


def _milliseconds(text: str) -> float:
    """``500``, ``500ms`` or ``0.5s``; NaN where it is no time."""
    number, per_unit = text.strip().lower(), 1.0
    for unit, each_ms in (("ms", 1.0), ("s", 1e3)):
        if number.endswith(unit):
            number, per_unit = number.removesuffix(unit), each_ms
            break
    try:
        return float(number) * per_unit
    except ValueError:
        return float("nan")


class OfSlo(Kind, Record):
    """:class:`Slo`, or its text."""

    metavar = "metric:ms[,...]"
    requirement = "be bounds in milliseconds such as ttft:500,tpot:20"

    def checked(self, said: str, value: Any) -> Slo:
        return value if isinstance(value, Slo) else Slo.parse(str(value))


class Goal(OptionRecord):
    """Goal of good requests: their bounds; with ``capacity`` the highest rate at which enough do is searched."""

    section, prominence = Section.REQUESTS, 0

    slo: Slo | str | None = option_field(
        OfSlo(),
        "what a good request keeps, in ms or with units: ttft:500,tpot:20,e2el:10s,queue:100",
        prominence=8,
    )
    capacity: bool = option_field(
        Flag(),
        "the highest rate at which enough requests keep the --slo",
        False,
        prominence=7,
    )
    attainment: float | None = option_field(
        SHARE, "share of requests that must keep the --slo", default_note=f"{_ENOUGH}", prominence=8
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attainment is not None and self.slo is None:
            raise InputError("--attainment needs an --slo (it is the share of requests that keeps it)")

    @property
    def bounds(self) -> Slo | None:
        """The SLO, of whose text the record's check made one."""
        return cast("Slo | None", self.slo)

    @property
    def searched(self) -> float | None:
        """The share for which a rate is searched; None where none is."""
        return self.share if self.capacity else None

    @property
    def share(self) -> float:
        """How many are enough."""
        return _ENOUGH if self.attainment is None else self.attainment


ServeSolver = Literal["auto", "closed", "loop"]


class ServeSolverOptions(OptionRecord):
    """``closed`` is the closed form alone; ``loop`` and ``auto`` also run every round. Runs get more requests until the
    95 % interval of the mean time per token is as small a share of it as ``precision``.
    """

    section, prominence = Section.REQUESTS, 0

    solver: ServeSolver = option_field(OneOf(get_args(ServeSolver)), "closed: the closed form alone", "auto")
    precision: float | None = option_field(
        Number(1.0, 0.001), "more requests until the mean TPOT is known to it at 95 %: 0.02"
    )
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("--seed", self.seed, 0)

    @property
    def runs(self) -> bool:
        """Say whether anything is run."""
        return self.solver != "closed"
