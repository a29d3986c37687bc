"""Measured against predicted for mixtures of experts: what the bundled runtimes say of them, docs/fidelity_mixtures.md.

    python docs/fidelity_mixtures.py ../shared/measurements/end_to_end ../shared/reference/configs [--cards]

Reads ``moe_ar_decode.csv`` of the first folder and the models' configs of the second. With ``--cards`` the mixtures'
numbers of the bundled runtimes are fitted anew; all others stay what dense models gave. No row is written anywhere.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w
from fidelity import OF_HYBRIDS, cells
from fidelity_generations import GROUPINGS, Generations, fit_generations, on_four_bits
from fidelity_outcomes import Outcome, decoding, left_out

from calibration.runtimes.fit import EXPERTS
from calibration.runtimes.versions import fitted as fitted_versions
from calibration.timings.fit import significant
from ssdsim.base.bundled import models_folder
from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.engine_versions import ByVersion
from ssdsim.hardware.runtime_card import KERNELS, Runtime
from ssdsim.hardware.runtime_catalog import find_runtime, save_runtime
from ssdsim.hardware.runtime_numbers import NUMBERS
from ssdsim.readers.row import Row
from ssdsim.transformer.operations import QUANTISED_BYTES

MOST_TTFT_MS = 1000.0
"""Rows with a later first token waited in a queue."""

SLIPS = 0.05
"""A row that is so much slower than one of more sequences, or of half as many GPUs, is a slip of the benchmark."""
CARD_OF = {"vllm": "vllm-0.9"}
"""The card of an engine's rows, where it is not called as the engine."""
_LATER = {"vllm-0.9": ("vllm-0.24", "vllm")}
"""Cards of versions of which no mixture was measured: they are as the last version that was."""
_NODE = 8
"""Devices of a node; rows over several are left out."""
_LAYER = "per_expert_layer_s"
_BETWEEN = "a layer with experts {:.1f} µs, halfway between {:.1f} as there (0.18) and {:.1f} as half"
_SAID = r"a layer with experts [\d.]+ µs, halfway between [\d.]+ as there \(0\.18\) and [\d.]+ as half"
"""What cards of later versions say of that layer on Blackwell."""
_NONE = {name: getattr(KERNELS.kernels, name, 0.0) for name in EXPERTS}

_HEAD = """# How well it predicts engines that run mixtures of experts

For people who serve mixtures of experts. This page says how far their speeds are missed, by engine, model and
placement. `python docs/fidelity_mixtures.py` makes it, from published end-to-end measurements that are not part of this
project: decoding while {rows} settings of gpt-oss-120b, DeepSeek-R1 and V3, and MiniMax-M2.5 were served. {late} are
left out since their first token took longer than a second, {drafted} of DeepSeek-V3 on TensorRT-LLM without a version,
which may have speculated, and {repeated} that repeat another to the last digit. A series is one model, format, GPU and
placement with all its batches, lengths and versions. *Dense*: the runtime as dense models alone gave it. *In fit*:
with the six numbers that it has for experts (factors on their kernels of 8 and 16 bits, of 4 bits that are unpacked
and of 4 bits that are multiplied as such; one on unpacked ones in passes over prompts; what the host takes for a layer
with experts, and for such a layer of a prompt), on Blackwell and before it. *Left out*: every series predicted by what
the engine's other series give; where there are none, by the dense card. Columns: mean absolute error, bias, share of
rows inside the 95 % interval, median half-width of that interval.

"""
_WAYS = ("dense", "in fit", "left out")
_COLUMNS = ("engine", "model", "placement", "rows", *(f"{what}: error | bias | inside | width" for what in _WAYS))
_LEFT_OUT = """
## Left out by more than a series

The same rows, predicted by cards that had no row of their series, of their tensor-parallel degree, of their engine's
version, or of their generation of GPUs (Blackwell's, which multiply 4 bits, or before); and without slips.
Nothing stands where all rows are of one.

"""
_FOOT = """
## Rows that cannot be

{slips} rows are slower by more than 5 % than a row with more sequences in flight, or than one on half as many GPUs: no
engine is, so they are counted above but never fitted. Without them the errors are {dense_clean} (dense) and
{out_clean} (left out).

The rows called TP 4, EP 2 have the times of those called TP 2, within {twins} on average: they look like the same
runs under another label, and they are counted but never fitted: no four GPUs take the time of two at every batch and
length, and who multiplies the degree of experts by that of tensors (2 by 2) gets this label from a run on two GPUs.
Their first tokens say the same, which rest on arithmetic and not on memory: over prompts of 8,192 tokens they come
after {to_two:.2f} times as long as those of TP 2 and {to_four:.2f} times as long as those of TP 4, whose own come after
{four_to_two:.2f} times as long as those of TP 2. Whoever collected the rows does not say how their
degrees were read.
With TP 2, EP 2 for a label they are missed by {twin_error} (left out, as TP 2's own rows are) in the place of
{labelled}, and all rows by {corrected}. Without them, and without slips, all rows are missed by {dense_last} (dense)
and {out_last} (left out).

## What the numbers say

*Blackwell is another engine.* The profile of the B200 has MXFP4 experts as a kernel that unpacks them to 16 bits;
engines there multiply them beside inputs of 8 bits. So their factor is far below 1, and over prompts, where they
multiply and do not read, lower still. gpt-oss on TensorRT-LLM before Blackwell is a development version of August
2025, whose host takes a long time for a layer; newer versions on Blackwell do not. One card for both missed the B200's
rows by 84 %.

*The prompt.* On TensorRT-LLM before Blackwell a prompt of gpt-oss stops the others' decoding for 35 to 60 ms more than
its kernels take, by the difference between rows of 1024 and of 8192 answered tokens, whether it has 1,024 tokens or
8,192 and on one GPU as on eight: what the host takes to launch layers with experts when no graph holds them. On vLLM it
grows with the tokens instead: its kernels for experts are slower than those timed.

*Versions.* vLLM 0.17 took 10 to 20 % longer for MiniMax-M2.5 on two B200 than 0.19 did; one card has both.

How many experts a batch touches rests on one number for all models, the skew of the experts' popularity: 0.75, between
what published counts of experts ask for (0.95; 0.65 to 1.25 where one of three sources is left out) and what the dense
cards ask for. With balanced experts the dense cards miss these rows by {balanced}, with the skew by {skewed}. The
factors on experts follow: on the first 174 of these rows any skew from 0 to 0.95 left errors within one percentage
point.

"""
_NUMBERS = (
    *("card", "GPUs", "experts", "of 4 bits, unpacked", "NVFP4", "4 bits over prompts", "µs a layer"),
    "ms a layer and prompt",
)


def as_cards(models: Iterable[str], configs: Path, cards: Path) -> None:
    """Write a card of each model's config to ``cards``: one is read once, a config as often as it is asked for."""
    for model in set(models):
        name = model.replace("/", "--")
        card = find_transformer(configs / f"{name}_config.json")
        (cards / f"{name}.toml").write_text(tomli_w.dumps(card.as_dict(without_none=True)), encoding="utf-8")


def steady(table: pd.DataFrame, models: Path) -> tuple[list[Row], list[Row]]:
    """The rows that neither waited nor may have speculated, and those of them that are no slips and no twins."""
    late, drafted = table["ttft_ms"] > MOST_TTFT_MS, may_have_drafted(table)
    rows = rows_of(table[~late & ~drafted], models)
    left = {id(row) for row in rows if is_slip(row, rows)} | {id(row) for row in twins_of_tp_2(rows)}
    return rows, [row for row in rows if id(row) not in left]


def rows_of(table: pd.DataFrame, cards: Path) -> list[Row]:
    """Every row of the table, each measurement once; ``cards`` has the models'."""
    rows = (_row_of(each, cards) for each in table.itertuples())
    return [row for row in dict.fromkeys(rows) if row.tp <= _NODE]


def _row_of(each: Any, cards: Path) -> Row:
    placement = f"{each.gpu} tp {int(each.tp)} ep {int(each.moe_ep)}"
    dtype = each.moe_dtype if each.moe_dtype in QUANTISED_BYTES and "gpt-oss" not in each.model else None
    return decoding(
        each,
        str(cards / f"{each.model.replace('/', '--')}.toml"),
        "concurrency input_len output_len tpot_ms",
        ep=int(each.moe_ep),
        engine=each.engine,
        engine_version="" if pd.isna(each.engine_version) else each.engine_version,
        dtype=dtype,
        source=each.source,
        series=f"{each.engine} {each.model.split('/')[1]} {dtype or ''} {placement}",
    )


def may_have_drafted(table: pd.DataFrame) -> pd.Series:
    """Rows whose run may have speculated: the dump dropped the flag, and by date and times both are possible."""
    unnamed = (table["engine"] == "trtllm") & table["engine_version"].isna()
    return unnamed & table["model"].str.contains("DeepSeek")


def is_slip(row: Row, rows: Sequence[Row]) -> bool:
    """Whether it is slower than it can be, beside rows of the same model, engine, GPU and lengths."""
    same = [
        other
        for other in rows
        if all(getattr(other, name) == getattr(row, name) for name in ("model", "engine", "hardware", "dtype"))
        and other.engine_version == row.engine_version
        and (other.input_tokens, other.output_tokens) == (row.input_tokens, row.output_tokens)
    ]
    fuller = [other for other in same if other.series == row.series and other.batch > row.batch]
    smaller = [other for other in same if other.ep == row.ep and other.batch == row.batch and 2 * other.tp == row.tp]
    return any(row.value > (1.0 + SLIPS) * other.value for other in (*fuller, *smaller))


def twins_of_tp_2(rows: Sequence[Row]) -> list[Row]:
    """Rows that another degree's rows are as fast as, all of them: the page says so."""
    return [row for row in rows if row.engine == "trtllm" and (row.tp, row.ep) == (4, 2)]


def fitted(rows: Sequence[Row], dense: Runtime) -> Generations:
    """The engine's numbers for experts."""
    return fit_generations(rows, dense, dense.name, dense.engine, EXPERTS)


def without_experts(card: Runtime) -> Runtime:
    """The card as dense models gave it."""
    four_bits = card.four_bits
    if four_bits is not None:
        numbers = {name: value for name, value in four_bits.numbers.items() if name not in EXPERTS}
        known = {"numbers": numbers, "wander": _of_dense(four_bits.wander)}
        known["by_version"] = fitted_versions(four_bits.by_version, None, (*EXPERTS, *OF_HYBRIDS))
        four_bits = four_bits.changed(**known) if numbers else None
    covered = tuple(each for each in card.covered if not each.experts)
    plain = {"wander": _of_dense(card.wander), "four_bits": four_bits, "covered": covered}
    plain["by_version"] = fitted_versions(card.by_version, None, (*EXPERTS, *OF_HYBRIDS))
    return card.with_numbers(_NONE).changed(**plain)


def _of_experts(wander: Sequence[Mapping[str, float]]) -> tuple[Mapping[str, float], ...]:
    return tuple(way for way in wander if set(way) & set(EXPERTS))


def _of_dense(wander: Sequence[Mapping[str, float]]) -> tuple[Mapping[str, float], ...]:
    return tuple(way for way in wander if not set(way) & set(EXPERTS))


def with_experts(dense: Runtime, fit: Generations) -> Runtime:
    """The dense card with the numbers of a fit, and the settings of its rows."""
    numbers = {name: fit.card.numbers[name] for name in EXPERTS}
    covered = tuple(dict.fromkeys((*dense.covered, *fit.card.covered)))
    known = {"wander": fit.card.wander, "four_bits": fit.card.four_bits, "covered": covered}
    known["by_version"] = fit.card.by_version
    return dense.with_numbers(numbers).changed(**known)


def card_of(engine: str) -> str:
    """The name of the card of an engine's rows."""
    return CARD_OF.get(engine, engine)


def as_the_last(card: Runtime, later: Runtime) -> Runtime:
    """A card of later versions with the experts of the last version that was measured; how far it may be, is open.

    On Blackwell its host is its own (no row there is so new), and a layer with experts is between that of the last
    version before Blackwell and half of the last one there.
    """
    home, there, own = _last(card.numbers, card.by_version), card.four_bits, later.four_bits
    plain = without_experts(later)
    evidence = later.evidence
    if there is not None and own is not None:
        last = _last({**card.numbers, **there.numbers}, there.by_version)
        ends_s = home[_LAYER], last[_LAYER] / 2.0
        factors = {name: last[name] for name in there.numbers if name in EXPERTS and not name.endswith("_s")}
        told = {**own.numbers, **factors, _LAYER: significant(sum(ends_s) / 2.0)}
        by_hand = tuple(way for way in own.wander if set(way) == {_LAYER})
        wander = (*_of_dense(own.wander), *_of_experts(there.wander), *by_hand)
        there = own.changed(numbers={name: told[name] for name in NUMBERS if name in told}, wander=wander)
        said = _BETWEEN.format(*(1e6 * seconds for seconds in (told[_LAYER], *ends_s)))
        evidence = evidence.changed(note=re.sub(_SAID, said, evidence.note))
    known = {"wander": (*plain.wander, *_of_experts(card.wander)), "four_bits": there, "evidence": evidence}
    known |= {"by_version": _spread(card.by_version), "covered": later.covered}
    return plain.with_numbers({name: home[name] for name in EXPERTS}).changed(**known)


def _last(numbers: Mapping[str, float], versions: ByVersion | None) -> dict[str, float]:
    """The numbers with what the last version adds that is known by a number."""
    known = [each for each in (versions.known if versions else ()) if each.version[0].isdigit()]
    last = max(known, key=lambda each: [int(part) for part in each.version.split(".")[:2]], default=None)
    added = last.adds if last else {}
    return {name: significant(max(0.0, n + added.get(name, 0.0))) for name, n in numbers.items()}


def _spread(versions: ByVersion | None) -> ByVersion | None:
    return None if versions is None else versions.changed(known=())


def unseen(rows: Sequence[Row], clean: Sequence[Row], dense: Runtime, named: Callable[[Row], str]) -> Outcome | None:
    """Each group of rows by what the others' clean rows give; None where all are of one."""
    groups, kept = [named(row) for row in rows], {id(row) for row in clean}
    if len(set(groups)) == 1:
        return None

    def card(others: Sequence[Row]) -> Runtime:
        others = [row for row in others if id(row) in kept]
        if len(others) <= len(EXPERTS):
            return dense
        return with_experts(dense, fitted(others, dense))

    return left_out(rows, groups, card)


def main(folder: Path, configs: Path, write_cards: bool) -> None:
    """Fit, predict, and write the page (and the cards)."""
    table = pd.read_csv(folder / "moe_ar_decode.csv")
    with tempfile.TemporaryDirectory() as cards:
        as_cards(table["model"], configs, Path(cards))
        report(table, Path(cards), write_cards)


def report(table: pd.DataFrame, models: Path, write_cards: bool) -> None:
    """Of the settings of ``table``, whose models' cards are in a folder."""
    late, drafted = table["ttft_ms"] > MOST_TTFT_MS, may_have_drafted(table)
    rows = rows_of(table[~late & ~drafted], models)
    slips, twins = {id(row) for row in rows if is_slip(row, rows)}, {id(row) for row in twins_of_tp_2(rows)}
    lines, cards = [], []
    parts: dict[str, list[Outcome]] = {"dense": [], "fit": [], "out": []}
    apart: dict[str, list[Outcome]] = {name: [] for name in GROUPINGS}
    for name in sorted({row.engine for row in rows}):
        own = [row for row in rows if row.engine == name]
        clean = [row for row in own if id(row) not in slips | twins]
        dense = without_experts(find_runtime(card_of(name)))
        fit = fitted(clean, dense)
        found = {kind: unseen(own, clean, dense, named) for kind, named in GROUPINGS.items()}
        out = found["series"] or Outcome.of(own, dense)
        card = with_experts(dense, fit)
        cards.append(card)
        for kind, outcome in found.items():
            apart[kind] += [outcome] if outcome is not None else []
        for series_name in sorted({row.series for row in own}):
            of_series = [row for row in own if row.series == series_name]
            outcome = out.where(lambda row, name=series_name: row.series == name)
            shown = {"dense": Outcome.of(of_series, dense), "fit": Outcome.of(of_series, card), "out": outcome}
            for kind, each in shown.items():
                parts[kind].append(each)
            lines.append(_line(of_series[0], len(of_series), shown))
            print(lines[-1], file=sys.stderr)
    together = {kind: Outcome.together(each) for kind, each in parts.items()}
    lines.append(f"| all | | | {len(rows)} | {' | '.join(map(cells, together.values()))} |")
    kept = int((~late & ~drafted).sum())
    counts = {"late": int(late.sum()), "drafted": int((drafted & ~late).sum()), "repeated": kept - len(rows)}
    text = f"{_HEAD.format(rows=len(table), **counts)}| {' | '.join(_COLUMNS)} |\n|{'---|' * 16}\n"
    text += "\n".join(lines) + "\n" + _apart(apart, slips | twins)
    text += _foot(rows, slips, together, table) + f"| {' | '.join(_NUMBERS)} |\n|{'---|' * len(_NUMBERS)}\n"
    text += "".join(map(_numbers, cards))
    (Path(__file__).parent / "fidelity_mixtures.md").write_text(text, encoding="utf-8")
    if write_cards:
        later = [as_the_last(card, find_runtime(name)) for card in cards for name in _LATER.get(card.name, ())]
        for card in (*cards, *later):
            save_runtime(card, models_folder() / "runtimes" / f"{card.name}.toml")


def _apart(found: Mapping[str, Sequence[Outcome]], leave: set[int]) -> str:
    """The table of rows left out by each of GROUPINGS."""
    text = (
        _LEFT_OUT
        + "| left out | rows | error | bias | inside | width | without slips: rows | error | bias | inside | width |\n"
    )
    text += f"|{'---|' * 11}\n"
    for name, outcomes in found.items():
        everything = Outcome.together(outcomes)
        clean = everything.where(lambda row: id(row) not in leave)
        text += f"| {name} | {len(everything.rows)} | {cells(everything)} | {len(clean.rows)} | {cells(clean)} |\n"
        print(name, cells(everything), "; without slips", cells(clean), file=sys.stderr)
    return text


def _line(row: Row, count: int, shown: Mapping[str, Outcome]) -> str:
    model = Path(row.model).stem.split("--")[1] + (f" {row.dtype}" if row.dtype else "")
    placement = f"{row.hardware}, TP {row.tp}" + (f", EP {row.ep}" if row.ep > 1 else "")
    return f"| {row.engine} | {model} | {placement} | {count} | {' | '.join(map(cells, shown.values()))} |"


def _numbers(card: Runtime) -> str:
    there = {**card.numbers, **card.four_bits.numbers} if card.four_bits else card.numbers
    return "".join(
        f"| `{card.name}` | {where} | {numbers['experts']:.2f} | {numbers['experts_4_bit']:.2f} | "
        f"{numbers['experts_nvfp4']:.2f} | {numbers['prompt_experts_4_bit']:.2f} | "
        f"{1e6 * numbers['per_expert_layer_s']:.1f} | {1e3 * numbers['per_expert_prompt_s']:.2f} |\n"
        for where, numbers in (("before", card.numbers), ("4 bits", there))
    )


def _foot(rows: Sequence[Row], slips: set[int], outcomes: Mapping[str, Outcome], table: pd.DataFrame) -> str:
    twins = twins_of_tp_2(rows)
    as_two = [row.changed(tp=2) for row in twins]
    measured = {
        (row.batch, row.input_tokens, row.output_tokens): row.value
        for row in rows
        if row.engine == "trtllm" and (row.tp, row.ep) == (2, 1)
    }
    apart = [row.value / measured[row.batch, row.input_tokens, row.output_tokens] - 1.0 for row in twins]
    relabelled = Outcome.of(as_two, _without_twos(rows, slips))
    twin_ids = {id(row) for row in twins}

    def kept(kind: str, leave: set[int]) -> list[float]:
        return [e for row, e in zip(outcomes[kind].rows, outcomes[kind].errors, strict=True) if id(row) not in leave]

    def error(kind: str, leave: set[int]) -> str:
        return f"{np.abs(kept(kind, leave)).mean():.1%}"

    return _FOOT.format(
        slips=len(slips),
        dense_clean=error("dense", slips),
        out_clean=error("out", slips),
        twins=f"{np.abs(apart).mean():.1%}",
        twin_error=f"{np.abs(relabelled.errors).mean():.1%}",
        **_first_tokens(table),
        labelled=error("out", {id(row) for row in rows} - twin_ids),
        corrected=f"{np.abs([*kept('out', twin_ids), *relabelled.errors]).mean():.1%}",
        dense_last=error("dense", slips | twin_ids),
        out_last=error("out", slips | twin_ids),
        balanced=_balanced(rows),
        skewed=f"{np.abs(outcomes['dense'].errors).mean():.1%}",
    )


def _first_tokens(table: pd.DataFrame) -> dict[str, float]:
    """How many times as long TensorRT-LLM's first tokens over long prompts take by one label as by another."""
    long = table[(table["engine"] == "trtllm") & (table["input_len"] == 8192)]
    times = long.pivot_table(index="concurrency", columns=["tp", "moe_ep"], values="ttft_ms")
    ratios = {"to_two": ((4, 2), (2, 1)), "to_four": ((4, 2), (4, 1)), "four_to_two": ((4, 1), (2, 1))}
    return {name: float((times[one] / times[other]).mean()) for name, (one, other) in ratios.items()}


def _without_twos(rows: Sequence[Row], slips: set[int]) -> Runtime:
    """TensorRT-LLM's card of rows that neither are on two GPUs nor look so."""
    dense, twins = without_experts(find_runtime("trtllm")), {id(row) for row in twins_of_tp_2(rows)}
    others = [
        row
        for row in rows
        if row.engine == "trtllm" and row.tp != 2 and not on_four_bits(row) and id(row) not in slips | twins
    ]
    return with_experts(dense, fitted(others, dense))


def _balanced(rows: Sequence[Row]) -> str:
    """Mean error of all rows where all experts are as popular."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for number, model in enumerate(sorted({row.model for row in rows})):
            card = find_transformer(model)
            assert card.experts is not None
            balanced = card.changed(experts=card.experts.changed(skew=0.0))
            paths[model] = Path(folder) / f"{number}.toml"
            paths[model].write_text(tomli_w.dumps(balanced.as_dict(without_none=True)), encoding="utf-8")
        errors = []
        for row in rows:
            card = without_experts(find_runtime(card_of(row.engine)))
            errors.append(Outcome.of([row.changed(model=str(paths[row.model]))], card).errors[0])
    return f"{np.abs(errors).mean():.1%}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), "--cards" in sys.argv)
