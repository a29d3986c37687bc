"""Acceptance that differs between requests: cards, Beta distributions, traces of accepted lengths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.errors import InputError
from ssdsim.scenario.configuration import configure
from ssdsim.speculation.acceptance import accepted_length_pmf
from ssdsim.speculation.acceptance_models import acceptance_names, beta_kinds, load_acceptance


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
    for name in acceptance_names():
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
        ("a.jsonl", '{"lengths": [1]}\n', "line 1 is not a list of accepted lengths"),
        ("a.jsonl", "[1, 2]\n", "no round accepted more than 2 tokens"),
        ("a.csv", "accepted\n-1\n6\n", "row 1: an accepted length must be a whole number from 0"),
        ("a.toml", "rates = [0.5]\nmean = 0.5\n", "give either rates"),
        ("a.toml", "rates = [1.5]\n", "must lie in"),
        ("a.toml", "rats = [0.5]\n", "unknown key 'rats'; did you mean 'rates'"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        load_acceptance(tmp_path / name, 6)
