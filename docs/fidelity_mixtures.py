"""Measured against predicted for mixtures of experts: what the bundled runtimes say of them, docs/fidelity_mixtures.md.

    python docs/fidelity_mixtures.py ../shared/measurements/end_to_end ../shared/reference/configs [--cards]

Reads ``moe_ar_decode.csv`` of the first folder and the models' configs of the second. With ``--cards`` the mixtures'
numbers of the bundled runtimes are fitted anew; all others stay what dense models gave. No row is written anywhere.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import tomli_w
from fidelity import cells

from calibration.bootstrap import significant
from calibration.runtimes.fit import EXPERTS, Fit, fit_runtime
from calibration.runtimes.left_out import Outcome, left_out
from calibration.runtimes.unseen import log_sd_besides
from ssdsim.bundled import models_folder
from ssdsim.checks import Array
from ssdsim.hardware.catalog import find_transformer
from ssdsim.measured.row import Row
from ssdsim.runtimes.card import KERNELS, Runtime
from ssdsim.runtimes.catalog import find_runtime, save_runtime

MOST_TTFT_MS = 1000.0
"""Rows with a later first token waited in a queue."""

SLIPS = 0.05
"""A row that is so much slower than one of more sequences, or of half as many GPUs, is a slip of the benchmark."""
_NONE = {name: getattr(KERNELS.kernels, name, 0.0) for name in EXPERTS}

_HEAD = """# How well it predicts engines that run mixtures of experts

Made by `python docs/fidelity_mixtures.py`, from published end-to-end measurements that are not part of this project:
decoding while {rows} settings of gpt-oss-120b, DeepSeek-R1 and MiniMax-M2.5 were served, of which {late} are left out
since their first token took longer than a second. A series is one model, GPU and placement with all its batches and
lengths. *Dense*: the runtime as dense models alone gave it. *In fit*: with the five numbers that it has for experts
(a factor on their kernels, one for 8 and 16 bits a weight and one for 4, which other kernels unpack; and what the host
takes for a layer with experts, a token there, and such a layer of a prompt). *Left out*: every series predicted by
what the engine's other series give; where there are none, by the dense card. Columns: mean absolute error, bias, share
of rows inside the 95 % interval, median half-width of that interval.

"""
_COLUMNS = ("engine", "model", "placement", "rows", *(f"{what}: error | bias | inside | width" for what in
            ("dense", "in fit", "left out")))  # fmt: skip
_FOOT = """
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

One factor for all experts' kernels, whatever their weights' format, was a mistake: gpt-oss has 4 bits a weight and
MiniMax-M2.5 has 8, in other kernels, and with one factor the left-out rows of MiniMax are missed by 11.7 % and all rows
by 7.2 % (6.3 % without slips).

What dense models do not have is the prompt. On TensorRT-LLM a prompt of gpt-oss stops the others' decoding for 35 to
60 ms more than its kernels take, by the difference between rows of 1024 and of 8192 answered tokens, whether it has
1,024 tokens or 8,192 and on one GPU as on eight: what the host takes to launch layers with experts when no graph holds
them, which dense 70B's longer kernels hide. On vLLM it grows with the tokens instead.

How many experts a batch touches rests on one number for all models, the skew of the experts' popularity. It is not
what the left-out errors hang on: with any skew from 0 to 0.95 those of vLLM are 6.4 to 7.4 % and those of
TensorRT-LLM 8.0 to 8.4 %, since the factor on experts follows. Published counts of experts alone ask for 0.95, and for
0.65 to 1.25 where one of three sources is left out; 0.75 is between them and what the dense cards ask for. With
balanced experts the dense cards miss these rows by {balanced}, with the skew by {skewed}. Nothing of DeepSeek-R1 was
fitted otherwise: {r1_balanced} and {r1_skewed}.

| card | factor on experts | of 4 bits | µs a layer | µs a token and layer | ms a layer and prompt | log-sd besides |
|---|---|---|---|---|---|---|
"""


def rows_of(table: pd.DataFrame, configs: Path) -> list[Row]:
    """Every row of the table as one of a card."""
    return [
        Row(
            model=str(configs / f"{each.model.replace('/', '--')}_config.json"),
            hardware=each.gpu.replace("_", "-"),
            tp=int(each.tp),
            ep=int(each.moe_ep),
            batch=int(each.concurrency),
            input_tokens=float(each.input_len),
            output_tokens=float(each.output_len),
            metric="tpot_ms",
            value=float(each.tpot_ms),
            engine=each.engine,
            source=each.source,
            series=f"{each.engine} {each.model.split('/')[1]} {each.gpu} tp {int(each.tp)} ep {int(each.moe_ep)}",
        )
        for each in table.itertuples()
    ]


def is_slip(row: Row, rows: Sequence[Row]) -> bool:
    """Whether it is slower than it can be, beside rows of the same model, engine, GPU and lengths."""
    same = [
        other
        for other in rows
        if (other.model, other.engine, other.hardware) == (row.model, row.engine, row.hardware)
        and (other.input_tokens, other.output_tokens) == (row.input_tokens, row.output_tokens)
    ]
    fuller = [other for other in same if other.series == row.series and other.batch > row.batch]
    smaller = [other for other in same if other.ep == row.ep and other.batch == row.batch and 2 * other.tp == row.tp]
    return any(row.value > (1.0 + SLIPS) * other.value for other in (*fuller, *smaller))


def twins_of_tp_2(rows: Sequence[Row]) -> list[Row]:
    """Rows that another degree's rows are as fast as, all of them: the page says so."""
    return [row for row in rows if row.engine == "trtllm" and (row.tp, row.ep) == (4, 2)]


def fitted(rows: Sequence[Row], dense: Runtime) -> Fit:
    """The engine's numbers for experts."""
    return fit_runtime(rows, dense, dense.name, dense.engine, EXPERTS)


def without_experts(card: Runtime) -> Runtime:
    """The card as dense models gave it."""
    errors = card.errors.model_copy(update={"experts_log_sd": 0.0})
    wander = tuple(way for way in card.wander if not set(way) & set(EXPERTS))
    return card.with_numbers(_NONE).model_copy(update={"errors": errors, "wander": wander})


def with_experts(dense: Runtime, fit: Fit, errors: Array, rows: Sequence[Row]) -> Runtime:
    """The card with the numbers of a fit, and besides what it says of its error what ``errors`` of ``rows`` add."""
    numbers = {name: fit.card.numbers[name] for name in EXPERTS}
    card = dense.with_numbers(numbers).model_copy(update={"wander": fit.card.wander})
    besides = significant(log_sd_besides(errors, rows, card))
    return card.model_copy(update={"errors": card.errors.model_copy(update={"experts_log_sd": besides})})


def unseen(rows: Sequence[Row], clean: Sequence[Row], dense: Runtime) -> Outcome:
    """Each series by what the others' clean rows give; by the dense card where there are none."""
    series, kept = [row.series for row in rows], {id(row) for row in clean}
    if len(set(series)) == 1:
        return Outcome.of(rows, dense)

    def card(others: Sequence[Row]) -> Runtime:
        others = [row for row in others if id(row) in kept]
        fit = fitted(others, dense)
        return with_experts(dense, fit, fit.left_out if fit.left_out.size else fit.errors, others)

    return left_out(rows, series, card)


def main(folder: Path, configs: Path, write_cards: bool) -> None:
    """Fit, predict, and write the page (and the cards)."""
    table = pd.read_csv(folder / "moe_ar_decode.csv")
    rows = rows_of(table[table["ttft_ms"] <= MOST_TTFT_MS], configs)
    slips, twins = {id(row) for row in rows if is_slip(row, rows)}, {id(row) for row in twins_of_tp_2(rows)}
    lines, cards = [], []
    parts: dict[str, list[Outcome]] = {"dense": [], "fit": [], "out": []}
    for name in sorted({row.engine for row in rows}):
        own = [row for row in rows if row.engine == name]
        clean = [row for row in own if id(row) not in slips | twins]
        dense = without_experts(find_runtime(name))
        fit = fitted(clean, dense)
        out = unseen(own, clean, dense)
        card = with_experts(dense, fit, out.errors, own)
        cards.append(card)
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
    head = _HEAD.format(rows=len(table), late=len(table) - len(rows))
    foot = _foot(rows, slips, together, table) + "".join(map(_numbers, cards))
    text = f"{head}| {' | '.join(_COLUMNS)} |\n|{'---|' * 16}\n" + "\n".join(lines) + "\n" + foot
    (Path(__file__).parent / "fidelity_mixtures.md").write_text(text, encoding="utf-8")
    if write_cards:
        for card in cards:
            save_runtime(card, models_folder() / "runtimes" / f"{card.name}.toml")


def _line(row: Row, count: int, shown: Mapping[str, Outcome]) -> str:
    model = Path(row.model).name.split("--")[1].removesuffix("_config.json")
    placement = f"{row.hardware}, TP {row.tp}" + (f", EP {row.ep}" if row.ep > 1 else "")
    return f"| {row.engine} | {model} | {placement} | {count} | {' | '.join(map(cells, shown.values()))} |"


def _numbers(card: Runtime) -> str:
    host = card.host
    return (
        f"| `{card.name}` | {card.kernels.experts:.2f} | {card.kernels.experts_4_bit:.2f} | "
        f"{1e6 * host.per_expert_layer_s:.1f} | "
        f"{1e6 * host.per_expert_token_s:.2f} | {1e3 * host.per_expert_prompt_s:.2f} | "
        f"{card.errors.experts_log_sd:.3f} |\n"
    )


def _foot(rows: Sequence[Row], slips: set[int], found: Mapping[str, Outcome], table: pd.DataFrame) -> str:
    twins = twins_of_tp_2(rows)
    as_two = [row.model_copy(update={"tp": 2}) for row in twins]
    measured = {
        (row.batch, row.input_tokens, row.output_tokens): row.value
        for row in rows
        if row.engine == "trtllm" and (row.tp, row.ep) == (2, 1)
    }
    apart = [row.value / measured[row.batch, row.input_tokens, row.output_tokens] - 1.0 for row in twins]
    relabelled = Outcome.of(as_two, _without_twos(rows, slips))
    twin_ids = {id(row) for row in twins}

    def kept(kind: str, leave: set[int]) -> list[float]:
        return [e for row, e in zip(found[kind].rows, found[kind].errors, strict=True) if id(row) not in leave]

    def error(kind: str, leave: set[int]) -> str:
        return f"{np.abs(kept(kind, leave)).mean():.1%}"

    balanced, r1_balanced = _balanced(rows)
    r1 = np.array(["DeepSeek-R1" in row.model for row in found["dense"].rows])
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
        balanced=balanced,
        skewed=f"{np.abs(found['dense'].errors).mean():.1%}",
        r1_balanced=r1_balanced,
        r1_skewed=f"{np.abs(found['dense'].errors[r1]).mean():.1%}",
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
    others = [row for row in rows if row.engine == "trtllm" and row.tp != 2 and id(row) not in slips | twins]
    fit = fitted(others, dense)
    return with_experts(dense, fit, fit.left_out, others)


def _balanced(rows: Sequence[Row]) -> tuple[str, str]:
    """Mean errors of all rows and of DeepSeek-R1's where all experts are as popular."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for number, model in enumerate(sorted({row.model for row in rows})):
            card = find_transformer(model)
            assert card.experts is not None
            balanced = card.model_copy(update={"experts": card.experts.model_copy(update={"skew": 0.0})})
            paths[model] = Path(folder) / f"{number}.toml"
            paths[model].write_text(tomli_w.dumps(balanced.model_dump(exclude_none=True)), encoding="utf-8")
        errors = []
        for row in rows:
            card = without_experts(find_runtime(row.engine))
            errors.append(Outcome.of([row.model_copy(update={"model": str(paths[row.model])})], card).errors[0])
    r1 = [e for row, e in zip(rows, errors, strict=True) if "DeepSeek-R1" in row.model]
    return f"{np.abs(errors).mean():.1%}", f"{np.abs(r1).mean():.1%}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), "--cards" in sys.argv)
