from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.answers.predict import predict
from ssdsim.answers.token_model import FIT_FAN_OUTS, TokenModel, fit_power_law, fit_token_model
from ssdsim.base.intervals import binomial_interval
from ssdsim.tokens.acceptance import accepted_length_pmf
from ssdsim.tokens.hit_models import PowerLawHits, geometric_fan_out_real, hit_rate, optimal_fan_out
from ssdsim.tokens.sampling import residual, saguaro_distribution
from tests.refusals import refused
from tests.ssdsim.tokens.rejection import acceptance_rate, residual_hit_rate

pytestmark = pytest.mark.long

laws = settings(derandomize=True, deadline=None, max_examples=40)
MODEL = TokenModel(spread=2.0, sigma=1.0)

small_models = st.builds(
    TokenModel,
    spread=st.floats(0.3, 4),
    sigma=st.floats(0, 3),
    vocabulary=st.integers(2, 30),
    contexts=st.integers(2, 6),
    seed=st.integers(0, 9),
)
temperatures = st.floats(0.1, 2)
constants = st.floats(0.01, 1)


@laws
@given(small_models, temperatures, constants, st.integers(0, 31))
def test_fast_sums_are_those_of_the_distributions(model: TokenModel, tau: float, c: float, fan_out: int) -> None:
    """Prefix sums in the order of the noise against sampling.py's plain definitions, context by context."""
    target, draft = model.logits()
    p_target = saguaro_distribution(target / tau, 0, 1.0)
    p_draft = saguaro_distribution(draft / tau, fan_out, c)
    rates = model.rates(fan_out, tau, c)
    rejected = 1 - acceptance_rate(p_target, p_draft)
    assert rates.alpha.value[0, 0, 0] == pytest.approx(1 - rejected.mean(), abs=1e-12)
    if rejected.sum() > 1e-6:
        hits = residual_hit_rate(p_target, p_draft, fan_out, draft)
        expected = (rejected * hits).sum() / rejected.sum()
        assert rates.hit.value[0, 0, 0] == pytest.approx(expected, abs=1e-5)
    cached = np.argsort(-draft, axis=-1)[:, :fan_out]
    in_cache = np.take_along_axis(p_target, cached, axis=-1).sum(-1)
    assert rates.hit_all.value[0, 0] == pytest.approx(in_cache.mean(), abs=1e-12)


@pytest.mark.parametrize("tau", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("c", [1.0, 0.3])
def test_sampled_tokens_meet_the_exact_sums(tau: float, c: float) -> None:
    """Really sampled rounds on a small vocabulary, within the exact binomial interval of their counts."""
    model = TokenModel(spread=1.5, sigma=1.0, vocabulary=40, contexts=30, seed=3)
    fan_outs = [4, 2, 1, 3]
    rounds = model.sample_rounds(fan_outs, 60_000, tau, c, seed=1)
    rates = model.rates(fan_outs, tau, c)
    for k in range(4):
        reached, stopped = rounds.accepted >= k, rounds.accepted == k
        if k < 3:
            within_interval((rounds.accepted > k)[reached], float(rates.alpha.value[0, 0, k]))
            within_interval(rounds.hit[stopped], float(rates.hit.value[0, 0, k]))
        else:
            within_interval(rounds.hit[stopped], float(rates.hit_all.value[0, k]))


def within_interval(outcomes: np.ndarray, expected: float) -> None:
    """99.9 %: some forty such checks are made."""
    low, high = binomial_interval(float(outcomes.sum()), float(outcomes.size), 0.999)
    assert low - 1e-12 <= expected <= high + 1e-12


def test_hit_rate_of_a_cache_from_tokens() -> None:
    """The formula of a cache's hit rate and the accepted lengths' distribution, token by token."""
    model = TokenModel(spread=1.5, sigma=0.7, vocabulary=60, contexts=50)
    fan_outs = [5, 3, 2, 4]
    rates = model.rates(fan_outs)
    h, h_all = model.hit_curves(sorted(set(fan_outs)))
    pmf = accepted_length_pmf(float(rates.alpha.value[0, 0, 0]), 3)
    rounds = model.sample_rounds(fan_outs, 40_000, seed=2)
    within_interval(rounds.hit, hit_rate(fan_outs, pmf, h, h_all))
    for k in range(4):
        within_interval(rounds.accepted == k, float(pmf[k]))


def test_contexts_are_sampled_honestly() -> None:
    """Intervals of 40 small samples of contexts cover the rates of a large one about as often as they say."""
    truth = TokenModel(spread=2.0, sigma=1.0, vocabulary=200, contexts=4_000, seed=99).rates(3)
    covered = {"alpha": 0, "hit": 0, "hit_all": 0}
    for seed in range(40):
        rates = TokenModel(spread=2.0, sigma=1.0, vocabulary=200, contexts=100, seed=seed).rates(3)
        for name in covered:
            mean = getattr(rates, name)
            covered[name] += int((mean.low <= getattr(truth, name).value <= mean.high).item())
    assert min(covered.values()) >= 33, covered  # 38 expected; P(fewer than 33) < 1 %, and the seeds are fixed


def test_target_is_poisson_dirichlet() -> None:
    """Independent of any sum here: the expected collision probability of PD(a) is 1 - a, with a = tau / spread."""
    target, _ = TokenModel(spread=2.0, sigma=0.0, vocabulary=4000, contexts=500).logits()
    p = saguaro_distribution(target, 0, 1.0)
    collision = (p**2).sum(-1)
    assert collision.mean() == pytest.approx(1 - 1 / 2.0, abs=4 * collision.std() / np.sqrt(500) + 0.005)


@laws
@given(small_models, temperatures, constants, constants, st.integers(1, 8))
def test_theorem_15_holds_for_a_fixed_cache(
    model: TokenModel, tau: float, one: float, other: float, fan_out: int
) -> None:
    target, draft = model.logits()
    p = saguaro_distribution(target / tau, 0, 1.0)
    low, high = (saguaro_distribution(draft / tau, fan_out, c) for c in sorted((one, other)))
    cached = np.argsort(-draft, axis=-1)[:, :fan_out]
    mass = [np.take_along_axis(residual(p, q), cached, -1).sum(-1) for q in (low, high)]
    # where next to nothing is rejected, the residual is made of rounding
    rejects = np.minimum(1 - acceptance_rate(p, low), 1 - acceptance_rate(p, high)) > 1e-6
    assert np.all((mass[0] >= mass[1] - 1e-8)[rejects])


@pytest.mark.parametrize("model", [MODEL, TokenModel(spread=1.5, sigma=0.7), TokenModel(spread=3.0, sigma=1.5)])
def test_saguaro_trades_acceptance_for_hits(model: TokenModel) -> None:
    """Theorem 15 with the rejected token left out of the cache: on average over contexts, at every temperature."""
    rates = model.rates([2, 4, 8], [0.5, 0.75, 1.0], [1.0, 0.7, 0.4, 0.2, 0.1])
    assert np.all(np.diff(rates.hit.value, axis=1) > 0)
    # where the draft overrates its favourites a little less of them may even be accepted more often
    assert np.all(np.diff(rates.alpha.value, axis=1) < 2e-3)
    assert np.all(rates.alpha.value[:, -1] < rates.alpha.value[:, 0])


@pytest.mark.parametrize(("spread", "sigma"), [(2.0, 1.0), (1.5, 0.7), (3.0, 1.5)])
def test_misses_are_near_a_power_law(spread: float, sigma: float) -> None:
    """By octaves and over all of F = 1..64, from cold to hot; enough contexts that rare misses are seen."""
    everyone = np.arange(1, 65)
    rates = TokenModel(spread=spread, sigma=sigma, vocabulary=1000, contexts=3000).rates(everyone, [0.25, 1.0])
    for t, fan_outs in itertools.product(range(2), (np.array(FIT_FAN_OUTS), everyone)):
        law = fit_power_law(fan_outs, rates.hit.value[t, 0, fan_outs - 1])
        assert law.r_squared >= 0.97, (rates.taus[t], law)


def test_hit_rate_falls_with_temperature() -> None:
    rates = MODEL.rates([1, 2, 4, 8, 16], [0.0, 0.25, 0.5, 0.75, 1.0, 1.25])
    assert np.all(np.diff(rates.hit.value[:, 0], axis=0) < 0)
    assert np.all(np.diff(rates.hit_all.value, axis=0) < 0)


def test_greedy_limit() -> None:
    model = TokenModel(spread=2.0, sigma=1.0, vocabulary=500, contexts=300)
    greedy, cool = (model.rates([1, 2, 8], tau, [1.0, 0.5]) for tau in (0.0, 1e-9))
    target, draft = model.logits()
    agree = target.argmax(-1) == draft.argmax(-1)
    np.testing.assert_allclose(greedy.alpha.value, agree.mean())
    rank = (draft > np.take_along_axis(draft, target.argmax(-1)[:, None], -1)).sum(-1)
    np.testing.assert_allclose(greedy.hit.value[0, 0], [(rank[~agree] <= f).mean() for f in (1, 2, 8)])
    for name in ("alpha", "hit", "hit_all"):
        np.testing.assert_allclose(getattr(cool, name).value, getattr(greedy, name).value, atol=1e-9)
        assert not np.isnan(getattr(greedy, name).low).any()


def test_counts_that_never_fail_keep_an_interval() -> None:
    """At temperature 0, 20 contexts that all agree do not prove that the next one will."""
    rates = TokenModel(spread=2.0, sigma=1e-6, vocabulary=50, contexts=20).rates(1, 0.0)
    assert rates.alpha.value.item() == 1.0
    assert rates.alpha.low.item() == pytest.approx(0.025 ** (1 / 20))


def test_equal_models_reject_nothing() -> None:
    rates = TokenModel(spread=2.0, sigma=0.0, contexts=20).rates([1, 4], [0.0, 1.0])
    np.testing.assert_allclose(rates.alpha.value, 1.0)
    np.testing.assert_allclose(rates.hit.value, 1.0)


@laws
@given(small_models, temperatures, st.floats(0.1, 10))
def test_only_ratios_to_the_temperature_matter(model: TokenModel, tau: float, factor: float) -> None:
    scaled = TokenModel(
        spread=factor * model.spread,
        sigma=factor * model.sigma,
        vocabulary=model.vocabulary,
        contexts=model.contexts,
        seed=model.seed,
    )
    one, other = model.rates([1, 2], tau, 0.5), scaled.rates([1, 2], factor * tau, 0.5)
    np.testing.assert_allclose(one.alpha.value, other.alpha.value, atol=1e-9)


def test_geometric_fan_out_beats_uniform_and_more_so_at_higher_temperature() -> None:
    """Theorem 12 in real numbers gains ever more; in whole guesses it is never behind, and gains most where hottest."""
    k, f = 6, 3
    gains, whole_gains = [], []
    for tau in (0.25, 0.5, 0.75, 1.0, 1.25):
        options = MODEL.options(tau)
        h = PowerLawHits(c=options["hit_c"], r=options["hit_r"])
        h_all = PowerLawHits(c=options["hit_c_all"], r=options["hit_r_all"])
        pmf = accepted_length_pmf(options["alpha"], k)
        real = geometric_fan_out_real(f * (k + 1), k, options["alpha"], options["hit_r"])
        assert real.min() >= 1
        gains.append(hit_rate(real, pmf, h, h_all) - hit_rate(np.full(k + 1, f), pmf, h, h_all))
        answers = [predict(t_sd=0.2, k=k, f=f, fan_out_policy=p, **options) for p in ("uniform", "geometric")]
        uniform, geometric = (float(answer.configuration.settings["p_hit"]) for answer in answers)
        assert answers[1].verdict.over["sd"].ratio >= answers[0].verdict.over["sd"].ratio - 1e-12
        whole_gains.append(geometric - uniform)
    assert gains[0] > 0
    assert np.all(np.diff(gains) > -2e-4), gains
    assert gains[-1] > 1.5 * gains[0]
    assert min(whole_gains) >= -1e-12
    assert max(whole_gains) == whole_gains[-1]


def test_curves_serve_the_cache() -> None:
    h, h_all = MODEL.hit_curves(range(1, 17))
    assert np.all(h_all([1, 4, 16]) > h([1, 4, 16]))
    best = optimal_fan_out(21, accepted_length_pmf(0.8, 6), h, h_all)
    assert best.sum() == 21
    assert best[0] >= best[5]


def test_power_law_is_recovered() -> None:
    f = np.array(FIT_FAN_OUTS)
    law = fit_power_law(f, 1 - 0.6 * f**-0.8)
    assert (law.hits.c, law.hits.r, law.r_squared) == pytest.approx((0.6, 0.8, 1.0))
    assert fit_power_law(f, 1 - 0.99 * f ** -(0.5 + 0.2 * np.log(f))).hits.c == 1.0  # never above 1


def test_fit_finds_the_model_that_was_measured() -> None:
    """On its own contexts, and at another temperature than 1."""
    truth = TokenModel(spread=1.3, sigma=0.6, vocabulary=300, contexts=500)
    seen = truth.rates(FIT_FAN_OUTS, 0.7)
    law = fit_power_law(FIT_FAN_OUTS, seen.hit.value[0, 0]).hits
    token_model_fit = fit_token_model(
        float(seen.alpha.value[0, 0, 0]), law.c, law.r, tau=0.7, vocabulary=300, contexts=500
    )
    assert token_model_fit.model.spread == pytest.approx(1.3, rel=0.02)
    assert token_model_fit.model.sigma == pytest.approx(0.6, rel=0.02)


def test_fit_predicts_what_it_has_not_seen() -> None:
    """From alpha, c and r of other contexts at tau = 1, C = 1 to other tau and C, within both models' intervals."""
    truth = TokenModel(spread=1.9, sigma=0.8, vocabulary=300, contexts=1000, seed=7)
    seen = truth.rates(FIT_FAN_OUTS)
    law = fit_power_law(FIT_FAN_OUTS, seen.hit.value[0, 0]).hits
    token_model_fit = fit_token_model(float(seen.alpha.value[0, 0, 0]), law.c, law.r, vocabulary=300, contexts=500)
    assert token_model_fit.alpha == pytest.approx(float(seen.alpha.value[0, 0, 0]), abs=0.01)
    unseen = ([2, 8], [0.4, 0.7, 1.2], [0.6, 0.2])
    for name in ("alpha", "hit", "hit_all"):
        predicted, real = (getattr(m.rates(*unseen), name) for m in (token_model_fit.model, truth))
        error = np.abs(predicted.value - real.value)
        assert np.all(error < (predicted.high - predicted.low + real.high - real.low) / 2), (name, error)


def test_table_of_rates() -> None:
    frame = TokenModel(spread=2.0, sigma=1.0, vocabulary=50, contexts=20).rates([1, 2], [0.5, 1.0], [1.0, 0.5]).frame()
    assert len(frame) == 8
    assert list(frame.columns[:4]) == ["tau", "c", "fan_out", "alpha"]
    assert (frame.hit_low <= frame.hit).all()
    assert frame.query("tau == 0.5").hit_all.nunique() == 2


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: TokenModel(spread=0.0, sigma=1.0), "spread"),
        (lambda: TokenModel(spread=1.0, sigma=-1.0), "sigma, got -1"),
        (lambda: TokenModel(spread=1.0, sigma=1.0, vocabulary=1), "vocabulary"),
        (lambda: MODEL.rates(1.5), "fan_outs"),
        (lambda: MODEL.rates(1, -0.1), "tau"),
        (lambda: MODEL.rates(1, 1.0, 1.5), "c"),
        (lambda: MODEL.rates(1, 0.0, 0.0), "c, temperature 0"),
        (lambda: MODEL.rates([[1]]), "numbers or lists of numbers"),
        (lambda: TokenModel(spread=2.0, sigma=1.0, vocabulary=9).rates(9, 1.0, 0.0), "leaves no token"),
        (lambda: fit_power_law([1, 2], [0.5, 1.0]), "fan-out 2"),
        (lambda: fit_power_law([1], [0.5]), "two fan-outs or more"),
        (lambda: fit_power_law([1, 2], [0.5, 0.4]), "fall as the fan-out grows"),
        (lambda: fit_token_model(1.0, 0.5, 0.7), "alpha"),
    ],
)
def test_bad_input_is_refused(call: object, names: str) -> None:
    with refused(*names.split(", ")):
        call()  # type: ignore[operator]
