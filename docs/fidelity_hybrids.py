"""Measured against predicted for hybrid models: what a recurrent layer takes beside its kernels, fidelity_hybrids.md.

    python docs/fidelity_hybrids.py ../shared/measurements/end_to_end [--cards]

Reads ``hybrid.csv`` of the folder: Qwen3.5-397B, decoding without a draft on SGLang. With ``--cards`` the one number of
hybrid models of SGLang's cards is fitted anew; all others stay what dense models and mixtures gave. Run it after
docs/fidelity_mixtures.py. No row is written anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fidelity import OF_HYBRIDS, cells
from fidelity_generations import fit_generations
from fidelity_outcomes import SAMPLED, Outcome, decoding, left_out

from calibration.runtimes.versions import fitted as fitted_versions
from calibration.runtimes.versions import merged
from ssdsim.base.bundled import models_folder
from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.engine_versions import ByVersion
from ssdsim.hardware.extrapolation import TrainingDomain
from ssdsim.hardware.runtime_card import KERNELS, Runtime
from ssdsim.hardware.runtime_catalog import find_runtime, save_runtime
from ssdsim.readers.priced_row import work_of
from ssdsim.readers.row import Row
from ssdsim.transformer.recurrences import REPLAYED_TOKENS, StateKeeping

CARDS = ("sglang", "sglang-v2")
"""One engine, whose versions differ by how they speculate."""

MODELS = {"Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b"}
REPLAYED_MODELS = {"nvidia/Qwen3.5-122B-A10B-NVFP4": ("qwen3.5-122b-a10b", "nvfp4")}
_NOTE = "; recurrent layers: "
_REPEAT = 0.005
"""The dump has a run under several names: what is as near to another row of its setting is that row."""

_SAME_MODEL = 0.01
_RECIPES = {"bf16": {}, "fp8": {"dtype": "float8-block", "kv_dtype": "float8", "state_dtype": "bfloat16"}}
"""As InferenceX ran them: in 8 bits with a cache of 8 and states of 16."""

_HEAD = """# How well it predicts hybrid models

For people who serve Qwen3.5 and its like. This page says how far their speeds without a draft are missed.
`python docs/fidelity_hybrids.py` makes it, from published end-to-end measurements that are not part of this project:
{rows} settings of Qwen3.5-397B (45 layers of Gated DeltaNet, 15 of attention) on eight B200s, while SGLang 0.5.9 and
builds of February and March 2026 served it, and on eight B300s with SGLang 0.5.10, without a draft. A series is one
format on one GPU. Rows marked as MTP are left out, and so are rows that repeat another of their setting within half a
percent. *Kernels*: the hardware profile alone. *Without*: the card as dense models and mixtures gave it. *In fit*: with
one number for hybrid models, what a recurrent layer takes beside its kernels. *Left out*: that number from the other
series' rows. Columns: mean absolute error, bias, share of rows inside the 95 % interval, median half-width of that
interval.

"""
_REPLAY = """
## What writing states costs

vLLM without a draft, Qwen3.5-122B in NVFP4 on one B300: a step that reads and writes every state, over one that writes
a state each {tokens} tokens and keeps their inputs (ReplaySSM, pull request 48792). Predicted with the card `vllm`
and the profile's law of a recurrent step, to which none of these rows was fitted; the context, which they do not tell,
is taken to be {context} tokens. The mean error is {error}.

| sequences | measured | predicted |
|---|---|---|
"""
_REPLAYED, _REPLAYED_CONTEXT, _REPLAYED_CARD = "ar with ReplaySSM over ar", 512, "vllm"
_WAYS = ("kernels", "without", "in fit", "left out")
_FOOT = """
{microseconds:.0f} µs a recurrent layer, 45 of them: {each:.1f} ms of a step. What is in it is not known: kernels that
split a layer's inputs and make decays and gates, which no table times, and what SGLang takes on Blackwell beside
mixtures, of which DeepSeek-V3's rows tell. The errors left out are {few} up to 8 sequences and {many} beyond. In 16
bits the B300 with SGLang 0.5.10 takes 17 to 29 % less time than the B200 with builds of February, whose bandwidth is
nearly the same: most of what is left is the version's. With a factor on experts of 16 bits beside the number, the rows
of 16 bits are missed by {own} in fit and those of 8 bits, left out, by {others}: it takes what the number should say,
so there is none.

On vLLM a single speed without a ratio is published (Qwen3.5-122B in NVFP4 on one B300, 512 sequences, of lengths that
nobody tells), so its cards have no number for recurrent layers.
"""


def rows_of(table: pd.DataFrame) -> Iterator[Row]:
    """Each setting of plain decoding once, by its first time and any that is another run's."""
    plain = table[(table["method"] == "ar") & table["model"].isin(list(MODELS)) & (table["metric"] == "TPOT_ms")]
    setting = ["gpu", "dtype", "tp", "batch_or_concurrency", "input_len", "output_len"]
    for _, same in plain.groupby(setting, sort=False):
        kept: list[float] = []
        for each in same.itertuples():
            value = float(each.value)
            if all(abs(value / other - 1.0) > _REPEAT for other in kept):
                kept.append(value)
                yield _row_of(each)


def _row_of(each: Any) -> Row:
    return decoding(
        each,
        MODELS[each.model],
        SAMPLED,
        engine="sglang",
        engine_version=each.engine_version,
        source="AIC silicon_sample",
        series=f"{each.dtype}, {each.gpu.replace('_', '-')}",
        **_RECIPES[each.dtype],
    )


def fitted(rows: Sequence[Row], base: Runtime, fields: Sequence[str] = OF_HYBRIDS) -> Runtime:
    """The card with its number of hybrid models, how far that may be off, and the settings of its rows."""
    fit = fit_generations(rows, base, base.name, base.engine, fields)
    ways = [way for each in fit.fits for way in each.card.wander if set(way) & set(fields)]
    covered = tuple(dict.fromkeys((*base.covered, *fit.card.covered)))
    there = base.four_bits
    own = fit.card.four_bits.by_version if fit.card.four_bits else None
    there = None if there is None else there.changed(wander=(*there.wander, *ways), by_version=own)
    known = {"wander": (*base.wander, *ways), "four_bits": there, "covered": covered}
    if own is not None:
        spread = {name: own.spread[name] for name in fields if name in own.spread}
        known["by_version"] = merged((base.by_version, ByVersion(spread=spread)))
    return base.with_numbers({name: fit.card.numbers[name] for name in fields}).changed(**known)


def with_note(card: Runtime, out: Outcome) -> Runtime:
    """The card that says on what its number of hybrid models rests, after what it says of others."""
    before, _, _ = card.evidence.note.partition(_NOTE)
    said = f"{len(out.rows)} rows, left out {np.abs(out.errors).mean():.1%} (docs/fidelity_hybrids.py)"
    return card.changed(evidence=card.evidence.changed(note=f"{before}{_NOTE}{said}"))


def without(card: Runtime) -> Runtime:
    """The card as models without recurrent layers gave it."""

    def closed(ways: Sequence[Mapping[str, float]]) -> tuple[Mapping[str, float], ...]:
        return tuple(way for way in ways if not set(way) & set(OF_HYBRIDS))

    there = card.four_bits
    if there is not None:
        there = there.changed(
            wander=closed(there.wander), by_version=fitted_versions(there.by_version, None, OF_HYBRIDS)
        )
    covered = tuple(each for each in card.covered if not _is_hybrid(each))
    update = {"wander": closed(card.wander), "four_bits": there, "covered": covered}
    update["by_version"] = fitted_versions(card.by_version, None, OF_HYBRIDS)
    return card.with_numbers(dict.fromkeys(OF_HYBRIDS, 0.0)).changed(**update)


def replayed(table: pd.DataFrame) -> str:
    """What states' writing costs a step, measured and predicted."""
    lines, errors = [], []
    for each in table[(table["method"] == _REPLAYED) & table["model"].isin(list(REPLAYED_MODELS))].itertuples():
        written_s, replayed_s = (_step_s(each, states) for states in ("each", "replayed"))
        ratio = written_s / replayed_s
        errors.append(ratio / each.value - 1.0)
        lines.append(f"| {each.batch_or_concurrency} | {each.value:.2f} | {ratio:.2f} |")
    error = f"{np.abs(errors).mean():.1%}"
    known = {"tokens": REPLAYED_TOKENS, "context": _REPLAYED_CONTEXT, "error": error}
    return _REPLAY.format(**known) + "\n".join(lines) + "\n"


def _step_s(each: Any, states: StateKeeping) -> float:
    model, dtype = REPLAYED_MODELS[each.model]
    row = Row(
        model=model,
        hardware=each.gpu.replace("_", "-"),
        batch=int(each.batch_or_concurrency),
        input_tokens=_REPLAYED_CONTEXT,
        output_tokens=1,
        metric="step_ms",
        value=1.0,
        dtype=dtype,
        states=states,
    )
    return work_of(row, find_runtime(_REPLAYED_CARD)).cost.seconds


def _is_hybrid(setting: TrainingDomain) -> bool:
    """Whether it is of one of these models, whose count of weights may have been another when it was fitted."""
    counts = [find_transformer(model).active_parameters for model in MODELS.values()]
    return any(abs(setting.active_parameters / count - 1.0) < _SAME_MODEL for count in counts)


def main(folder: Path, write_cards: bool) -> None:
    """Fit, predict, and write the page (and the cards)."""
    table = pd.read_csv(folder / "hybrid.csv")
    rows = list(rows_of(table))
    plain = without(find_runtime(CARDS[0]))
    card = fitted(rows, plain)
    out = left_out(rows, [row.series_name for row in rows], lambda others: fitted(others, plain))
    shown = (Outcome.of(rows, KERNELS), Outcome.of(rows, plain), Outcome.of(rows, card), out)
    lines = [f"| series | rows | {' | '.join(f'{way}: error | bias | inside | width' for way in _WAYS)} |"]
    lines.append(f"|{'---|' * (2 + 4 * len(_WAYS))}")
    for name in dict.fromkeys(row.series for row in rows):
        lines.append(_line(name, [each.where(lambda row, name=name: row.series == name) for each in shown]))
    lines.append(_line("all", shown))
    number_s = card.numbers[OF_HYBRIDS[0]]
    few, many = (_error(out, lambda row, few=few: (row.batch <= 8) is few) for few in (True, False))
    wide, narrow = (Outcome.of(some, _with_a_factor(rows, plain)) for some in _by_width(rows))
    known = {"few": few, "many": many, "own": _error(wide), "others": _error(narrow)}
    foot = _FOOT.format(microseconds=1e6 * number_s, each=45e3 * number_s, **known)
    text = _HEAD.format(rows=len(rows)) + "\n".join(lines) + "\n" + foot + replayed(table)
    (Path(__file__).parent / "fidelity_hybrids.md").write_text(text, encoding="utf-8")
    print("\n".join(lines), file=sys.stderr)
    if write_cards:
        for name in CARDS:
            made = with_note(fitted(rows, without(find_runtime(name))), out)
            save_runtime(made, models_folder() / "runtimes" / f"{name}.toml")


def _line(name: str | None, outcomes: Sequence[Outcome]) -> str:
    return f"| {name} | {len(outcomes[0].rows)} | {' | '.join(map(cells, outcomes))} |"


def _with_a_factor(rows: Sequence[Row], base: Runtime) -> Runtime:
    """By the rows of 16 bits alone, with a factor on their experts."""
    return fitted(_by_width(rows)[0], base, (*OF_HYBRIDS, "experts_16_bit"))


def _by_width(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Those of 16 bits, and the others."""
    return [row for row in rows if row.dtype is None], [row for row in rows if row.dtype is not None]


def _error(outcome: Outcome, kept: Callable[[Row], bool] = lambda _: True) -> str:
    return cells(outcome.where(kept)).split(" | ")[0]


if __name__ == "__main__":
    arguments = [each for each in sys.argv[1:] if each != "--cards"]
    main(Path(arguments[0]), "--cards" in sys.argv)
