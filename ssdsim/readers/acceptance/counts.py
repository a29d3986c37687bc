"""Counts that a log gives of rounds: of a request, of an interval, or of all that a server did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ssdsim.base.errors import InputError
from ssdsim.base.record import Record, field, replace
from ssdsim.readers.acceptance.fields import MOST_TOKENS
from ssdsim.readers.facts import Facts
from ssdsim.tokens.pair_file import Cache

T = TypeVar("T")

WHOLE_DRAFTS = 0.02
"""Rounds that drafted less than K, at the end of an answer, may leave out this share of the tokens."""
_COUNTERS_APART = 0.02
"""Two counters of one thing may be read at two moments."""
_ROUNDING = 0.006
"""The rounding of a share or a length that was printed with two digits."""


class Counts(Record):
    """Rounds, the drafted tokens that they accepted, and, where the log tells it, at which positions.

    ``survived[i]`` rounds accepted at least i + 1 tokens; ``tried[i]`` came to position i + 1: they drafted so far, and
    all before was accepted. ``lengths[j]`` rounds accepted exactly j. Each is None where the log does not say it, and
    so is ``k``, the tokens drafted in every round, where that varied (``varied``) or is not said. ``rounds`` is None
    where only their mean ``length`` is known. A prompt's first token, which its prefill makes, is in none of them.
    ``undrafted`` are steps that drafted nothing, which engines leave out of their rounds; None where it is not told.
    """

    where: str
    rounds: float | None
    accepted: float | None
    length: float
    k: int | None = None
    drafted: float | None = None
    survived: tuple[float, ...] | None = None
    tried: tuple[float, ...] | None = None
    lengths: tuple[int, ...] | None = None
    varied: bool = False
    is_request: bool = False
    undrafted: float | None = None

    def __post_init__(self) -> None:
        if self.k is not None and self.k > MOST_TOKENS:
            raise InputError(f"{self.where}: {self.k:g} tokens drafted a round; at most {MOST_TOKENS} are read")


class Source(Record):
    """A file and its text."""

    path: Path
    text: str

    def numbered(self, what: str, each: Iterable[T]) -> Iterator[tuple[str, T]]:
        """Tell of each where it is: ``PATH: request 3``."""
        return ((f"{self.path}: {what} {number}", one) for number, one in enumerate(each, 1))


class ImportOptions(Record):
    """Words of the user: tokens a round, the model of several, and that windows or a start are whole."""

    k: int | None = None
    model: str | None = None
    sampled: bool = False
    since_start: bool = False
    adaptive: bool = False


class EngineLog(Record):
    """Counts that an engine's files hold of one set of requests, and facts of its run; ``how`` is the kind of log.

    Of the facts, ``model`` is the target's name, ``draft`` the draft's.
    """

    how: str
    counts: Sequence[Counts]
    facts: Facts = Facts()
    cache: Cache | None = None
    warnings: Sequence[str] = field(default=())
    notes: Sequence[str] = field(default=())


def joined(logs: Sequence[EngineLog]) -> EngineLog:
    """Join the logs of one set of requests, one a file."""
    return EngineLog(
        how=logs[0].how,
        counts=[counts for log in logs for counts in log.counts],
        facts=next((log.facts for log in logs if log.facts != Facts()), Facts()),
        warnings=[warning for log in logs for warning in log.warnings],
        notes=[note for log in logs for note in log.notes],
    )


def each_file(
    one: Callable[[Source, ImportOptions], EngineLog],
) -> Callable[[Sequence[Source], ImportOptions], EngineLog]:
    """The reader of an engine whose files tell of requests each for itself."""
    return lambda sources, asked: joined([one(source, asked) for source in sources])


def of_histogram(
    where: str, histogram: Sequence[int], k: int | None, drafted: float | None, is_request: bool = True
) -> Counts:
    """Counts from rounds by accepted tokens, each of which drafted ``k`` (where None: as many as ``drafted`` says)."""
    lengths = tuple(histogram)
    rounds, accepted = sum(lengths), sum(j * count for j, count in enumerate(lengths))
    if rounds <= 0:
        raise InputError(f"{where}: the histogram counts no round")
    most = max(j for j, count in enumerate(lengths) if count)
    if drafted is not None and accepted > drafted:
        raise InputError(f"{where}: {accepted} tokens were accepted, but only {drafted:g} drafted")
    counts = _of_mean(where, rounds, accepted, drafted, k, is_request)
    if counts.varied:
        return counts
    k = counts.k if counts.k is not None else len(lengths) - 1
    if most > k:
        raise InputError(f"{where}: {most} tokens were accepted in a round, but only {k} drafted")
    lengths = (*lengths[: k + 1], *[0] * (k + 1 - len(lengths)))
    survived = tuple(float(sum(lengths[i:])) for i in range(1, k + 1))
    return replace(counts, k=k, survived=survived, tried=(float(rounds), *survived[:-1]), lengths=lengths)


def of_steps(where: str, rounds: Mapping[tuple[int, int], int]) -> Counts:
    """Counts of a request from its rounds by (drafted, accepted) tokens: exact, however many each round drafted."""
    drafting = {pair: count for pair, count in rounds.items() if pair[0] > 0 and count > 0}
    for drafted, accepted in drafting:
        if accepted > drafted:
            raise InputError(f"{where}: a round accepted {accepted} of {drafted} tokens")
    total = sum(drafting.values())
    if total == 0:
        raise InputError(f"{where}: no round drafted a token")
    k = max(drafted for drafted, _ in drafting)
    by_accepted, by_tried = [0] * (k + 1), [0] * (k + 1)
    for (drafted, accepted_then), n in drafting.items():
        by_accepted[accepted_then] += n
        by_tried[min(drafted, accepted_then + 1)] += n  # positions: the one that was rejected among them
    tried, survived = (tuple(float(sum(by[i + 1 :])) for i in range(k)) for by in (by_tried, by_accepted))
    accepted = sum(a * n for (_, a), n in drafting.items())
    same = all(drafted == k for drafted, _ in drafting)
    drafted_in_all = sum(d * n for (d, _), n in drafting.items())
    return Counts(
        where, total, accepted, 1.0 + accepted / total, k if same else None, drafted_in_all, survived, tried,
        tuple(by_accepted) if same else None, varied=not same, is_request=True,
    )  # fmt: skip


def of_each_round(where: str, drafted: Sequence[int], accepted: Sequence[int]) -> Counts:
    """Counts of a request from the tokens of each of its rounds."""
    if len(accepted) != len(drafted):
        raise InputError(f"{where}: {len(accepted)} rounds accepted tokens, {len(drafted)} drafted them")
    return of_steps(where, Counter(zip(drafted, accepted, strict=True)))


def of_positions(
    where: str,
    rounds: float,
    accepted: float,
    drafted: float | None,
    survived: Sequence[float],
    is_request: bool = False,
) -> Counts:
    """Counts from rounds that accepted at least i + 1 tokens: counters and shares of *all* rounds, not those before.

    Positions that no round drafted are left out: their zeros are no rejections. Where rounds drafted different numbers
    of tokens, positions mean nothing and the length alone is kept.
    """
    if rounds <= 0.0:
        raise InputError(f"{where}: no round that drafted tokens")
    slack = _ROUNDING * rounds + 1.0
    for i, (before, after) in enumerate(zip((rounds, *survived), survived, strict=False)):
        if after > before + slack:
            raise InputError(
                f"{where}: position {i + 1} was accepted in {after / rounds:.3f} of the rounds, position {i} in "
                f"{before / rounds:.3f}: shares of all rounds cannot rise"
            )
    if abs(sum(survived) - accepted) > slack * max(1, len(survived)):
        raise InputError(f"{where}: {accepted:g} tokens were accepted, but the positions add up to {sum(survived):.6g}")
    counts = _of_mean(where, rounds, accepted, drafted, None, is_request)
    if counts.varied:
        return counts
    k = counts.k if counts.k is not None else len(survived)
    if survived and k > len(survived):
        raise InputError(f"{where}: {k} tokens were drafted a round, but only {len(survived)} positions are counted")
    if any(survived[k:]):  # some drafted more than the mean, which is a whole number by chance
        return replace(counts, k=None, varied=True)
    kept = list(survived[:k])
    for i in range(1, len(kept)):
        kept[i] = min(kept[i], kept[i - 1])
    return replace(counts, k=len(kept), survived=tuple(kept), tried=(rounds, *kept[:-1]))


def of_totals(
    where: str, rounds: float, accepted: float, drafted: float | None, k: int | None = None, is_request: bool = False
) -> Counts:
    """Counts from rounds and accepted tokens alone."""
    if rounds <= 0.0:
        raise InputError(f"{where}: no round that drafted tokens")
    if accepted < 0.0 or (drafted is not None and accepted > drafted):
        raise InputError(f"{where}: {accepted:g} tokens were accepted of {drafted if drafted is not None else 0:g}")
    return _of_mean(where, rounds, accepted, drafted, k, is_request)


def of_length(where: str, length: float, k: int | None, rounds: float | None = None) -> Counts:
    """Counts from the mean tokens of a round, bonus included."""
    if not 1.0 <= length < 1e6:
        raise InputError(f"{where}: a round yields at least 1 token, its bonus, but the mean is {length:g}")
    accepted = None if rounds is None else (length - 1.0) * rounds
    return Counts(where, rounds, accepted, length, k)


def with_steps(counts: Counts, steps: float | None) -> Counts:
    """The counts with the steps that drafted nothing: those of ``steps``, all that there were, that are no rounds."""
    if steps is None or counts.rounds is None:
        return counts
    return replace(counts, undrafted=max(0.0, steps - counts.rounds))


def total_of(counts: Sequence[Counts], name: str) -> float | None:
    """The sum over all; None where one does not say it."""
    values = [getattr(each, name) for each in counts]
    return None if any(value is None for value in values) else float(sum(values))


def pooled(where: str, counts: Sequence[Counts]) -> Counts:
    """All of them together, as far as every one says it."""

    def totals(name: str) -> tuple[float, ...] | None:
        told = [row for each in counts if (row := getattr(each, name)) is not None]
        if len(told) < len(counts) or len({len(row) for row in told}) > 1:
            return None
        return tuple(sum(column) for column in zip(*told, strict=True))

    rounds, accepted = total_of(counts, "rounds"), total_of(counts, "accepted")
    known = {each.k for each in counts}
    return Counts(
        where,
        rounds,
        accepted,
        1.0 + accepted / rounds if rounds and accepted is not None else counts[0].length,
        k=known.pop() if len(known) == 1 else None,
        drafted=total_of(counts, "drafted"),
        survived=totals("survived"),
        tried=totals("tried"),
        varied=any(each.varied for each in counts) or len(known) > 1,
        undrafted=total_of(counts, "undrafted"),
    )


def check_accepted(counts: Counts, accepted: int | None) -> None:
    """Raise :class:`InputError` where another counter of accepted tokens is far from what the histogram adds up to."""
    if accepted is not None and abs((counts.accepted or 0.0) - accepted) > 1.0 + _COUNTERS_APART * accepted:
        raise InputError(f"{counts.where}: the histogram counts {counts.accepted:g} accepted tokens, not {accepted}")


def _of_mean(
    where: str, rounds: float, accepted: float, drafted: float | None, k: int | None, is_request: bool
) -> Counts:
    """The tokens drafted in every round are told by what was drafted in all, else they are ``k``."""
    counts = Counts(where, rounds, accepted, 1.0 + accepted / rounds, k, drafted, is_request=is_request)
    if drafted is None:
        return counts
    mean = drafted / rounds
    for whole in (k, round(mean)):
        if whole and abs(mean - whole) <= WHOLE_DRAFTS * whole:
            return replace(counts, k=whole)
    return replace(counts, k=None, varied=True)
