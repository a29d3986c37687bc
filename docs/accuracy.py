"""How far ssdsim misses published speeds that it had not seen, and how often its intervals hold: docs/accuracy.md.

    python docs/accuracy.py ../shared/measurements/end_to_end ../shared/reference/configs   (minutes; fits everything)
    python docs/accuracy.py                                                                 (the page of accuracy.json)

Runs after the scripts that fit the cards. It fits them again without a part of the rows and predicts that part, as
docs/fidelity_widths.py does. What it finds stands in ``accuracy.json`` as ``after``; ``before`` is what the same
program found with the code and the cards that the page names. No row is written anywhere.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

RESULT, PAGE = (Path(__file__).with_name(f"accuracy.{kind}") for kind in ("json", "md"))
LEFT_OUT = ("series", "version", "generation")
_Z = 1.96
_DEVICES = 8

_HEAD = """# How accurate it is

For people who decide whether to trust a number. Every row of this page is a published speed of a whole engine, and is
predicted by cards that had no row of its group. `python docs/accuracy.py` makes the page from `accuracy.json`. Given
the rows, which are not part of this project, it makes that file, too.

- *Left out*: what the cards had no row of. A **series** is one source, model, format, GPU and degree, with all its
  batches and lengths (for a dense model also its engine's version). A **version** is one of the engine. A
  **generation** of GPUs is Blackwell, or all before it.
- *Error*: the mean absolute error of a token's seconds. *Bias* above 0: predicted too slow.
- *Inside*: how many of the rows lie in the 95 % interval. Its law was fitted without their series (of hybrids and of
  SD it is the card's). *Width*: its median half-width.
- *Score*: the mean interval score (Gneiting and Raftery 2007: the width, and 40 times what lies outside, over the
  measured value). *Over the best constant*: that score over the one of the best single width for all rows of the line,
  chosen in hindsight. Below 1 the intervals know more than a constant can.
- *SD over AR*: rounds of SGLang beside the decoding of the same record, so that only their ratio counts.
  Nearly all are of one host. The card is as wide as hosts differ ([rounds](fidelity_rounds.md)).
- *Before*: the same rows, predicted and fitted at commit {before}.

What the cards were fitted to, and what they say, is on the pages of [dense models](fidelity.md),
[mixtures](fidelity_mixtures.md), [hybrids](fidelity_hybrids.md), [rounds](fidelity_rounds.md) and
[widths](fidelity_widths.md). All rows here are of NVIDIA's GPUs; [AMD's](fidelity_amd.md) are apart.

"""
_FOOT = """
## Where the largest errors are

**Mixtures, a version left out.** Two fifths of the error are the 108 rows of vLLM 0.18, predicted 20 % too slow: before
Blackwell only 0.16 then tells of MiniMax-M2.5, and it is slow; its slowness goes to the experts' factor. The 14 rows of
0.17 are predicted 20 % too fast, the 23 of 0.15.1 18 % too slow, the 57 of 0.19 9 % too slow, the 61 of TensorRT-LLM
that say no version 9 % too fast. A share of its own for every version, and not for those alone whose models ran on
another one, too, makes the error 12.1 %. With series left out it is then 7.8 % in place of 7.1 %, so it is not done.

**Hybrids.** What is left is SGLang's versions: rows of 16 bits on B200s, of February 2026, are predicted 13 % too fast
by those of 0.5.9 and 0.5.10.

**SD over AR.** The intervals are as wide as hosts differ. With a log-sd of 0.8 in place of 0.9 for what the host takes
for a round, SGLang's card would hold 41 of the 52 numbers that the [SSD paper](paper.md) printed of SGLang on another
host, in place of 47, and would be 6 % narrower there. The ratio's own interval, in which what a round and a step have
in common cancels, is about as wide.
"""
_COLUMNS = ("models", "rows", "error", "bias", "inside", "width", "score", "over the best constant")
_TITLES = {"left out": "By what was left out", "card": "By card, series left out", "GPU": "By GPU, series left out"}
_BEFORE = ("before: error", "inside", "over the best constant")


@dataclass(frozen=True)
class Missed:
    """Rows that were left out: log(predicted / measured), the ends of the interval over the measured value, groups."""

    left_out: str
    kind: str
    logs: Any
    low: Any
    high: Any
    cards: Sequence[str]
    gpus: Sequence[str]

    def where(self, kept: Any) -> Missed:
        """Some of the rows."""
        arrays = {name: getattr(self, name)[kept] for name in ("logs", "low", "high")}
        at = np.flatnonzero(kept)
        lists = {name: [getattr(self, name)[n] for n in at] for name in ("cards", "gpus")}
        return replace(self, **arrays, **lists)


def summary(logs: Any, low: Any, high: Any) -> dict[str, float]:
    """What the page says of some rows."""
    from fidelity_law import best_constant, scores

    errors, score = np.expm1(logs), float(scores(low, high).mean())
    _, constant = best_constant(logs)
    found = {
        "rows": len(logs),
        "error": float(np.abs(errors).mean()),
        "bias": float(errors.mean()),
        "inside": float(((low <= 1.0) & (high >= 1.0)).mean()),
        "width": float(np.median((high - low) / 2.0 / np.exp(logs))),
        "score": score,
        "over_constant": score / constant,
    }
    return {name: round(value, 4) for name, value in found.items()}


def dense_and_mixtures(folder: Path, configs: Path) -> Iterator[Missed]:
    """Rows without a draft: each by cards of the others, with the law of the other series."""
    import fidelity_mixtures
    import fidelity_widths as widths
    import pandas as pd

    with tempfile.TemporaryDirectory() as made:
        models = pd.read_csv(folder / "moe_ar_decode.csv")["model"]
        fidelity_mixtures.as_cards(models, configs, Path(made))
        of = [
            replace(each, mixtures=[row for row in each.mixtures if row.tp <= _DEVICES])
            for each in widths.engines(folder, Path(made))
        ]
        found = [
            widths.Judged(name, engine.card, rows, seen)
            for engine in of
            for name in LEFT_OUT
            for rows, seen in widths.unseen(engine, widths.LEFT_OUT[name])
        ]
        for each, sds in zip(found, widths.crossed(found), strict=True):
            kind = "mixtures" if each.seen.experts[0] else "dense"
            ends = (np.exp(each.seen.logs - _Z * sds), np.exp(each.seen.logs + _Z * sds))
            gpus = [row.hardware for row in each.rows]
            yield Missed(each.left_out, kind, each.seen.logs, *ends, [each.card] * len(gpus), gpus)


def hybrids(folder: Path) -> Iterator[Missed]:
    """Models with recurrent layers on SGLang."""
    import fidelity_hybrids
    import pandas as pd
    from fidelity_outcomes import left_out
    from fidelity_widths import GROUPINGS

    from ssdsim.hardware.runtime_catalog import find_runtime

    rows = list(fidelity_hybrids.rows_of(pd.read_csv(folder / "hybrid.csv")))
    plain = fidelity_hybrids.without(find_runtime(fidelity_hybrids.CARDS[0]))
    for name in LEFT_OUT:
        groups = [GROUPINGS[name](row) for row in rows]
        if len(set(groups)) > 1:
            yield _missed(name, "hybrids", left_out(rows, groups, lambda some: fidelity_hybrids.fitted(some, plain)))


def speculation(folder: Path) -> Iterator[Missed]:
    """Rounds of heads on SGLang over the same record's decoding: chains and trees, series left out."""
    import fidelity_rounds as rounds
    import pandas as pd

    from ssdsim.hardware.runtime_catalog import find_runtime

    speculating, decoding = (pd.read_csv(folder / f"{name}_decode.csv", dtype=str) for name in ("sd", "ar"))
    bare = rounds.with_16_bits(rounds.without_rounds(find_runtime("sglang")), 1.0, rounds.PRIOR_SD[rounds._16_BITS])
    told, _ = rounds.of_sglang(speculating, decoding, bare)
    assert told.out is not None
    trees = np.array([row.tree_nodes is not None for row in told.out.rows])
    everything = _missed("series", "SD over AR, chains", told.out)
    yield everything.where(~trees)
    yield replace(everything, kind="SD over AR, trees").where(trees)


def _missed(name: str, kind: str, outcome: Any) -> Missed:
    gpus = [row.hardware for row in outcome.rows]
    ends = (np.log1p(outcome.errors), outcome.low, outcome.high)
    return Missed(name, kind, *ends, ["sglang"] * len(gpus), gpus)


def summaries(missed: Sequence[Missed]) -> dict[str, dict[str, dict[str, float]]]:
    """The tables of the page: by what was left out, by card, and by GPU."""
    tables: dict[str, dict[str, list[Missed]]] = {"left out": {}, "card": {}, "GPU": {}}
    for each in missed:
        tables["left out"].setdefault(f"{each.left_out} | {each.kind}", []).append(each)
        for name, groups in (("card", each.cards), ("GPU", each.gpus)):
            for group in sorted(set(groups)) if each.left_out == "series" else ():
                own = each.where(np.array([one == group for one in groups]))
                tables[name].setdefault(f"{group} | {each.kind}", []).append(own)
    return {
        table: {
            group: summary(
                *(np.concatenate([getattr(part, name) for part in parts]) for name in ("logs", "low", "high"))
            )
            for group, parts in groups.items()
        }
        for table, groups in tables.items()
    }


def page(result: Mapping[str, Any]) -> str:
    """docs/accuracy.md."""
    before, after = result["before"]["tables"], result["after"]
    text = _HEAD.format(before=result["before"]["commit"])
    for table, title in (
        ("left out", "By what was left out"),
        ("card", "By card, series left out"),
        ("GPU", "By GPU, series left out"),
    ):
        columns = (table, *_COLUMNS, *_BEFORE)
        lines = [_line(group, numbers, before[table].get(group)) for group, numbers in after[table].items()]
        text += f"## {title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n" + "\n".join(lines) + "\n\n"
    return text.rstrip("\n") + "\n" + _FOOT


def _line(group: str, now: Mapping[str, float], before: Mapping[str, float] | None) -> str:
    old = (
        "| | " if before is None else f"{before['error']:.1%} | {before['inside']:.0%} | {before['over_constant']:.2f}"
    )
    return (
        f"| {group} | {now['rows']:.0f} | {now['error']:.1%} | {now['bias']:+.1%} | {now['inside']:.0%} | "
        f"±{now['width']:.0%} | {now['score']:.2f} | {now['over_constant']:.2f} | {old} |"
    )


def main(arguments: Sequence[str]) -> None:
    """Measure, where rows are given, and write the page."""
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    if arguments:
        folder, configs = map(Path, arguments)
        missed = [*dense_and_mixtures(folder, configs), *hybrids(folder), *speculation(folder)]
        result["after"] = summaries(missed)
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
