"""SGLang: a server's command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ssdsim.answers.export.dialect import Dialect, card, drafter_of, hub_name
from ssdsim.answers.export.vllm import LOOKAHEADS, lookahead
from ssdsim.answers.schedule.candidates import Candidates
from ssdsim.scenario.options import DEFAULTS

ALGORITHMS: Mapping[str, str] = {
    "model": "STANDALONE",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "mtp": "EAGLE",
    "dflash": "DFLASH",
    "ngram": "NGRAM",
}
"""By ssdsim's drafters, what SGLang calls them (its documentation at 067ad4d; DFLASH in newer ones)."""


def command(found: Candidates, names: Sequence[str], notes: list[str], seed: int) -> str:
    """The command line of a server: one K, that of the best geometric mean over batches and contexts."""
    best = found.best(names, by=())
    DIALECT.note_shared(best, "batch sizes and contexts", notes)
    DIALECT.note_missing(found, best, notes)
    k = lookahead(best.to_dict("records")[0])
    words = ["python", "-m", "sglang.launch_server", "--model-path", hub_name(card(found, "target"), notes)]
    words += ["--tp-size", str(found.options.get("tp", DEFAULTS["tp"]))]
    if found.options.get("ep", DEFAULTS["ep"]) > 1:
        words += ["--ep-size", str(found.options["ep"])]
    if k == 0:
        notes.append("AR is best on the whole: the command has no speculative flags")
        return shlex.join(words) + "\n"
    drafter = drafter_of(found)
    words += ["--speculative-algorithm", ALGORITHMS[drafter]]
    if drafter == "ngram":
        notes.append("SGLang's NGRAM drafts a tree of matches, wider than the one chain that is priced here")
        return shlex.join([*words, "--speculative-num-draft-tokens", str(k + 1)]) + "\n"
    if drafter != "mtp":  # whose layer is in the target's checkpoint
        words += ["--speculative-draft-model-path", hub_name(card(found, "draft"), notes)]
    if drafter == "dflash":
        return shlex.join([*words, "--speculative-dflash-block-size", str(k + 1)]) + "\n"
    # a chain: with one candidate a step SGLang verifies num-steps + 1 tokens
    words += ["--speculative-num-steps", str(k), "--speculative-eagle-topk", "1"]
    words += ["--speculative-num-draft-tokens", str(k + 1)]
    return shlex.join(words) + "\n"


DIALECT = Dialect(
    name="sglang",
    runtime="sglang",
    title="SGLang",
    expresses=tuple(LOOKAHEADS),
    drafters=tuple(ALGORITHMS),
    write=command,
    fixed={
        "sd_draft": (
            "colocated",
            "SGLang drafts on the target's devices: SD's draft is priced there, not on a device of its own",
        )
    },
)
