"""Accepted tokens: of all requests on average, and of each kind where they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.tokens.acceptance import accepted_length_pmf
from ssdsim.tokens.acceptance_models import RequestKinds, beta_kinds, beta_kinds_by_position, load_acceptance
from ssdsim.tokens.forced import forced_pmf, is_forced


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
        """Acceptance where only a ``share`` of rounds has anything to propose; over all rounds."""
        if share == 1.0:
            return self
        nothing = np.eye(self.pmf.shape[-1])[0]
        kinds = self.kinds and RequestKinds(self.kinds.weights, share * self.kinds.pmfs + (1.0 - share) * nothing)
        return Accepted(share * self.pmf + (1.0 - share) * nothing, kinds, self.output_tokens)


def accepted_by_options(
    options: Mapping[str, Any], tokens: int, first: int = 0, last_continues: bool = False
) -> Accepted:
    """Accepted of a draft of ``tokens`` tokens, by ``--acceptance``, ``--alpha`` and ``--alpha-concentration``.

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
    if not isinstance(rates, int | float | np.ndarray):  # an array is a column of single rates
        if _continues(options, rates, tokens, last_continues) and len(rates) < first + tokens:
            rates = (*rates, *(rates[-1:] * (first + tokens - len(rates))))
        rates = _by_position(options, rates, first, tokens)
    concentration = options["alpha_concentration"]
    if concentration is None:
        return Accepted(accepted_length_pmf(rates, tokens))
    if isinstance(rates, int | float):
        kinds = beta_kinds(rates, concentration, tokens)
    else:
        kinds = beta_kinds_by_position(rates, concentration)
    return Accepted.of_kinds(kinds, options["output_tokens"])


def _continues(options: Mapping[str, Any], rates: Sequence[float], tokens: int, last_continues: bool) -> bool:
    """Tell whether later positions have the last rate: a pair's as far as its K, unless somebody extrapolates."""
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
