"""Rounds that are known, and what each engine would log of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

Request = Sequence[int]
"""Accepted tokens of each round."""

RATES = (0.8, 0.7, 0.6, 0.75)
K = len(RATES)


def requests(count: int = 40, rounds: int = 60, seed: int = 1) -> list[list[int]]:
    """Accepted lengths of requests that accept position i + 1 at ``RATES[i]``."""
    uniform = np.random.default_rng(seed).random((count, rounds, K))
    accepted = np.cumprod(uniform < np.array(RATES), axis=2).sum(axis=2)
    return [[int(length) for length in request] for request in accepted]


def survival_counts(made: Iterable[Request]) -> list[int]:
    lengths = [length for request in made for length in request]
    return [sum(length > i for length in lengths) for i in range(K)]


def rates(made: Iterable[Request]) -> list[float]:
    """The conditional rates, counted the long way round."""
    made = list(made)
    reached = [sum(map(len, made)), *survival_counts(made)]
    return [after / before for before, after in pairwise(reached)]


def histogram(request: Request, most: int = K) -> list[int]:
    return [list(request).count(j) for j in range(most + 1)]


def vllm_metrics(made: Sequence[Request], model: str = "big", engines: int = 2, base: int = 1000) -> str:
    """Prometheus text after these requests, of a server that had done other work before; two engines share them."""
    lines = ["# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.", "vllm:num_requests 3.0"]
    for engine in range(engines):
        own = made[engine::engines]
        labels = f'engine="{engine}",model_name="{model}"'
        rounds = sum(map(len, own))
        values: dict[str, float] = {
            f"vllm:spec_decode_num_drafts_total{{{labels}}}": base + rounds,
            f"vllm:spec_decode_num_drafts_created{{{labels}}}": 1.75e9,
            f"vllm:spec_decode_num_draft_tokens_total{{{labels}}}": K * (base + rounds),
            f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}}": 2 * base + sum(map(sum, own)),
        }
        for i, survived in enumerate(survival_counts(own)):
            name = f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{i}"}}'
            values[name] = base / 2 + survived
        lines += [f"{name} {value}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def statistics(request: Request) -> dict[str, Any]:
    """What vLLM reports of a request."""
    accepted = sum(request)
    return {
        "mean_acceptance_length": 1.0 + accepted / len(request),
        "draft_acceptance_rate": accepted / (K * len(request)),
        "acceptance_histogram": histogram(request),
        "num_spec_steps": len(request),
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": K * len(request),
        "num_spec_tokens": K,
    }


def vllm_response(request: Request) -> dict[str, Any]:
    return {"id": "cmpl-1", "model": "big", "choices": [], "metrics": {"speculative_decoding": statistics(request)}}


def vllm_log_line(request: Request) -> str:
    survived, rounds, accepted = survival_counts([request]), len(request), sum(request)
    shares = ", ".join(f"{count / rounds:.3f}" for count in survived)
    return (
        "(EngineCore pid=7) INFO 11-22 10:00:00 [metrics.py:101] SpecDecoding metrics: "
        f"Mean acceptance length: {1 + accepted / rounds:.2f}, Accepted throughput: 8.90 tokens/s, Drafted throughput: "
        f"97.50 tokens/s, Accepted: {accepted} tokens, Drafted: {K * rounds} tokens, Per-position acceptance rate: "
        f"{shares}, Avg Draft acceptance rate: {100 * accepted / (K * rounds):.1f}%"
    )


def vllm_bench(made: Sequence[Request]) -> dict[str, Any]:
    rounds, accepted = sum(map(len, made)), sum(map(sum, made))
    return {
        "model_id": "big",
        "total_output_tokens": rounds + accepted,
        "mean_tpot_ms": 5.0,
        "spec_decode_acceptance_rate": 100 * accepted / (K * rounds),
        "spec_decode_acceptance_length": 1 + accepted / rounds,
        "spec_decode_num_drafts": rounds,
        "spec_decode_draft_tokens": K * rounds,
        "spec_decode_accepted_tokens": accepted,
        "spec_decode_per_position_acceptance_rates": [count / rounds for count in survival_counts(made)],
    }


SGLANG_NAMES = (
    ("spec_accept_token_num", "spec_draft_token_num", "spec_accept_histogram"),
    ("spec_accepted_drafts", "spec_proposed_drafts", "spec_accept_histogram"),
    ("spec_num_correct_drafts", "spec_num_proposed_drafts", "spec_correct_drafts_histogram"),
)


def sglang_answer(request: Request, names: Sequence[str] = SGLANG_NAMES[2]) -> dict[str, Any]:
    tokens = 1 + sum(request) + len(request)  # the prefill's one first
    accepted, drafted, counted = names
    return {
        "text": "...",
        "meta_info": {
            "completion_tokens": tokens,
            "spec_verify_ct": len(request),
            "spec_accept_length": tokens / len(request),
            accepted: sum(request),
            drafted: K * len(request),
            counted: histogram(request, max(request)),
        },
    }


def aiperf_record(request: Request) -> dict[str, Any]:
    own = statistics(request)
    own["acceptance_histogram"] = {str(j): n for j, n in enumerate(own["acceptance_histogram"]) if n}
    return {"metadata": {"x": 1}, "metrics": {"y": 2}, "spec_decode_acceptance": {"engine": "vllm", **own}}


def llama_cpp_line(task: int, request: Request) -> str:
    accepted, rounds = sum(request), len(request)
    shares = ", ".join(f"{count / rounds:.3f}" for count in survival_counts([request]))
    return (
        f"0.06.896.015 I slot print_timing: id  1 | task {task} | draft acceptance = {accepted / (K * rounds):.5f} "
        f"({accepted:5d} accepted / {K * rounds:5d} generated), mean acceptance length = {1 + accepted / rounds:5.2f}, "
        f"acceptance rate per position = ({shares})"
    )


def old_llama_cpp_lines(task: int, request: Request) -> str:
    accepted, drafted = sum(request), K * len(request)
    tokens = 1 + accepted + len(request)
    slot = f"slot print_timing: id  0 | task {task} |"
    return (
        f"{slot} \nprompt eval time =     300.11 ms /    20 tokens (   15.01 ms per token)\n"
        f"       eval time =    2296.72 ms /   {tokens} tokens (    8.97 ms per token)\n"
        f"{slot} draft acceptance rate = {accepted / drafted:.5f} ({accepted:5d} accepted / {drafted:5d} generated)"
    )


def trtllm_iteration(step: Request, rank: int = 0) -> dict[str, Any]:
    """An iteration of requests that accepted so many tokens each."""
    return {
        "iter": 1,
        "iterLatencyMS": 10.0,
        "attentionDpRank": rank,
        "specDecodingStats": {
            "numDraftTokens": K * len(step),
            "numAcceptedTokens": sum(step),
            "numRequestsWithDraftTokens": len(step),
            "acceptanceLength": 1 + sum(step) / len(step),
            "iterLatencyMS": 2.0,
            "draftOverhead": 0.2,
        },
    }


def lines_of(records: Iterable[Mapping[str, Any] | Sequence[int]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)
