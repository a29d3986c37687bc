"""One strategy's round as the closed form reads it."""

from __future__ import annotations

from collections.abc import Mapping

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.record import Record
from ssdsim.rounds.kernel import Averages

Seconds = float | Array


class Round(Record):
    """Batch, devices, the seconds of each of the strategy's steps by name, and what its rounds do on average.

    Batch, devices and rounds are those of one target; ``targets`` share its draft, which serves them in turn, or all
    that wait ``together``.

    Numbers; or, where many settings are seen at once or a duration is drawn many times, columns that broadcast.
    Seconds are units of T_v where durations are unit-free.
    """

    batch: FloatOrArray
    gpus: FloatOrArray
    seconds: Mapping[str, Seconds]
    averages: Averages
    targets: FloatOrArray = 1
    together: FloatOrArray = False
