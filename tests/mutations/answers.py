"""What holds of any answer: intervals are in order, a probability is one, a chain yields at most K + 1 tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

_SLACK = 1e-9
_PROBABILITIES = (
    "probability_faster probability_cheaper p_hit p_all_hit burst_share ahead_in attainment best_in utilisation"
).split()
_RISING = (
    "low mean high",
    "low likely_low likely_high high",
    "p50 p90 p99",
)
_NEVER_BELOW_0 = ("_per_second", "_per_round", "_per_gpu", "_per_sequence", "_per_user")
_CHAINS = ("sd", "ssd")


def wrong_json(shown: str) -> str | None:
    """What is wrong with an answer that was to be JSON; None where nothing is."""
    try:
        answer = json.loads(shown, parse_constant=int)  # int takes no NaN and no Infinity
    except ValueError as error:
        return f"no JSON ({error})"[:60]
    return next(_wrong(answer, ""), None)


def _wrong(value: Any, at: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _wrong_mapping(value, at)
    for name, inside in value.items() if isinstance(value, Mapping) else enumerate(value):
        if isinstance(inside, Mapping | list):
            yield from _wrong(inside, str(name) if isinstance(value, Mapping) else at)
        elif isinstance(inside, int | float) and not isinstance(inside, bool):
            known = {str(name), at} & {*_PROBABILITIES}
            if known and not -_SLACK <= inside <= 1.0 + _SLACK:
                yield f"{at} {name} is no probability"
            if str(name).endswith(_NEVER_BELOW_0) and inside < 0.0:
                yield f"{at} {name} is below 0"


def _wrong_mapping(value: Mapping[str, Any], at: str) -> Iterator[str]:
    for names in _RISING:
        listed = [value.get(name) for name in names.split()]
        numbers = [each for each in listed if isinstance(each, int | float)]
        if len(numbers) == len(listed) and any(a > b + _SLACK * max(1.0, abs(b)) for a, b in pairwise(numbers)):
            yield f"{at}: {names} do not rise"
    k, tokens = value.get("k"), value.get("tokens_per_round")
    chain = at in _CHAINS or value.get("strategy") in _CHAINS
    if chain and isinstance(k, int) and isinstance(tokens, int | float) and tokens > k + 1 + _SLACK:
        yield f"{at}: more than K + 1 tokens a round"
