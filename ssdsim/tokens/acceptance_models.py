"""Acceptance from more than one number: rates that differ between requests or places of a text, traces of lengths."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from os.path import exists
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from ssdsim.base.bundled import Shelf
from ssdsim.base.card import Card, Finite, NotNegative
from ssdsim.base.checks import Array, within
from ssdsim.base.documents import as_record, parse_csv, parse_json, read_text, read_toml
from ssdsim.base.errors import InputError
from ssdsim.base.files import while_unchanged
from ssdsim.base.record import Record
from ssdsim.tokens.acceptance import accepted_length_pmf
from ssdsim.tokens.chains import long_run

_BETA_KINDS = 64
_SETTLED = 6  # rounds of a fixed point whose error falls tenfold in each
_NOBODY = 1e-12  # a share of rounds that come to a position
_FILE = "acceptance card or trace"
_Length = Annotated[int, Meta(ge=0, le=1_000_000)]
"""Accepted tokens of a round."""


class RequestKinds(Record):
    """Kinds of requests: shares, shape ``(kinds,)``, and the pmf of accepted lengths of each, ``(..., kinds, K+1)``."""

    weights: Array
    pmfs: Array


class AcceptanceCard(Card):
    """A TOML card: ``rates`` (with ``weights``) of requests, or the ``mean`` and ``concentration`` of a Beta.

    With ``stays`` the ``rates`` are of positions of one text instead (:func:`context_pmf`).
    """

    name: str = ""
    source: str = ""
    rates: tuple[Finite, ...] = ()
    weights: tuple[NotNegative, ...] = ()
    mean: Finite | None = None
    concentration: Finite | None = None
    stays: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None


@while_unchanged
def _load(path: Path) -> AcceptanceCard:
    return as_record(AcceptanceCard, read_toml(path, _FILE), path, "card")


ACCEPTANCE = Shelf("acceptance", "acceptance", ".toml", _load, ("or a .toml, .csv or .jsonl file",))


def kinds_of_rates(rates: Iterable[float], weights: Iterable[float], k: int) -> RequestKinds:
    """Requests with one acceptance rate each."""
    rates, shares = list(rates), np.asarray(list(weights), dtype=float)
    if shares.size != len(rates) or np.any(shares < 0) or shares.sum() <= 0:
        raise InputError(f"weights must be {len(rates)} shares of at least 0 that do not all vanish")
    return RequestKinds(shares / shares.sum(), accepted_length_pmf(np.array(rates)[:, None], k))


@lru_cache(maxsize=1024)
def beta_kinds(mean: float, concentration: float, k: int) -> RequestKinds:
    """Rates with a Beta distribution of the given mean and concentration ``a + b``, as 64 equally likely kinds.

    Each kind's rate is the mean of its slice of the distribution, so the mean over requests is kept.
    Worked out once: a search asks for the same kinds with every number of cached outcomes.
    """
    within("mean", mean, 0, 1)
    if not concentration > 0:
        raise InputError(f"concentration must be above 0, got {concentration:g}")
    return kinds_of_rates(beta_rates(mean, concentration), np.ones(_BETA_KINDS), k)


def beta_rates(mean: float, concentration: float) -> Array:
    """Rates with a Beta distribution of that mean and ``a + b``: 64 equally likely ones, rising, shape ``(64,)``."""
    from scipy.special import betainc, betaincinv  # here, because predict must start fast

    if mean in (0.0, 1.0):
        return np.full(_BETA_KINDS, mean)
    a, b = mean * concentration, (1.0 - mean) * concentration
    edges = betaincinv(a, b, np.linspace(0.0, 1.0, _BETA_KINDS + 1))
    rates = mean * np.diff(betainc(a + 1.0, b, edges)) * _BETA_KINDS
    # close to 1 a double cannot tell edges apart, and slices seem empty: they are at least as high as those below
    rates = np.clip(np.maximum.accumulate(rates), 0.0, 1.0)
    return np.asarray(np.clip(rates * (mean / rates.mean()), 0.0, 1.0))


@lru_cache(maxsize=1024)
def beta_kinds_by_position(rates: tuple[float, ...], concentration: float) -> RequestKinds:
    """Requests with a rate at each position, Beta of this concentration there, whose rounds together have ``rates``.

    ``rates[i]`` is P(position i + 1 accepted | those before it are) over the rounds of all requests, as it is counted.
    A kind of request that accepts more is good at every position, and it has fewer rounds of those that are counted,
    but more of them come to later positions: the means at the positions are such that both even out.
    """
    within("rates", rates, 0, 1)
    if not concentration > 0:
        raise InputError(f"concentration must be above 0, got {concentration:g}")
    rounds = np.full(_BETA_KINDS, 1.0 / _BETA_KINDS)  # the share of rounds that are of each kind
    for _ in range(_SETTLED):
        survival = _survival_of_kinds(rates, concentration, rounds)
        before, rounds = rounds, 1.0 / (1.0 + survival.sum(axis=0))
        rounds /= rounds.sum()
        if np.max(np.abs(rounds - before)) < _NOBODY:
            break
    survival = _survival_of_kinds(rates, concentration, rounds)
    reached = np.vstack([np.ones(_BETA_KINDS), survival])
    pmfs = np.vstack([reached[:-1] - reached[1:], reached[-1:]]).T
    return RequestKinds(np.full(_BETA_KINDS, 1.0 / _BETA_KINDS), np.clip(pmfs, 0.0, 1.0))


def _survival_of_kinds(rates: tuple[float, ...], concentration: float, rounds: Array) -> Array:
    """P(at least i + 1 accepted) of each kind, shape ``(K, 64)``, where their rounds are such shares of all."""
    from scipy.optimize import brentq

    reached = np.ones(_BETA_KINDS)
    rows = []
    for rate in rates:
        share = rounds * reached

        def excess(mean: float, share: Array = share, rate: float = rate) -> float:
            return float(share @ beta_rates(mean, concentration) - rate * share.sum())

        mean = rate if rate in (0.0, 1.0) or share.sum() < _NOBODY else float(brentq(excess, 0.0, 1.0, xtol=1e-10))
        reached = reached * beta_rates(mean, concentration)
        rows.append(reached)
    return np.array(rows).reshape(len(rates), _BETA_KINDS)


def context_pmf(rates: Sequence[float], stays: float, k: int) -> Array:
    """P(exactly j of K tokens are accepted) in the long run, shape ``(K+1,)``.

    Text is easy in places and hard in others. A round that follows a rejection begins where the text is hard, and a
    long draft jumps over what is easy, so that rates by position depend on K: those measured at one K do not hold at
    another. No rate by position, and no spread between requests, shows either. The model is ours, made for what vLLM
    measured (issue 48892).

    Each position of the text has a state with its own acceptance rate, which the next position keeps with probability
    ``stays`` and otherwise changes for one of the others, all alike. A round begins after the last one's bonus token.
    """
    if len(rates) < 2:
        raise InputError(f"contexts need at least two rates, got {len(rates)}")
    alpha, states = np.asarray(rates, dtype=float), len(rates)
    moves = np.full((states, states), (1.0 - stays) / (states - 1))
    np.fill_diagonal(moves, stays)
    ends = _ends(alpha, moves, k)
    share = long_run(ends.sum(axis=1) @ moves).mean(axis=0)  # from all alike, where states never change
    return np.asarray(share @ ends.sum(axis=2))


def _ends(alpha: Array, moves: Array, k: int) -> Array:
    """P(j tokens are accepted, and the bonus token's position has the state t | the round began in s)."""
    at = np.eye(alpha.size)
    ends = np.zeros((alpha.size, k + 1, alpha.size))
    for accepted in range(k):
        ends[:, accepted] = at * (1.0 - alpha)
        at = (at * alpha) @ moves
    ends[:, k] = at
    return ends


def load_acceptance(path: Path, k: int) -> RequestKinds:
    """Request kinds from a TOML card, or from a trace of accepted lengths (CSV or JSON lines).

    A trace has a row a round: CSV with the columns ``request`` (optional) and ``accepted``; or JSON lines, each a
    request: a list of lengths or ``{"accepted": [...]}``. Every request of a trace is a kind of its own, which keeps
    what makes misses cluster; its rounds are drawn from its own lengths. A trace recorded with a longer lookahead is
    cut to K, which is exact for a chain of tokens.
    """
    path = find_acceptance(path)
    if path.suffix == ".toml":
        return _card_kinds(path, _load(path), k)
    return _trace_kinds(path, _csv_lengths(path) if path.suffix == ".csv" else _json_lengths(path), k)


def find_acceptance(path: Path) -> Path:
    """The file itself, or the bundled card of that name."""
    if exists(path) or path.suffix:
        return path
    bundled = ACCEPTANCE.files.get(path.name)
    if bundled is None:
        raise ACCEPTANCE.unknown(path, path.name)
    return bundled


def _card_kinds(path: Path, card: AcceptanceCard, k: int) -> RequestKinds:
    if card.rates and card.stays is not None and card.mean is None and not card.weights:
        within("rates", card.rates, 0, 1)
        return RequestKinds(np.ones(1), context_pmf(card.rates, card.stays, k)[None])
    if card.rates and card.stays is None and card.mean is None and card.concentration is None:
        return kinds_of_rates(card.rates, card.weights or [1.0] * len(card.rates), k)
    if card.mean is not None and card.concentration is not None and not card.rates:
        return beta_kinds(card.mean, card.concentration, k)
    raise InputError(f"{path}: give either rates (with weights, or stays), or mean and concentration")


def _csv_lengths(path: Path) -> list[list[int]]:
    requests: dict[str, list[int]] = {}
    for number, row in enumerate(parse_csv(read_text(path, _FILE), path), start=1):
        if "accepted" not in row:
            raise InputError(f"{path}: needs a column 'accepted' (and 'request' where there are several)")
        length = as_record(_Length, row["accepted"].strip(), f"{path}: row {number}", "accepted", written=True)
        requests.setdefault(row.get("request", ""), []).append(length)
    return list(requests.values())


def _json_lengths(path: Path) -> list[list[int]]:
    requests = []
    for number, line in enumerate(read_text(path, _FILE).splitlines(), start=1):
        if not line.strip():
            continue
        record: Any = parse_json(line, f"{path}: line {number}")
        lengths = record.get("accepted") if isinstance(record, dict) else record
        requests.append(as_record(list[_Length], lengths, f"{path}: line {number}", "accepted"))
    return requests


def _trace_kinds(path: Path, requests: list[list[int]], k: int) -> RequestKinds:
    requests = [lengths for lengths in requests if lengths]
    if not requests:
        raise InputError(f"{path}: no accepted lengths")
    longest = max(map(max, requests))
    if longest < k:
        raise InputError(f"{path}: no round accepted more than {longest} tokens, so it says nothing of --k {k}")
    pmfs = [np.bincount(np.minimum(lengths, k), minlength=k + 1) / len(lengths) for lengths in requests]
    return RequestKinds(np.full(len(requests), 1.0 / len(requests)), np.array(pmfs))
