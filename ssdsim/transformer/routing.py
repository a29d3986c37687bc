"""How many distinct experts the tokens of a pass touch in a layer: each is read from memory once.

A token uses ``k`` of ``N`` experts. Tokens of different sequences choose independently. The next token of a sequence
keeps each expert of the one before with probability ``overlap`` and draws the rest from those that it did not use;
this lag-1 chain is exact in the mean, and with an overlap of ``k / N`` it is independent routing.
"""

from __future__ import annotations

OVERLAP = 0.45
"""Share of a token's experts that the next token uses too: 0.38 to 0.50 over what is published of five models."""


def distinct_experts(
    count: int, per_token: int, sequences: int, tokens: int, overlap: float = OVERLAP, branches: bool = False
) -> float:
    """Experts of a layer, of ``count``, that at least one token of a pass uses, on average.

    Parameters
    ----------
    count, per_token : routed experts of the layer (N), and those that a token uses (k).
    sequences : independent ones.
    tokens : of each: neighbours in a text, or, with ``branches``, siblings after one context, each of which shares
        every one of the context's experts with probability ``overlap``.
    overlap : from independent (k / N, below which none is taken) to 1, where all tokens use the same experts.

    Returns
    -------
    Between ``per_token`` and the smaller of ``count`` and all tokens' choices.

    >>> [round(distinct_experts(128, 8, 1, tokens), 1) for tokens in (1, 2, 4, 8, 16)]
    [8.0, 12.4, 20.7, 35.6, 59.5]
    >>> round(distinct_experts(128, 8, 64, 1), 1)
    125.9
    """
    if per_token >= count:
        return float(count)
    kept = max(overlap, per_token / count)
    of_sequence = (_of_branches if branches else _of_neighbours)(count, per_token, tokens, kept)
    return count * (1.0 - (1.0 - of_sequence / count) ** sequences)


def _of_neighbours(count: int, per_token: int, tokens: int, overlap: float) -> float:
    missed_again = 1.0 - (1.0 - overlap) * per_token / (count - per_token)
    return float(count - (count - per_token) * missed_again ** (tokens - 1))


def _of_branches(count: int, per_token: int, tokens: int, overlap: float) -> float:
    outside = count - per_token
    by_each = (1.0 - overlap) * per_token / outside  # an expert that the context does not use
    of_context = per_token * (1.0 - (1.0 - overlap) ** tokens)
    return float(of_context + outside * (1.0 - (1.0 - by_each) ** tokens))
