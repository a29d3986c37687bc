"""The rule by which a batch drafts anew together; who draws such rounds is apart, so that predictions start fast."""

from __future__ import annotations

from ssdsim.rounds.kernel import Kernel

PRE, POST, AGAIN = "pre", "post", "again"
"""States: without drafts to verify, with them, and with them after all of the batch without any drafted anew."""


class Retried(Kernel, kw_only=True):
    """The literal rule of a kernel that is its mean: ``most_failed`` of a batch may be without drafts after a round.

    Where more are, all begin the next round in ``again``, as they do the first one. Without the rule a sequence moves
    as ``alone`` says, whose states are ``pre`` and ``post``.
    """

    alone: Kernel
    most_failed: int
