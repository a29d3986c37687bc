"""How many drafted tokens are accepted: of all requests on average, and of each kind where they differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.errors import InputError
from ssdsim.speculation.acceptance import accepted_length_pmf
from ssdsim.speculation.acceptance_models import (
    RequestKinds,
    beta_kinds,
    beta_kinds_by_position,
    load_acceptance,
)


@dataclass(frozen=True)
class Accepted:
    """``pmf[k]`` is P(exactly k of the K drafted tokens are accepted), shape ``(K+1,)``.

    ``kinds`` are those of the requests where they differ, each ``output_tokens`` long; ``pmf`` is then their mean.
    """

    pmf: NDArray[np.float64]
    kinds: RequestKinds | None = None
    output_tokens: int = 0

    @classmethod
    def of_kinds(cls, kinds: RequestKinds, output_tokens: int) -> Accepted:
        return cls(np.asarray(kinds.weights @ kinds.pmfs), kinds, output_tokens)


def accepted_by_options(options: Mapping[str, Any], tokens: int) -> Accepted:
    """What ``--acceptance``, ``--alpha`` and ``--alpha-concentration`` say of a draft of ``tokens`` tokens.

    Raises
    ------
    InputError : fewer rates by position than tokens, or a file that does not say it.
    """
    if options["acceptance"] is not None:
        return Accepted.of_kinds(load_acceptance(Path(options["acceptance"]), tokens), options["output_tokens"])
    if options["alpha_concentration"] is not None:
        alpha, concentration = options["alpha"], options["alpha_concentration"]
        if isinstance(alpha, int | float):
            kinds = beta_kinds(alpha, concentration, tokens)
        else:
            kinds = beta_kinds_by_position(_by_position(options, tokens), concentration)
        return Accepted.of_kinds(kinds, options["output_tokens"])
    rates = options["alpha"] if isinstance(options["alpha"], int | float) else _by_position(options, tokens)
    return Accepted(accepted_length_pmf(rates, tokens))


def _by_position(options: Mapping[str, Any], tokens: int) -> tuple[float, ...]:
    """The first rates of a list by position."""
    rates = options["alpha"]
    if len(rates) < tokens:
        known = f"--alpha has {len(rates)} rates by position"
        if options["pair"] is not None:
            known = f"acceptance is known at {len(rates)} positions (--pair {options['pair']})"
        raise InputError(f"{known}, but the lookahead is {tokens}")
    return tuple(float(rate) for rate in rates[:tokens])
