"""A token model's rates in the file of a pair, with its table of Saguaro's C: what ``--pair`` reads of real models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ssdsim.answers.token_model import FIT_FAN_OUTS, TokenModel, fit_power_law
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.tokens.pair_choice import RANDOM, TOKEN_MODEL

if TYPE_CHECKING:
    from ssdsim.tokens.pair_file import AtTemperature, HitLaw, Pair

CS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
FAN_OUTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_POSITIONS = 16  # every position is alike: as many as a search goes


def pair_of(model: TokenModel, taus: Sequence[float], cs: Sequence[float] = CS) -> Pair:
    """The pair of a token model at some temperatures.

    What follows random tokens is sampled from the target, as what follows K accepted ones: C changes neither.
    """
    from ssdsim.tokens.pair_file import Pair, PairProvenance

    said = f"spread {model.spread:g}, sigma {model.sigma:g}, vocabulary {model.vocabulary:,}, seed {model.seed}"
    found = tuple(_at(model, tau, tuple(sorted({*cs, 1.0}))) for tau in taus)
    return Pair(how=TOKEN_MODEL, by_temperature=found, provenance=PairProvenance(notes=(said,)))


def _at(model: TokenModel, tau: float, cs: Sequence[float]) -> AtTemperature:
    from ssdsim.tokens.pair_file import AtTemperature, Hits, Mean, Saguaro

    rates = model.rates(FAN_OUTS, tau, cs)
    alpha, hit = rates.alpha.value[0], np.minimum(rates.hit.value[0], 1.0)
    mean, low, high = (float(each[0, -1, 0]) for each in (rates.alpha.value, rates.alpha.low, rates.alpha.high))
    table = tuple(
        Saguaro(c=c, f=f, alpha=float(alpha[i, j]), hit_rejected=float(hit[i, j]))
        for i, c in enumerate(cs)
        for j, f in enumerate(FAN_OUTS)
    )
    plain = hit[-1], np.minimum(rates.hit.low[0, -1], 1.0), np.minimum(rates.hit.high[0, -1], 1.0)
    by_target = _law(*(np.minimum(getattr(rates.hit_all, name)[0], 1.0) for name in ("value", "low", "high")))
    return AtTemperature(
        temperature=tau,
        alpha=Mean(mean=mean, low=low, high=high),
        alpha_k=(mean,) * _POSITIONS,
        hits=Hits(rejected=_law(*plain), all_accepted=by_target, after_backup={RANDOM: by_target}),
        saguaro=table if tau > 0.0 else (),
        count=model.contexts,
    )


def _law(value: Array, low: Array, high: Array) -> HitLaw:
    """The curve, and the power law of the fan-outs that are fitted where there is one."""
    from ssdsim.tokens.pair_file import HitLaw

    points = zip(FAN_OUTS, value.tolist(), low.tolist(), high.tolist(), strict=True)
    curve = tuple((f, rate, least, most) for f, rate, least, most in points)
    try:
        fitted = fit_power_law(FIT_FAN_OUTS, value[np.isin(FAN_OUTS, FIT_FAN_OUTS)])
    except InputError:
        return HitLaw(curve=curve)
    law = fitted.hits
    error = float(np.abs(law(FAN_OUTS) - value).max())
    return HitLaw(curve=curve, c=float(law.c), r=float(law.r), r2=fitted.r_squared, max_error=error)
