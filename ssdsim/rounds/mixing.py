"""The kernel of requests that are alike, or of several kinds of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ssdsim.base.checks import Array
from ssdsim.rounds.kernel import Kernel, Mix, Tokens
from ssdsim.tokens.accepted import Accepted


def tokens_of(accepted: Accepted, kernel_of: Callable[[Array], Kernel]) -> Tokens:
    """``kernel_of(accepted_pmf)`` of the requests, or of each kind of them."""
    return tokens_of_each([accepted], lambda pmfs: kernel_of(pmfs[0]))


def tokens_of_each(accepted: Sequence[Accepted], kernel_of: Callable[[Sequence[Array]], Kernel]) -> Tokens:
    """The kernel, or kernels, of several accepted lengths, which are of the same requests."""
    first = accepted[0]
    if first.kinds is None:
        return kernel_of([each.pmf for each in accepted])
    pmfs = [each.kinds.pmfs for each in accepted if each.kinds is not None]
    kernels = tuple(kernel_of([each[kind] for each in pmfs]) for kind in range(first.kinds.weights.size))
    return Mix(first.kinds.weights, first.output_tokens, kernels)
