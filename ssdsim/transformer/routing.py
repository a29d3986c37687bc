"""Routing: how many distinct experts the tokens of a pass touch in a layer, each read from memory once.

A token uses ``k`` of ``N`` experts. Tokens of different sequences choose independently. The next token of a sequence
keeps each expert of the one before with probability ``overlap`` and draws the rest from those that it did not use;
this is exact in the mean, and with an overlap of ``k / N`` it is independent routing. A node of a tree does so with the
one that it grows from: an expert that none has used so far is as likely to be drawn by the next row wherever it
follows, so that a tree touches as many experts as a chain of as many rows. Where some experts are more popular than
others, each has its own chance and is kept more often the likelier it is, so that independent tokens share more.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ssdsim.base.checks import Array

OVERLAP, SKEW = 0.42, 0.75
"""Share of a token's experts that the next token uses too, and the skew of the experts' popularity.

A judgement. Together they give six published counts of one text's experts, of five models, within 4 % on average; with
balanced experts the best overlap for all, 0.48, misses by 6 %. Rounds of Qwen3-235B on SGLang ask for 0.49 at K 3 (14
rows) and for more at K 7, llama.cpp's passes over up to 8 rows of GLM-4.5-Air for 0.48; all together for 0.44. The
counts alone ask for a skew of 0.95, for 0.65 to
1.25 where one of three sources is left out. Batches agree: engines that decode many sequences of DeepSeek-R1,
gpt-oss-120b and MiniMax-M2.5 are as fast as if fewer experts were touched. One paper found balanced experts in two
small models (skew 0).
"""

_HALVINGS = 60


@lru_cache(maxsize=65536)
def distinct_experts(
    count: int,
    per_token: int,
    sequences: int,
    tokens: int,
    overlap: float = OVERLAP,
    skew: float = SKEW,
) -> float:
    """Experts of a layer, of ``count``, that at least one token of a pass uses, on average.

    Parameters
    ----------
    count, per_token : routed experts of the layer (N), and those that a token uses (k).
    sequences : independent ones.
    tokens : of each: neighbours in a text, or nodes of a tree. Branches whose context is not among them touch
        up to an eighth more, four of them, and a fiftieth more from twenty on.
    overlap : share of a token's experts that the next one uses too, on average: from that of independent tokens, below
        which none is taken, to 1, where all tokens of a sequence use the same experts.
    skew : of the experts' popularity, as :func:`chances` takes it; 0 is balanced.

    Returns
    -------
    Between ``per_token`` and the smaller of ``count`` and all tokens' choices.

    >>> [round(distinct_experts(256, 8, 1, tokens), 1) for tokens in (1, 4, 8, 16)]
    [8.0, 21.2, 36.3, 61.3]
    >>> [round(distinct_experts(256, 8, 1, tokens, overlap=0.45, skew=0.0), 1) for tokens in (1, 4, 8, 16)]
    [8.0, 21.0, 37.2, 66.4]
    >>> [round(distinct_experts(128, 8, tokens, 1, skew=1.0), 1) for tokens in (4, 16)]
    [23.6, 58.1]
    """
    if per_token >= count:
        return float(count)
    chance = np.array([per_token / count]) if skew == 0.0 else chances(count, per_token, skew)
    held = held_share(chance, overlap)
    drawn_anew = (1.0 - held) * chance  # of an expert that the token before does not use
    missed = (1.0 - chance) * (1.0 - drawn_anew) ** (tokens - 1)
    touched = 1.0 - missed**sequences
    return float(count * touched.mean())


def held_share(chance: Array, overlap: float) -> float:
    """The share of what a token uses that it has from the token before and not by its own choice.

    ``chance`` is each expert's (or all experts'); independent tokens share by chance, and nothing is held below that.
    """
    by_chance = float((chance**2).sum() / chance.sum())
    return max(0.0, (overlap - by_chance) / (1.0 - by_chance)) if by_chance < 1.0 else 0.0


@lru_cache(maxsize=256)
def chances(count: int, per_token: int, skew: float) -> Array:
    """The chance that a token uses each expert, most popular first; shape ``(count,)``, adding up to ``per_token``.

    The popularity of the expert of rank r is ``r ** -skew``, and a token draws by it without replacement. Expert clocks
    ring at rates of their popularity and the first ``per_token`` are taken: until some time each has rung with ``1 -
    exp(-rate * time)``, and the time at which these add up is close to the exact draw (experts touched by many tokens
    within 1 %).

    >>> [round(float(each), 2) for each in chances(8, 2, 1.0)]
    [0.61, 0.37, 0.27, 0.21, 0.17, 0.14, 0.12, 0.11]
    """
    rates = np.arange(1.0, count + 1.0) ** -skew
    early, late = 0.0, 1.0
    while -np.expm1(-rates * late).sum() < per_token:
        late *= 2.0
    for _ in range(_HALVINGS):
        middle = (early + late) / 2.0
        early, late = (early, middle) if -np.expm1(-rates * middle).sum() > per_token else (middle, late)
    return np.asarray(-np.expm1(-rates * late))


def busiest_over_mean(count: int, touched: float, devices: int) -> float:
    """Experts to read on the device with the most of them, over the mean of all devices.

    ``count`` experts lie on ``devices`` in equal parts, and any ``touched`` of them are as likely to be those used: a
    device's part is hypergeometric, and devices are taken for independent, which underrates the busiest by up to 4 %.
    The tokens' visits are taken to be as uneven.

    >>> [round(busiest_over_mean(256, touched, 8), 2) for touched in (8.0, 30.5, 102.0)]
    [2.41, 1.67, 1.29]
    """
    if devices == 1 or touched <= 0.0:
        return 1.0
    below = math.floor(touched)
    shares = ((below, below + 1 - touched), (below + 1, touched - below))
    most = sum(share * _most_on_one(count, number, devices) for number, share in shares if share > 0.0)
    return max(1.0, most * devices / touched)


def devices_of_a_token(count: int, per_token: int, devices: int) -> float:
    """The mean number of ``devices``, each with as many of ``count`` experts, on which those of a token lie.

    >>> [round(devices_of_a_token(256, 8, devices), 2) for devices in (1, 8, 32)]
    [1.0, 5.29, 7.27]
    """
    own = count // devices
    return devices * (1.0 - math.comb(count - own, per_token) / math.comb(count, per_token))


@lru_cache(maxsize=16384)
def _most_on_one(count: int, touched: int, devices: int) -> float:
    """The mean of the largest of the devices' parts of so many experts."""
    own, whole = count // devices, math.comb(count, touched)
    at_most, most = 0.0, 0.0
    for number in range(min(own, touched) + 1):
        at_most += math.comb(own, number) * math.comb(count - own, touched - number) / whole
        most += 1.0 - min(1.0, at_most) ** devices
    return most
