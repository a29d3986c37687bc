"""The speed-up over the first rival with a measured pair, and with the placeholders in its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ssdsim import strategies
from ssdsim.answers.predict import predict
from ssdsim.answers.swings import Swing, swings
from ssdsim.base.record import Record
from ssdsim.tokens.pair_file import Pair

BATCH = 16


class SpeedupWithPair(Record):
    """The subject's tokens/s over its first rival's at a temperature, all other options being the defaults."""

    temperature: float
    batch: int
    hardware: str
    subject: str
    rival: str
    measured: float
    placeholders: float
    swings: tuple[Swing, ...]

    def __str__(self) -> str:
        return (
            f"with this pair {self.subject} is {self.measured:.2f}x {self.rival} at batch {self.batch} on "
            f"{self.hardware}; the placeholders say {self.placeholders:.2f}x"
        )

    @property
    def next(self) -> str | None:
        """The measurement that more requests would narrow most; None where nothing is uncertain."""
        if not self.swings:
            return None
        widest, *others = (f"{each.what} {_between(each)}" for each in self.swings)
        rest = f" (then {', '.join(others)})" if others else ""
        return f"more requests narrow it most by {widest} over its 95 % interval{rest}"


def speedups_with_pair(pair: Pair, path: Path, batch: int = BATCH) -> Iterator[SpeedupWithPair]:
    """The speed-ups at each temperature that the pair in the file at ``path`` was measured at."""
    for temperature in pair.temperatures:
        if temperature is None:
            continue
        options: dict[str, Any] = {"b": batch, "temperature": temperature}
        with_pair, before = predict(**options, pair=str(path)), predict(**options)
        subject, (rival, versus) = with_pair.verdict.subject, next(iter(with_pair.verdict.over.items()))
        yield SpeedupWithPair(
            temperature,
            batch,
            str(with_pair.configuration.settings["hardware"]),
            strategies.ALL.named(subject).title,
            strategies.ALL.named(rival).title,
            versus.ratio,
            before.verdict.over[rival].ratio,
            tuple(swings(*(with_pair.configuration.scenarios[name] for name in (subject, rival)))),
        )


def _between(swing: Swing) -> str:
    return f"({swing.lowest:.2f}-{swing.highest:.2f}x)"
