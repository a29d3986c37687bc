"""What a round asks of a draft's devices that serve several targets, and what it waits for them on average."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssdsim.checks import FloatOrArray


@dataclass(frozen=True)
class Service:
    """A round's work for the draft's devices. Seconds, as numbers or columns of them.

    They make a speculation in ``first_s``. What a target does with it, and both messages, take ``away_s`` from when the
    draft is done until it hears of the outcome. It drafts after that; or, where ``hidden_s`` is given, it asks for it
    as soon as the one before is done, so that the first ``hidden_s`` of it are hidden. Then, ``look_up_s`` later, the
    ``missed`` ask for ``again_s`` more (both are those of a round: probability and mean, or what was drawn).
    """

    first_s: FloatOrArray
    away_s: FloatOrArray
    hidden_s: FloatOrArray | None = None
    look_up_s: FloatOrArray = 0.0
    missed: FloatOrArray = 0.0
    again_s: FloatOrArray = 0.0

    @property
    def busy_s(self) -> FloatOrArray:
        """For how long a round needs the devices."""
        return self.first_s + self.missed * self.again_s

    def waits_s(self, round_s: FloatOrArray, targets: FloatOrArray, together: FloatOrArray) -> FloatOrArray:
        """What a round of ``round_s`` becomes longer where the devices serve ``targets``.

        In turn: no round is shorter than the work for all targets. That is exact for constant times, where targets fall
        into step, and the least that a round takes for any. ``together``: who asks while others are served waits for
        the rest of that, half of it on average; between what a round takes without and with such a wait each time.
        """
        in_turn = np.maximum(0.0, targets * self.busy_s - round_s)
        others = np.minimum(1.0, (targets - 1) * self.busy_s / round_s)
        rest = others * self.first_s / 2.0
        joint = rest
        if self.hidden_s is not None:
            late = np.maximum(0.0, self.first_s - self.hidden_s)
            joint = np.maximum(0.0, self.first_s + rest - self.hidden_s) - late + self.missed * rest
        return np.where(together, joint, in_turn)
