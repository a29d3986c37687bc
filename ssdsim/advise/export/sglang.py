"""SGLang: a server's command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ssdsim.advise.candidates import Candidates
from ssdsim.advise.export.dialect import Dialect, checkpoint, drafter_of, is_data_parallel, shared_by, stages_flags
from ssdsim.base.record import Record
from ssdsim.question.options import DEFAULTS
from ssdsim.question.scenario import Scenario
from ssdsim.strategies.tree import TreeSpeculative

ALGORITHMS: Mapping[str, str] = {
    "model": "STANDALONE",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "mtp": "EAGLE",
    "dflash": "DFLASH",
    "dspark": "DSPARK",
    "ngram": "NGRAM",
}
"""SGLang's names of ssdsim's drafters (its documentation at 067ad4d; DFLASH and DSPARK in newer ones)."""


def command(engine: Dialect, candidates: Candidates, names: Sequence[str], notes: list[str]) -> str:
    """The command line of a server: one K, that of the best geometric mean over batches and contexts."""
    best = candidates.best(names, by=())
    engine.note_shared(best, "batch sizes and contexts", notes)
    engine.note_missing(candidates, best, notes)
    chosen = best[0]
    tree = _tree(chosen.deployment.scenario, notes) if chosen.strategy == TreeSpeculative.name else None
    k = tree.passes if tree else chosen.lookahead
    words = ["python", "-m", "sglang.launch_server", "--model-path", checkpoint(candidates, "target", notes)]
    words += ["--tp-size", str(candidates.options.get("tp", DEFAULTS["tp"]))]
    words += stages_flags("--pp-size", candidates)
    if is_data_parallel(candidates):
        ranks = str(candidates.options.get("tp", DEFAULTS["tp"]))
        words += ["--enable-dp-attention", "--dp-size", ranks, "--ep-size", ranks, "--moe-a2a-backend", "deepep"]
    elif candidates.options.get("ep", DEFAULTS["ep"]) > 1:
        words += ["--ep-size", str(candidates.options["ep"])]
    if (dcp := shared_by(candidates)) > 1:
        words += ["--dcp-size", str(dcp), "--dcp-comm-backend", "a2a"]
    if k == 0:
        notes.append("AR is best on the whole: the command has no speculative flags")
        return shlex.join(words) + "\n"
    drafter = drafter_of(candidates)
    if drafter == "ngram":
        notes.append("SGLang's NGRAM drafts a tree of matches, wider than the one chain that is priced here")
    draft = checkpoint(candidates, "draft", notes) if names_model(drafter) else None
    words += speculative_flags(drafter, draft, k, tree.beam if tree else 1, tree.nodes if tree else k)
    return shlex.join(words) + "\n"


def names_model(drafter: str) -> bool:
    """Say whether a drafter has a checkpoint of its own: a target's MTP layer is in the target's."""
    return drafter not in ("ngram", "mtp")


def speculative_flags(drafter: str, draft: str | None, k: int, beam: int, nodes: int) -> list[str]:
    """The flags that start a drafter of ``k`` steps, whose model (where it has one) is called ``draft``.

    With one candidate a step, a chain of ``nodes`` tokens, SGLang verifies one more.
    """
    words = ["--speculative-algorithm", ALGORITHMS[drafter]]
    if draft is not None:
        words += ["--speculative-draft-model-path", draft]
    if drafter == "ngram":
        return [*words, "--speculative-num-draft-tokens", str(k + 1)]
    if drafter == "dflash":
        return [*words, "--speculative-dflash-block-size", str(k + 1)]
    if drafter == "dspark":  # whose block has no token that was verified
        return [*words, "--speculative-dspark-block-size", str(k)]
    words += ["--speculative-num-steps", str(k), "--speculative-eagle-topk", str(beam)]
    return [*words, "--speculative-num-draft-tokens", str(nodes + 1)]


class _Tree(Record):
    """Passes of the draft, nodes of each pass, and drafted nodes that are verified, without the root."""

    passes: int
    beam: int
    nodes: int


def _tree(scenario: Scenario, notes: list[str]) -> _Tree:
    """The tree that is priced, in SGLang's words: it makes one for each round, as EAGLE-2 does.

    Its beam is the widest of the passes where the priced tree is the same in every round.
    """
    settings = scenario.settings
    rows: list[int] = settings["tree_rows"]
    beam = settings["tree_beam"] or max(rows)
    if settings["tree_beam"] is None:
        notes.append(
            "SGLang makes a tree for each round from the draft's confidence; one tree for all is priced here "
            f"(--tree-beam {beam} prices what SGLang does)"
        )
    nodes = min(int(settings["tree_nodes"]), beam + (len(rows) - 1) * beam**2)
    return _Tree(len(rows), beam, nodes)


DIALECT = Dialect(name="sglang", runtime="sglang", drafters=tuple(ALGORITHMS), write=command)
