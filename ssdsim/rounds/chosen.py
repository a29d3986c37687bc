"""The rule by which a round chooses its rows; who draws such rounds is apart, so that predictions start fast."""

from __future__ import annotations

from collections.abc import Mapping

from ssdsim.base.checks import Array
from ssdsim.rounds.kernel import Kernel


class Chosen(Kernel, kw_only=True):
    """The literal rule of a kernel that is its mean in a large batch: each round chooses its rows from confidences.

    ``seconds[B]`` is a round's time where B drafted tokens of the batch have a row. From the confidences of ``lag``
    rounds ago, 1 where there were none, it takes the B of the most expected tokens a second, or ``budget``. The tokens
    with the B highest survivals by the confidences of now get a row. A token is accepted with the probability that is
    its confidence, so a sequence accepts as many of its first tokens as have a row and are right.
    """

    rates: tuple[float, ...]
    concentration: float
    seconds: Array
    lag: int
    budget: int | None


class ByState(Kernel, kw_only=True):
    """A sequence's ``rows`` in the pass of a round follow from the state in which the round begins."""

    rows: Mapping[str, int]
