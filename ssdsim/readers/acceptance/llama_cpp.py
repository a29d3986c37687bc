"""llama.cpp: ``timings`` of answers, the server's log, and what ``llama-speculative`` prints.

``p_min`` cuts drafts short, so that rounds draft different numbers of tokens. An answer's first token is the prefill's;
each round has a bonus token: rounds are the tokens after the first less those that were accepted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ssdsim.base.documents import as_record, is_json, parse_records
from ssdsim.base.errors import InputError
from ssdsim.readers.acceptance.counts import Counts, EngineLog, ImportOptions, Source, of_positions, of_totals
from ssdsim.readers.acceptance.fields import (
    JsonObject,
    LogLine,
    Printed,
    WrittenCount,
    WrittenTokens,
    count,
    found_with,
)
from ssdsim.readers.strangers import stranger

_LINE = re.compile(
    r"draft acceptance(?: rate)? = ([\d.]+) \(\s*(\d+) accepted /\s*(\d+) generated\)"
    r"(?:, mean acceptance length =\s*([\d.]+))?(?:, acceptance rate per position = \(([\d., ]*)\))?"
)
_TOKENS = re.compile(r"(?<!prompt )eval time =\s*[\d.]+ ms /\s*(\d+) (?:tokens|runs)")
_TASK = re.compile(r"task (-?\d+) \|")
_LOGGED = r"(?:[\d.]+ [A-Z] )?"  # newer versions print a clock and a letter before each line
_EXAMPLE = {
    name: re.compile(rf"^{_LOGGED}[ \t]*{name}[ \t]*=[ \t]*(\d+)", re.M)
    for name in ("n_draft", "n_predict", "n_drafted", "n_accept")
}


class _Example(LogLine):
    """Counts that ``llama-speculative`` prints."""

    n_drafted: WrittenCount
    n_accept: WrittenCount
    n_predict: WrittenCount = 0
    n_draft: WrittenTokens | None = None


def read_one(source: Source, asked: ImportOptions) -> EngineLog:
    """The requests of a file."""
    if is_json(source.text):
        return EngineLog("llama-cpp-timings", _timings(source, asked))
    if _LINE.search(source.text):
        return EngineLog("llama-cpp-log", _log(source, asked))
    if all(pattern.search(source.text) for pattern in (_EXAMPLE["n_drafted"], _EXAMPLE["n_accept"])):
        return EngineLog("llama-cpp-example", [_example(source, asked)])
    raise InputError(
        f"{source.path}: {stranger(source.text) or 'nothing of llama.cpp in it'}; wanted: timings with draft_n, or a "
        "line 'draft acceptance = ...'"
    )


def _timings(source: Source, asked: ImportOptions) -> list[Counts]:
    counts = []
    for where, own in source.numbered("request", found_with(parse_records(source.text, source.path), ("predicted_n",))):
        drafted, accepted = count(own, ("draft_n",), where), count(own, ("draft_n_accepted",), where)
        tokens = count(own, ("predicted_n",), where)
        if not drafted or accepted is None or tokens is None:
            continue
        counts.append(_of_tokens(where, tokens, accepted, drafted, asked))
    if not counts:
        raise InputError(f"{source.path}: no timings with draft_n in it: the server drafted nothing")
    return counts


def of_all_timings(timings: Sequence[JsonObject], where: str) -> Counts | None:
    """The steps of some requests together, of their ``timings``; None where none drafted anything."""
    drafted, accepted, tokens = (
        sum(count(own, (name,), where) or 0 for own in timings)
        for name in ("draft_n", "draft_n_accepted", "predicted_n")
    )
    if not drafted:
        return None
    rounds = tokens - len(timings) - accepted  # the first token of each is its prompt's
    return of_totals(where, rounds, accepted, drafted)


def _of_tokens(where: str, tokens: int, accepted: int, drafted: int, asked: ImportOptions) -> Counts:
    rounds = tokens - 1 - accepted
    if rounds <= 0:
        raise InputError(f"{where}: {accepted} accepted of {tokens} tokens leave no round a bonus token")
    return of_totals(where, rounds, accepted, drafted, asked.k, is_request=True)


def _log(source: Source, asked: ImportOptions) -> list[Counts]:
    """A count a line, which is of one request."""
    counts: list[Counts] = []
    tokens: dict[str, int] = {}
    task = ""
    for where, line in source.numbered("line", source.text.splitlines()):
        task = match[1] if (match := _TASK.search(line)) else task  # which an older log says only of the first line
        if (spoken := _TOKENS.search(line)) is not None:
            tokens[task] = as_record(WrittenCount, spoken[1], where, "tokens", written=True)
        if (match := _LINE.search(line)) is None:
            continue
        said = {"accepted": match[2], "drafted": match[3], "length": match[4]}
        printed = as_record(
            Printed, {**said, "shares": (match[5] or "").replace(",", " ").split()}, where, "line", written=True
        )
        accepted, drafted = printed.accepted, printed.drafted
        made = tokens.pop(task, None)
        if drafted == 0:
            continue
        if printed.length is not None:
            counts.append(_measured(where, accepted, drafted, printed.length, printed.shares))
        elif made is not None:
            counts.append(_of_tokens(where, made, accepted, drafted, asked))
        elif asked.k is not None:
            counts.append(of_totals(where, drafted / asked.k, accepted, drafted, asked.k, is_request=True))
        else:
            raise InputError(
                f"{where}: the share of accepted tokens tells no rounds; keep the line 'eval time = ...', or "
                "give the tokens a round by --k"
            )
    if not counts:
        raise InputError(f"{source.path}: no request in it drafted a token")
    return counts


def _measured(where: str, accepted: int, drafted: int, length: float, shares: Sequence[float]) -> Counts:
    """Rates by position are of all drafts: 1 + their sum is the length."""
    rounds = drafted / max(1, len(shares))
    if accepted > 0 and sum(shares) > 0.0:
        rounds = accepted / sum(shares)
    elif accepted > 0 and length > 1.0:
        rounds = accepted / (length - 1.0)
    rounds = float(max(1, round(rounds)))
    if not shares:
        return of_totals(where, rounds, accepted, drafted, is_request=True)
    return of_positions(where, rounds, accepted, drafted, [share * rounds for share in shares], is_request=True)


def _example(source: Source, asked: ImportOptions) -> Counts:
    """``llama-speculative`` prints its share as percent, and the numbers that it is of."""
    where = str(source.path)
    written = {name: match[1] for name, pattern in _EXAMPLE.items() if (match := pattern.search(source.text))}
    said = as_record(_Example, written, where, "example", written=True)
    k, drafted, accepted = said.n_draft or asked.k, said.n_drafted, said.n_accept
    if said.n_predict > accepted + 1:
        return of_totals(where, said.n_predict - accepted - 1, accepted, drafted, k, is_request=True)
    if k is None:
        raise InputError(f"{where}: does not say how many tokens were drafted a round; give them by --k")
    return of_totals(where, drafted / k, accepted, drafted, k, is_request=True)
