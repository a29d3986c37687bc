"""A synthetic model of target and draft logits, for acceptance and hit rates from first principles.

In a context the target's logits are independent exponentials of mean ``spread``, so that the token of rank ``i``
has a logit near ``spread (ln V - ln i)``: Zipf's law with that exponent at temperature 1, with the accidents of
real contexts (now one token stands out, now several are level). The draft's logits are the target's plus normal
noise; its standard deviation is ``sigma`` on average and exponentially distributed over contexts, since some are
easy for a draft and some are hard. Acceptance, the residual and the hit rates of a cache follow by sums over the
vocabulary (:mod:`ssdsim.tokens.sampling` holds the distributions); contexts are sampled.

For ``spread > tau`` the target's probabilities tend, as the vocabulary grows, to the Poisson-Dirichlet law with
parameter ``tau / spread`` (Pitman and Yor 1997), so rates depend little on ``V``, and the mass beyond ``F`` tokens
is near a power of ``F``, as the misses are in the SSD paper's figure 3. At low temperatures it is the contexts'
difference in noise that keeps the power law: under one noise for all, greedy misses fall faster than any power.

The model is not a language model. Its acceptance rate hardly depends on the temperature, or rises with it, since
a temperature divides the noise too; measured pairs often lose acceptance as it rises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssdsim.answers.token_rates import ROUNDING, TokenRates, checked_axes, rates_of_contexts
from ssdsim.base.checks import Array, whole, within
from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.record import Record, replace
from ssdsim.tokens.hit_models import MeasuredHits, PowerLawHits
from ssdsim.tokens.sampling import residual, saguaro_distribution

if TYPE_CHECKING:
    from ssdsim.tokens.pair_file import Pair

_TINY = np.finfo(float).tiny
_MOST = 10_000_000  # contexts, tokens of a vocabulary
_STEP = 0.02  # of the logarithms of spread and sigma
_START_CONTEXTS = 300  # to choose where the fit starts
FIT_FAN_OUTS = (1, 2, 4, 8, 16, 32, 64)  # an equal weight for every octave


class TokenRounds(Record):
    """Rounds in which tokens were really sampled: accepted lengths ``(rounds,)`` and whether the cache hit."""

    accepted: NDArray[np.int64]
    hit: NDArray[np.bool_]


class TokenModel(Record, kw_only=True):
    """Target logits ``spread x Exp(1)`` a token; draft logits add ``sigma x Exp(1)`` a context ``x N(0, 1)`` a token.

    ``contexts`` are drawn with ``seed``; models that differ in ``spread`` or ``sigma`` only share their random
    numbers, so their differences are sharper than their intervals.

    >>> model = TokenModel(spread=2.0, sigma=1.0, vocabulary=1000)
    >>> rates = model.rates([1, 4, 16], taus=[0.5, 1.0])
    >>> rates.alpha.value[:, 0, 0].round(2)
    array([0.78, 0.79])
    >>> rates.hit.value[1, 0].round(2)
    array([0.32, 0.6 , 0.82])

    Raises
    ------
    InputError : a spread not above 0, sigma negative, or a vocabulary below 2 tokens or fewer than 2 contexts.
    """

    spread: float
    sigma: float
    vocabulary: int = 4096
    contexts: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        within("spread", self.spread, _TINY)
        within("sigma", self.sigma, 0)
        whole("vocabulary", self.vocabulary, 2, _MOST)
        whole("contexts", self.contexts, 2, _MOST)
        whole("seed", self.seed, 0)

    def rates(self, fan_outs: ArrayLike, taus: ArrayLike = 1.0, cs: ArrayLike = 1.0) -> TokenRates:
        """Acceptance and hit rates at every temperature, Saguaro constant and fan-out, by exact sums a context.

        Draft tokens are sampled from ``sigma_{F,C}`` of the draft's logits over ``tau`` (SSD paper, Definition 14)
        and the cache holds the ``F`` likeliest tokens other than the rejected one. ``h(F)`` weighs contexts by how
        often they reject; the bonus token after full acceptance comes from a context of its own, by the plain
        target. ``tau = 0`` is greedy decoding, to which any ``c > 0`` makes no difference.
        """
        return rates_of_contexts(self._draws(), self.contexts, fan_outs, taus, cs)

    def logits(self) -> tuple[Array, Array]:
        """The target's and the draft's logits at temperature 1, each ``(contexts, vocabulary)``.

        Tokens are numbered by their noise. They are exchangeable, so no sum needs a sort.
        """
        target, noise = map(np.array, zip(*self._draws(), strict=True))
        return target, target + noise

    def sample_rounds(
        self, fan_outs: Sequence[int], rounds: int, tau: float = 1.0, c: float = 1.0, seed: int = 0
    ) -> TokenRounds:
        """Rounds of SSD token by token: draw draft tokens, accept them or not, draw the bonus token, look it up.

        ``fan_outs``, one an accepted length, has ``K + 1`` entries; position ``k`` is drafted from
        ``sigma_{F_k,C}``. Each position of each round meets one of the model's contexts at random. It shares only
        the distributions with :meth:`rates`, none of its sums, and so checks them.
        """
        taus, cs, guesses = checked_axes(tau, c, fan_outs)
        k = guesses.size - 1
        rng = np.random.default_rng(seed)
        accepted, hit = np.full(whole("rounds", rounds, 1), k), np.zeros(rounds, dtype=bool)
        target, draft = (_tempered(logits, float(taus[0])) for logits in self.logits())
        p_target, rank = saguaro_distribution(target, 0, 1.0), _ranks(self.logits()[1])
        alive = np.arange(rounds)
        for position, guessed in enumerate(guesses.tolist()):
            context = rng.integers(self.contexts, size=alive.size)
            if position == k:
                bonus = _sample(p_target, context, rng)
                hit[alive] = rank[context, bonus] < guessed
                break
            p_draft = saguaro_distribution(draft, guessed, float(cs[0]))
            token = _sample(p_draft, context, rng)
            rejected = rng.random(alive.size) * p_draft[context, token] >= p_target[context, token]
            where, token = context[rejected], token[rejected]
            bonus_rank = rank[where, _sample(residual(p_target, p_draft), where, rng)]
            accepted[alive[rejected]] = position
            # the rejected token is left out of the cache, which makes room for one more
            hit[alive[rejected]] = bonus_rank - (bonus_rank > rank[where, token]) < guessed
            alive = alive[~rejected]
        return TokenRounds(accepted, hit)

    def options(self, tau: float = 1.0, c: float = 1.0, fan_out: int = 3) -> dict[str, float]:
        """``alpha`` and the hit curves' power laws, as options of :func:`ssdsim.answers.predict.predict`.

        With ``c < 1`` acceptance is that at ``fan_out``; the curves are functions of the fan-out.
        """
        rates = self.rates([*FIT_FAN_OUTS, fan_out], tau, c)
        law = fit_power_law(FIT_FAN_OUTS, rates.hit.value[0, 0, :-1]).hits
        law_all = fit_power_law(FIT_FAN_OUTS, rates.hit_all.value[0, :-1]).hits
        curves = {"hit_c": law.c, "hit_r": law.r, "hit_c_all": law_all.c, "hit_r_all": law_all.r}
        return {"alpha": float(rates.alpha.value[0, 0, -1]), **curves}

    def hit_curves(self, fan_outs: ArrayLike, tau: float = 1.0, c: float = 1.0) -> tuple[MeasuredHits, MeasuredHits]:
        """``h`` and ``h_all`` at the given fan-outs, for :mod:`ssdsim.tokens.hit_models`."""
        rates = self.rates(fan_outs, tau, c)
        guesses = tuple(rates.fan_outs.astype(float).tolist())
        curves = rates.hit.value[0, 0], rates.hit_all.value[0]
        h, h_all = (MeasuredHits(guesses, tuple(np.minimum(curve, 1.0).tolist())) for curve in curves)
        return h, h_all

    def pair(self, taus: Sequence[float] = (1.0,), **asked: Sequence[float]) -> Pair:
        """These tokens as a pair at some temperatures, with a table of ``cs``: save it, and name it as ``pair``."""
        from ssdsim.answers.token_pair import pair_of

        return pair_of(self, taus, **asked)

    def _draws(self) -> Iterator[tuple[Array, Array]]:
        """Each context's target logits and ascending noise, both ``(vocabulary,)``.

        Pairing exponentials with sorted normals only numbers the tokens.
        """
        rng = np.random.default_rng(self.seed)
        for _ in range(self.contexts):
            difficulty, logits = rng.standard_exponential(), rng.standard_exponential(self.vocabulary)
            noise = difficulty * np.sort(rng.standard_normal(self.vocabulary))
            yield self.spread * logits, self.sigma * noise


class PowerLawFit(Record):
    """``1 - h(F) = c F^-r`` by least squares on logarithms, and the share of variance that it explains."""

    hits: PowerLawHits
    r_squared: float


def fit_power_law(fan_outs: ArrayLike, rates: ArrayLike) -> PowerLawFit:
    """Fit ``h(F) = 1 - c F^-r`` with ``c <= 1`` to hit rates, both ``(F,)``.

    >>> law = fit_power_law([1, 2, 4], [0.6, 0.8, 0.9])
    >>> round(law.hits.c, 6), round(law.hits.r, 6), round(law.r_squared, 6)
    (0.4, 1.0, 1.0)

    Raises
    ------
    InputError : fewer than two fan-outs, one below 1, a rate of 1 (no misses have no logarithm), or rates that fall.
    """
    x, y = _log_misses(fan_outs, rates)
    slope, intercept = np.polyfit(x, y, 1)
    if intercept > 0:  # c may not exceed 1: the best line through c = 1
        slope, intercept = float(x @ y / (x @ x)), 0.0
    if slope > ROUNDING:
        raise InputError("these hit rates fall as the fan-out grows: no power law of misses fits them")
    error, variance = y - intercept - slope * x, y - y.mean()
    explained = 1 - float(error @ error) / float(variance @ variance) if variance.any() else 1.0
    law = PowerLawHits(r=max(-float(slope), 0.0), c=min(float(np.exp(intercept)), 1.0))
    return PowerLawFit(law, explained)


def _log_misses(fan_outs: ArrayLike, rates: ArrayLike) -> tuple[Array, Array]:
    """``ln F`` and ``ln(1 - h(F))``, both ``(F,)``."""
    x = np.log(within("fan_outs", fan_outs, 1))
    miss = 1 - within("rates", rates, 0, 1)
    if x.ndim != 1 or x.shape != miss.shape or np.ptp(x) == 0:
        raise InputError("a power law needs hit rates at two fan-outs or more, one rate a fan-out")
    if miss.min() <= ROUNDING:
        at = np.exp(x[miss <= ROUNDING].min())
        raise InputError(f"no misses at fan-out {at:.0f}: take more contexts, or fit smaller fan-outs")
    return x, np.log(miss)


class TokenModelFit(Record):
    """A model fitted to measured rates, and the rates that it has at the temperature of the measurement."""

    model: TokenModel
    alpha: float
    c: float
    r: float
    r_squared: float


def fit_token_model(
    alpha: float,
    c: float,
    r: float,
    tau: float = 1.0,
    fan_outs: Sequence[int] = FIT_FAN_OUTS,
    *,
    vocabulary: int = 4096,
    contexts: int = 1000,
    seed: int = 0,
) -> TokenModelFit:
    """The spread and noise whose acceptance rate and hit curve come nearest to measured ones.

    ``alpha`` is the acceptance rate and ``h(F) = 1 - c F^-r`` the hit rate after a rejection, both measured at
    temperature ``tau`` with plain sampling; ``fan_outs`` are those that ``c`` and ``r`` were fitted to;
    ``vocabulary``, ``contexts`` and ``seed`` are the model's. Two parameters fit three numbers, by least squares of the
    relative errors of ``1 - alpha``, ``c`` and ``r`` on common random numbers. The result has the fitted numbers.

    Raises
    ------
    InputError : a measured number out of its range, tau not above 0, or fan-outs that the vocabulary cannot miss.
    """
    from scipy.optimize import least_squares

    ranges = {"alpha": (alpha, ROUNDING, 1 - ROUNDING), "c": (c, ROUNDING, 1), "r": (r, ROUNDING), "tau": (tau, _TINY)}
    for name, (number, *bounds) in ranges.items():
        if within(name, number, *bounds).ndim:
            raise InputError(f"{name} must be one number, got {short_repr(number)}")
    measured = np.log([1.0 - float(alpha), float(c), float(r)])
    # at temperature 1: only ratios to the temperature matter
    base = TokenModel(spread=1.0, sigma=1.0, vocabulary=vocabulary, contexts=contexts, seed=seed)
    trials = _Trials(list(base._draws()), fan_outs, measured)
    starts = [np.log([spread, ratio * spread]) for spread in (1.2, 2, 4, 8) for ratio in (0.2, 0.4, 0.8)]
    start = min(starts, key=lambda parameters: float(np.square(trials.errors(parameters, _START_CONTEXTS)).sum()))
    best = least_squares(trials.errors, start, jac=trials.slopes, xtol=1e-3, ftol=1e-4).x
    met = trials.rates(best)
    law = fit_power_law(fan_outs, met.hit.value[0, 0])
    spread, sigma = (tau * np.exp(best)).tolist()
    fitted = replace(base, spread=spread, sigma=sigma)
    return TokenModelFit(fitted, float(met.alpha.value[0, 0, 0]), law.hits.c, law.hits.r, law.r_squared)


class _Trials(Record):
    """Trials of a fit on the same draws; ``parameters`` are logarithms of spread and sigma."""

    draws: Sequence[tuple[Array, Array]]
    fan_outs: Sequence[int]
    measured: Array

    def rates(self, parameters: Array, contexts: int | None = None) -> TokenRates:
        """Rates over the first so many contexts."""
        (spread, sigma), draws = np.exp(parameters).tolist(), self.draws[:contexts]
        logits = ((spread * target, sigma * noise) for target, noise in draws)
        return rates_of_contexts(logits, len(draws), self.fan_outs, 1.0, 1.0)

    def errors(self, parameters: Array, contexts: int | None = None) -> Array:
        """Logarithms of the rejection rate, c and r over the measured ones."""
        drawn = self.rates(parameters, contexts)
        # the line before c is held to at most 1, where its gradient would vanish
        slope, intercept = np.polyfit(*_log_misses(self.fan_outs, drawn.hit.value[0, 0]), 1)
        rejected = 1 - float(drawn.alpha.value[0, 0, 0])
        return np.asarray(np.log([rejected, np.exp(intercept), max(-slope, ROUNDING)]) - self.measured)

    def slopes(self, parameters: Array) -> Array:
        """The errors' gradient, by a step that is wide enough to smooth tokens that change places in the cache."""
        here = self.errors(parameters)
        return np.transpose([(self.errors(parameters + step) - here) / _STEP for step in _STEP * np.eye(2)])


def _tempered(logits: Array, tau: float) -> Array:
    """``logits / tau`` up to a constant a row; at ``tau = 0`` the likeliest token is the only one."""
    below_best = logits - logits.max(axis=-1, keepdims=True)
    return below_best / tau if tau > 0 else np.where(below_best == 0, 0.0, -np.inf)


def _ranks(scores: Array) -> NDArray[np.int64]:
    """The rank of every token in its row, 0 the highest score."""
    return np.argsort(np.argsort(-scores, axis=-1, kind="stable"), axis=-1)


def _sample(probabilities: Array, rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """A token from the distribution of each of ``rows``, by inversion."""
    cumulative = np.cumsum(probabilities, axis=-1)
    sample = np.empty(rows.size, dtype=np.int64)
    uniform = rng.random(rows.size)
    for row in np.unique(rows):
        mine = rows == row
        sample[mine] = np.searchsorted(cumulative[row], uniform[mine] * cumulative[row, -1], side="right")
    return sample
