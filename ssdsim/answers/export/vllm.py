"""vLLM: the object of ``--speculative-config``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from ssdsim.answers.export.dialect import Dialect, card, drafter_of, drafts_beside, hub_name, is_data_parallel
from ssdsim.answers.schedule.candidates import Candidates
from ssdsim.scenario.configuration import configure
from ssdsim.scenario.options import DEFAULTS
from ssdsim.strategies.autoregressive import Autoregressive
from ssdsim.strategies.speculative import Speculative

LOOKAHEADS: Mapping[str, str | None] = {Autoregressive.name: None, Speculative.name: "k"}
"""Of the strategies that vLLM and SGLang have, the option that is their number of speculative tokens."""


@dataclass(frozen=True)
class Method:
    """What ``method`` vLLM calls a drafter, and what else it takes (``vllm/config/speculative.py`` at 002e77c).

    ``names_model``: of a checkpoint of its own. ``varies_k``: it documents the table over batch sizes as tested.
    """

    name: str
    title: str
    names_model: bool = True
    has_layers: bool = True
    varies_k: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


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
    "ngram": Method(
        "ngram", "n-grams", names_model=False, has_layers=False, more={"prompt_lookup_max": 5, "prompt_lookup_min": 2}
    ),
    "suffix": Method("suffix", "suffixes", names_model=False, has_layers=False, note=_ARCTIC),
}
"""By ssdsim's drafters."""


def config(found: Candidates, names: Sequence[str], notes: list[str], seed: int) -> str:
    """The JSON object of ``--speculative-config``: a number of drafted tokens for each range of batch sizes.

    Its table has no axis for the context: a batch size gets the K of the best geometric mean over the contexts. Ranges
    meet half way (in ratio) between two batch sizes. ``null`` where nothing is drafted anywhere. Where devices have
    sequences of their own, each of vLLM's engines has its own batch size, a part of ours.
    """
    best = found.best(names, by=("b",))
    DIALECT.note_shared(best, "contexts", notes)
    DIALECT.note_missing(found, best, notes)
    _note_experts(found, notes)
    rows = best.drop_duplicates("b").sort_values("b").to_dict("records")
    engines = found.options.get("tp", DEFAULTS["tp"]) if is_data_parallel(found) else 1
    by_batch = {-(-int(row["b"]) // engines): row for row in rows}
    if len(by_batch) < len(rows):
        notes.append(f"batches that {engines} engines share alike have one row of the table: the largest one's")
    lookaheads = {batch: lookahead(row) for batch, row in by_batch.items()}
    drafting = [row for row in by_batch.values() if lookahead(row)]
    if not drafting:
        notes.append("AR is best everywhere: start vLLM without --speculative-config")
        return "null\n"
    method = METHODS[drafter_of(found)]
    draft = hub_name(card(found, "draft"), notes) if method.names_model else None
    tp = 1 if engines > 1 else found.options.get("tp", DEFAULTS["tp"])
    made = speculative_config(method, draft, max(lookaheads.values()), tp)
    if method.has_layers:
        _note_draft_devices(found.points[drafting[0]["point"]], notes)
    if method.note:
        notes.append(method.note)
    if method.has_layers and found.options.get("temperature", 0.0) > 0.0:
        made["draft_sample_method"] = "probabilistic"
    if len(set(lookaheads.values())) > 1:
        made["num_speculative_tokens_per_batch_size"] = ranges(lookaheads)
        if not method.varies_k:
            notes.append(
                f"vLLM documents the table over batch sizes as tested with EAGLE and DFlash only, not {method.title}"
            )
    return json.dumps(made) + "\n"


def speculative_config(method: Method, draft: str | None, k: int, tp: int) -> dict[str, Any]:
    """The object that starts a drafter, whose model (where it has one) is called ``draft``; ``tp`` is the target's."""
    made: dict[str, Any] = {"method": method.name}
    if method.names_model:
        made["model"] = draft
    made |= {"num_speculative_tokens": k, **method.more}
    if method.has_layers:
        made["draft_tensor_parallel_size"] = tp  # of a model it refuses any other
    return made


def lookahead(row: Mapping[Any, Any]) -> int:
    """Tokens drafted by a row of candidates; 0 where none are."""
    option = LOOKAHEADS[row["strategy"]]
    return 0 if option is None else int(row[option])


def ranges(lookaheads: Mapping[int, int]) -> list[list[int]]:
    """``[first, last, K]`` with both ends included, from 1 to the largest batch size, without gaps."""
    batches = sorted(lookaheads)
    ends = [max(low, math.ceil(math.sqrt(low * high)) - 1) for low, high in pairwise(batches)] + [batches[-1]]
    found: list[list[int]] = []
    for k, ends_of_k in groupby(zip(batches, ends, strict=True), key=lambda item: lookaheads[item[0]]):
        first = found[-1][1] + 1 if found else 1
        found.append([first, list(ends_of_k)[-1][1], k])
    return found


def _note_experts(found: Candidates, notes: list[str]) -> None:
    """VLLM's expert-parallel degree is no number of its own: all devices of the tensor-parallel group, or none."""
    tp, ep = (found.options.get(name, DEFAULTS[name]) for name in ("tp", "ep"))
    if is_data_parallel(found):
        notes.append(
            f"start vLLM with --data-parallel-size {tp} --enable-expert-parallel and no tensor parallelism: its batch "
            "sizes are of one device; all-to-alls are priced (--all2all-backend), not its default all-gather"
        )
    if ep > 1:
        notes.append("start vLLM with --enable-expert-parallel: experts lie apart on the devices")
    if 1 < ep < tp:
        notes.append(f"vLLM spreads experts over all {tp} devices; they are priced in {ep} groups of {tp // ep}")


def _note_draft_devices(point: Mapping[str, Any], notes: list[str]) -> None:
    """VLLM shards the draft as it does the target."""
    configuration = configure(**point)
    tp = configuration.settings["tp"]
    (scenario,) = configuration.scenarios.values()
    passes = [each for step in scenario.steps.values() for each in step.passes if each.model == "draft"]
    if any(each.tp != tp for each in passes):
        notes.append(f"vLLM runs the draft on all {tp} devices; SD is priced with it on one, which is faster")


DIALECT = Dialect(
    name="vllm",
    runtime="vllm",
    title="vLLM",
    expresses=tuple(LOOKAHEADS),
    drafters=tuple(METHODS),
    write=config,
    fixed=drafts_beside("vLLM"),
)
