"""Work that a round asks of a draft serving several targets, and the mean wait for it."""

from __future__ import annotations

import numpy as np

from ssdsim.base.checks import FloatOrArray
from ssdsim.base.record import Record


class Service(Record):
    """A round's work for the draft's devices. Seconds, as numbers or columns of them.

    They make a speculation in ``first_s``, and a target asks for the next one ``away_s`` after its answer is made.
    Where ``hidden_s`` is given it then verifies for so long, and needs both. ``look_up_s`` later the ``missed`` ask for
    ``again_s`` more before they have an answer (a probability, or what was drawn).
    """

    first_s: FloatOrArray
    away_s: FloatOrArray
    hidden_s: FloatOrArray | None = None
    look_up_s: FloatOrArray = 0.0
    missed: FloatOrArray = 0.0
    again_s: FloatOrArray = 0.0

    @property
    def busy_s(self) -> FloatOrArray:
        """Seconds that a round needs the devices."""
        return self.first_s + self.missed * self.again_s

    def waits_s(self, round_s: FloatOrArray, targets: FloatOrArray, together: FloatOrArray) -> FloatOrArray:
        """Seconds by which a round of ``round_s`` is longer where the devices serve ``targets``.

        In turn: it takes no less than the work for all of them. That is all for constant times, where targets fall into
        step, and the least for any. ``together``: who asks while others are served waits for the rest of that, half of
        it on average (where it is not hidden); and since they are then served next, targets fall into two groups that
        take turns.
        """
        served = np.where(together, np.minimum(targets, 2), targets)
        in_turn = served * self.busy_s - round_s
        others = np.minimum(1.0, (targets - 1) * self.busy_s / round_s)
        exposed = 1.0 if self.hidden_s is None else self.missed
        rest = np.where(together, exposed * others * self.first_s / 2.0, 0.0)
        return np.maximum(rest, in_turn)
