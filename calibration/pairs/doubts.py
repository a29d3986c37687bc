"""Doubts that must be said beside the numbers of a pair."""

from __future__ import annotations

from collections.abc import Iterator

from calibration.pairs.curves import FEW
from ssdsim.tokens.pair_file import AtTemperature, Pair

_DIFFERENT = 0.05
_SIGNIFICANT = 0.001


def doubts(pair: Pair) -> Iterator[str]:
    """A line each, worst first within a temperature."""
    target, draft = pair.target.parameters, pair.draft.parameters
    if target is not None and draft is not None and draft > target:
        yield f"the draft has more parameters than the target ({draft:,} and {target:,}): are they exchanged?"
    for at in pair.by_temperature:
        where = "" if at.temperature is None else f"temperature {at.temperature:g}: "
        for doubt in _of(at):
            yield where + doubt


def _of(at: AtTemperature) -> Iterator[str]:
    pooled, mean = at.length.pooled, at.length.mean_of_requests
    if pooled and mean and abs(mean / pooled - 1.0) > _DIFFERENT:
        yield (
            f"tokens a round are {pooled:.2f} over all rounds, {mean:.2f} as the mean of requests: they differ, and a "
            "server's throughput follows the former"
        )
    if at.independence is not None and (at.independence.p or 0.0) < _SIGNIFICANT and at.independence.length and pooled:
        yield (
            f"one acceptance rate does not describe the lengths: it gives {at.independence.length:.2f} tokens a round "
            f"in place of {pooled:.2f}; rates by position are used"
        )
    misfits = [f"after {name}" for name, law in at.hits.laws.items() if law.fits is False]
    if misfits:
        yield f"no power law {', '.join(misfits)}: the measured curves are used"
    few = [i + 1 for i, count in enumerate(at.trials or ()) if count < FEW]
    if few:
        yield f"rates from position {few[0]} on rest on fewer than {FEW:.0f} rounds each"
    for batch in reversed(at.correlation.batch):
        if batch.concentration is not None and batch.p_all_hit is not None and batch.independent is not None:
            yield (
                f"misses cluster: all {batch.b} requests of a batch hit in {batch.p_all_hit:.1%} of rounds, "
                f"independent ones would in {batch.independent:.1%}"
            )
            return
