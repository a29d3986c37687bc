"""The reports that clients of servers print, as the records that the same clients save."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ssdsim.readers.bench import as_number

_HEADING = re.compile(r"= Serving Benchmark Result =")
_LINE = re.compile(r"^[^\w\n]{0,4}([A-Z][^:\n]*?):[ \t]+([^\s:]+)[ \t]*$", re.M)
_POSITION = re.compile(r"^[^\w\n]*Position \d+:[ \t]+([\d.]+)", re.M)
_ARGUMENTS = re.compile(r"\bNamespace\(.*")
_ARGUMENT = re.compile(r"\b(model|backend)='([^']+)'")
_SHARED = {
    "Successful requests": "completed",
    "Benchmark duration (s)": "duration",
    "Total input tokens": "total_input_tokens",
    "Total generated tokens": "total_output_tokens",
    **{f"Mean {name} (ms)": f"mean_{name.lower()}_ms" for name in ("TTFT", "TPOT", "ITL")},
}
_VLLM = {
    "Maximum request concurrency": "max_concurrency",
    "Request rate configured (RPS)": "request_rate",
    "Acceptance length": "spec_decode_acceptance_length",
    "Drafts": "spec_decode_num_drafts",
    "Draft tokens": "spec_decode_draft_tokens",
    "Accepted tokens": "spec_decode_accepted_tokens",
}
_SGLANG = {
    "Backend": "backend",
    "Traffic request rate": "request_rate",
    "Max request concurrency": "max_concurrency",
    "Total generated tokens (retokenized)": "total_output_tokens_retokenized",
    "Accept length": "accept_length",
}
"""Titles of lines, and the keys that the same numbers are saved by."""


def vllm_reports(text: str, where: str) -> list[dict[str, Any]]:
    """Reports of ``vllm bench serve`` in a text."""
    found = []
    for part, given in _parts(text):
        if _is_sglang(part):
            continue
        told = {"model_id": given.get("model"), "backend": given.get("backend")}
        record: dict[str, Any] = told | _numbers(part, _SHARED | _VLLM)
        shares = [float(share) / 100.0 for share in _POSITION.findall(part)]
        found.append(record | ({"spec_decode_per_position_acceptance_rates": shares} if shares else {}))
    return found


def sglang_reports(text: str, where: str) -> list[dict[str, Any]]:
    """Reports of ``sglang.bench_serving`` in a text."""
    reports = (_numbers(part, _SHARED | _SGLANG) for part, _ in _parts(text) if _is_sglang(part))
    return [{"total_output_tokens_retokenized": None, **report} for report in reports]


def _parts(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each report in a text, with the command's arguments before it."""
    given: dict[str, str] = {}
    before, *reports = _HEADING.split(text)
    for part in reports:
        if arguments := _ARGUMENTS.findall(before):
            given = dict(_ARGUMENT.findall(arguments[-1]))
        yield part, given
        before = part


def _is_sglang(part: str) -> bool:
    return "(retokenized)" in part or "Max request concurrency:" in part


def _numbers(part: str, titles: dict[str, str]) -> dict[str, Any]:
    """The lines of a report that have a title, a number each where it is one; one that is not set is left out."""
    said = {titles[title]: value for title, value in _LINE.findall(part) if title in titles}
    return {name: as_number(value) for name, value in said.items() if value not in ("not", "None")}
