"""How many experts the tokens of a pass touch: the closed form against draws, limits and what others computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.transformer.routing import SKEW, busiest_over_mean, chances, distinct_experts

SHAPES = st.tuples(st.integers(2, 512), st.integers(1, 32)).map(lambda shape: (shape[0], min(shape)))
OVERLAPS = st.floats(0.0, 1.0)


def chain(count: int, per_token: int, tokens: int, overlap: float, rng: np.random.Generator) -> set[int]:
    """Experts that a text touches, drawn token by token."""
    used = set(rng.choice(count, per_token, replace=False).tolist())
    seen = set(used)
    for _ in range(tokens - 1):
        kept = {expert for expert in used if rng.random() < overlap}
        others = np.array(sorted(set(range(count)) - used))
        used = kept | set(rng.choice(others, per_token - len(kept), replace=False).tolist())
        seen |= used
    return seen


@pytest.mark.long
@pytest.mark.parametrize(
    ("count", "per_token", "tokens", "sequences", "overlap"),
    [(128, 8, 16, 1, 0.38), (256, 8, 16, 1, 0.6), (8, 2, 16, 1, 0.38), (256, 8, 8, 8, 0.45), (64, 6, 3, 2, 0.2)],
)
def test_it_is_the_mean_of_drawn_texts(count: int, per_token: int, tokens: int, sequences: int, overlap: float) -> None:
    rng = np.random.default_rng(0)
    drawn = [
        len(set().union(*(chain(count, per_token, tokens, overlap, rng) for _ in range(sequences)))) for _ in range(300)
    ]
    error = np.std(drawn) / np.sqrt(len(drawn))
    touched = distinct_experts(count, per_token, sequences, tokens, overlap, skew=0.0)
    assert touched == pytest.approx(np.mean(drawn), abs=4 * error)


def popular(count: int, per_token: int, tokens: int, skew: float, rng: np.random.Generator) -> int:
    """Experts that independent tokens touch, each drawing by popularity without replacement (Gumbel's largest)."""
    scores = -skew * np.log(np.arange(1, count + 1)) + rng.gumbel(size=(tokens, count))
    return len(np.unique(np.argpartition(-scores, per_token, axis=1)[:, :per_token]))


@pytest.mark.parametrize(("count", "per_token", "skew"), [(128, 8, 0.5), (128, 8, 1.0), (256, 8, SKEW), (64, 6, 1.5)])
def test_popular_experts_are_as_in_draws(count: int, per_token: int, skew: float) -> None:
    rng = np.random.default_rng(0)
    assert chances(count, per_token, skew).sum() == pytest.approx(per_token)
    for tokens in (4, 16):
        drawn = [popular(count, per_token, tokens, skew, rng) for _ in range(400)]
        touched = distinct_experts(count, per_token, tokens, 1, skew=skew)
        assert touched == pytest.approx(np.mean(drawn), rel=0.02)


@given(shape=SHAPES, sequences=st.integers(1, 16), skews=st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 2.0)))
def test_batches_touch_fewer_experts_the_more_popular_some_are(
    shape: tuple[int, int], sequences: int, skews: tuple[float, float]
) -> None:
    less, more = sorted(skews)
    fewest, most = (distinct_experts(*shape, sequences, 1, skew=skew) for skew in (more, less))
    assert fewest <= most + 1e-6 * shape[0]


def test_the_defaults_give_counts_that_were_published() -> None:
    """Qwen3.6-35B-A3B at 4, 8 and 16 tokens, Laguna XS 2.1 at 8 and 15, a mixture of Cohere's at 4."""
    counted = (((256, 8), 4, 22), ((256, 8), 8, 36), ((256, 8), 16, 56), ((256, 8), 8, 39.4), ((256, 8), 15, 58.9))
    errors = [distinct_experts(*shape, 1, tokens) / seen - 1.0 for shape, tokens, seen in counted]
    errors.append(distinct_experts(128, 8, 1, 4) / (2.525 * 8) - 1.0)
    assert np.abs(errors).mean() < 0.05
    assert np.abs(errors).max() < 0.12


def test_the_busiest_of_devices_is_as_in_draws() -> None:
    """256 experts, 8 a token, on 8 devices."""
    rng = np.random.default_rng(0)
    for tokens in (1, 4, 16):
        most, touched = [], []
        for _ in range(400):
            seen = set().union(*(rng.choice(256, 8, replace=False).tolist() for _ in range(tokens)))
            most.append(np.bincount(np.array(sorted(seen)) // 32, minlength=8).max())
            touched.append(len(seen))
        busiest = busiest_over_mean(256, float(np.mean(touched)), 8)
        assert busiest == pytest.approx(8 * np.mean(most) / np.mean(touched), rel=0.05)
    assert busiest_over_mean(256, 30.0, 1) == 1.0
    assert busiest_over_mean(256, 256.0, 8) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("count", "per_token", "independent", "in_a_text"),
    [
        (8, 2, (2, 3.5, 5.5, 7.2, 7.9), (2, 3.1, 4.7, 6.5, 7.7)),
        (128, 4, (4, 7.9, 15.3, 28.7, 51.0), (4, 6.2, 10.5, 18.6, 33.2)),
        (256, 8, (8, 15.8, 30.5, 57.4, 102.0), (8, 12.4, 21.0, 37.2, 66.4)),
    ],
)
def test_mixtures_that_people_run(
    count: int, per_token: int, independent: tuple[float, ...], in_a_text: tuple[float, ...]
) -> None:
    """Mixtral, gpt-oss-120b and DeepSeek-V3 at 1 to 16 tokens: of as many sequences, and of one."""
    for tokens, apart, together in zip((1, 2, 4, 8, 16), independent, in_a_text, strict=True):
        assert distinct_experts(count, per_token, tokens, 1, skew=0.0) == pytest.approx(apart, abs=0.051)
        assert distinct_experts(count, per_token, 1, tokens, 0.45, skew=0.0) == pytest.approx(together, abs=0.051)


@given(shape=SHAPES, overlap=OVERLAPS, sequences=st.integers(1, 64), tokens=st.integers(1, 64))
def test_it_lies_between_one_token_s_experts_and_all(
    shape: tuple[int, int], overlap: float, sequences: int, tokens: int
) -> None:
    count, per_token = shape
    touched = distinct_experts(count, per_token, sequences, tokens, overlap)
    assert per_token - 1e-9 <= touched <= min(count, sequences * tokens * per_token) + 1e-9
    more = distinct_experts(count, per_token, sequences, tokens + 1, overlap)
    assert more >= touched - 1e-9
    assert distinct_experts(count, per_token, sequences + 1, tokens, overlap) >= touched - 1e-9
    even_more = distinct_experts(count, per_token, sequences, tokens + 2, overlap)
    assert even_more - more <= more - touched + 1e-6 * count  # concave


@given(shape=SHAPES, tokens=st.integers(1, 64), overlaps=st.tuples(OVERLAPS, OVERLAPS))
def test_neighbours_that_share_more_touch_fewer(
    shape: tuple[int, int], tokens: int, overlaps: tuple[float, float]
) -> None:
    less, more = sorted(overlaps)
    fewest, most = (distinct_experts(*shape, 1, tokens, overlap) for overlap in (more, less))
    assert fewest <= most + 1e-9


@given(shape=SHAPES, sequences=st.integers(1, 16), tokens=st.integers(1, 16))
def test_independent_tokens_may_be_of_any_sequence(shape: tuple[int, int], sequences: int, tokens: int) -> None:
    count, per_token = shape
    alone = distinct_experts(count, per_token, sequences * tokens, 1)
    assert distinct_experts(count, per_token, sequences, tokens, per_token / count) == pytest.approx(alone)


def test_tokens_that_share_all_touch_no_more_than_one() -> None:
    assert distinct_experts(128, 8, 1, 24, 1.0) == pytest.approx(8)


@pytest.mark.parametrize("shape", ["star", "comb"])
def test_a_tree_touches_what_a_chain_of_as_many_rows_does(shape: str) -> None:
    """By draws of 12 nodes: all grow from the root, or two from each node of a chain."""
    rng, count, per_token, overlap = np.random.default_rng(0), 32, 4, 0.5
    drawn = []
    for _ in range(600):
        nodes = [set(rng.choice(count, per_token, replace=False).tolist())]
        while len(nodes) < 12:
            parent = nodes[0 if shape == "star" else (len(nodes) - 1) // 2 * 2]
            kept = {expert for expert in parent if rng.random() < overlap}
            others = [expert for expert in range(count) if expert not in parent]
            nodes.append(kept | set(rng.choice(others, per_token - len(kept), replace=False).tolist()))
        drawn.append(len(set().union(*nodes)))
    assert distinct_experts(count, per_token, 1, 12, overlap, skew=0.0) == pytest.approx(np.mean(drawn), rel=0.02)
