"""What speculation's rounds cost in whole engines: the cards' numbers for it, and docs/fidelity_rounds.md.

    python docs/fidelity_rounds.py ../shared/measurements/end_to_end [--cards]

Reads ``sd_decode.csv`` of the folder, whose README names the sources and their traps, and the sweeps that the project
has of the SSD paper. Run it after docs/fidelity.py and docs/fidelity_mixtures.py: a round is what the cards of targets
alone do not explain. With ``--cards`` the rounds' numbers of the bundled runtimes are fitted anew; all others stay. No
row is written anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from fidelity import GROUPS, OF_ROUNDS
from scipy.optimize import least_squares
from scipy.stats import norm
from scipy.stats import t as student

from calibration.bootstrap import significant
from calibration.runtimes.left_out import Outcome
from ssdsim.bundled import models_folder
from ssdsim.checks import Array
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.measured.price import seconds_of
from ssdsim.measured.row import Row
from ssdsim.pricing.between_kernels import cost_of_step, units_of_step
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.runtimes.card import Launches, Runtime
from ssdsim.runtimes.catalog import find_runtime, save_runtime
from ssdsim.speculation.acceptance import expected_tokens
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import forward_pass
from ssdsim.validation.paper import load_published

_LEAST_STEP_S = 2e-4  # a fit to few speeds that says 0 has only moved it elsewhere
_LEAST_LAYER_S = 2.5e-6  # of a round
_STEP_LOG_SD = 0.7  # of an engine with few lines, or lines that say next to nothing: 0.2 to 1 ms over one engine's
_PER_ROUND_LOG_SD = 0.9  # likewise: 0 to 4 ms
_FEW_LINES = 3
_DRAFT, _DRAFT_LAYERS = "llama-3.2-1b", 16
_WITHOUT_GRAPHS = ("vllm-0.16.0",)
"""Whose draft models never run as graphs: the dispatcher's keys are made for heads alone (vLLM pull request 47460)."""
_OF_HEADS = "; of heads: "
_LAUNCHING = "vllm-0.16"
_ROUND_LOG_SD = 0.05  # what the sweeps' shape over K leaves
_BUNDLE_CONTEXT = 600  # tokens: its prompts and answers have a few hundred

_HEAD = """# How well it predicts rounds that speculate

Made by `python docs/fidelity_rounds.py`, from published measurements that are not part of this project. Targets alone
are on [another page](fidelity.md), whose cards these numbers are added to.

## Draft steps and rounds

Sweeps over K of the SSD paper (Llama-3.1-70B, TP 4, H100): an acceptance rate, a cost a round and a cost a draft step
were fitted to every second K; the others are predicted. A step of a standalone draft is what it costs beyond its
kernels, one of EAGLE-3 holds the head's kernels. Acceptance is fitted, so this shows the shape over K, not the level.
The last line has its acceptance published: a line over K = 3, 5, 7 less the verification as the card prices it.

| engine | alpha | ms a round | µs of it a layer | ms a step | worst of those fitted | others: mean error | worst |
|---|---|---|---|---|---|---|---|"""

_FOOT = """
No cost of a step that is added to a round describes vLLM's standalone draft: the best missed rows that it was fitted
to by 24 %. Until July 2026 (vLLM's pull request 47460) a draft model's graphs were captured but never replayed: the
keys by which a pass finds its graph were made for heads alone. So the host launches the draft's kernels one by one,
and since it waits for nothing, it does so while the target still verifies: a round takes as long as the slower of
host and devices. Its line above is the host's, a round's and a step's of 16 layers. At K = 2 the two take about as
long, from K = 4 on the host is waited for. The card `vllm-0.16` has these two numbers; no other card of this page has
the line. Rounds of vLLM 0.24.0 on another host are within 9 % of it at K = 5 ([measured](validation.md)).

*Eager beyond which batch* is in no card. Graphs are captured up to 512 tokens a pass in vLLM by default, and no row
has a larger one. There the devices are the slower ones: 512 tokens take 34 ms on 8B and one H100, 50 ms on 70B and
four, as the card `vllm` prices them, and the host, at its 0.41 ms a layer, 13 and 33 ms.

A card takes the geometric mean of its engine's lines (of all lines where its engine has
none, as TensorRT-LLM), a round's by the layer: rounds of one engine differ by a factor of four between 8B on one GPU
and 70B on four, and by less than two a layer. The log-sd of another line is that of its lines, widened as Student's,
and at most, and where they are fewer than three or say next to nothing (0.2 ms a step and 2.5 µs a layer are the
least), 0.7 for a step and 0.9 for a round.
"""


# Speculation: what the sweeps over K say of a draft's step and of a round.


@dataclass(frozen=True)
class Sweep:
    """An engine's row of speeds over K, fitted to every second K: an acceptance rate, and the engine's two costs."""

    name: str
    alpha: float
    layers: int
    per_round_s: float
    per_draft_step_s: float
    fitted: float
    others: float
    worst: float
    launches: Launches | None = None

    @property
    def per_round_layer_s(self) -> float:
        """Rounds of a large model cost more; by its layers those of one engine are alike (within a factor of two)."""
        return self.per_round_s / self.layers


def sweeps(cards: Mapping[str, Runtime]) -> Iterator[tuple[str, Sweep]]:
    """Every published sweep whose engine has a card, by the card's name; worst errors of the K fitted and of others."""
    paper = load_published("kumar2026")
    profile = find_hardware("h100-sxm")
    for sweep in paper.sweeps:
        card = cards[sweep.engine.split("-")[0]]
        target, ks, seen = find_transformer(sweep.target), np.array(sweep.k), np.array(sweep.tokens_per_s)
        shape = {"context": paper.context, "tp": paper.tp}
        verify_s = verifications_s(target, sweep.k, profile, card, **shape)
        drafts = sweep.method == "standalone"
        draft = forward_pass(find_transformer(_DRAFT), batch=1, **shape)
        draft_s = cost_of_pass(draft, profile, card, "draft").seconds if drafts else 0.0
        name = f"{sweep.engine} {sweep.method}"
        launched = drafts and sweep.engine in _WITHOUT_GRAPHS
        yield sweep.engine.split("-")[0], _swept(name, target.layers, ks, seen, verify_s, draft_s, launched)


def verifications_s(
    target: Transformer, ks: Sequence[int], profile: HardwareProfile, card: Runtime, **shape: int
) -> Array:
    """A pass over K + 1 tokens with the step after it, for one sequence."""
    passes = (forward_pass(target, batch=1, queries=k + 1, **shape) for k in ks)
    step_s = cost_of_step(card, units_of_step(1)).seconds
    return np.array([cost_of_pass(each, profile, card).seconds + step_s for each in passes])


def _swept(name: str, layers: int, ks: Array, seen: Array, verify_s: Array, draft_s: float, launched: bool) -> Sweep:
    """``launched``: the host launches drafts one by one while the target verifies; the slower of both ends a round."""
    every_second = slice(0, None, 2)

    def errors(free: Array, at: slice) -> Array:
        alpha, round_s, step_s = free[0], 1e-3 * free[1], 1e-3 * free[2]
        if launched:
            rounds = np.maximum(verify_s[at] + ks[at] * draft_s, round_s + ks[at] * step_s)
        else:
            rounds = verify_s[at] + round_s + ks[at] * (draft_s + step_s)
        return np.asarray(expected_tokens(alpha, ks[at]) / rounds / seen[at] - 1.0)

    bounds = ((0.0, 0.0, 0.0), (0.99, 20.0, 20.0))
    starts = (0.6, 0.7, 0.8, 0.9)
    costs = (8.0, 5.0) if launched else (1.0, 0.5)  # where neither side of the maximum is out of sight
    fits = [least_squares(errors, (a, *costs), bounds=bounds, args=(every_second,)) for a in starts]
    best = min(fits, key=lambda fit: fit.cost).x
    worst = (float(np.abs(errors(best, at)).max()) for at in (every_second, slice(1, None, 2)))
    others = errors(best, slice(1, None, 2))
    fitted_worst, others_worst = worst
    round_s, step_s = 1e-3 * best[1:]
    launches = Launches(per_round_s=significant(round_s), per_layer_s=significant(step_s / _DRAFT_LAYERS))
    return Sweep(
        name,
        best[0],
        layers,
        round_s,
        step_s,
        fitted_worst,
        float(np.abs(others).mean()),
        others_worst,
        launches if launched else None,
    )


def bundle(folder: Path, card: Runtime) -> tuple[Sweep, Outcome]:
    """SpecForge's SpecBundle: EAGLE-3 chains of 3, 5 and 7 tokens on SGLang, Llama-3.1-8B on one H200, batch 1.

    Its rows have their acceptance length, so that a round is known: a line over K gives a step and, less the
    verification, a round. They had no part in the card's other numbers.
    """
    frame = pd.read_csv(folder / "sd_decode.csv")
    frame = frame[(frame["source"] == "SpecForge SpecBundle") & frame["notes"].str.contains("chain")]
    frame = frame[frame["model"] == "Llama-3.1-8B-Instruct"]
    lengths = frame["acceptance_length_or_rate"].astype(float)
    rows = [
        Row(
            model="llama-3.1-8b",
            hardware="h200-sxm",
            batch=1,
            input_tokens=0,
            output_tokens=_BUNDLE_CONTEXT,
            metric="tokens_per_s",
            value=value,
            k=k,
            acceptance_length=length,
            source="SpecForge SpecBundle",
        )
        for value, k, length in zip(frame["value"].astype(float), frame["k"].astype(int), lengths, strict=True)
    ]
    rounds = np.array([seconds_of(row) * (row.acceptance_length or 1.0) for row in rows])
    target, ks = find_transformer("llama-3.1-8b"), [row.k or 0 for row in rows]
    verify = verifications_s(target, ks, find_hardware("h200-sxm"), card, context=rows[0].context)
    step_s, round_s = np.polyfit(ks, rounds - verify, 1)
    misses = np.abs((verify + round_s + np.array(ks) * step_s) / rounds - 1.0)
    name = "sglang SpecBundle, eagle-3, 8B on one H200"
    line = Sweep(name, float("nan"), target.layers, round_s, step_s, float(misses.max()), float("nan"), float("nan"))
    return line, Outcome.of(rows, card)


def with_speculation(card: Runtime, found: Sequence[Sweep]) -> Runtime:
    """The card with what a draft's step and a layer of a round cost as the sweeps have them: geometric means."""
    step_s, step_log_sd = _typical([sweep.per_draft_step_s for sweep in found], _LEAST_STEP_S, _STEP_LOG_SD)
    layer_s, round_log_sd = _typical([sweep.per_round_layer_s for sweep in found], _LEAST_LAYER_S, _PER_ROUND_LOG_SD)
    host = card.host.model_copy(update={"per_draft_step_s": step_s, "per_round_layer_s": layer_s})
    errors = {"draft_step_log_sd": step_log_sd, "per_round_log_sd": round_log_sd, "round_log_sd": _ROUND_LOG_SD}
    return card.model_copy(update={"host": host, "errors": card.errors.model_copy(update=errors)})


def _typical(seconds: Sequence[float], least: float, unknown_log_sd: float) -> tuple[float, float]:
    """The geometric mean, and the log-sd of another line (Student's, as few lines tell their own spread badly)."""
    logs = np.log(np.maximum(seconds, least))
    typical = significant(float(np.exp(logs.mean())))
    if len(logs) < _FEW_LINES or min(seconds) < least:
        return typical, unknown_log_sd
    widened = student.ppf(0.975, len(logs) - 1) / norm.ppf(0.975) * np.sqrt(1.0 + 1.0 / len(logs))
    return typical, min(unknown_log_sd, significant(float(logs.std(ddof=1) * widened)))


# The page and the cards.


def page(swept: Sequence[Sweep], bundled: Outcome) -> str:
    """docs/fidelity_rounds.md."""
    lines = [_HEAD]
    lines += [
        f"| {s.name} | {_told(s.alpha, '.3f')} | {1e3 * s.per_round_s:.2f} | "
        f"{1e6 * s.per_round_layer_s:.0f} | {1e3 * s.per_draft_step_s:.2f} | "
        f"{s.fitted:.1%} | {_told(s.others, '.1%')} | {_told(s.worst, '.1%')} |"
        for s in swept
    ]
    lines.append(
        f"\nThe bundled `sglang` card, which takes the mean of its engine's lines, "
        f"misses the {len(bundled.rows)} rows of the last line by {np.abs(bundled.errors).mean():.0%} "
        f"(bias {bundled.errors.mean():+.0%}); {bundled.held.mean():.0%} of them lie inside its 95 % interval."
    )
    return "\n".join(lines) + "\n" + _FOOT


def _told(value: float, how: str) -> str:
    return "" if np.isnan(value) else format(value, how)


def main(folder: Path, write_cards: bool) -> None:
    """Fit, predict, and write the page (and the cards)."""
    before = {group.card: find_runtime(group.card) for group in GROUPS}
    cards = {name: without_rounds(card) for name, card in before.items()}
    swept = [*sweeps(cards), ("sglang", bundle(folder, cards["sglang"])[0])]
    captured = [(engine, s) for engine, s in swept if s.launches is None]
    finished = {}
    for name, card in before.items():
        own = [s for engine, s in captured if engine == name.split("-")[0]]
        whose = "its engine's" if own else "other engines'"
        heads = card.evidence.note.partition(_OF_HEADS)[1:]
        note = f"cost of a draft step and of a round: {whose} sweeps over K" + "".join(heads)
        evidence = card.evidence.model_copy(update={"note": note})
        card = with_speculation(card, own or [s for _, s in captured])
        finished[name] = card.model_copy(update={"evidence": evidence})
    (launches,) = (s.launches for _, s in swept if s.launches is not None)
    finished[_LAUNCHING] = _launching(finished["vllm"], launches)
    text = page([s for _, s in swept], bundle(folder, finished["sglang"])[1])
    (Path(__file__).parent / "fidelity_rounds.md").write_text(text, encoding="utf-8")
    if write_cards:
        for name, card in finished.items():
            save_runtime(card, models_folder() / "runtimes" / f"{name}.toml")


def without_rounds(card: Runtime) -> Runtime:
    """The card as targets alone gave it."""
    return card.with_numbers(dict.fromkeys(OF_ROUNDS, 0.0)).model_copy(update={"head_step_s": None, "launches": None})


def _launching(card: Runtime, launches: Launches) -> Runtime:
    """The card of versions in which a draft model has no graphs; else they are as the card says."""
    versions = "0.16 to July 2026 (PR 47460)"
    note = "as vllm, whose note holds; launches of a draft model: one sweep over K"
    evidence = card.evidence.model_copy(update={"note": note})
    host = card.host.model_copy(update={"per_draft_step_s": 0.0})  # what the host adds to a step is its launches
    named = {"name": _LAUNCHING, "versions": versions, "host": host, "launches": launches, "evidence": evidence}
    return card.model_copy(update=named)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--cards" in sys.argv)
