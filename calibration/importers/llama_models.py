"""Models that llama-bench timed: which card each file's model is, in which format, and what its passes took."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from os.path import exists
from pathlib import Path

import numpy as np

from ssdsim.base.errors import InputError
from ssdsim.base.record import Record, replace
from ssdsim.hardware.catalog import DRAFT, draft_in_family, find_transformer
from ssdsim.readers.facts import Facts
from ssdsim.readers.result_files import read_results
from ssdsim.readers.results.llama_cpp import LLAMA_BENCH, TimedPass, pass_of
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.checkpoint_names import kept_in
from ssdsim.transformer.gguf import nearest_format
from ssdsim.transformer.operations import DTYPES, WEIGHT_BYTES

_SIZES = 1.15  # times apart that the weights of one model may be counted: a file has its MTP layer, or not
_ENDINGS = {"int4": "-q4-k-m", "int8": "-q8-0"}
"""Of a model's name that says such a file."""
_QUANT = re.compile(r"(?i)[-._](?:ud-)?(?:i?q\d\w*|tq\d\w*|bf16|f16|f32|fp16|mxfp4\w*)$")
_RUN = "llama-bench -p 1,2,3,4,5,6,8,16,32 -n 128 -o json -m"


class TimedModel(Record):
    """A model on one device, or over ``gpus`` of them one after the other: its card, and the format of its weights.

    ``words`` are the file's own for that format; ``weight_bytes`` are a weight's in the file of ``file_bytes``, and
    ``formats`` those that are read at one rate.
    ``steps`` are the seconds of a pass by its rows, ``spread`` is the relative standard deviation between repeats,
    All are behind ``depth`` cached tokens, and a step of one token is the mean of so many ``generated``.
    """

    name: str
    card: Transformer
    dtype: str
    words: str
    file_bytes: float
    weight_bytes: float
    device: str
    gpus: int
    on_cpu: bool
    build: str
    steps: Mapping[int, float]
    spread: float
    depth: float
    generated: int
    formats: tuple[str, ...] = ()

    def bytes_of(self, kept: str) -> float:
        """Bytes of a weight in one of its formats."""
        return self.weight_bytes if kept == self.dtype else WEIGHT_BYTES[kept]

    def cached(self, rows: int) -> int:
        """Tokens that a pass sees, in the mean, beside its own."""
        return max(1, round(self.depth + (self.generated if rows == 1 else rows) / 2))

    @property
    def usual_draft(self) -> str:
        """The draft model that is taken where nobody names one."""
        found = draft_in_family(self.card)
        return DRAFT if found is None else found.name

    @property
    def called(self) -> str:
        """The name of the model in such a file, as options take it; of a card that has no name the card."""
        ending = _ENDINGS.get(self.dtype, "")
        return self.name if exists(self.name) else f"{self.name}{ending}"

    def in_16_bits(self, dtype: str) -> TimedModel:
        """The model with activations in a device's 16 bits, in which plain weights are, too."""
        if self.dtype in DTYPES:
            return replace(self, dtype=dtype, card=kept_in(self.card, dtype))
        return replace(self, card=kept_in(self.card, self.dtype, in_gguf=True).computed_in(dtype))  # type: ignore[arg-type]


def timed_models(files: Iterable[Path], target: str | None, draft: str | None) -> list[TimedModel]:
    """The models of all files, the largest first; ``target`` and ``draft`` name the largest's and smallest's card.

    Raises
    ------
    InputError : no model, more than two without a card, one of which no step of one token was timed, a mixture.
    """
    tests: dict[tuple[str, float, str], list[tuple[Facts, TimedPass, str]]] = {}
    for file in files:
        for record, where in read_results(file, LLAMA_BENCH):
            if (told := pass_of(record, where)) is not None:
                facts, timed = told
                key = (facts.model or str(record.get("model_type")), facts.weight_bytes or 0.0, _device(facts, record))
                tests.setdefault(key, []).append((facts, timed, where))
    if not tests:
        raise InputError(f"no pass was timed in it: {_RUN} FILE.gguf")
    keys = sorted(tests, key=lambda key: -key[1])
    named = dict.fromkeys(keys, None) | ({keys[-1]: draft} if len(keys) > 1 else {}) | {keys[0]: target}
    if draft is not None and len(keys) == 1:
        raise InputError(f"--draft {draft}: one model was timed, {keys[0][0]}; give the draft's file, too")
    return [_model(key, tests[key], named[key]) for key in keys]


def _device(facts: Facts, record: Mapping[str, object]) -> str:
    if facts.backend == "cpu" or facts.gpu_layers == 0 or facts.gpu is None:
        return str(record.get("cpu_info") or facts.gpu or facts.backend_name or "the device")
    return facts.gpu if facts.stages == 1 else f"{facts.stages} x {facts.gpu}"


def _model(key: tuple[str, float, str], tests: Sequence[tuple[Facts, TimedPass, str]], named: str | None) -> TimedModel:
    called, file_bytes, device = key
    facts, _, where = tests[0]
    if not (facts.bits and file_bytes):
        raise InputError(f"{where}: says no size of its model; give llama-bench's JSON (-o json)")
    name, card = _card(facts, called, named, where)
    if card.experts is not None:
        raise InputError(
            f"{where}: {card.name} is a mixture, whose passes read more experts with more rows: give a dense model's"
        )
    passes = _steps([timed for _, timed, _ in tests])
    by_rows = {rows: [each.seconds for each in passes if each.rows == rows] for rows in {each.rows for each in passes}}
    if 1 not in by_rows:
        raise InputError(f"{where}: no step of one token of {called} was timed: add -n 128 to llama-bench")
    on_cpu = facts.backend == "cpu" or facts.gpu_layers == 0
    return TimedModel(
        name=name,
        card=card,
        dtype=nearest_format(facts.bits),
        words=facts.weights or f"{facts.bits:.1f} bits",
        file_bytes=file_bytes,
        weight_bytes=facts.bits / 8.0,
        device=device,
        gpus=1 if on_cpu else facts.stages,
        on_cpu=on_cpu,
        build=facts.engine_version or "",
        steps={rows: float(np.mean(by_rows[rows])) for rows in sorted(by_rows)},
        spread=float(np.mean([each.spread for each in passes])),
        depth=passes[0].depth,
        generated=max(each.generated for each in passes),
    )


def _steps(passes: Sequence[TimedPass]) -> list[TimedPass]:
    """The passes behind the fewest cached tokens; of one token those that were generated, where some were."""
    least = min(each.depth for each in passes)
    there = [each for each in passes if each.depth == least]
    generated = any(each.generated for each in there)
    return [each for each in there if each.rows > 1 or bool(each.generated) is generated]


def _card(facts: Facts, called: str, named: str | None, where: str) -> tuple[str, Transformer]:
    """The card that is named, or that the file's name means; its weights are about as many as the file's."""
    names = [named] if named else [_QUANT.sub("", called), called]
    for each in names:
        try:
            card = find_transformer(each)
        except InputError as error:
            if named:
                raise InputError(f"{where}: {error}") from None
            continue
        said = facts.parameters or 0.0
        sizes = f"has {said / 1e9:.3g} billion weights, {card.name} {card.parameters / 1e9:.3g}"
        if 1.0 / _SIZES <= card.parameters / said <= _SIZES:
            return (card.name if not exists(each) else each), card
        raise InputError(f"{where}: {sizes}: name the model that ran")
    way = "name the model's card or config.json by --target (the largest) or --draft"
    raise InputError(f"{where}: no card is called '{called}': {way}")
