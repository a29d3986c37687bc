"""What a file is that a reader does not read, and what to do with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TEXTS = (
    (r"= Serving Benchmark Result =", "a console report of a serving benchmark: its JSON has more (vllm bench serve "
     "--save-result, sglang.bench_serving --output-file)"),
    (r"SpecDecoding metrics:|Speculative metrics:|vllm:spec_decode_", "what vLLM logs of its speculation: "
     "ssdsim import acceptance vllm reads it"),
    (r"Decode batch.{0,300}accept|spec_verify_ct|sglang:spec_", "what SGLang logs of its speculation: "
     "ssdsim import acceptance sglang reads it"),
    (r"Decode batch\.", "a log of SGLang, of a server without speculation"),
    (r"draft acceptance(?: rate)? = |n_drafted[ \t]*=", "what llama.cpp logs of its speculation: "
     "ssdsim import acceptance llama-cpp reads it"),
    (r"nThread \d+ nGpus \d+|_perf -b ", "output of nccl-tests: ssdsim import nccl-tests reads it"),
    (r"(?m)^\S*[ \t]*GPU0[ \t].*GPU1", "a topology of GPUs (nvidia-smi topo -m), which has no "
     "times: give it beside the output of nccl-tests (ssdsim import nccl-tests)"),
    (r"LLM Metrics|^Metric,avg", "a table of AIPerf or genai-perf: its JSON is read (profile_export_aiperf.json)"),
    (r"(?i)evalscope|Benchmarking summary", "a summary of evalscope, which is not read: give its numbers as CSV rows"),
    (r"(?m)^[ \t]*\|.*\bt/s\b", "a table of llama-bench without its columns model, size, params, test and t/s"),
    (r"\bTraceback \(most recent call last\)", "a program's traceback"),
)  # fmt: skip
_KEYS = (
    ({"accept_length", "num_draft_tokens"}, "a result of SpecForge: ssdsim import acceptance sglang reads it"),
    ({"spec_verify_ct"}, "answers of SGLang: ssdsim import acceptance sglang reads them"),
    ({"input_length", "output_length"}, "a log of requests: ssdsim serve --workload reads it"),
    ({"conversations"}, "conversations: ssdsim serve --workload reads them"),
    ({"architectures"}, "a model's config.json: give it by --model"),
    ({"median_tpot", "hw"}, "an aggregate of InferenceX, in seconds: give its numbers as CSV rows"),
)
_DEEPEST = 6


def stranger(found: Any) -> str | None:
    """What a text or a record is, in words, and what to do with it; None of what nobody knows."""
    if isinstance(found, str):
        return next((said for pattern, said in _TEXTS if re.search(pattern, found[:200_000])), None)
    keys = _keys(found)
    return next((said for needed, said in _KEYS if needed <= keys), None)


def _keys(value: Any, depth: int = 0) -> set[str]:
    """All keys in a record, at any depth."""
    if depth > _DEEPEST:
        return set()
    if isinstance(value, Mapping):
        return {str(key) for key in value} | {key for each in value.values() for key in _keys(each, depth + 1)}
    return {key for each in value[:100] for key in _keys(each, depth + 1)} if isinstance(value, list) else set()
