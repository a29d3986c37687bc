"""How many drafted tokens are accepted: of all requests on average, and of each kind where they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.errors import InputError
from ssdsim.speculation.acceptance import accepted_length_pmf
from ssdsim.speculation.acceptance_models import RequestKinds, beta_kinds, load_acceptance


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
        kinds = beta_kinds(options["alpha"], options["alpha_concentration"], tokens)
        return Accepted.of_kinds(kinds, options["output_tokens"])
    return Accepted(accepted_length_pmf(_by_position(options["alpha"], tokens), tokens))


def _by_position(alpha: float | Sequence[float], tokens: int) -> float | NDArray[np.float64]:
    """The first rates of a list by position, or the one rate."""
    if isinstance(alpha, int | float):
        return float(alpha)
    if len(alpha) < tokens:
        raise InputError(f"--alpha has {len(alpha)} rates by position, but the lookahead is {tokens}")
    return np.asarray(alpha[:tokens], dtype=float)
