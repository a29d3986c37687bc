"""vLLM: the object of ``--speculative-config``, and the whole command line of a server."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ssdsim.advise.candidates import Candidates
from ssdsim.advise.export.dialect import (
    Dialect,
    by_batch,
    checkpoint,
    drafter_of,
    is_data_parallel,
    ranges,
    shared_by,
    stages_flags,
)
from ssdsim.base.record import Record, field, replace
from ssdsim.question.options import DEFAULTS
from ssdsim.question.scenario import Scenario
from ssdsim.strategies.adaptive import Adaptive
from ssdsim.tokens.rules import TOKEN


class Method(Record):
    """VLLM's ``method`` of a drafter, and what else it takes (``vllm/config/speculative.py`` at 002e77c).

    ``names_model``: of a checkpoint of its own. ``varies_k``: it documents the table over batch sizes as tested.
    """

    name: str
    title: str
    names_model: bool = True
    has_layers: bool = True
    varies_k: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


_WITH_GRAPHS = "VLLM_USE_V2_MODEL_RUNNER=1"
"""What keeps full CUDA graphs of verification beside a table over batch sizes (its pull request 45953)."""
_WITHOUT_GRAPHS = 0.14
"""What verification loses without them, at one sequence (its issue 49548)."""
_GRAPHS = f"{_WITH_GRAPHS} keeps full CUDA graphs beside the table (vLLM's pull request 45953), as priced"
_STAGES = "--pipeline-parallel-size"
_TABLE = "num_speculative_tokens_per_batch_size"
_ARCTIC = "vLLM's suffix decoding needs arctic-inference; it proposes as many tokens as a match is long, K at most"

METHODS: Mapping[str, Method] = {
    "model": Method("draft_model", "draft models"),
    "eagle": Method("eagle", "EAGLE", varies_k=True),
    "eagle3": Method("eagle3", "EAGLE-3", varies_k=True),
    "mtp": Method("mtp", "MTP", names_model=False, has_layers=False),
    "medusa": Method("medusa", "Medusa", has_layers=False, note="vLLM verifies Medusa's guesses as a chain"),
    "pard": Method("draft_model", "PARD", more={"parallel_drafting": True}),
    "p-eagle": Method("eagle3", "P-EAGLE", more={"parallel_drafting": True}),
    "dflash": Method("dflash", "DFlash", varies_k=True),
    "dspark": Method("dspark", "DSpark"),
    "ngram": Method(
        "ngram", "n-grams", names_model=False, has_layers=False, more={"prompt_lookup_max": 5, "prompt_lookup_min": 2}
    ),
    "suffix": Method("suffix", "suffixes", names_model=False, has_layers=False, note=_ARCTIC),
}
"""VLLM's methods by ssdsim's drafters."""


def config(engine: Dialect, candidates: Candidates, names: Sequence[str], notes: list[str]) -> str:
    """The JSON object of ``--speculative-config``; ``null`` where nothing is drafted anywhere."""
    made = speculative(engine, candidates, names, notes)
    _note_experts(candidates, notes)
    if flags := [*stages_flags(_STAGES, candidates), *_sharing(candidates)]:
        notes.append(f"start vLLM with {' '.join(flags)}")
    if made is None:
        notes.append("AR is best everywhere: start vLLM without --speculative-config")
    return json.dumps(made) + "\n"


def command(engine: Dialect, candidates: Candidates, names: Sequence[str], notes: list[str]) -> str:
    """The whole command line of a server."""
    tp, ep = _degrees(candidates)
    words = ["vllm", "serve", checkpoint(candidates, "target", notes)]
    if is_data_parallel(candidates):
        words += ["--data-parallel-size", str(tp), "--enable-expert-parallel"]
        notes.append("all-to-alls are priced (--all2all-backend), not vLLM's default all-gather")
    else:
        words += ["--tensor-parallel-size", str(tp), *(["--enable-expert-parallel"] if ep > 1 else [])]
    words += stages_flags(_STAGES, candidates)
    _note_groups(candidates, notes)
    words += _sharing(candidates)
    if candidates.options.get("kv_dtype") == "float8":
        words += ["--kv-cache-dtype", "fp8"]
    made = speculative(engine, candidates, names, notes)
    if made is not None:
        if _TABLE in made and METHODS[drafter_of(candidates)].varies_k:
            words = [_WITH_GRAPHS, *words]
        words += ["--speculative-config", json.dumps(made)]
    return shlex.join(words) + "\n"


def speculative(
    engine: Dialect, candidates: Candidates, names: Sequence[str], notes: list[str]
) -> dict[str, Any] | None:
    """The object of vLLM's speculative config: a number of drafted tokens, by ranges of batch sizes where it can."""
    method = METHODS[drafter_of(candidates)]
    best = engine.exported(candidates, names, notes, 0.0 if method.varies_k else _WITHOUT_GRAPHS)
    degree = candidates.options.get("tp", DEFAULTS["tp"])
    engines, tp = (degree, 1) if is_data_parallel(candidates) else (1, degree)
    lookaheads = by_batch(best, engines, notes)
    drafting = [each for each in best if each.lookahead]
    if not drafting:
        return None
    draft = checkpoint(candidates, "draft", notes) if method.names_model else None
    made = speculative_config(method, draft, max(lookaheads.values()), tp)
    chooses_rows = any(each.strategy == Adaptive.name for each in drafting)
    if chooses_rows:
        made["enable_adaptive_verification"] = True
    if method.has_layers:
        _note_draft_devices(drafting[0].deployment.scenario, notes)
    if method.note:
        notes.append(method.note)
    translated = bool(candidates.options.get("any_vocabulary")) and method.name == "draft_model"
    if method.has_layers and candidates.options.get("temperature", 0.0) > 0.0 and not translated:
        made["draft_sample_method"] = "probabilistic"
    if (rule := candidates.options.get("acceptance_rule") or TOKEN) != TOKEN:
        made["rejection_sample_method"] = rule
    if translated:
        made["use_heterogeneous_vocab"] = True
        notes.append("vLLM drafts greedily, and only tokens that both vocabularies have: fewer of a draft are accepted")
    if len(set(lookaheads.values())) > 1 and chooses_rows:
        notes.append("vLLM drafts as many tokens at all batch sizes, and chooses in each step how many it verifies")
    elif len(set(lookaheads.values())) > 1:
        made[_TABLE] = ranges(lookaheads)
        if method.varies_k:
            notes.append(_GRAPHS)
        else:
            notes.append(
                f"vLLM documents the table over batch sizes as tested with EAGLE and DFlash only, not {method.title}"
            )
    return made


def speculative_config(method: Method, draft: str | None, k: int, tp: int) -> dict[str, Any]:
    """The object that starts a drafter, whose model (where it has one) is called ``draft``; ``tp`` is the target's."""
    made: dict[str, Any] = {"method": method.name}
    if method.names_model:
        made["model"] = draft
    made |= {"num_speculative_tokens": k, **method.more}
    if method.has_layers:
        made["draft_tensor_parallel_size"] = tp  # of a model it refuses any other
    return made


def _note_experts(candidates: Candidates, notes: list[str]) -> None:
    """Note on expert parallelism: vLLM's degree is no number of its own, but all tensor-parallel devices, or none."""
    tp, ep = _degrees(candidates)
    if is_data_parallel(candidates):
        notes.append(
            f"start vLLM with --data-parallel-size {tp} --enable-expert-parallel and no tensor parallelism: its batch "
            "sizes are of one device; all-to-alls are priced (--all2all-backend), not its default all-gather"
        )
    if ep > 1:
        notes.append("start vLLM with --enable-expert-parallel: experts lie apart on the devices")
    _note_groups(candidates, notes)


def _sharing(candidates: Candidates) -> list[str]:
    """The flags of devices that share each sequence's cache, with the exchange that is priced."""
    dcp = shared_by(candidates)
    return ["--decode-context-parallel-size", str(dcp), "--dcp-comm-backend", "a2a"] if dcp > 1 else []


def _note_groups(candidates: Candidates, notes: list[str]) -> None:
    tp, ep = _degrees(candidates)
    if 1 < ep < tp:
        notes.append(f"vLLM spreads experts over all {tp} devices; they are priced in {ep} groups of {tp // ep}")


def _degrees(candidates: Candidates) -> tuple[int, int]:
    """Degrees of the target's tensor and expert parallelism."""
    tp, ep = (candidates.options.get(name, DEFAULTS[name]) for name in ("tp", "ep"))
    return tp, ep


def _note_draft_devices(scenario: Scenario, notes: list[str]) -> None:
    """Note on the draft's devices: vLLM shards the draft as it does the target."""
    tp = scenario.settings["tp"]
    passes = [each for step in scenario.steps.values() for each in step.passes if each.model == "draft"]
    if any(each.tp != tp for each in passes):
        notes.append(f"vLLM runs the draft on all {tp} devices; SD is priced with it on one, which is faster")


DIALECT = Dialect(name="vllm", runtime="vllm", drafters=tuple(METHODS), write=config)
SERVE = replace(DIALECT, name="vllm-serve", write=command)
