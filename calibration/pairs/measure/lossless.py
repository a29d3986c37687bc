"""Check that a real loop keeps the target's tokens: exactly where greedy, by distribution where sampled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from calibration.pairs.measure.language import LanguageModel
from calibration.pairs.measure.verification import Rules
from ssdsim.base.checks import Array
from ssdsim.base.record import Record

BINS = 20
SIGNIFICANT = 0.001
_FLOAT_GAP = 1e-6
_MARGIN = 4.0


class GreedyCheck(Record):
    """Requests with the target's own tokens; others by whether a near tie or a bug parted them.

    ``largest_gap`` is that of the target's two likeliest logits where a request parted, ``first`` the first place where
    one did: request, position, the loop's and the target's token.
    """

    requests: int
    identical: int
    near_ties: int
    bugs: int
    largest_gap: float | None
    tolerance: float
    first: tuple[int, int, int, int] | None


class SamplingCheck(Record):
    """Chi-square of the tokens' places in the target's distribution, in the order that shows more; p is for both."""

    chi2: float
    degrees: int
    p: float

    @property
    def passed(self) -> bool:
        return self.p > SIGNIFICANT


def tolerance_of(target: LanguageModel, texts: Iterable[Sequence[int]], k: int) -> float:
    """Largest difference of a logit between a pass over one token and one over K + 1: kernels add in another order.

    Twice that (both tokens' logits move) and a margin is what two likeliest logits can differ by in a near tie.
    """
    largest = 0.0
    for text in texts:
        for end in range(max(1, len(text) - 3 * (k + 1)), len(text) - k):
            alone = target.after(text[:end], 1)[0]
            # over other tokens first, so that what is kept of the beginning is worked out again
            together = target.after(text[: end + k], k + 1)[0]
            largest = max(largest, float(np.abs(alone - together).max()))
    return max(_FLOAT_GAP, 2.0 * _MARGIN * largest)


def compare_greedy(
    target: LanguageModel,
    prompts: Sequence[Sequence[int]],
    own: Sequence[Sequence[int]],
    loop: Sequence[Sequence[int]],
    tolerance: float,
) -> GreedyCheck:
    """The loop's tokens against the target's own, request by request."""
    identical = near_ties = bugs = 0
    largest, first = None, None
    for number, (prompt, alone, spoken) in enumerate(zip(prompts, own, loop, strict=True)):
        if list(alone) == list(spoken):
            identical += 1
            continue
        shared = min(len(alone), len(spoken))
        at = next((i for i in range(shared) if alone[i] != spoken[i]), shared)
        gap = _gap(target, [*prompt, *alone[:at]], spoken[at] if at < len(spoken) else None)
        near_ties, bugs = near_ties + (gap <= tolerance), bugs + (gap > tolerance)
        largest = gap if largest is None else max(largest, gap)
        first = first or (number, at, spoken[at] if at < len(spoken) else -1, alone[at] if at < len(alone) else -1)
    return GreedyCheck(len(prompts), identical, near_ties, bugs, largest, tolerance, first)


def _gap(target: LanguageModel, text: Sequence[int], token: int | None) -> float:
    """Gap by which the loop's token lies below the likeliest one; infinite where the loop wrote none."""
    logits = target.after(text, 1)[0]
    return float(np.inf) if token is None else float(logits.max() - logits[token])


def sampled(
    target: LanguageModel,
    texts: Iterable[tuple[Sequence[int], Sequence[int]]],
    rules: Rules,
    other: LanguageModel,
    seed: int,
) -> SamplingCheck:
    """Check that tokens that came after each prompt have the target's distribution by ``rules``, given earlier ones.

    A token's place is the mass of the tokens before it plus a random share of its own: uniform, and independent of the
    places before, if and only if the token was drawn from the target's distribution (Rosenblatt's transform). So every
    token of every text counts, in any vocabulary. Two orders, Bonferroni's correction: by q/p of the ``other`` model,
    where a wrong residual or a wrong test shows, and by p, where a liking for the likeliest token does.
    """
    rng = np.random.default_rng(seed)
    places: list[list[Array]] = [[], []]
    for prompt, came in texts:
        text = [*prompt, *came[:-1]]
        p = rules.target(target.after(text, len(came)))
        q = rules.draft(other.after(text, len(came)))
        ratio = np.log(np.maximum(q, 1e-300)) - np.log(np.maximum(p, 1e-300))
        coins = rng.random(len(came))
        for into, scores in zip(places, (ratio, p), strict=True):
            into.append(_places(p, scores, np.asarray(came), coins))
    tests = [uniformity(np.concatenate(each)) for each in places]
    chi2, p_value = max(tests)
    return SamplingCheck(chi2, BINS - 1, min(1.0, len(tests) * p_value))


def _places(p: Array, scores: Array, came: NDArray[np.int64], coins: Array) -> Array:
    own = np.take_along_axis(scores, came[:, None], 1)
    earlier = np.arange(p.shape[1]) < came[:, None]
    before = (p * ((scores < own) | ((scores == own) & earlier))).sum(axis=1)
    return np.asarray(before + coins * np.take_along_axis(p, came[:, None], 1)[:, 0])


def uniformity(places: Array) -> tuple[float, float]:
    """Chi-square of places in [0, 1] over 20 bins, and its p."""
    from scipy.special import chdtrc

    counts = np.bincount(np.minimum((places * BINS).astype(int), BINS - 1), minlength=BINS)
    due = places.size / BINS
    value = float(((counts - due) ** 2 / due).sum())
    return value, float(chdtrc(BINS - 1, value))
