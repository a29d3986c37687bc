"""Requests that differ: each kind has its own accepted lengths, and a slot takes a new request when one is done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ssdsim.checks import FloatOrArray
from ssdsim.speculation.speculator import Speculator
from ssdsim.speculation.theory import stationary_hit_rate


@dataclass(frozen=True)
class RequestMix:
    """Kinds of requests with their shares; every request is ``output_tokens`` long.

    Continuous batching: a finished request is replaced at once by one of a kind drawn by ``weights``. A slow request
    stays for more rounds, so the average over rounds leans towards the slow kinds.
    """

    weights: NDArray[np.float64]
    output_tokens: int
    sd: tuple[Speculator, ...]
    primary: tuple[Speculator, ...]
    backup: tuple[Speculator, ...]


@dataclass(frozen=True)
class RoundAverages:
    """Averages over the rounds of a slot in the long run."""

    tokens_per_round: FloatOrArray
    p_hit: FloatOrArray


def ssd_averages(primary: Speculator, backup: Speculator, requests: RequestMix | None) -> RoundAverages:
    """Tokens and hit rate of SSD's rounds.

    For alike requests: the stationary state of primary and backup (Theorem 7). A sequence was speculated by the
    primary with probability p_hit.
    """
    if requests is not None:
        return round_averages(requests.weights, requests.primary, requests.backup, requests.output_tokens)
    p = float(stationary_hit_rate(primary.p_hit, backup.p_hit))
    return RoundAverages(p * primary.expected_tokens + (1 - p) * backup.expected_tokens, p)


def mean_sd_tokens(sd: Speculator, requests: RequestMix | None) -> float:
    """Tokens of SD's rounds."""
    if requests is None:
        return sd.expected_tokens
    return float(round_averages(requests.weights, requests.sd, requests.sd, requests.output_tokens).tokens_per_round)


def round_averages(
    weights: NDArray[np.float64],
    primary: tuple[Speculator, ...],
    backup: tuple[Speculator, ...],
    output_tokens: int,
) -> RoundAverages:
    """Exact averages of a slot's rounds, by renewal over requests.

    A request starts in the primary state and lasts until it has ``output_tokens`` (tokens past the end of its last
    round are not counted). Expected rounds and hits follow from a recursion over the tokens that are left.
    """
    transitions = np.array([[_transition(s) for s in kind] for kind in zip(primary, backup, strict=True)])
    hits_a_round = transitions[:, :, :, 1].sum(axis=2)  # (kinds, state)
    kinds, lookahead = len(primary), primary[0].lookahead
    left = np.zeros((kinds, 2, output_tokens + 1, 2))  # kind, next state, tokens left, (rounds, hits) still to come
    for n in range(1, output_tokens + 1):
        k = np.arange(min(lookahead + 1, n))  # more accepted tokens end the request
        to_come = left[:, :, n - 1 - k]  # (kinds, next state, k, 2)
        # axes: kind g, state s, accepted k, next state t (0 after a miss, 1 after a hit)
        expected = np.einsum("gskt,gtkv->gsv", transitions[:, :, : k.size], to_come)
        left[:, 1, n] = expected[:, 0] + np.stack([np.ones(kinds), hits_a_round[:, 0]], axis=-1)
        left[:, 0, n] = expected[:, 1] + np.stack([np.ones(kinds), hits_a_round[:, 1]], axis=-1)
    rounds, hits = weights @ left[:, 1, output_tokens]
    return RoundAverages(output_tokens * float(weights.sum()) / float(rounds), min(1.0, float(hits / rounds)))


def _transition(speculator: Speculator) -> NDArray[np.float64]:
    """P(k accepted and miss), P(k accepted and hit), shape ``(K+1, 2)``."""
    hit = speculator.accepted_pmf * speculator.hit_given_accepted
    return np.stack([speculator.accepted_pmf - hit, hit], axis=1)
