"""llama.cpp: the command line of ``llama-server``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ssdsim.advise.candidates import Candidates
from ssdsim.advise.export.dialect import Dialect, card, drafter_of
from ssdsim.question.options import DEFAULTS

TYPES: Mapping[str, str] = {
    "model": "draft-simple",
    "mtp": "draft-mtp",
    "eagle3": "draft-eagle3",
    "dflash": "draft-dflash",
    "ngram": "ngram-simple",
}
"""The ``--spec-type`` of ssdsim's drafters (``common/speculative.cpp`` of 2026)."""
_IN_THE_TARGET = ("mtp", "ngram")  # have no file of their own


def command(engine: Dialect, candidates: Candidates, names: Sequence[str], notes: list[str]) -> str:
    """The command line of a server: one K, that of the best geometric mean over batches and contexts."""
    best = candidates.best(names, by=())
    engine.note_shared(best, "batch sizes and contexts", notes)
    engine.note_missing(candidates, best, notes)
    words = ["llama-server", "-m", _file(candidates, "target", notes), "--n-gpu-layers", "all"]
    slots = max(each.b for each in best)
    words += ["--parallel", str(slots)]
    notes.append(f"--ctx-size is yours to add: the longest context times the {slots} of --parallel")
    if candidates.options.get("tp", DEFAULTS["tp"]) > 1:
        words += ["--split-mode", "tensor"]
    drafter, k = drafter_of(candidates), best[0].lookahead
    if k == 0:
        notes.append("AR is best on the whole: the command drafts nothing")
        return shlex.join(words) + "\n"
    words += ["--spec-type", TYPES[drafter]]
    if drafter not in _IN_THE_TARGET:
        words += ["--spec-draft-model", _file(candidates, "draft", notes)]
    words += ["--spec-draft-n-max", str(k)]
    if drafter != "ngram":
        words += ["--spec-draft-p-min", f"{candidates.options.get('draft_p_min') or 0.0:g}"]
    return shlex.join(words) + "\n"


def _file(candidates: Candidates, role: str, notes: list[str]) -> str:
    """The GGUF file that a user named; else a word in its place, and a note."""
    named = str(candidates.options.get(role) or "")
    if named.endswith(".gguf"):
        return named
    known = card(candidates.options, role)
    stand_in = f"PATH-OF-{known.name}.gguf"
    notes.append(f"llama.cpp reads GGUF: put that of {known.checkpoint or known.name} in the place of {stand_in}")
    return stand_in


DIALECT = Dialect(name="llama-cpp", runtime="llama-cpp", drafters=tuple(TYPES), write=command)
