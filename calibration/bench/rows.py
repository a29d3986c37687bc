"""A point that was measured, as a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibration.bench.answer import Answer
from calibration.bench.points import Point
from calibration.bench.server import Server
from ssdsim.base.documents import as_record
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import has_transformer
from ssdsim.readers.acceptance.counts import Counts
from ssdsim.readers.bench import model_in
from ssdsim.readers.row import Row

SOURCE = "ssdsim bench"
_DRAFTING = ("k", "acceptance_length", "draft", "drafter")


def described(server: Server, given: Mapping[str, Any], at: str) -> dict[str, Any]:
    """The columns that all rows of a server share."""
    if "hardware" not in given:
        raise InputError(f"{at}: does not say the hardware; give its profile by --hardware")
    said = {name: given[name] for name in given if name not in _DRAFTING}
    tp = server.settings.get("tp_size")
    return {
        **({"tp": tp} if isinstance(tp, int) else {}),
        **said,
        "model": _model(server, given, at),
        "engine": server.engine,
        "engine_version": server.version,
        "source": SOURCE,
    }


def _model(server: Server, given: Mapping[str, Any], at: str) -> str:
    """The card of what was loaded, where that is known here, else of the served name; or the given one."""
    return model_in(server.loaded if server.loaded and has_transformer(server.loaded) else server.served, given, at)


def said_of_draft(given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of what drafts, as far as a person says them."""
    return {name: given.get(name) for name in ("draft", "drafter")} | ({"k": given["k"]} if "k" in given else {})


def drafting(counts: Counts | None, given: Mapping[str, Any], at: str) -> dict[str, Any]:
    """The columns of what drafts, of a server that speculates; empty of one that does not."""
    named = {name: given[name] for name in ("draft", "drafter") if name in given}
    if counts is None:
        if not named and "k" not in given:
            return {"k": None}
        if "k" in given and "acceptance_length" in given:
            return {"k": given["k"], **named}
        raise InputError(
            f"{at}: counts no round of speculation: start it with speculation (SGLang, TensorRT-LLM: with metrics), or "
            "leave out --draft, --drafter and --k (or add --acceptance-length, if you know it)"
        )
    if not named:
        raise InputError(f"{at}: speculates; say what drafts: --draft CARD of a model, or --drafter eagle3, ngram, ...")
    k = counts.k or (max(1, round(counts.drafted / counts.rounds)) if counts.drafted and counts.rounds else None)
    k = given.get("k", k)
    if k is None:
        raise InputError(f"{at}: does not say how many tokens it drafts a round; give them by --k")
    return {"k": k, **named}


def row_of(
    point: Point,
    answers: Sequence[Answer],
    counts: Counts | None,
    setting: Mapping[str, Any],
    given: Mapping[str, Any],
    at: str,
) -> Row:
    """The row of a point: means over its measured answers, and rounds of all."""
    measured = [answer for answer in answers if answer.measured]
    tpot = 1e3 * float(np.mean([answer.tpot_s for answer in measured]))
    tokens = sum(answer.tokens for answer in measured)
    columns = {
        **setting,
        **drafting(counts, given, at),
        "batch": point.concurrency,
        "input_tokens": float(np.mean([answer.prompt_tokens for answer in measured])),
        "output_tokens": float(np.mean([answer.tokens for answer in measured])),
        "metric": "tpot_ms",
        "value": tpot,
        "repeat": point.repeat,
        "ttft_ms": 1e3 * float(np.mean([answer.ttft_s for answer in measured])),
        "itl_ms": 1e3 * float(np.mean(np.concatenate([answer.gaps_s for answer in measured]))),
        "output_tokens_per_s": point.concurrency * tokens / sum(answer.whole_s for answer in measured),
        **(_rounds(counts, answers) if counts is not None else {}),
    }
    if counts is None and columns["k"] is not None:
        columns["acceptance_length"] = given["acceptance_length"]
    return as_record(Row, columns, at, "row")


def _rounds(counts: Counts, answers: Sequence[Answer]) -> dict[str, Any]:
    """Fields of a row about its rounds. Tokens that were cut at the ends of answers took time: they are left out."""
    put_out = sum(answer.tokens - 1 for answer in answers)
    if counts.rounds is None:
        return {"acceptance_length": counts.length}
    steps = counts.rounds + (counts.undrafted or 0.0)
    survived = counts.survived and [min(1.0, each / counts.rounds) for each in counts.survived]
    return {
        "acceptance_length": max(1.0, put_out / steps),
        "rounds": counts.rounds,
        "undrafted_rounds": counts.undrafted,
        "drafted_per_round": None if counts.drafted is None else counts.drafted / counts.rounds,
        "accepted_by_position": survived,
    }
