"""Acceptance that an engine is told to draw, in place of what its drafter would have: to time rounds alone.

``synthetic:3.3`` is two-valued: 3.3 tokens a round are 3 or 4. So vLLM draws with ``synthetic_acceptance_length``,
TensorRT-LLM with ``TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS`` (2.3, without the bonus token), SGLang with
``SGLANG_SIMULATE_ACC_LEN``. SGLang draws once for a whole batch, which changes how much rounds scatter, not their mean.
``multinomial:3.3`` is SGLang's other method, a rounded normal: its mean is not what is asked for.
"""

from __future__ import annotations

import math

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError

_LAWS = ("synthetic", "multinomial")


def is_forced(text: str) -> bool:
    """Tell whether ``text`` asks for forced acceptance, rather than naming a file."""
    return text.split(":", 1)[0] in _LAWS and ":" in text


def forced_pmf(text: str, k: int) -> Array:
    """P(exactly j of K tokens are accepted) under ``law:tokens``, shape ``(K+1,)``; ``tokens`` a round, bonus included.

    >>> forced_pmf("synthetic:3.25", 4).round(3).tolist()
    [0.0, 0.0, 0.75, 0.25, 0.0]
    """
    law, number = text.split(":", 1)
    try:
        tokens = float(number)
    except ValueError:
        raise InputError(f"--acceptance {text}: '{number}' is no number of tokens a round") from None
    if not 1.0 <= tokens <= k + 1.0:
        raise InputError(f"--acceptance {text}: a round of {k} drafted tokens yields 1 to {k + 1} tokens")
    return _two_valued(tokens, k) if law == "synthetic" else _rounded_normal(tokens, k)


def _two_valued(tokens: float, k: int) -> Array:
    return np.asarray(np.maximum(0.0, 1.0 - np.abs(tokens - 1.0 - np.arange(k + 1))))


def _rounded_normal(tokens: float, k: int) -> Array:
    """The probabilities of a normal about ``tokens`` with deviation 1, clipped to [1, K + 1]."""
    below = [0.5 * math.erfc((tokens - edge) / math.sqrt(2.0)) for edge in np.arange(1.5, k + 1.0)]
    return np.asarray(np.diff([0.0, *below, 1.0]))
