"""The speculators of a scenario: accepted lengths, fan-outs and hit rates from its options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.errors import InputError
from ssdsim.speculation.acceptance import accepted_length_pmf
from ssdsim.speculation.acceptance_models import RequestKinds, beta_kinds, load_acceptance
from ssdsim.speculation.hit_models import FanOut, HitCurve, MeasuredHits, PowerLawHits, fan_out
from ssdsim.speculation.requests import RequestMix
from ssdsim.speculation.speculator import Fallback, Speculator


@dataclass(frozen=True)
class Speculators:
    """SSD's primary speculator and its backup, SD's (which has no cache to hit), and the kinds of requests if any."""

    primary: Speculator
    backup: Speculator
    sd: Speculator
    requests: RequestMix | None


def speculators(values: dict[str, Any], sources: dict[str, str], fallback: Fallback) -> Speculators:
    """Build them; writes what was derived (hit rates, fan-outs) into ``values`` and says so in ``sources``."""
    k = values["k"]
    kinds, sd_kinds = _request_kinds(values, k), _request_kinds(values, values["sd_k"])
    pmf = _mean_pmf(kinds, values, k)
    backup_pmf = accepted_length_pmf(values["alpha_backup"], k) if fallback == "fast" else pmf
    hit, backup_hit = _hits(values, sources, fallback, pmf, backup_pmf)
    primary = Speculator(pmf, hit)
    backup = Speculator(backup_pmf, backup_hit) if fallback == "fast" else primary
    sd_pmf = _mean_pmf(sd_kinds, values, values["sd_k"])
    sd = Speculator(sd_pmf, np.zeros(sd_pmf.size))
    if kinds is None or sd_kinds is None:
        return Speculators(primary, backup, sd, None)
    of_kinds = tuple(Speculator(row, hit) for row in kinds.pmfs)
    mix = RequestMix(
        weights=kinds.weights,
        output_tokens=values["output_tokens"],
        sd=tuple(Speculator(row, sd.hit_given_accepted) for row in sd_kinds.pmfs),
        primary=of_kinds,
        backup=(backup,) * len(of_kinds) if fallback == "fast" else of_kinds,
    )
    return Speculators(primary, backup, sd, mix)


def _request_kinds(values: dict[str, Any], k: int) -> RequestKinds | None:
    if values["acceptance"] is not None:
        return load_acceptance(Path(values["acceptance"]), k)
    if values["alpha_concentration"] is not None:
        return beta_kinds(values["alpha"], values["alpha_concentration"], k)
    return None


def _mean_pmf(kinds: RequestKinds | None, values: dict[str, Any], k: int) -> NDArray[np.float64]:
    if kinds is not None:
        return np.asarray(kinds.weights @ kinds.pmfs)
    return accepted_length_pmf(_by_position(values["alpha"], k), k)


def _by_position(alpha: float | Sequence[float], k: int) -> float | NDArray[np.float64]:
    """The first ``k`` rates of a list by position, or the one rate."""
    if isinstance(alpha, int | float):
        return float(alpha)
    if len(alpha) < k:
        raise InputError(f"--alpha has {len(alpha)} rates by position, but the lookahead is {k}")
    return np.asarray(alpha[:k], dtype=float)


def _hits(
    values: dict[str, Any],
    sources: dict[str, str],
    fallback: Fallback,
    pmf: NDArray[np.float64],
    backup_pmf: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P(hit | k accepted), shape ``(K+1,)``, after a speculation by the primary and by the backup."""
    if values["p_hit"] is not None:
        if values["p_hit_backup"] is None:
            values["p_hit_backup"], sources["p_hit_backup"] = values["p_hit"], "same as p_hit"
        return np.full(pmf.size, values["p_hit"]), np.full(pmf.size, values["p_hit_backup"])
    curve, curve_all = _hit_curves(values)
    primary_fan_out = _fan_out(values, values["fl"], pmf, curve, curve_all)
    values["fan_outs"], sources["fan_outs"] = primary_fan_out.tolist(), "derived"
    hit = _given_accepted(primary_fan_out, curve, curve_all)
    values["p_hit"], sources["p_hit"] = float(pmf @ hit), "from the fan-out and the hit curve"
    if fallback == "jit":
        return hit, hit
    backup_fan_out = _fan_out(values, values["flm"] or values["fl"], backup_pmf, curve, curve_all)
    values["fan_outs_after_miss"], sources["fan_outs_after_miss"] = backup_fan_out.tolist(), "derived"
    backup_hit = _given_accepted(backup_fan_out, curve, curve_all)
    values["p_hit_backup"] = float(backup_pmf @ backup_hit)
    sources["p_hit_backup"] = "from the fan-out and the hit curve"
    return hit, backup_hit


def backup_in_proportion(p_hit: float, primary: float, backup: float) -> float:
    """The hit rate after a speculation by the backup when that after one by the primary becomes ``p_hit``.

    ``primary`` and ``backup`` are the two rates now; their misses change in proportion.
    """
    share = (1.0 - backup) / (1.0 - primary) if primary < 1.0 else 1.0
    return min(1.0, max(0.0, 1.0 - share * (1.0 - p_hit)))


def _hit_curves(values: dict[str, Any]) -> tuple[HitCurve, HitCurve]:
    """h(F) for k < K, and for k = K, whose bonus token comes from the target and not from the residual."""
    if values["hit_curve"] is not None:
        points = sorted(values["hit_curve"])
        measured = MeasuredHits(tuple(f for f, _ in points), tuple(h for _, h in points))
        return measured, measured
    law = PowerLawHits(c=values["hit_c"], r=values["hit_r"])
    c_all = values["hit_c"] if values["hit_c_all"] is None else values["hit_c_all"]
    r_all = values["hit_r"] if values["hit_r_all"] is None else values["hit_r_all"]
    return law, PowerLawHits(c=c_all, r=r_all)


def _given_accepted(fan_outs: FanOut, curve: HitCurve, curve_all: HitCurve) -> NDArray[np.float64]:
    return np.append(curve(fan_outs[:-1]), curve_all(fan_outs[-1]))


def _fan_out(
    values: dict[str, Any], given: list[int] | None, pmf: NDArray[np.float64], curve: HitCurve, curve_all: HitCurve
) -> FanOut:
    k = pmf.size - 1
    if given is not None:
        if len(given) != k + 1:
            raise InputError(f"a fan-out list needs K + 1 = {k + 1} numbers, got {len(given)}")
        return np.asarray(given, dtype=np.int64)
    return fan_out(values["fan_out_policy"], values["budget"], k, _rates_of(pmf), curve, curve_all)


def _rates_of(pmf: NDArray[np.float64]) -> NDArray[np.float64]:
    """Acceptance rates by position of a distribution of accepted lengths (0 where a position is never reached)."""
    reached = np.minimum(1.0, np.cumsum(pmf[::-1])[::-1])  # P(at least k accepted)
    return np.divide(reached[1:], reached[:-1], out=np.zeros(pmf.size - 1), where=reached[:-1] > 0)
