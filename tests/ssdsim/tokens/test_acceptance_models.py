"""Acceptance that differs between requests: cards, Beta distributions, traces of accepted lengths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.base.errors import InputError
from ssdsim.question.configuration import configure
from ssdsim.tokens.acceptance import accepted_length_pmf
from ssdsim.tokens.acceptance_models import ACCEPTANCE, beta_kinds, context_pmf, load_acceptance


@pytest.mark.long
@given(mean=st.floats(0.05, 0.95), concentration=st.floats(1.0, 200.0))
@settings(derandomize=True, deadline=None)
def test_a_betas_kinds_have_its_mean(mean: float, concentration: float) -> None:
    kinds = beta_kinds(mean, concentration, 1)
    assert kinds.weights.sum() == pytest.approx(1.0)
    assert kinds.weights @ kinds.pmfs[:, 1] == pytest.approx(mean, abs=1e-3)


def test_a_concentrated_beta_is_one_rate() -> None:
    kinds = beta_kinds(0.7, 1e6, 5)
    assert np.allclose(kinds.weights @ kinds.pmfs, accepted_length_pmf(0.7, 5), atol=1e-4)


def test_every_bundled_card_can_be_used() -> None:
    for name in ACCEPTANCE.names():
        assert load_acceptance(Path(name), 6).weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_trace_keeps_the_lengths_of_each_request(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"trace{suffix}"
    if suffix == ".csv":
        path.write_text("request,accepted\na,0\na,4\nb,1\nb,1\nb,3\n")
    else:
        path.write_text('[0, 4]\n{"accepted": [1, 1, 3]}\n')
    kinds = load_acceptance(path, 3)
    assert np.allclose(kinds.pmfs, [[0.5, 0, 0, 0.5], [0, 2 / 3, 0, 1 / 3]])  # cut to K = 3
    scenario = configure(t_sd=0.2, k=3, acceptance=str(path), p_hit=0.5, output_tokens=30).scenarios["sd"]
    assert 2.0 < scenario.tokens.averages.tokens_per_round < 3.2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "x,y\n1,2\n", "needs a column 'accepted'"),
        ("a.jsonl", "[1, 2]\nnot json\n", "line 2: line 1, column 1: not JSON"),
        ("a.jsonl", '{"lengths": [1]}\n', "line 1: accepted: must be a list, got None"),
        ("a.jsonl", "[1, 2]\n", "no round accepted more than 2 tokens"),
        ("a.csv", "accepted\n-1\n6\n", "row 1: accepted: must be at least 0, got '-1'"),
        ("a.toml", "rates = [0.5]\nmean = 0.5\n", "give either rates"),
        ("a.toml", "rates = [1.5]\n", "must lie in"),
        ("a.toml", "rats = [0.5]\n", "unknown key 'rats'; did you mean 'rates'"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        load_acceptance(tmp_path / name, 6)


def test_easy_and_hard_text_shows_what_rates_by_position_cannot() -> None:
    """systems-trees.md, section 1.4, by simulation: rates rise with the position, the first one falls with K."""
    one, eight = (context_pmf((0.95, 0.55), 0.97, k) for k in (1, 8))
    assert one[1] == pytest.approx(0.728, abs=5e-4)
    survival = np.cumsum(eight[::-1])[::-1]
    rates = survival[1:] / survival[:-1]
    assert rates == pytest.approx([0.645, 0.692, 0.747, 0.797, 0.837, 0.867, 0.893, 0.902], abs=4e-3)
    assert survival.sum() == pytest.approx(3.43, abs=5e-3)
    assert load_acceptance(Path("easy-and-hard"), 8).pmfs[0] == pytest.approx(eight)


def test_easy_and_hard_text_is_what_walking_it_gives() -> None:
    """The same by drawing a text and walking it."""
    rng, k, rates = np.random.default_rng(7), 4, np.array([0.95, 0.55])
    hard = np.cumsum(rng.random(400_000) > 0.97) % 2
    accepts = rng.random(hard.size) < rates[hard]
    lengths, at = [], 0
    while at + k + 1 < hard.size:
        accepted = next((i for i in range(k) if not accepts[at + i]), k)
        lengths.append(accepted)
        at += accepted + 1
    seen = np.bincount(lengths, minlength=k + 1) / len(lengths)
    assert seen == pytest.approx(context_pmf(rates, 0.97, k), abs=0.01)


def test_contexts_that_are_alike_are_one_rate() -> None:
    assert context_pmf((0.7, 0.7), 0.9, 5) == pytest.approx(accepted_length_pmf(0.7, 5))
    with pytest.raises(InputError, match="at least two rates"):
        context_pmf((0.7,), 0.9, 5)


@pytest.mark.parametrize(("concentration", "tokens"), [(20, 3.778), (8, 4.000), (4, 4.287), (2, 4.677)])
def test_requests_that_differ_yield_more(concentration: float, tokens: float) -> None:
    """Beta contexts of mean .75, K = 7: S_j is a product in closed form (systems-trees.md, section 1.4)."""
    kinds = beta_kinds(0.75, concentration, 7)
    assert float(kinds.weights @ kinds.pmfs @ np.arange(1.0, 9.0)) == pytest.approx(tokens, abs=6e-4)
