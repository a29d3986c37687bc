"""How wide intervals are, by how far a case is from the rows behind a card: the law of it, docs/fidelity_widths.md.

    python docs/fidelity_widths.py ../shared/measurements/end_to_end ../shared/reference/configs [--cards]

Runs last: reads the rows of docs/fidelity.py and docs/fidelity_mixtures.py and fits their cards without a part of them.
With ``--cards`` every bundled runtime gets the law and the settings of its rows. No row is written anywhere.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import fidelity
import fidelity_mixtures
import numpy as np
import pandas as pd
from fidelity_generations import GROUPINGS
from fidelity_law import Law, best_constant, fit_law, scores_of, some_of, weights_of
from fidelity_outcomes import Outcome

from calibration.runtimes.fit import EXPERTS
from calibration.runtimes.unseen import Unseen, case_of, covered_by
from ssdsim.base.bundled import models_folder
from ssdsim.base.checks import Array
from ssdsim.hardware.extrapolation import STEPS
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.hardware.runtime_catalog import find_runtime, runtime_names, save_runtime
from ssdsim.readers.row import Row

_Z = 1.96

_HEAD = """# How wide its intervals are

For people who ask whether an interval can be trusted far from what was measured. This page has the law of its width,
and how often it holds. `python docs/fidelity_widths.py` makes it, from the rows of [dense models](fidelity.md) and of
[mixtures](fidelity_mixtures.md).

An interval of tokens/s holds three errors. The error of kernels' timings is the profile's. The error of a card's
numbers is what its rows leave open. The third is the part of an engine that no number describes. It has one law for all
cards.

*At home*, near the rows behind a card, it is a log-sd of the seconds in which no matrices are multiplied; for a mixture
there is also one of a whole pass. *Away* it grows with the steps from the nearest setting behind the card (a card lists
them, `covered`), in quadrature:

| a step | log-sd, of seconds beside matrices or of the whole pass |
|---|---|
{law}

All numbers are fitted to predictions by cards that had not seen the rows: without their series, their GPU, its
generation, their degree, their engine's version or their model, and mixtures by cards of dense models alone. The fit
minimises the mean interval score (Gneiting and Raftery 2007: the width of an interval of 95 %, and 40 times what lies
outside, both over the measured value). A series weighs as many independent errors as it counts for. Each log-sd costs a
little, so one that no row asks for is 0. An interval never narrows as a case moves away from the rows.

## Beside one constant

*Score* is that of intervals whose law was fitted without the row's series. *Constant* is the best single half-width for
all rows of the line, chosen in hindsight.

| left out | models | rows | series | error | inside | median width | score | constant | its score | ratio |
|---|---|---|---|---|---|---|---|---|---|---|
"""
_WORDS = {
    "gpu": "the GPU: a doubling of its arithmetic or of its bandwidth, whichever differs more",
    "degree": "the degree: a doubling of the devices",
    "size": "the model: a doubling of the weights that a token uses",
    "batch": "the batch: a doubling beyond those seen",
    "version": "a version of the engine that no row had",
    "experts": "a mixture where only dense models were seen, or the other way round; the whole pass",
    "experts_gpu": "the GPU, of a mixture: such a doubling; the whole pass",
}


@dataclass(frozen=True)
class Engine:
    """The steady rows of a card: of dense models, and of mixtures without slips."""

    card: str
    dense: Sequence[Row]
    mixtures: Sequence[Row]
    group: fidelity.Group

    def without(self, out: Callable[[Row], bool], mixtures: bool) -> Runtime | None:
        """The card of all rows but those, with what they say of mixtures where it is asked for those."""
        dense = [row for row in self.dense if not out(row)]
        if not dense:
            return None
        card = fidelity.fitted(self.group, dense).card
        others = [row for row in self.mixtures if not out(row)]
        if not mixtures or len(others) <= len(EXPERTS):
            return card
        return fidelity_mixtures.with_experts(card, fidelity_mixtures.fitted(others, card))


Key = Callable[[Row], str]
LEFT_OUT: Mapping[str, Key] = {
    **GROUPINGS,
    "GPU": lambda row: row.hardware,
    "model": lambda row: row.model,
    "kind": lambda row: "mixture" if case_of(row).experts else "",
}
"""Whose rows are left out together; of the last, dense rows never are."""


def engines(folder: Path, models: Path) -> Iterator[Engine]:
    """Every fitted card's rows; ``models`` has the mixtures' cards."""
    dense = pd.read_csv(folder / "ar_decode.csv", dtype=str).assign(value=lambda f: f["value"].astype(float))
    _, mixtures = fidelity_mixtures.steady(pd.read_csv(folder / "moe_ar_decode.csv"), models)
    for group in (*fidelity.GROUPS, fidelity.ALONE):
        of_experts = [row for row in mixtures if fidelity_mixtures.card_of(row.engine) == group.card]
        yield Engine(group.card, list(fidelity.rows_of(dense, group, ("yes", "approx"))), of_experts, group)


def unseen(engine: Engine, key: Key) -> Iterator[tuple[Sequence[Row], Unseen]]:
    """Each group of an engine's rows as the others predict it; none where too few are left."""
    rows = (*engine.dense, *engine.mixtures)
    keys = [key(row) for row in rows]
    for name in dict.fromkeys(keys):
        own = [row for row, each in zip(rows, keys, strict=True) if each == name and name]
        for part in ([r for r in own if not case_of(r).experts], [r for r in own if case_of(r).experts]):
            card = engine.without(lambda row, name=name: key(row) == name, case_of(part[0]).experts) if part else None
            if card is not None:
                yield part, Unseen.of(part, card, Outcome.of(part, card).errors)


@dataclass(frozen=True)
class Judged:
    """Rows of one group that was left out, as the others predict them."""

    left_out: str
    card: str
    rows: Sequence[Row]
    seen: Unseen


def judged(all_rows: Sequence[Engine]) -> list[Judged]:
    """All predictions of rows that were left out."""
    found = []
    for engine in all_rows:
        for name, key in LEFT_OUT.items():
            for rows, seen in unseen(engine, key):
                found.append(Judged(name, engine.card, rows, seen))
        print(engine.card, sum(each.card == engine.card for each in found), "groups left out", file=sys.stderr)
    return found


def law_of(found: Sequence[Judged]) -> Law:
    """One law: each kind of group weighs its series alike."""
    weights = np.concatenate([weights_of(each.seen.series) for each in found])
    return fit_law(Unseen.together([each.seen for each in found]), weights)


def crossed(found: Sequence[Judged]) -> list[Array]:
    """The log-sds of each group's rows, each by the law that four fifths of the series give, its own not among them."""
    names = sorted({name for each in found for name in each.seen.series})
    fold = {name: number % _FOLDS for number, name in enumerate(names)}
    log_sds = [np.zeros(len(each.rows)) for each in found]
    for left in range(_FOLDS):
        own = [np.array([fold[name] == left for name in each.seen.series]) for each in found]
        kept = [some_of(each.seen, ~out) for each, out in zip(found, own, strict=True)]
        law = fit_law(Unseen.together(kept), np.concatenate([weights_of(each.series) for each in kept]))
        for each, out, sds in zip(found, own, log_sds, strict=True):
            sds[out] = law.log_sds(each.seen)[out]
    return log_sds


_FOLDS = 5


def lines(found: Sequence[Judged], log_sds: Sequence[Array]) -> Iterator[str]:
    """The table."""
    kinds = {"dense": 0.0, "mixtures": 1.0}
    for name in (*LEFT_OUT, "all"):
        for kind in (*kinds, "all"):
            parts = [
                (each.seen, sds)
                for each, sds in zip(found, log_sds, strict=True)
                if name in (each.left_out, "all") and kinds.get(kind, each.seen.experts[0]) == each.seen.experts[0]
            ]
            if parts and (name != "kind" or kind == "all"):
                yield _line(name, kind, parts)


def _line(name: str, kind: str, parts: Sequence[tuple[Unseen, Array]]) -> str:
    logs, sds = (np.concatenate(each) for each in zip(*((seen.logs, sd) for seen, sd in parts), strict=True))
    series = len({name for seen, _ in parts for name in seen.series})
    half, constant = best_constant(logs)
    score = float(scores_of(logs, sds).mean())
    inside = float((np.abs(logs) <= _Z * sds).mean())
    return (
        f"| {name} | {kind} | {len(logs)} | {series} | {np.abs(np.expm1(logs)).mean():.1%} | {inside:.0%} | "
        f"±{np.median(_Z * sds):.0%} | {score:.2f} | ±{half:.0%} | {constant:.2f} | {score / constant:.2f} |"
    )


def page(found: Sequence[Judged], law: Law) -> str:
    """docs/fidelity_widths.md."""
    said = [("at home", law.beside), *((_WORDS[way], getattr(law.away, way)) for way in STEPS)]
    told = [f"| {what} | {log_sd:.3f} |" for what, log_sd in said]
    told.insert(1, f"| at home, of a mixture; the whole pass | {law.experts:.3f} |")
    return _HEAD.format(law="\n".join(told)) + "\n".join(lines(found, crossed(found))) + "\n"


def write_cards(all_rows: Sequence[Engine], law: Law) -> None:
    """The law into every card that was fitted here, with the settings of its rows.

    So do cards of the same rows with other rounds. Cards of other rows keep their own errors at home; what they do not
    say of their settings is their engine's.
    """
    covered = {engine.card: covered_by((*engine.dense, *engine.mixtures)) for engine in all_rows}
    for name in runtime_names():
        card = find_runtime(name)
        if name in covered:
            known = (*covered[name], *(each for each in card.covered if each not in covered[name]))
            save_runtime(law.of(card).changed(covered=known), _path(name))
        elif known := card.covered or covered.get(card.engine):
            own = law.of(card) if card.about == fidelity.ABOUT else card.changed(away=law.away)
            save_runtime(own.changed(covered=known), _path(name))


def _path(name: str) -> Path:
    return models_folder() / "runtimes" / f"{name}.toml"


def main(folder: Path, configs: Path, cards: bool) -> None:
    """Fit, judge, and write the page (and the cards)."""
    with tempfile.TemporaryDirectory() as made:
        models = pd.read_csv(folder / "moe_ar_decode.csv")["model"]
        fidelity_mixtures.as_cards(models, configs, Path(made))
        all_rows = list(engines(folder, Path(made)))
        found = judged(all_rows)
        law = law_of(found)
        (Path(__file__).parent / "fidelity_widths.md").write_text(page(found, law), encoding="utf-8")
        if cards:
            write_cards(all_rows, law)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), "--cards" in sys.argv)
