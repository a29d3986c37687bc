"""Questions to the records: lookaheads, fan-outs, Saguaro's C, backups."""

from __future__ import annotations

from calibration.pairs.backups import lookup_named
from calibration.pairs.coupling import Starts
from calibration.pairs.saguaro import Width
from ssdsim.base.checks import whole, within
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.tokens.resampling import DRAWS

LENGTH_K, SHOWN_F = 6, 3
_MOST_K, _MOST_F = 64, 1024


class Questions(Record):
    """``ks`` and ``fan_outs`` to answer for; lengths, hits and batches are told at ``k`` and ``f``.

    ``k`` is 6 and ``f`` 3 where those are among them, else the largest.
    """

    ks: tuple[int, ...] = tuple(range(1, 13))
    fan_outs: tuple[int, ...] = tuple(range(1, 65))
    cs: tuple[float, ...] = (0.3, 0.5, 0.7, 1.0)
    backups: tuple[str, ...] = ("random", "ngram:3", "suffix")
    batches: tuple[int, ...] = (2, 4, 8, 16)
    width: Width = "F"
    starts: Starts = "first"
    seed: int = 0
    draws: int = DRAWS

    def __post_init__(self) -> None:
        if not self.ks or not self.fan_outs:
            raise InputError("--k and --f need at least one value")
        for k in self.ks:
            whole("--k", k, 1, _MOST_K)
        for f in self.fan_outs:
            whole("--f", f, 1, _MOST_F)
        for c in self.cs:
            within("--c", c, 1e-6, 1.0)
        for name in self.backups:
            lookup_named(name, 1, 0)

    @property
    def k(self) -> int:
        return LENGTH_K if LENGTH_K in self.ks else max(self.ks)

    @property
    def f(self) -> int:
        return SHOWN_F if SHOWN_F in self.fan_outs else max(self.fan_outs)

    @property
    def most(self) -> int:
        return max(self.fan_outs)
