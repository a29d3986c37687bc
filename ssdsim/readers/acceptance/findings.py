"""Findings from counts: rates by position, lengths, how requests differ, each with its interval."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.intervals import bounds_95, wilson_interval
from ssdsim.base.record import Record
from ssdsim.readers.acceptance.counts import Counts, total_of
from ssdsim.tokens.acceptance import rate_of
from ssdsim.tokens.pair_file import Findings, Length, Mean, RequestSpread, survival_of
from ssdsim.tokens.request_spread import Resampled, fit_requests

_FEWEST_REQUESTS = 8  # of which an interval is drawn
_DIFFER = 0.05  # of pooled and request-mean length that is worth saying
_FEW_TRIALS = 50
_SEED = 0


class ImportFindings(Record):
    """Findings of a set of requests, the lookahead that they hold for, and what must be said about them."""

    findings: Findings
    k: int | None
    warnings: tuple[str, ...]


def findings_of(counts: Sequence[Counts], where: str, k: int | None, adaptive: bool = False) -> ImportFindings:
    """Findings for a lookahead of ``k``, by default what the log has; a longer one is cut to ``k``, which is exact.

    A histogram or counts by position are preferred to lengths; from a length alone one rate for all positions follows.
    """
    if not counts:
        raise InputError(f"{where}: no round of speculation in it")
    if not adaptive and all(each.survived is not None for each in counts):
        return _by_position(counts, where, k)
    return _by_length(counts, where, k, adaptive)


def _by_position(counts: Sequence[Counts], where: str, k: int | None) -> ImportFindings:
    longest = max(len(each.survived or ()) for each in counts)
    _check_longest(longest, where, k)
    k = longest if k is None else k
    survived, tried = _columns(counts, "survived", k), _columns(counts, "tried", k)
    total, trials = survived.sum(axis=0), tried.sum(axis=0)
    alpha_k = [float(min(1.0, s / t)) if t > 0.0 else None for s, t in zip(total, trials, strict=True)]
    counted = all(each.rounds is not None for each in counts)  # else they are shares of unknown numbers
    bounds = [wilson_interval(s, t) if t > 0.0 else None for s, t in zip(total, trials, strict=True)]
    few = [i + 1 for i, t in enumerate(trials) if counted and t < _FEW_TRIALS]
    warnings = [f"{where}: fewer than {_FEW_TRIALS} rounds came to position {few[0]}: its rate is rough"] if few else []
    if any(each.varied for each in counts):
        warnings.append(
            f"{where}: rounds drafted different numbers of tokens; rates by position are of the rounds that came so far"
        )
    warnings += _differ(counts, where)
    return ImportFindings(
        Findings(
            alpha=_mean(survived.sum(axis=1), tried.sum(axis=1), counts),
            alpha_k=tuple(alpha_k),
            alpha_k_bounds=tuple(bounds) if counted else None,
            trials=tuple(trials.tolist()) if counted else None,
            survival=survival_of(alpha_k),
            length=_length(counts, k, survived, tried[:, 0], counted),
            requests=_requests_of(counts, survived, tried),
            count=_requests(counts),
        ),
        k,
        tuple(warnings),
    )


def _by_length(counts: Sequence[Counts], where: str, k: int | None, adaptive: bool) -> ImportFindings:
    """One rate for all positions: from the pooled length, under the assumption that positions are alike."""
    drafted, rounds = total_of(counts, "drafted"), total_of(counts, "rounds")
    said = {each.k for each in counts if each.k is not None}
    varied = adaptive or len(said) > 1 or any(each.varied for each in counts)
    lookahead = drafted / rounds if varied and drafted and rounds else _alike(said, where, k, varied)
    if lookahead is None:
        none = f"{where}: rounds drafted different numbers of tokens, and none is kept: the length alone is"
        return _of_length_alone(counts, rounds, where, [none])
    warnings = []
    if varied and drafted and rounds:
        warnings.append(
            f"{where}: rounds drafted different numbers of tokens ({lookahead:.2f} on average), and which is not kept: "
            "no rate by position"
        )
    pooled = _pooled(counts, rounds)
    if pooled > lookahead + 1.0 + 1e-9:
        raise InputError(f"{where}: {pooled:.4g} tokens a round are more than the {lookahead + 1.0:.4g} that K allows")
    warnings.append(f"{where}: one rate from the mean length alone, which assumes that positions are alike (i.i.d.)")
    warnings += _differ(counts, where)
    alpha = rate_of(pooled, lookahead)
    low, high = _length_bounds(counts)
    undrafted = _undrafted(counts)
    asked = k if k is not None else max(1, int(lookahead))
    return ImportFindings(
        Findings(
            alpha=Mean(
                mean=alpha,
                low=None if low is None else rate_of(low, lookahead),
                high=None if high is None else rate_of(high, lookahead),
            ),
            length=Length(
                pooled=_over_all(pooled, rounds, undrafted),
                pooled_low=_over_all(low, rounds, undrafted),
                pooled_high=_over_all(high, rounds, undrafted),
                mean_of_requests=_mean_of_requests([each.length for each in counts], counts),
                rounds=None if rounds is None else round(rounds),
                k=None if varied else round(lookahead),
                drafted=None if drafted is None else round(drafted),
                accepted=None if rounds is None else round((pooled - 1.0) * rounds),
                undrafted=undrafted,
            ),
            count=_requests(counts),
        ),
        asked,
        tuple(warnings),
    )


def _alike(said: Collection[int], where: str, k: int | None, varied: bool) -> float | None:
    """Tokens drafted in every round: as all say, else ``k``; None where they varied and nobody says how many."""
    if len(said) == 1 and not varied:
        (lookahead,) = said
        _check_longest(lookahead, where, k)
        return float(lookahead)
    if k is None and not varied:
        raise InputError(f"{where}: does not say how many tokens were drafted a round; give them by --k")
    return None if k is None else float(k)


def _of_length_alone(counts: Sequence[Counts], rounds: float | None, where: str, warnings: list[str]) -> ImportFindings:
    mean, undrafted = _mean_of_requests([each.length for each in counts], counts), _undrafted(counts)
    length = Length(
        pooled=_over_all(_pooled(counts, rounds), rounds, undrafted),
        mean_of_requests=mean,
        rounds=None if rounds is None else round(rounds),
        undrafted=undrafted,
    )
    return ImportFindings(Findings(length=length, count=_requests(counts)), None, (*warnings, *_differ(counts, where)))


def _check_longest(longest: int, where: str, k: int | None) -> None:
    if k is not None and longest < k:
        raise InputError(f"{where}: {longest} tokens were drafted a round, so it says nothing of --k {k}")


def _columns(counts: Sequence[Counts], name: str, k: int) -> Array:
    """Rows of ``survived`` or ``tried``, shape ``(counts, k)``; 0 beyond what was drafted."""
    rows = [list(getattr(each, name))[:k] for each in counts]
    return np.array([[*row, *[0.0] * (k - len(row))] for row in rows])


def _mean(successes: Array, trials: Array, counts: Sequence[Counts]) -> Mean:
    """Accepted over judged tokens; its interval over requests, or over tokens where there are few requests."""
    mean = float(successes.sum() / trials.sum())
    if any(each.rounds is None for each in counts):
        return Mean(mean=mean)
    if _resampled(counts):
        low, high = bounds_95(_draws_of_ratio(successes, trials))
    else:
        low, high = wilson_interval(float(successes.sum()), float(trials.sum()))
    return Mean(mean=mean, low=float(low), high=float(high))


def _resampled(counts: Sequence[Counts]) -> bool:
    return len(counts) >= _FEWEST_REQUESTS and all(each.is_request for each in counts)


def _draws_of_ratio(above: Array, below: Array) -> Array:
    """Ratios of sums over requests drawn with replacement."""
    return np.asarray(Resampled(above.size, _SEED).ratio(above, below), dtype=float)


def _length(counts: Sequence[Counts], k: int, survived: Array, rounds: Array, counted: bool) -> Length:
    """The mean length of rounds with a lookahead of ``k``: what was accepted beyond is cut off."""
    accepted = survived.sum(axis=1)
    same = all(each.lengths is not None for each in counts) and len({each.k for each in counts}) == 1
    low, high = bounds_95(1.0 + _draws_of_ratio(accepted, rounds)) if _resampled(counts) else (None, None)
    drafting, undrafted = float(rounds.sum()), _undrafted(counts)
    histogram = _folded([each.lengths or () for each in counts], k) if same else None
    return Length(
        pooled=_over_all(float(1.0 + accepted.sum() / drafting), drafting, undrafted),
        pooled_low=_over_all(low, drafting, undrafted),
        pooled_high=_over_all(high, drafting, undrafted),
        mean_of_requests=_mean_of_requests((1.0 + accepted / rounds).tolist(), counts),
        histogram=histogram,
        rounds=(sum(histogram) if histogram else round(drafting)) if counted else None,
        k=k,
        drafted=None if (drafted := total_of(counts, "drafted")) is None else round(drafted),
        accepted=round(float(accepted.sum())) if counted else None,
        undrafted=undrafted,
    )


def _folded(histograms: Sequence[Sequence[int]], k: int) -> tuple[int, ...]:
    """The sum of histograms; rounds that accepted more than ``k`` count as ``k``."""
    folded = [0] * (k + 1)
    for histogram in histograms:
        for accepted, count in enumerate(histogram):
            folded[min(accepted, k)] += count
    return tuple(folded)


def _requests_of(counts: Sequence[Counts], survived: Array, tried: Array) -> RequestSpread:
    """Nothing, where the log does not tell requests apart."""
    return RequestSpread() if _requests(counts) is None else fit_requests(survived.sum(axis=1), tried.sum(axis=1))


def _requests(counts: Sequence[Counts]) -> int | None:
    return len(counts) if all(each.is_request for each in counts) else None


def _mean_of_requests(lengths: Sequence[float], counts: Sequence[Counts]) -> float | None:
    return None if _requests(counts) is None else float(np.mean(lengths))


def _differ(counts: Sequence[Counts], where: str) -> list[str]:
    """Pooled and request-mean length, where they differ: rankings by one may turn by the other."""
    mean = _mean_of_requests([each.length for each in counts], counts)
    if mean is None:
        return []
    pooled = _pooled(counts, total_of(counts, "rounds"))
    if abs(mean / pooled - 1.0) <= _DIFFER:
        return []
    return [
        f"{where}: {pooled:.2f} tokens a round over all rounds, {mean:.2f} as the mean of requests: requests differ, "
        "and those that accept less have more rounds"
    ]


def _pooled(counts: Sequence[Counts], rounds: float | None) -> float:
    """Tokens a round over all rounds; the mean of the lengths where no rounds are known."""
    if rounds is None:
        return float(np.mean([each.length for each in counts]))
    return 1.0 + sum((each.length - 1.0) * (each.rounds or 0.0) for each in counts) / rounds


def _undrafted(counts: Sequence[Counts]) -> int | None:
    """Steps that drafted nothing; None where one does not say it."""
    total = total_of(counts, "undrafted")
    return None if total is None else round(total)


def _over_all(length: float | None, rounds: float | None, undrafted: int | None) -> float | None:
    """Tokens a round over all, of the length over those that drafted: the others yielded their bonus token alone."""
    if length is None or not rounds or not undrafted:
        return None if length is None else float(length)
    return float(1.0 + (length - 1.0) * rounds / (rounds + undrafted))


def _length_bounds(counts: Sequence[Counts]) -> tuple[float | None, float | None]:
    if not _resampled(counts) or total_of(counts, "rounds") is None:
        return None, None
    rounds = np.array([float(each.rounds or 0.0) for each in counts])
    accepted = np.array([(each.length - 1.0) * float(each.rounds or 0.0) for each in counts])
    low, high = bounds_95(1.0 + _draws_of_ratio(accepted, rounds))
    return float(low), float(high)
