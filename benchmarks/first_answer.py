"""Hold first answers against published speed-ups: their error, their interval, and how often each word is wrong.

A question is what a newcomer gives: model, GPU, engine and drafter. Text, acceptance and K are open; then K is given.
It is asked of chains of EAGLE heads and MTP layers, at engines and models that have cards. What a row's own source
published of acceptance is left out: a card's set gives way to its other set, a pair to what is fitted without it.

A word is wrong where the published ratio of speculation to none is on the other side of 1, by more than 1 %, of what
was chosen. With K open the choice is also of K: the row with the best K of those that a setting was measured at counts.
Speculation that was published is nearly always faster. So it is also chosen, by the same draws, against rivals that are
half to twice as fast as what is said of it: the published ratio says which of the two it should have been.
No row is written anywhere.

Run: ``python -m benchmarks.first_answer ../shared/measurements/end_to_end``
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np

from benchmarks.acceptance_priors import PAPER, Fit, seen
from calibration.validation.paper import PublishedSpeeds, load_paper
from ssdsim import predict
from ssdsim.answers.decision import SURE_LOSS, SURE_SHARE, Candidate, Decision, Word, decide, knowable, knowable_timings
from ssdsim.answers.predict import DRAWS
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.intervals import Draws
from ssdsim.base.record import Record
from ssdsim.pricing.cost import TimingErrors
from ssdsim.strategies.drafters.model import ModelDrafter
from ssdsim.tokens.priors import MIXED

TARGETS = {
    "Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "Meta-Llama-3-8B-Instruct": "llama-3.1-8b",
    "Llama-3.3-70B-Instruct": "llama-3.3-70b",
    "Qwen3-235B-A22B-Instruct-2507": "qwen3-235b-a22b",
    "Qwen3-1.7B": "qwen3-1.7b",
    "Qwen3-8B": "qwen3-8b",
    "Qwen3-32B": "qwen3-32b",
    "Qwen3-30B-A3B": "qwen3-30b-a3b",
    "Qwen3.5-122B-A10B-NVFP4": "qwen3.5-122b-a10b-nvfp4",
}
HARDWARE = {"H200": "h200-sxm", "b300_sxm": "b300-sxm"}  # where none is said, or H100: the H100
ENGINES = {"SpecForge": "sglang", "AngelSlim": "vllm", "vLLM PR 49887": "vllm", "vLLM PR": "vllm-0.9"}
STATES = {"mtp (K+1 states written)": "each", "mtp (ReplaySSM)": "replayed"}
CHAIN = "topk=1"  # SpecForge's rows are chains and trees
AS_GOOD = 0.01  # a ratio so near to 1 is no error
MOST_WRONG = 0.05  # of what is called clear
RIVALS = np.geomspace(0.5, 2.0, 21)
SHARES, LOSSES = (0.85, 0.9, 0.95, 0.975, 0.99), (0.0, 0.005, 0.01, 0.02, 0.03)  # bars of `clear` that are tried


class Published(Record):
    """A published ratio of speculation to none, the question that it answers, and the K that it was measured at."""

    source: str
    setting: str
    question: Mapping[str, Any]
    k: int | None
    ratio: float


class Said(Record):
    """A choice between speculation and another one, and what its word follows from."""

    chosen: str
    word: Word
    loss: float
    share: float

    def is_wrong(self, ratio: float) -> bool:
        """Tell whether the other one is faster, by more than what is as good: ``ratio`` is speculation's over it."""
        return ratio < 1.0 - AS_GOOD if self.chosen == "sd" else ratio > 1.0 + AS_GOOD


class Answer(Record, eq=False):
    """What is said to a question: the ratio with its 95 % and its draws, the choice, and what could be known first."""

    ratio: float
    low: float
    high: float
    said: Said
    draws: Draws
    known: Mapping[str, Array]

    def against(self, rival: float) -> Said:
        """The choice between speculation and another one that is so many times as fast as no speculation."""
        speeds = {"sd": self.draws, "ar": np.full(self.draws.shape, rival)}
        return _said(decide([Candidate.of(name, name, 1.0) for name in speeds], speeds, self.known))


def _said(decision: Decision[Any]) -> Said:
    name = decision.chosen if isinstance(decision.chosen, str) else decision.chosen[0]
    return Said(name, decision.word, decision.loss.mean, decision.ahead_in)


def published(folder: Path) -> Iterator[Published]:
    """Rows of the folder's tables, and of the bundled papers whose own acceptance can be left out."""
    for row in csv.DictReader((folder / "sd_decode.csv").open()):
        if row["method"] in ("eagle", "eagle3") and (
            not row["source"].startswith("SpecForge") or CHAIN in row["notes"]
        ):
            yield from _of_row(row, {"drafter": row["method"]})
    for row in csv.DictReader((folder / "hybrid.csv").open()):
        if row["method"] in STATES:
            yield from _of_row(row, {"drafter": "mtp", "states": STATES[row["method"]], "context": 512})
    yield from _of_paper()
    yield from _of_rounds()


def _of_row(row: Mapping[str, str], how: Mapping[str, Any]) -> Iterator[Published]:
    target = TARGETS.get(row["model"].split("/")[-1])
    engine = next((engine for name, engine in ENGINES.items() if row["source"].startswith(name)), None)
    if target is None or engine is None or not row["speedup_over_ar"]:
        return
    question = {
        "target": target,
        "hardware": HARDWARE.get(row["gpu"], "h100-sxm"),
        "tp": int(row["tp"]) if row["tp"].isdigit() else 1,
        "b": int(row["batch_or_concurrency"].split()[0]),
        "engine": engine,
        **how,
    }
    setting = f"{row['draft_model']}, {row['dataset']}"
    k = int(row["k"]) if row["k"].isdigit() else None
    yield Published(row["source"], setting, question, k, float(row["speedup_over_ar"]))


def _of_paper() -> Iterator[Published]:
    """The SSD paper's SD rows, each pair with the prior of draft models that is fitted without it."""
    paper, sets = load_paper(PAPER), [*seen()]
    assert isinstance(paper, PublishedSpeeds)
    for family in paper.families:
        fit = Fit([each for each in sets if each.unit != family.draft])
        low, middle, high = fit.kind(ModelDrafter.name)[MIXED]
        question = {
            "target": family.target,
            "hardware": "h100-sxm",
            "tp": paper.tp,
            "b": 1,
            "engine": "ssd-engine",
            "alpha": middle,
            "ranges": {"alpha": (low, high)},
        }
        for data, rate in zip(family.datasets, family.sd_tokens_per_s, strict=True):
            yield Published(PAPER, data, question, paper.setting_of(family)[0], rate / family.ar_tokens_per_s)


def _of_rounds() -> Iterator[Published]:
    """DeepSeek-R1's MTP layer on TensorRT-LLM, with what vLLM published of its acceptance."""
    name = "tensorrt-llm-r1"
    (row,) = load_paper(name).rows  # type: ignore[union-attr]
    question = {
        "target": row.target,
        "hardware": row.hardware,
        "tp": row.tp,
        "b": 1,
        "engine": row.runtime,
        "drafter": row.drafter,
        "dtype": row.dtype,
        "draft_dtype": row.draft_dtype,
        "context": row.context,
        "draft_set": "vLLM, QPS 1",
    }
    for k, ms in zip(row.k, row.ms, strict=True):
        if k:
            yield Published(name, "", question, k, row.ms[0] / ms)


class Asked:
    """Answers to questions, each asked once."""

    def __init__(self) -> None:
        self._answers: dict[str, Answer | None] = {}

    def __call__(self, question: Mapping[str, Any]) -> Answer | None:
        """The answer; None where speculation has no room."""
        key = json.dumps(question, sort_keys=True)
        if key not in self._answers:
            self._answers[key] = _answer(question)
        return self._answers[key]


def _answer(question: Mapping[str, Any]) -> Answer | None:
    try:
        answer = predict(strategies="ar,sd", subject="sd", **question)
    except InputError as error:
        print(f"{question}: {error}")
        return None
    over, draws = answer.verdict.over.get("ar"), answer.draws
    if over is None or over.low is None or over.high is None or draws is None:
        return None
    tokens = knowable([each.known for each in answer.configuration.scenarios.values()], TimingErrors(DRAWS, 0))
    known = {**tokens, **knowable_timings(draws.values())}
    ratios = draws["sd"].joint / draws["ar"].joint
    return Answer(over.ratio, over.low, over.high, _said(answer.decision), ratios, known)


class Held(Record):
    """A published row and the answer to its question."""

    row: Published
    answer: Answer

    @property
    def error(self) -> float:
        """Of the ratio, as a logarithm."""
        return float(np.log(self.answer.ratio / self.row.ratio))

    @property
    def is_inside(self) -> bool:
        return self.answer.low <= self.row.ratio <= self.answer.high

    @property
    def is_wrong(self) -> bool:
        return self.answer.said.is_wrong(self.row.ratio)


def held(rows: Iterable[Published], ask: Asked, k_given: bool) -> list[Held]:
    """Each row beside its answer, with the row's K or with K open."""
    found = []
    for row in rows:
        if k_given and row.k is None:
            continue
        answer = ask({**row.question, **({"k": row.k} if k_given else {})})
        if answer is not None:
            found.append(Held(row, answer))
    return found


def at_best_k(rows: Sequence[Held]) -> list[Held]:
    """Of the rows of one setting the one with the best K."""
    best: dict[str, Held] = {}
    for each in rows:
        key = json.dumps([each.row.source, each.row.setting, each.row.question], sort_keys=True)
        if key not in best or each.row.ratio > best[key].row.ratio:
            best[key] = each
    return [*best.values()]


def report(title: str, rows: Sequence[Held]) -> None:
    """Errors, intervals and words, then the same by source."""
    errors = np.array([each.error for each in rows])
    print(
        f"\n{title}: {len(rows)} rows, median error {np.expm1(np.median(abs(errors))):.1%}, "
        f"median bias {np.expm1(np.median(errors)):+.1%}, inside {np.mean([each.is_inside for each in rows]):.1%}"
    )
    words([(each.answer.said, each.row.ratio) for each in rows])
    groups: dict[tuple[str, str], list[Held]] = {}
    for each in rows:
        groups.setdefault((each.row.source[:24], each.row.question["target"]), []).append(each)
    for (source, target), some in groups.items():
        truths, said = ([f(each) for each in some] for f in (lambda e: e.row.ratio, lambda e: e.answer.ratio))
        told = ", ".join(sorted({each.answer.said.word for each in some}))
        print(
            f"    {source:24} {target:24} {len(some):3}  published {min(truths):.2f}-{max(truths):.2f}, "
            f"said {min(said):.2f}-{max(said):.2f}, inside {sum(each.is_inside for each in some)}, "
            f"wrong {sum(each.is_wrong for each in some)}: {told}"
        )


def words(told: Sequence[tuple[Said, float]]) -> None:
    """How many answers have each word, and how many of them are wrong."""
    for word in get_args(Word):
        some = [said.is_wrong(ratio) for said, ratio in told if said.word == word]
        print(f"  {word:14} {len(some):5}, wrong {sum(some):4}{f' ({np.mean(some):.1%})' if some else ''}")


def against_rivals(rows: Sequence[Held]) -> list[tuple[str, Said, float]]:
    """Each row's source, and its choices against others that are slower and faster than what is said of it."""
    return [
        (each.row.source, each.answer.against(rival), each.row.ratio / rival)
        for each in rows
        for rival in each.answer.ratio * RIVALS
    ]


def bars(told: Sequence[tuple[str, Said, float]]) -> None:
    """Answers that are clear and wrong by the bars of ``clear``, then with those that all sources but one choose."""
    print("\nclear (wrong of them) by the least share of draws, down, and the most mean loss, across")
    print("        " + "".join(f"{loss:>16.1%}" for loss in LOSSES))
    for share in SHARES:
        cells = [_clear(told, share, loss) for loss in LOSSES]
        print(f"{share:8.1%}" + "".join(f"{f'{n} ({wrong / max(1, n):.1%})':>16}" for n, wrong in cells))
    count = wrong = 0
    for source in sorted({name for name, _, _ in told}):
        rest, own = ([each for each in told if (each[0] == source) is here] for here in (False, True))
        allowed = [
            (n, share, loss)
            for share, loss in product(SHARES, LOSSES)
            for n, bad in [_clear(rest, share, loss)]
            if bad <= MOST_WRONG * n
        ]
        _, share, loss = max(allowed)
        n, bad = _clear(own, share, loss)
        count, wrong = count + n, wrong + bad
        now, bad_now = _clear(own, SURE_SHARE, SURE_LOSS)
        print(
            f"{source[:32]:32} {now:4} clear, {bad_now / max(1, now):5.1%} wrong; "
            f"by all others' bars, {share:.1%} and {loss:.1%}, {n} and {bad / max(1, n):.1%}"
        )
    print(f"each source with the bars of all others: {count} clear, {wrong} wrong ({wrong / max(1, count):.1%})")


def _clear(told: Iterable[tuple[str, Said, float]], share: float, loss: float) -> tuple[int, int]:
    some = [said.is_wrong(ratio) for _, said, ratio in told if said.share >= share or said.loss <= loss]
    return len(some), sum(some)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    rows, ask = [*published(parser.parse_args().folder)], Asked()
    open_k, own_k = held(rows, ask, k_given=False), held(rows, ask, k_given=True)
    best = at_best_k(open_k)
    for title, some in (("K given", own_k), ("K open", open_k), ("K open, at the best K that was measured", best)):
        report(title, some)
    told = against_rivals([*own_k, *best])
    print(f"\nagainst rivals of {RIVALS[0]:.2f} to {RIVALS[-1]:.2f} times what is said of each")
    words([(said, ratio) for _, said, ratio in told])
    bars(told)


if __name__ == "__main__":
    main()
