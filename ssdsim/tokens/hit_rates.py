"""Hit rates of the speculation cache, by how many tokens were accepted."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray, float_or_array
from ssdsim.base.errors import InputError
from ssdsim.base.settings import DEFAULT, GIVEN, Settings
from ssdsim.tokens.acceptance import rates_of
from ssdsim.tokens.hit_models import FanOut, HitCurve, MeasuredHits, OwnCurve, PowerLawHits, fan_out
from ssdsim.tokens.saguaro import DraftScale


def hits_given_accepted(
    settings: Settings, pmf: Array, backup_pmf: Array, fast: bool, scale: DraftScale | None = None
) -> tuple[Array, Array]:
    """P(hit | k accepted), shape ``(K+1,)``, after a speculation by the primary and by the backup.

    ``pmf`` and ``backup_pmf`` are of their accepted lengths; with ``fast`` the backup is another than the primary.
    ``scale`` is of the primary's probabilities. Derives the hit rates and the fan-outs that they rest on.
    """
    if settings["p_hit"] is not None:
        if settings["p_hit_backup"] is None:
            settings.derive("p_hit_backup", settings["p_hit"], "same as p_hit")
        of_all = np.ones(pmf.shape[-1])
        return settings["p_hit"] * of_all, settings["p_hit_backup"] * of_all
    curve, curve_all = hit_curves(settings)
    primary = curve if scale is None else scale.hits(curve)
    fan_outs = _fan_out(settings, settings["fl"], pmf, primary, curve_all)
    settings.derive("fan_outs", fan_outs.tolist())
    hit = _given_accepted(fan_outs, primary, curve_all)
    settings.derive("p_hit", float_or_array(np.vecdot(pmf, hit)), "from the fan-out and the hit curve")
    if not fast:
        return hit, hit
    own = _other(settings, "hit_curve_backup", "hit_c_backup", "hit_r_backup")
    curve, curve_all = (curve, curve_all) if own is None else (own, own)
    after_miss = _fan_out(settings, settings["flm"] or settings["fl"], backup_pmf, curve, curve_all)
    settings.derive("fan_outs_after_miss", after_miss.tolist())
    backup_hit = _given_accepted(after_miss, curve, curve_all)
    settings.derive(
        "p_hit_backup", float_or_array(np.vecdot(backup_pmf, backup_hit)), "from the fan-out and the hit curve"
    )
    return hit, backup_hit


def forget_derived_hits(settings: Settings, but: Collection[str] = ()) -> None:
    """Unset hit rates that :func:`hits_given_accepted` derived: else they would stay, as if given.

    Those whose names are among ``but`` stay.
    """
    for rate in ("p_hit", "p_hit_backup"):
        if rate not in but and settings.get(rate) is not None and settings.source(rate) != GIVEN:
            settings.settle(rate, None, DEFAULT)


def backup_in_proportion(p_hit: float, primary: float, backup: float) -> float:
    """Hit rate after the backup when that after the primary becomes ``p_hit``.

    ``primary`` and ``backup`` are the two rates now; their misses change in proportion.
    """
    share = (1.0 - backup) / (1.0 - primary) if primary < 1.0 else 1.0
    return min(1.0, max(0.0, 1.0 - share * (1.0 - p_hit)))


def hit_curves(options: Mapping[str, Any]) -> tuple[OwnCurve, OwnCurve]:
    """h(F) for k < K, and for k = K, whose bonus token comes from the target and not from the residual."""
    curve = _curve(options["hit_curve"]) or _law(options, options["hit_c"], options["hit_r"])
    return curve, _other(options, "hit_curve_all", "hit_c_all", "hit_r_all") or curve


def _other(options: Mapping[str, Any], points: str, c: str, r: str) -> OwnCurve | None:
    """The curve of another case, whose law takes missing numbers from the first curve; None if nothing is given."""
    if options[points] is not None or (options[c] is None and options[r] is None):
        return _curve(options[points])
    return _law(
        options,
        options["hit_c"] if options[c] is None else options[c],
        options["hit_r"] if options[r] is None else options[r],
    )


def _law(options: Mapping[str, Any], c: FloatOrArray, r: FloatOrArray) -> PowerLawHits:
    most = math.inf if options["hit_fan_out"] is None else float(options["hit_fan_out"])
    in_columns = isinstance(c, np.ndarray) or isinstance(r, np.ndarray)
    return PowerLawHits(c=c, r=r, most=most) if in_columns else _known_law(c, r, most)


@lru_cache(maxsize=256)
def _known_law(c: float, r: float, most: float) -> PowerLawHits:
    """Cached with its checks: every round of a grid has the same."""
    return PowerLawHits(c=c, r=r, most=most)


def _curve(points: Sequence[tuple[float, float]] | None) -> MeasuredHits | None:
    if points is None:
        return None
    points = sorted(points)
    return MeasuredHits(tuple(f for f, _ in points), tuple(h for _, h in points))


def _given_accepted(fan_outs: FanOut, curve: HitCurve, curve_all: HitCurve) -> Array:
    if curve_all is curve:
        return curve(fan_outs)
    return np.where(np.arange(1, fan_outs.size + 1) < fan_outs.size, curve(fan_outs), curve_all(fan_outs))


def _fan_out(
    options: Mapping[str, Any], given: list[int] | None, pmf: Array, curve: HitCurve, curve_all: HitCurve
) -> FanOut:
    k = pmf.shape[-1] - 1
    if given is not None:
        if len(given) != k + 1:
            slashes = "; commas stand between the numbers of a list" if len(given) == 1 else ""  # of 4/3/2: three lists
            raise InputError(f"a fan-out list needs K + 1 = {k + 1} numbers, got {len(given)}{slashes}")
        return np.asarray(given, dtype=np.int64)
    return _planned(options["fan_out_policy"], options["budget"], tuple(rates_of(pmf).tolist()), curve, curve_all)


@lru_cache(maxsize=65536)
def _planned(policy: str, budget: int, rates: tuple[float, ...], curve: HitCurve, curve_all: HitCurve) -> FanOut:
    """Cached: a search has the same plan at many batches and with every fallback."""
    return fan_out(policy, budget, len(rates), rates, curve, curve_all)
