"""Accepted tokens, as options say: of all requests on average, of each kind of request, or forced on an engine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.tokens.acceptance import accepted_length_pmf, rates_of
from ssdsim.tokens.acceptance_models import RequestKinds, beta_kinds, beta_kinds_by_position, load_acceptance
from ssdsim.tokens.rules import RULES, TOKEN, AcceptanceRule

_LAWS = ("synthetic", "multinomial")


class Accepted(Record):
    """``pmf[k]`` is P(exactly k of the K drafted tokens are accepted), shape ``(K+1,)``; or a row a case of these.

    ``kinds`` are those of the requests where they differ, each ``output_tokens`` long; ``pmf`` is then their mean.
    """

    pmf: Array
    kinds: RequestKinds | None = None
    output_tokens: int = 0

    @classmethod
    def of_kinds(cls, kinds: RequestKinds, output_tokens: int) -> Accepted:
        return cls(np.asarray(kinds.weights @ kinds.pmfs), kinds, output_tokens)

    def found_in(self, share: float) -> Accepted:
        """Acceptance over all rounds where only a ``share`` of them has a proposal."""
        if share == 1.0:
            return self
        nothing = np.eye(self.pmf.shape[-1])[0]
        kinds = self.kinds and RequestKinds(self.kinds.weights, share * self.kinds.pmfs + (1.0 - share) * nothing)
        return Accepted(share * self.pmf + (1.0 - share) * nothing, kinds, self.output_tokens)

    def under(self, rule: AcceptanceRule, odds: Any) -> Accepted:
        """Acceptance by another rule, whose factor on the token rule's odds is ``odds``: a number, or a column."""

        def pmf(of: Array) -> Array:
            return accepted_length_pmf(rule.rates(rates_of(of), odds), of.shape[-1] - 1)

        if self.kinds is None:
            return Accepted(pmf(self.pmf))
        odds = np.asarray(odds)[..., None]
        return Accepted.of_kinds(RequestKinds(self.kinds.weights, pmf(self.kinds.pmfs)), self.output_tokens)


def accepted_by_options(
    options: Mapping[str, Any], tokens: int, first: int = 0, last_continues: bool = False
) -> Accepted:
    """Accepted of a draft of ``tokens`` tokens, by the rule that tests them."""
    accepted = _by_token(options, tokens, first, last_continues)
    if options["acceptance_rule"] == TOKEN or not tokens:
        return accepted
    return accepted.under(RULES.find(options["acceptance_rule"]), options["rule_odds"])


def _by_token(options: Mapping[str, Any], tokens: int, first: int, last_continues: bool) -> Accepted:
    """Accepted by the token rule, of ``--acceptance``, ``--alpha`` and ``--alpha-concentration``.

    Parameters
    ----------
    first : the place among the rates by position at which the draft begins.
    last_continues : the last of them is that of all later positions.
    """
    if options["acceptance"] is not None and is_forced(options["acceptance"]):
        return Accepted(forced_pmf(options["acceptance"], tokens))
    if options["acceptance"] is not None:
        return Accepted.of_kinds(load_acceptance(Path(options["acceptance"]), tokens), options["output_tokens"])
    rates: Any = options["alpha"]
    if isinstance(rates, np.ndarray):  # a row a case, of one rate or of rates by position
        rates = _columns(rates, first, tokens)
    elif not isinstance(rates, int | float):
        if _continues(options, rates, tokens, last_continues) and len(rates) < first + tokens:
            rates = (*rates, *(rates[-1:] * (first + tokens - len(rates))))
        rates = _by_position(options, rates, first, tokens)
    concentration = options["alpha_concentration"]
    if concentration is None:
        return Accepted(accepted_length_pmf(rates, tokens))
    if isinstance(rates, np.ndarray):
        each = [_kinds(row[0] if len(row) == 1 else tuple(row), concentration, tokens) for row in rates.tolist()]
        kinds = RequestKinds(each[0].weights, np.stack([one.pmfs for one in each]))
    else:
        kinds = _kinds(rates, concentration, tokens)
    return Accepted.of_kinds(kinds, options["output_tokens"])


def _kinds(rates: float | tuple[float, ...], concentration: float, tokens: int) -> RequestKinds:
    if isinstance(rates, int | float):
        return beta_kinds(rates, concentration, tokens)
    return beta_kinds_by_position(rates, concentration)


def _columns(rates: Array, first: int, tokens: int) -> Array:
    """The rates from the ``first`` position on, of each case; the last goes on."""
    if rates.shape[-1] == 1:
        return rates
    return rates[:, np.minimum(np.arange(first, first + tokens), rates.shape[-1] - 1)]


def _continues(options: Mapping[str, Any], rates: Sequence[float], tokens: int, last_continues: bool) -> bool:
    """Tell whether the last rate holds for later positions: a pair's only up to its K, unless ``--extrapolate``."""
    if options["pair"] is None or len(rates) >= tokens:
        return last_continues
    return bool(options["extrapolate"])


def _by_position(options: Mapping[str, Any], rates: Sequence[float], first: int, tokens: int) -> tuple[float, ...]:
    """The rates from the ``first`` position on."""
    if len(rates) < first + tokens:
        known, more = f"--alpha has {len(rates)} rates by position", ""
        if options["pair"] is not None:
            known = f"acceptance is known at {len(rates)} positions (--pair {options['pair']})"
            more = "; --extrapolate takes the last rate for more"
        raise InputError(f"{known}, but the lookahead is {tokens}{more}")
    return tuple(float(rate) for rate in rates[first : first + tokens])


def is_forced(text: str) -> bool:
    """Tell whether ``text`` asks for forced acceptance, rather than naming a file."""
    return text.split(":", 1)[0] in _LAWS and ":" in text


def forced_pmf(text: str, k: int) -> Array:
    """P(exactly j of K tokens are accepted) under ``law:tokens``, shape ``(K+1,)``; ``tokens`` a round, bonus included.

    An engine draws them in place of what its drafter would have, to time rounds alone. ``synthetic:3.3`` is two-valued:
    3.3 tokens a round are 3 or 4. So vLLM draws with ``synthetic_acceptance_length``, TensorRT-LLM with
    ``TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS`` (2.3, without the bonus token), SGLang with
    ``SGLANG_SIMULATE_ACC_LEN``. SGLang draws once for a whole batch, which changes how much rounds scatter, not their
    mean. ``multinomial:3.3`` is SGLang's other method, a rounded normal: its mean is not what is asked for.

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
