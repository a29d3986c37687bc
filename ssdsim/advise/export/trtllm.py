"""TensorRT-LLM: the command line of ``trtllm-serve``, and the file that says how it speculates."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ssdsim.advise.candidates import Candidates
from ssdsim.advise.export.dialect import (
    Dialect,
    by_batch,
    checkpoint,
    drafter_of,
    here_document,
    is_data_parallel,
    ranges,
    stages_flags,
)
from ssdsim.base.errors import InputError
from ssdsim.question.drafting import drafter_by_options
from ssdsim.question.options import DEFAULTS
from ssdsim.strategies.drafters.model import ModelDrafter

CONFIG = "speculative.yaml"
DECODING: Mapping[str, str] = {
    "model": "DraftTarget",
    "eagle3": "Eagle",
    "mtp": "MTP",
    "pard": "PARD",
    "dflash": "DFlash",
    "ngram": "NGram",
}
"""The ``decoding_type`` of ssdsim's drafters (Eagle: of 1.0, and an alias of Eagle3 in later versions).

DraftTarget is that of 1.0 and of the documentation; the checked configuration of 2026 spells it Draft_Target, as
:mod:`calibration.bench.engines` does, which starts such versions.
"""
_NGRAM = 5  # tokens of a match, as vLLM's look-up is told
_RELAXED = {"use_relaxed_acceptance_for_thinking": "true", "relaxed_topk": 10, "relaxed_delta": 0.6}
"""As its tech blog 2 has it."""
_WINDOW = 1000  # iterations with drafts, over which the rate is averaged
_TWO_MODELS = ("model", "ngram")  # whose overlap scheduler the documentation switches off


def command(engine: Dialect, candidates: Candidates, names: Sequence[str], notes: list[str]) -> str:
    """A file by ``cat``, and the server that reads it; the server alone where nothing is drafted."""
    tp, ep = (candidates.options.get(name, DEFAULTS[name]) for name in ("tp", "ep"))
    words = ["trtllm-serve", checkpoint(candidates, "target", notes), "--tp_size", str(tp)]
    words += stages_flags("--pp_size", candidates)
    if ep > 1 or is_data_parallel(candidates):
        words += ["--ep_size", str(tp if is_data_parallel(candidates) else ep)]
    best = engine.exported(candidates, names, notes)
    lookaheads = by_batch(best, 1, notes)
    lines = ["enable_attention_dp: true"] if is_data_parallel(candidates) else []
    if any(each.lookahead for each in best):
        lines += _speculative(candidates, lookaheads, notes)
    else:
        notes.append("AR is best everywhere: nothing is drafted")
    if not lines:
        return shlex.join(words) + "\n"
    file = "".join(f"{line}\n" for line in lines)
    words += ["--extra_llm_api_options", CONFIG]
    return f"{here_document(CONFIG, file)}\n{shlex.join(words)}\n"


def _speculative(candidates: Candidates, lookaheads: Mapping[int, int], notes: list[str]) -> Iterator[str]:
    """The lines of the file. Its table names the last batch size of each K; beyond all of them nothing is drafted.

    No K may be larger than that of the smallest batch size.
    """
    drafter = drafter_of(candidates)
    table = {last: k for _, last, k in ranges(lookaheads) if k > 0}
    most = next(iter(table.values()))
    if drafter == ModelDrafter.name:
        notes.append("where TensorRT-LLM refuses DraftTarget, its documentation's name, say Draft_Target, its code's")
    if drafter in _TWO_MODELS:
        yield "disable_overlap_scheduler: true"
    said: dict[str, Any] = {"decoding_type": DECODING[drafter], "max_draft_len": most}
    if drafter == "mtp":
        said["num_nextn_predict_layers"] = most
    elif drafter == "ngram":
        said["max_matching_ngram_size"] = _NGRAM
    else:
        said["speculative_model_dir"] = checkpoint(candidates, "draft", notes)
    if candidates.options.get("acceptance_rule") == "relaxed":
        said |= _RELAXED
        notes.append("TensorRT-LLM relaxes acceptance only while DeepSeek-R1 thinks")
    if (floor := candidates.options.get("acceptance_floor")) is not None:
        said |= {"acceptance_rate_threshold": floor, "acceptance_rate_window_size": _WINDOW}
        notes.append(f"below the floor, over {_WINDOW} iterations, it drafts no more until it is started again")
    if len(set(lookaheads.values())) > 1:
        said["draft_len_schedule"] = f"{{{', '.join(f'{last}: {min(k, most)}' for last, k in table.items())}}}"
        notes.append("draft_len_schedule is read by versions of 2026; above its largest batch size nothing is drafted")
    if max(table.values()) > most:
        notes.append(f"draft_len_schedule begins with its largest number: K is at most {most}, that of the first batch")
    yield "speculative_config:"
    for key, value in said.items():
        yield f"  {key}: {value}"


def _check_relaxed(options: Mapping[str, Any]) -> None:
    """Raise :class:`InputError` where acceptance is to be relaxed of drafts whose configuration has no such key."""
    if options.get("acceptance_rule") == "relaxed" and drafter_by_options(options) != "mtp":
        raise InputError("--format trtllm: TensorRT-LLM has --acceptance-rule relaxed for --drafter mtp alone")


DIALECT = Dialect(
    name="trtllm",
    runtime="trtllm",
    drafters=tuple(DECODING),
    write=command,
    check=_check_relaxed,
)
