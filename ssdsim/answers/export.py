"""A schedule in the words of the engines: vLLM's speculative config, SGLang's flags, the SSD engine's command line.

Where an engine cannot say what the schedule says, the nearest that it can is exported, and a note tells.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from ssdsim.answers.schedule import Candidates, Cell, candidates, of_candidates
from ssdsim.errors import InputError, nearest
from ssdsim.hardware.catalog import find_transformer
from ssdsim.scenario.configuration import configure
from ssdsim.scenario.options import DEFAULTS
from ssdsim.transformer.card import Transformer

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("json", "csv", "vllm", "sglang", "ssd")
_HUB_NAME = re.compile(r"([\w.-]+/[\w.-]+) config\.json")
_SSD_ENGINE_MODEL = re.compile(r"llama-3\.\d-(?P<llama>\d+)b|qwen3-(?P<qwen>[\d.]+)b")
_OUTPUT_TOKENS = 1024  # of room beside the prompt; bench.py makes 512 unless told otherwise
SSD_ENGINE_SIZES = {"llama": ("1", "3", "8", "70"), "qwen": ("0.6", "1.7", "4", "8", "14", "32")}


@dataclass(frozen=True)
class Exported:
    """``text`` for the engine (or a file); ``notes`` say what it leaves out; ``warnings`` are of the timings.

    Where nothing fits, ``refusal`` says why; an engine's text is then empty, a schedule holds the reason of each cell.
    """

    text: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    refusal: str | None = None


def export(format: str, *, seed: int = 0, **options: Any) -> Exported:
    """The best of AR, SD and SSD for every batch and context, as an engine takes it.

    Parameters
    ----------
    format : ``json`` or ``csv``, the whole :class:`ssdsim.answers.schedule.Schedule`; ``vllm``, the object of
        ``--speculative-config`` with its table over batch sizes; ``sglang``, the server's command line;
        ``ssd``, a ``bench.py`` command line of the SSD paper's engine for each batch and context.
    seed : of the draws behind the intervals.
    options : those of :func:`ssdsim.answers.schedule.candidates`.

    Returns
    -------
    Exported : the ``text``, with notes on what the engine cannot do; a ``refusal`` where nothing fits.

    Raises
    ------
    InputError : an unknown format; models that the SSD engine does not have or pair; what the candidates raise.

    >>> from ssdsim import export
    >>> import json
    >>> json.loads(export("vllm", b=[1, 64], k=[2, 4, 8], f=3).text)["num_speculative_tokens_per_batch_size"]
    [[1, 7, 8], [8, 64, 4]]
    """
    if not isinstance(format, str) or format not in FORMATS:
        raise InputError(f"unknown format '{format}'{nearest(format, FORMATS)} Allowed: {', '.join(FORMATS)}")
    notes: list[str] = []
    if format in _ENGINES:
        for name, (value, note) in _ENGINES[format].items():
            if options.get(name) not in (None, value):
                options[name] = value
                notes.append(note)
        if format == "ssd":
            _check_ssd_models(options)
    found = candidates(**options)
    if options.get("alpha") is None and options.get("acceptance") is None:
        notes.append(f"the acceptance rate {DEFAULTS['alpha']} is a placeholder, not a measurement: give --alpha")
    for (b, context), reason in found.impossible.items():
        notes.append(f"nothing for batch {b}, context {context}: {reason}")
    refusal = f"nothing fits: {next(iter(found.impossible.values()))}" if found.table.empty else None
    text = "" if refusal and format in _ENGINES else _text(format, found, notes, seed)
    return Exported(text, tuple(notes), tuple(found.warnings), refusal)


def _text(format: str, found: Candidates, notes: list[str], seed: int) -> str:
    if format in ("json", "csv"):
        made = of_candidates(found, seed)
        return made.to_json() if format == "json" else made.to_csv()
    if format == "ssd":
        return ssd_commands(found, notes, seed)
    return vllm_config(found, notes) if format == "vllm" else sglang_command(found, notes)


_BESIDE = "{} drafts on the target's devices: SD's draft is priced there, not on a device of its own"
_ENGINES: Mapping[str, Mapping[str, tuple[Any, str]]] = {
    "vllm": {"sd_draft": ("colocated", _BESIDE.format("vLLM"))},
    "sglang": {"sd_draft": ("colocated", _BESIDE.format("SGLang"))},
    "ssd": {
        "sd_draft": ("colocated", _BESIDE.format("the SSD engine")),
        "draft_gpus": (1, "the SSD engine has one draft GPU: SSD is priced with one"),
    },
}
"""Options that an engine fixes: the value, and the note where another one was asked for."""


def vllm_config(found: Candidates, notes: list[str]) -> str:
    """The JSON object of vLLM's ``--speculative-config``: AR or SD with a K for each range of batch sizes.

    Its table has no axis for the context: a batch size gets the K of the best geometric mean over the contexts. Ranges
    meet half way (in ratio) between two batch sizes. ``null`` where AR is best everywhere.
    """
    best = found.best(("ar", "sd"), by=("b",))
    _note_what_is_lost(found, best, "vLLM", notes)
    by_batch = best.drop_duplicates("b").sort_values("b")
    lookaheads = {int(b): int(k) for b, k in zip(by_batch["b"], by_batch["k"], strict=True)}
    if not any(lookaheads.values()):
        notes.append("AR is best everywhere: start vLLM without --speculative-config")
        return "null\n"
    config: dict[str, Any] = {
        "method": "draft_model",
        "model": _hub_name(_card(found, "draft"), notes),
        "num_speculative_tokens": max(lookaheads.values()),
        "draft_tensor_parallel_size": found.options.get("tp", DEFAULTS["tp"]),  # vLLM refuses any other
    }
    placement = configure(**found.points[best.loc[best["strategy"] == "sd", "point"].iloc[0]]).placement
    if placement is not None and placement.colocated_draft_step()[1] != placement.tp:
        notes.append(f"vLLM runs the draft on all {placement.tp} devices; SD is priced with it on one, which is faster")
    if found.options.get("temperature", 0.0) > 0.0:
        config["draft_sample_method"] = "probabilistic"
    if len(set(lookaheads.values())) > 1:
        config["num_speculative_tokens_per_batch_size"] = _ranges(lookaheads)
        notes.append("vLLM documents the table over batch sizes as tested with EAGLE and DFlash only, not draft models")
    return json.dumps(config) + "\n"


def _ranges(lookaheads: Mapping[int, int]) -> list[list[int]]:
    """``[first, last, K]`` with both ends included, from 1 to the largest batch size, without gaps."""
    batches = sorted(lookaheads)
    ends = [max(low, math.ceil(math.sqrt(low * high)) - 1) for low, high in pairwise(batches)] + [batches[-1]]
    ranges: list[list[int]] = []
    for k, ends_of_k in groupby(zip(batches, ends, strict=True), key=lambda item: lookaheads[item[0]]):
        first = ranges[-1][1] + 1 if ranges else 1
        ranges.append([first, list(ends_of_k)[-1][1], k])
    return ranges


def sglang_command(found: Candidates, notes: list[str]) -> str:
    """The command line of an SGLang server: one K, that of the best geometric mean over batches and contexts."""
    best = found.best(("ar", "sd"), by=())
    _note_what_is_lost(found, best, "SGLang", notes)
    k = int(best["k"].iloc[0])
    command = ["python", "-m", "sglang.launch_server", "--model-path", _hub_name(_card(found, "target"), notes)]
    command += ["--tp-size", str(found.options.get("tp", DEFAULTS["tp"]))]
    if k == 0:
        notes.append("AR is best on the whole: the command has no speculative flags")
        return shlex.join(command) + "\n"
    command += ["--speculative-algorithm", "STANDALONE"]
    command += ["--speculative-draft-model-path", _hub_name(_card(found, "draft"), notes)]
    # a chain: with one candidate a step SGLang verifies num-steps + 1 tokens
    command += ["--speculative-num-steps", str(k), "--speculative-eagle-topk", "1"]
    command += ["--speculative-num-draft-tokens", str(k + 1)]
    return shlex.join(command) + "\n"


def _note_what_is_lost(found: Candidates, best: pd.DataFrame, engine: str, notes: list[str]) -> None:
    """What sharing one K over cells costs, and what SSD would have brought."""
    worst = best.sort_values("loss").to_dict("records")[-1]
    if worst["loss"] > 0.0:
        axes = "batch sizes and contexts" if engine == "SGLang" else "contexts"
        notes.append(
            f"{engine} takes one K over {axes}: at most {worst['loss']:.1%} of tokens/s lost "
            f"(batch {worst['b']}, context {worst['context']})"
        )
    all_of_them = found.best()
    with_ssd = all_of_them[all_of_them["strategy"] == "ssd"]
    if not with_ssd.empty:
        both = with_ssd.merge(best, on=["b", "context"], suffixes=("", "_without"))
        gain = (both["tokens_per_second"] / both["tokens_per_second_without"]).max()
        notes.append(
            f"{engine} has no SSD: at {len(with_ssd)} of {len(all_of_them)} cells SSD is best (up to {gain:.2f}x what "
            "is exported here, with the draft's devices more); the best of AR and SD is exported"
        )


def ssd_commands(found: Candidates, notes: list[str], seed: int = 0) -> str:
    """A ``bench.py`` command line of the SSD paper's engine for each batch and context.

    Fan-outs go as lists (``--flh`` after a hit, ``--flm`` after a miss), a common one as ``--f``.
    """
    lines = []
    for cell in of_candidates(found, seed).cells:
        if cell.strategy is not None:
            rate = f"{cell.tokens_per_second:.0f} tokens/s ({cell.low:.0f}-{cell.high:.0f})"
            lines.append(f"# batch {cell.b}, context {cell.context}: {cell.strategy.upper()}, {rate}")
            lines.append(shlex.join(_ssd_command(cell, found)))
    notes.append("bench.py cuts prompts to --input_len and does not lengthen them: a long context needs long prompts")
    return "\n".join(lines) + "\n"


def _ssd_command(cell: Cell, found: Candidates) -> Iterator[str]:
    family, size = _ssd_engine_model(_card(found, "target"))
    yield from ("python", "-O", "bench/bench.py", f"--{family}", "--size", size)
    yield from ("--gpus", str(cell.gpus), "--b", str(cell.b))
    yield from ("--input_len", str(cell.context), "--max_model_len", str(max(8192, cell.context + _OUTPUT_TOKENS)))
    yield from ("--temp", f"{found.options.get('temperature', 0.0):g}")
    if cell.strategy == "ar":
        return
    _, draft_size = _ssd_engine_model(_card(found, "draft"))
    yield from ("--draft", draft_size, "--spec", "--k", str(cell.k))
    if cell.strategy == "ssd":
        yield from ("--async", "--backup", str(cell.fallback))
        yield from _fan_out_flags(cell)


def _fan_out_flags(cell: Cell) -> Iterator[str]:
    assert cell.budget is not None
    lists = {"--flh": cell.fan_outs, "--flm": cell.fan_outs_after_miss}
    if all(fan_outs is None or len(set(fan_outs)) == 1 for fan_outs in lists.values()):
        yield from ("--f", str(cell.budget // (cell.k + 1)))
        return
    for flag, fan_outs in lists.items():
        if fan_outs is not None:
            yield from (flag, *map(str, fan_outs))


def _check_ssd_models(options: Mapping[str, Any]) -> None:
    """Before anything is worked out, and whichever strategy is best: the engine must have both models."""
    cards = [find_transformer(options.get(role) or DEFAULTS[role]) for role in ("target", "draft")]
    (family, _), (draft_family, _) = map(_ssd_engine_model, cards)
    if draft_family != family:
        raise InputError(f"the SSD engine pairs models of one family, not {family} with a {draft_family} draft")


def _ssd_engine_model(card: Transformer) -> tuple[str, str]:
    """Family and size as ``bench.py`` names them."""
    match = _SSD_ENGINE_MODEL.fullmatch(card.name)
    family = ("llama" if match["llama"] else "qwen") if match else ""
    size = match[family] if match else ""
    if size not in SSD_ENGINE_SIZES.get(family, ()):
        known = "; ".join(f"{name} {', '.join(sizes)}" for name, sizes in SSD_ENGINE_SIZES.items())
        raise InputError(f"the SSD engine does not know {card.name}; it has (billions of parameters): {known}")
    return family, size


def _card(found: Candidates, role: str) -> Transformer:
    return find_transformer(found.options.get(role, DEFAULTS[role]))


def _hub_name(card: Transformer, notes: list[str]) -> str:
    """The Hugging Face name that the card was made from, or else the card's own."""
    match = _HUB_NAME.fullmatch(card.source)
    if match:
        return match[1]
    notes.append(f"{card.name} is not a Hugging Face name: put the model's path in its place")
    return card.name
