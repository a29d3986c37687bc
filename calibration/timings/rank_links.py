"""Messages between every target rank and the draft; the profile's link is the first rank's, which carries a round's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from calibration.timings.build import PassCheck
from calibration.timings.rows import Row
from ssdsim.hardware.profile import HardwareProfile

_SLOW = 1.5  # times the first rank's time


def check_rank_links(profile: HardwareProfile, rows: Sequence[Row]) -> list[PassCheck]:
    """Each message of another rank as it was timed and as the profile prices it, where it has a link."""
    if profile.link is None:
        return []
    return [
        PassCheck("link", f"rank {rank}, {size:,} B", seconds, profile.message_seconds(size).seconds)
        for rank, of_rank in _by_rank(rows).items()
        for size, seconds in of_rank.items()
    ]


def slow_ranks(rows: Sequence[Row]) -> dict[int, tuple[int, float]]:
    """Ranks whose messages take notably longer than the first rank's: the worst size, and how many times as long."""
    given = [(dict(row.point.parameters), row.seconds) for row in rows if row.point.benchmark == "link"]
    first = {point["message_bytes"]: seconds for point, seconds in given}
    worst = {}
    for rank, of_rank in _by_rank(rows).items():
        slower = [(seconds / first[size], size) for size, seconds in of_rank.items() if size in first]
        if slower and max(slower)[0] > _SLOW:
            factor, size = max(slower)
            worst[rank] = (size, factor)
    return worst


def _by_rank(rows: Sequence[Row]) -> dict[int, dict[int, float]]:
    """Seconds by rank and message size."""
    seconds_by_rank: dict[int, dict[int, float]] = defaultdict(dict)
    for row in rows:
        if row.point.benchmark == "rank link":
            given = dict(row.point.parameters)
            seconds_by_rank[given["rank"]][given["message_bytes"]] = row.seconds
    return {rank: dict(sorted(seconds_by_rank[rank].items())) for rank in sorted(seconds_by_rank)}
