"""From which hit rate, acceptance rate or link, and up to which batch, SSD beats the best of its rivals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ssdsim.answers.grid import evaluate
from ssdsim.answers.recommend.choice import best
from ssdsim.answers.recommend.deployment import Deployment, Shape
from ssdsim.answers.recommend.search import Search, coarse_lookaheads
from ssdsim.hardware.catalog import find_hardware
from ssdsim.scenario.configuration import configure
from ssdsim.scenario.options import CACHE_SHAPE, DEFAULTS
from ssdsim.speculation.speculators import backup_in_proportion

_SECTIONS = 10  # of the range, and then of the section that holds the crossing
_ROUNDS = 3
_LARGEST_BATCH = 4096
_NEAR_BEST = 0.8  # rivals' placements worth another look
_FAN_OUTS = (3, 9, 27)  # guesses a position that another batch may want


@dataclass(frozen=True)
class BreakEven:
    """``value`` is the bound on ``what``; ``always``, ``never`` where SSD leads or trails over the whole range.

    ``unknown`` says why there is no answer in ``note``. ``present`` is the value asked about.
    """

    what: str
    unit: str
    bound: Literal["at least", "at most", "always", "never", "unknown"]
    value: float | None = None
    present: float | None = None
    note: str = ""


@dataclass(frozen=True)
class _Contest:
    """SSD's and the rivals' shapes that may win near the answer, in their copies; SSD's placement is held."""

    search: Search
    batch: int
    cases: tuple[tuple[Shape, int], ...]

    def leads(self, changes: Sequence[Mapping[str, Any]], batch: int | None = None) -> NDArray[np.float64]:
        """SSD's tokens/s per user over its best rival's under each change of options; 0 where SSD has no room.

        Settings follow the change: each side is the best of its own shapes there.
        """
        b = batch or self.batch
        options = self.search.request.options
        cases = [(shape, -(-b // copies)) for shape, copies in self.cases if copies <= b]
        points = [self._point(shape, size, options, change) for change in changes for shape, size in cases]
        frame = evaluate(points)
        columns = {name: frame[f"{name}_tokens_per_second"].to_numpy() for name in ("ar", "sd", "ssd")}
        strategies = np.array([shape.strategy for shape, _ in cases])
        sizes = np.array([size for _, size in cases], dtype=float)
        own = np.select([np.tile(strategies == name, len(changes)) for name in columns], list(columns.values()))
        rates = np.nan_to_num(own.reshape(len(changes), len(cases)) / sizes)
        ssd = rates[:, strategies == "ssd"].max(axis=1, initial=0.0)
        rival = rates[:, strategies != "ssd"].max(axis=1, initial=0.0)
        return np.asarray(np.divide(ssd, rival, out=np.where(ssd > 0, np.inf, 0.0), where=rival > 0))

    @staticmethod
    def _point(shape: Shape, size: int, options: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
        kept = options
        if "p_hit" in change:
            kept = {name: value for name, value in options.items() if name not in (*CACHE_SHAPE, "p_hit_backup")}
        return shape.point({**kept, **change}, size)


def break_evens(search: Search, batch: int) -> list[BreakEven]:
    """The four bounds at ``batch``, as far as SSD and a rival fit there."""
    deployments = search.deployments(batch)
    ssd = best((d for d in deployments if d.shape.strategy == "ssd"), "user")
    rival = best((d for d in deployments if d.shape.strategy != "ssd"), "user")
    if ssd is None or rival is None:
        return []
    contest = _contest(search, batch, deployments, ssd)
    point = ssd.shape.point(search.request.options, ssd.copy_batch)
    with TemporaryDirectory() as folder:
        return [
            _hits(contest, point),
            _alpha(contest, point),
            _link(contest, point, Path(folder)),
            _largest_batch(_contest(search, batch, deployments, ssd, _FAN_OUTS)),
        ]


def _contest(
    search: Search, batch: int, deployments: Sequence[Deployment], ssd: Deployment, fan_outs: Sequence[int] = ()
) -> _Contest:
    """SSD placed where it is best, at many lookaheads, and the rivals where they are good.

    It caches as many outcomes an accepted length as there, or ``fan_outs`` (the best numbers change with the batch).
    """
    request = search.request
    backup: Any = "auto" if len(request.backups) > 1 else request.backups[0]
    tops = [ssd, best((d for d in deployments if d.shape.strategy == "sd"), "user")]
    at = [request.lookaheads.index(top.shape.k) for top in tops if top is not None]
    near = {k for i in at for k in request.lookaheads[max(0, i - 1) : i + 2]}
    lookaheads = sorted({*coarse_lookaheads(request.lookaheads), *near})
    cases: dict[tuple[Shape, int], None] = {}
    for k in lookaheads:
        budget = ssd.shape.budget
        same = None if budget is None else max(1, round(budget * (k + 1) / (ssd.shape.k + 1)))
        others = {f * (k + 1) for f in fan_outs} if request.searches_budgets else set()
        for outcomes in {same, *others}:
            cases[Shape("ssd", ssd.shape.tp, ssd.shape.draft_gpus, k, outcomes, backup), ssd.copies] = None
    for strategy in ("sd", "ar"):
        rivals = [d for d in deployments if d.shape.strategy == strategy]
        bar = _NEAR_BEST * max((d.per_user for d in rivals), default=0.0)
        for tp, draft_gpus, copies in {(d.shape.tp, d.shape.draft_gpus, d.copies) for d in rivals if d.per_user >= bar}:
            for k in lookaheads if strategy == "sd" else (0,):
                cases[Shape(strategy, tp, draft_gpus, k), copies] = None
    return _Contest(search, batch, tuple(cases))


def _least(
    what: str,
    unit: str,
    contest: _Contest,
    change: Callable[[float], Mapping[str, Any]],
    low: float,
    high: float,
    present: float,
    spaced: Callable[[float, float, int], NDArray[np.float64]] = np.linspace,
) -> BreakEven:
    """The smallest value from which on SSD leads, up to the present one (or, where it trails now, beyond it)."""
    for _ in range(_ROUNDS):
        values = np.asarray(spaced(low, high, _SECTIONS + 1), dtype=float)
        leads = contest.leads([change(float(value)) for value in values]) > 1.0
        if leads.all():
            return BreakEven(what, unit, "always", present=present)
        if not leads.any():
            return BreakEven(what, unit, "never", present=present)
        rises = np.flatnonzero(leads[1:] & ~leads[:-1])
        if rises.size == 0:  # ahead at the low end only: more of it does not help SSD against its rivals
            last = int(np.flatnonzero(leads)[-1])
            return BreakEven(what, unit, "at most", float(values[last]), present)
        at = int(rises[np.abs(values[rises] - present).argmin()])
        low, high = float(values[at]), float(values[at + 1])
    return BreakEven(what, unit, "at least", high, present)


def _hits(contest: _Contest, point: Mapping[str, Any]) -> BreakEven:
    """Of the hit rate after a speculation by the primary; misses after one by the backup change in proportion."""
    values = configure(**point).values
    present = float(values["p_hit"])
    after_backup = values.get("p_hit_backup", present)

    def change(p_hit: float) -> Mapping[str, Any]:
        return {"p_hit": p_hit, "p_hit_backup": backup_in_proportion(p_hit, present, after_backup)}

    return _least("hit rate p_hit", "", contest, change, 0.0, 1.0, present)


def _alpha(contest: _Contest, point: Mapping[str, Any]) -> BreakEven:
    alpha = point.get("alpha", DEFAULTS["alpha"])
    if "acceptance" in point or not isinstance(alpha, int | float):
        return BreakEven("acceptance rate alpha", "", "unknown", note="acceptance is not one rate here")
    return _least("acceptance rate alpha", "", contest, lambda x: {"alpha": x}, 0.0, 0.99, float(alpha))


def _link(contest: _Contest, point: Mapping[str, Any], folder: Path) -> BreakEven:
    """Of the link between target and draft (its latency held); the target's own collectives are left alone."""
    hardware = point.get("draft_hardware", point.get("hardware", DEFAULTS["hardware"]))
    profile = find_hardware(hardware)
    link = profile.link
    if link is None:
        return BreakEven("link bandwidth", "GB/s", "unknown", note=f"profile {profile.name} has no link")

    def change(gigabytes: float) -> Mapping[str, Any]:
        path = folder / f"{gigabytes:.6g}.json"
        slower = link.model_copy(update={"bandwidth": gigabytes * 1e9})
        profile.model_copy(update={"link": slower}).save(path)
        return {"draft_hardware": str(path)}

    present = link.bandwidth / 1e9
    found = contest.leads([change(present * factor) for factor in (1e-3, 1.0)])
    if min(found) > 1.0:
        return BreakEven("link bandwidth", "GB/s", "always", present=present, note="down to a thousandth of it")
    if max(found) <= 1.0:
        return BreakEven("link bandwidth", "GB/s", "never", present=present, note="latency and drafting remain")
    return _least("link bandwidth", "GB/s", contest, change, present * 1e-3, present, present, np.geomspace)


def _largest_batch(contest: _Contest) -> BreakEven:
    """The largest batch up to which SSD leads (one batch later it trails, or has no room)."""

    def leads(batch: int) -> bool:
        return bool(contest.leads([{}], batch)[0] > 1.0)

    low, high = contest.batch, contest.batch
    if leads(low):
        while leads(high):
            low, high = high, 2 * high
            if low >= _LARGEST_BATCH:
                return BreakEven("batch", "sequences", "always", present=contest.batch, note=f"up to {low}")
    else:
        while not leads(low):
            low, high = low // 2, low
            if low == 0:
                return BreakEven("batch", "sequences", "never", present=contest.batch)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if leads(middle) else (low, middle)
    return BreakEven("batch", "sequences", "at most", low, contest.batch)
