"""The SSD paper's engine (tanishqkumar/ssd): what ``bench.py`` prints at its end, with two decimals.

The only log with hits. ``Avg Cache Hits`` is the mean over steps of a batch's shares, after speculations of the primary
and of the backup together: how often each hits cannot be told apart. Frequencies are of steps after a hit only.

:mod:`ssdsim.readers.results.ssd_engine` reads the speeds of the same output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from ssdsim.base.documents import as_record
from ssdsim.base.errors import InputError
from ssdsim.readers.acceptance.counts import Counts, EngineLog, ImportOptions, Source, of_length
from ssdsim.readers.acceptance.fields import Index, LogLine, WrittenAmount, WrittenCount, WrittenTokens
from ssdsim.readers.facts import Facts
from ssdsim.tokens.pair_file import Cache

_NUMBER = r":\s*([\d.]+|N/A)"
LENGTH = "Avg Tokens per step (incl recovery)"
_SHARE = "Avg Fraction of Speculated Tokens Accepted"
_HITS = "Avg Cache Hits"
_ON_HIT = "Avg Tokens per step on Cache Hit"
_ON_MISS = "Avg Tokens per step on Cache Miss"
_FREQUENCIES = "Empirical frequencies of accepted_suffix_lens_on_hit - 1:"
_FREQUENCY = re.compile(r"\b(\d+):[ \t]*([\d.]+)$")
_MODE = re.compile(r"Speculative\(k=(\d+)\)|--k[ =](\d+)")
_FAN_OUT = re.compile(r"\bF=(\d+), fan_out_list|--f[ =](\d+)")
_TEMPERATURE = re.compile(r"\btemp=([\d.]+) b=|--temp[ =]([\d.]+)")
_TARGET = re.compile(r"^[ \t]*Model: ([^,\s]+)", re.M)


class RunMetrics(LogLine):
    """Output of a run: its last block of metrics, its mode and its command line."""

    length: WrittenAmount
    frequencies: dict[Index, WrittenAmount]
    share: WrittenAmount | None = None
    p_hit: WrittenAmount | None = None
    on_hit: WrittenAmount | None = None
    on_miss: WrittenAmount | None = None
    k: WrittenTokens | None = None
    fan_out: WrittenCount | None = None
    temperature: WrittenAmount | None = None

    @property
    def lengths(self) -> list[float]:
        """P(exactly j accepted) after a hit, by j."""
        return [self.frequencies.get(j, 0.0) for j in range(max(self.frequencies, default=-1) + 1)]


def read(sources: Sequence[Source], asked: ImportOptions) -> EngineLog:
    """One run: its last block of metrics."""
    if len(sources) > 1:
        raise InputError(f"{sources[1].path}: a run is a set of its own; name several by --set NAME=FILE")
    source = sources[0]
    where, text = str(source.path), source.text
    starts = [match.start() for match in re.finditer(re.escape(LENGTH), text)]
    if not starts:
        raise InputError(f"{where}: no '[metrics] {LENGTH}: ...' in it: no output of bench.py --spec")
    run = metrics_of(text[starts[-1] :], text, where)
    k = _lookahead(run, asked, where)
    counts = of_length(where, run.length, k) if run.p_hit is None else _of_hits(where, run, k)
    target = _TARGET.findall(text)
    return EngineLog(
        "ssd-stdout",
        [counts],
        facts=Facts(model=target[-1] if target else None, temperature=run.temperature),
        cache=None if run.p_hit is None else _cache(run.p_hit, run),
        warnings=[f"{where}: printed with two decimals: rates are known to about 0.01", *_unidentified(run.p_hit)],
    )


def metrics_of(block: str, text: str, where: str) -> RunMetrics:
    named = {"length": LENGTH, "share": _SHARE, "p_hit": _HITS, "on_hit": _ON_HIT, "on_miss": _ON_MISS}
    said: dict[str, Any] = {name: _number(title, block) for name, title in named.items()}
    said |= {"k": last_of(_MODE, text), "fan_out": last_of(_FAN_OUT, text), "temperature": last_of(_TEMPERATURE, text)}
    return as_record(RunMetrics, {**said, "frequencies": _frequencies(block)}, where, "block of metrics", written=True)


def _unidentified(p_hit: float | None) -> list[str]:
    if p_hit is None:
        return []
    return [
        f"its hit rate {p_hit:.2f} is that of primary and backup together, at its own K and F: h(F) after each is not "
        f"in it; --p-hit {p_hit:.2f} takes it as it is"
    ]


def _cache(p_hit: float, run: RunMetrics) -> Cache:
    return Cache(
        p_hit=min(1.0, p_hit),
        length=run.length,
        length_on_hit=run.on_hit,
        length_on_miss=run.on_miss,
        f=run.fan_out,
    )


def _of_hits(where: str, run: RunMetrics, k: int | None) -> Counts:
    """Counts of rounds after a hit, whose speculation is the primary's; after a miss it may be a backup's."""
    frequencies, on_hit = run.lengths, run.on_hit
    if not frequencies:
        return of_length(where, on_hit if on_hit is not None else run.length, k)
    total = sum(frequencies)
    if abs(total - 1.0) > 0.02:
        raise InputError(f"{where}: the frequencies of accepted lengths add up to {total:.3f}, not to 1")
    k = max(k or 0, len(frequencies) - 1)
    shares = [share / total for share in (*frequencies, *[0.0] * (k + 1 - len(frequencies)))]
    mean = 1.0 + sum(j * share for j, share in enumerate(shares))
    if on_hit is not None and abs(mean - on_hit) > 0.03 + 0.0006 * k * k:
        raise InputError(f"{where}: the frequencies yield {mean:.2f} tokens a step, but '{_ON_HIT}' is {on_hit:.2f}")
    survived = tuple(sum(shares[i:]) for i in range(1, k + 1))
    return Counts(where, None, None, mean, k, None, survived, (1.0, *survived[:-1]))


def _lookahead(run: RunMetrics, asked: ImportOptions, where: str) -> int | None:
    """The K that the mode or the command line says; else the accepted tokens over their share."""
    if run.k is not None:
        return run.k
    length, share = run.length, run.share
    if asked.k is not None:
        return asked.k
    if share is None or share <= 0.0 or length <= 1.0:
        raise InputError(f"{where}: does not say how many tokens were drafted a round; give them by --k")
    low, high = (length - 1.005) / (share + 0.005), (length - 0.995) / max(share - 0.005, 1e-9)
    possible = [k for k in range(1, 65) if low <= k <= high]
    if len(possible) != 1:
        raise InputError(f"{where}: does not say how many tokens were drafted a round; give them by --k")
    return possible[0]


def _frequencies(block: str) -> dict[str, str]:
    """P(exactly j accepted) after a hit as written, by j: the lines that follow their title, while they have one."""
    _, _, after = block.partition(_FREQUENCIES)
    matches = (_FREQUENCY.search(line.rstrip()) for line in after.splitlines()[1:] if line.strip())
    return {match[1]: match[2] for match in takewhile(lambda match: match is not None, matches) if match}


def _number(name: str, text: str) -> str | None:
    """The first number of that name, as written; None where it is N/A or not there."""
    match = re.search(re.escape(name) + _NUMBER, text)
    return None if match is None or match[1] == "N/A" else match[1]


def last_of(pattern: re.Pattern[str], text: str) -> str | None:
    """The last one, since a block of metrics comes at the end of its run."""
    printed = [next(group for group in match.groups() if group is not None) for match in pattern.finditer(text)]
    return printed[-1] if printed else None
