"""What records say of a pair: which lookaheads, fan-outs and backups to answer for, and the answers. No model runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import asdict

from calibration.pairs.backups import LookedUp, looked_up, lookup_named
from calibration.pairs.correlation import in_lockstep, intraclass, lag1
from calibration.pairs.coupling import AnswerTable, CoupledRounds, Starts, courses, rounds_of
from calibration.pairs.curves import Chain, after_all, after_backup, after_rejection, ssd_chain
from calibration.pairs.records import RecordedAnswer
from calibration.pairs.saguaro import Width, rescaled
from ssdsim.base.checks import Floats, whole, within
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.tokens.pair_file import (
    AtTemperature,
    Backup,
    Correlation,
    Findings,
    Hits,
    Length,
    Mean,
    Saguaro,
    survival_of,
)
from ssdsim.tokens.request_spread import DRAWS, Course, Resampled, fit_requests_of_courses, one_rate

_SAGUARO_F = (1, 3, 8)


def by_temperature(requests: Sequence[RecordedAnswer], vocabulary: int, asked: Questions) -> tuple[AtTemperature, ...]:
    """Sum up the answers, each temperature apart, and each data set of it where there are several."""
    at_temperatures = []
    for temperature in sorted({request.temperature for request in requests}):
        at = [request for request in requests if request.temperature == temperature]
        names = sorted({request.data_set for request in at})
        sets = {}
        if len(names) > 1:
            for name in names:
                some = [request for request in at if request.data_set == name]
                sets[name] = findings(some, vocabulary, asked)
        all_ = findings(at, vocabulary, asked)
        at_temperatures.append(AtTemperature(**asdict(all_), temperature=temperature, sets=sets))
    return tuple(at_temperatures)


def findings(requests: Sequence[RecordedAnswer], vocabulary: int, asked: Questions) -> Findings:
    """Sum up the answers of one temperature."""
    table = AnswerTable.of(requests)
    longest = int(table.lengths.max()) - 2
    if longest < max(asked.ks):
        raise InputError(f"--k {max(asked.ks)}: the longest answer has {longest + 2} tokens; ask for --k 1:{longest}")
    fan_outs = [f for f in asked.fan_outs if f <= vocabulary]
    if not fan_outs:
        raise InputError(f"--f {min(asked.fan_outs)}: the vocabulary has {vocabulary} tokens; ask for fewer guesses")
    shown = min(asked.f, max(fan_outs))
    rounds = rounds_of(table, asked.k, asked.starts)
    longer = rounds if max(asked.ks) == asked.k else rounds_of(table, max(asked.ks), asked.starts)
    resampled = Resampled(len(requests), asked.seed, asked.draws)
    drawn = courses(table, asked.k, asked.seed)
    backups, chains = _backups(table, asked, vocabulary, max(fan_outs))
    alpha = float(rounds.accepted.sum() / rounds.drafted.sum())
    low, high = resampled.bounds(resampled.ratio(rounds.accepted, rounds.drafted))
    drafted = rounds.tested[table.at]
    positions = _by_position(rounds, longer, resampled)
    lengths = np.concatenate([course.accepted for course in drawn])
    return Findings(
        alpha=Mean(mean=alpha, low=_known(low), high=_known(high)),
        # of a model that is its own draft the probabilities add up to one but for their rounding
        overlap=None if table.temperature == 0 else min(1.0, float(np.average(table.flat.overlap, weights=drafted))),
        **positions,
        length=_length(rounds, resampled),
        requests=fit_requests_of_courses(drawn, asked.k),
        hits=Hits(
            rejected=after_rejection(table, rounds, resampled, fan_outs, shown),
            all_accepted=after_all(table, rounds, resampled, fan_outs),
            after_backup={name: after_backup(chain, resampled, fan_outs, shown) for name, chain in chains.items()},
        ),
        saguaro=_saguaro(table, asked, max(fan_outs)),
        backups={backup.name: _backup(backup) for backup in backups},
        correlation=_correlation(drawn, [request.data_set for request in requests], shown, asked),
        independence=one_rate(np.bincount(lengths, minlength=asked.k + 1), alpha),
        count=len(requests),
        tokens=int(table.lengths.sum()),
    )


def _by_position(rounds: CoupledRounds, longer: CoupledRounds, resampled: Resampled) -> dict[str, Any]:
    """Rates by position: up to the K of the lengths of its own rounds, so that both agree, then of the longest."""
    parts = []
    for each, first in ((rounds, 0), (longer, rounds.k)):
        lengths = each.by_length()
        reached = np.cumsum(lengths[::-1], axis=0)[::-1]  # reached[j]: j or more accepted
        for j in range(first, each.k):
            draws = resampled.ratio(reached[j + 1], reached[j])
            parts.append((reached[j].sum(), reached[j + 1].sum(), resampled.bounds(draws)))
    rates = tuple(_clipped(after / before) if before > 0 else None for before, after, _ in parts)
    return {
        "alpha_k": rates,
        "alpha_k_bounds": tuple(
            (_clipped(low), _clipped(high)) if np.isfinite(low) else None for _, _, (low, high) in parts
        ),
        "trials": tuple(float(before) for before, _, _ in parts),
        "survival": survival_of(rates),
    }


def _known(bound: Floats) -> float | None:
    return float(bound) if np.isfinite(bound) else None


def _clipped(share: float | np.float64 | Floats) -> float:
    return float(np.clip(share, 0.0, 1.0))


def _length(rounds: CoupledRounds, resampled: Resampled) -> Length:
    low, high = resampled.bounds(resampled.ratio(rounds.tokens, rounds.count))
    some = rounds.count > 0
    histogram = [round(float(weight)) for weight in rounds.by_length().sum(axis=1)]
    return Length(
        pooled=float(rounds.tokens.sum() / rounds.count.sum()),
        pooled_low=_known(low),
        pooled_high=_known(high),
        mean_of_requests=float((rounds.tokens[some] / rounds.count[some]).mean()),
        histogram=tuple(histogram),
        rounds=sum(histogram),
        k=rounds.k,
    )


def _correlation(drawn: Sequence[Course], sets: Sequence[str], f: int, asked: Questions) -> Correlation:
    hits = [(course.needed <= f).astype(float) for course in drawn]
    return Correlation(
        lag1=lag1([course.accepted.astype(float) for course in drawn]),
        lag1_hits=lag1(hits),
        icc=intraclass(hits),
        batch=in_lockstep(drawn, sets, f, asked.batches),
    )


def _backups(
    table: AnswerTable, asked: Questions, vocabulary: int, most: int
) -> tuple[list[LookedUp], dict[str, Chain]]:
    """Ask the backups what they would have proposed; without tokens only random ones, which need none."""
    known = all(request.has_tokens for request in table.requests)
    names = [name for name in asked.backups if known or name == "random"]
    looks = [looked_up(table, name, asked.k, vocabulary, asked.seed) for name in names]
    return looks, {each.name: ssd_chain(table, each, most) for each in looks}


def _backup(look: LookedUp) -> Backup:
    counted = look.counted
    judged = np.minimum(look.accepted + 1, look.proposed)[counted].sum()
    return Backup(
        coverage=float((look.proposed[counted] > 0).mean()),
        alpha=float(look.accepted[counted].sum() / judged) if judged else None,
        alpha_k=tuple(look.rate_by_position()),
        length=float(look.tokens[counted].mean()),
        k=look.k,
    )


def _saguaro(table: AnswerTable, asked: Questions, most: int) -> tuple[Saguaro, ...]:
    """Saguaro's table of every C: at the K of the lengths some fan-outs, and every other K at one of them."""
    if table.temperature == 0.0:
        return ()
    most = min(most, table.flat.top_ids.shape[1])
    shown = min(asked.f, most)
    entries = []
    for c in asked.cs:
        for each in rescaled(table, c, np.array(sorted(asked.ks)), most, asked.width, asked.starts):
            some = {f for f in (*_SAGUARO_F, shown) if f <= most} if each.k == asked.k else {shown}
            entries += [
                Saguaro(
                    c=c,
                    f=f,
                    k=each.k,
                    alpha=_clipped(each.alpha[f - 1]),
                    tokens=float(each.tokens[f - 1]),
                    hit_rejected=_clipped(each.hit_rejected[f - 1]) if np.isfinite(each.hit_rejected[f - 1]) else None,
                    p_hit=_clipped(each.p_hit[f - 1]),
                )
                for f in sorted(some)
            ]
    return tuple(entries)


LENGTH_K, SHOWN_F = 6, 3
_MOST_K, _MOST_F = 64, 1024


class Questions(Record):
    """``ks`` and ``fan_outs`` to answer for; lengths, hits and batches are told at ``k`` and ``f``.

    ``k`` is 6 and ``f`` 3 where those are among them, else the largest.
    """

    ks: tuple[int, ...] = tuple(range(1, 13))
    fan_outs: tuple[int, ...] = tuple(range(1, 65))
    cs: tuple[float, ...] = (0.3, 0.5, 0.7, 1.0)
    backups: tuple[str, ...] = ("random", "ngram:3", "suffix")
    batches: tuple[int, ...] = (2, 4, 8, 16)
    width: Width = "F"
    starts: Starts = "first"
    seed: int = 0
    draws: int = DRAWS

    def __post_init__(self) -> None:
        if not self.ks or not self.fan_outs:
            raise InputError("--k and --f need at least one value")
        for k in self.ks:
            whole("--k", k, 1, _MOST_K)
        for f in self.fan_outs:
            whole("--f", f, 1, _MOST_F)
        for c in self.cs:
            within("--c", c, 1e-6, 1.0)
        for name in self.backups:
            lookup_named(name, 1, 0)

    @property
    def k(self) -> int:
        return LENGTH_K if LENGTH_K in self.ks else max(self.ks)

    @property
    def f(self) -> int:
        return SHOWN_F if SHOWN_F in self.fan_outs else max(self.fan_outs)

    @property
    def most(self) -> int:
        return max(self.fan_outs)
