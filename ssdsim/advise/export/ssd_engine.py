"""The SSD paper's engine: a ``bench.py`` command line for each batch and context."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ssdsim import strategies
from ssdsim.advise.candidates import Candidates
from ssdsim.advise.export.dialect import Dialect, card
from ssdsim.advise.schedule import of_candidates
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_transformer
from ssdsim.question.options import DEFAULTS
from ssdsim.readers.results.ssd_engine import MODELS
from ssdsim.serving.schedule_file import Cell
from ssdsim.strategies.ar import Autoregressive
from ssdsim.strategies.protocols.axes import SAGUARO
from ssdsim.strategies.sd import Speculative
from ssdsim.strategies.ssd import SSD
from ssdsim.tokens.saguaro import PLAIN
from ssdsim.transformer.card import Transformer

_MODEL = re.compile(r"llama-3\.\d-(?P<llama>\d+)b|qwen3-(?P<qwen>[\d.]+)b")
_OUTPUT_TOKENS = 1024  # of room beside the prompt; bench.py makes 512 unless told otherwise


def commands(engine: Dialect, candidates: Candidates, names: Sequence[str], notes: list[str]) -> str:
    """A command line for each batch and context.

    Fan-outs go as lists (``--flh`` after a hit, ``--flm`` after a miss), a common one as ``--f``.
    """
    engine.note_missing(candidates, candidates.best(names), notes)
    lines = []
    for cell in of_candidates(candidates, names).cells:
        if cell.strategy is not None:
            rate = f"{cell.tokens_per_second:.0f} tokens/s ({cell.low:.0f}-{cell.high:.0f})"
            title = strategies.ALL.named(cell.strategy).title
            lines.append(f"# batch {cell.b}, context {cell.context}: {title}, {rate}")
            lines.append(command(cell, candidates.options))
    notes.append("bench.py cuts prompts to --input_len and does not lengthen them: a long context needs long prompts")
    return "\n".join(lines) + "\n"


def command(cell: Cell, options: Mapping[str, Any]) -> str:
    """The command line of one cell."""
    assert cell.strategy is not None  # something fits there
    return shlex.join([*_command(cell, options), *FLAGS[cell.strategy](cell, options)])


def _command(cell: Cell, options: Mapping[str, Any]) -> Iterator[str]:
    """The words of the command line that every strategy takes."""
    family, size = _model(card(options, "target"))
    yield from ("python", "-O", "bench/bench.py", f"--{family}", "--size", size)
    yield from ("--gpus", str(cell.gpus), "--b", str(cell.b))
    yield from ("--input_len", str(cell.context), "--max_model_len", str(max(8192, cell.context + _OUTPUT_TOKENS)))
    yield from ("--temp", f"{options.get('temperature', 0.0):g}")


def _no_flags(cell: Cell, options: Mapping[str, Any]) -> Iterator[str]:
    yield from ()


def _synchronous(cell: Cell, options: Mapping[str, Any]) -> Iterator[str]:
    _, draft_size = _model(card(options, "draft"))
    yield from ("--draft", draft_size, "--spec", "--k", str(cell.settings["k"]))


def _asynchronous(cell: Cell, options: Mapping[str, Any]) -> Iterator[str]:
    yield from _synchronous(cell, options)
    yield from ("--async", "--backup", str(cell.settings["backup"]))
    yield from _fan_outs(cell.settings)
    c = cell.settings.get(SAGUARO.option, options.get(SAGUARO.option, PLAIN))
    if c != PLAIN:
        yield from ("--x", f"{c:g}")


def _fan_outs(settings: Mapping[str, Any]) -> Iterator[str]:
    lists = {"--flh": settings.get("fan_outs"), "--flm": settings.get("fan_outs_after_miss")}
    if all(fan_outs is None or len(set(fan_outs)) == 1 for fan_outs in lists.values()):
        yield from ("--f", str(settings["budget"] // (settings["k"] + 1)))
        return
    for flag, fan_outs in lists.items():
        if fan_outs is not None:
            yield from (flag, *map(str, fan_outs))


FLAGS: Mapping[str, Callable[[Cell, Mapping[str, Any]], Iterator[str]]] = {
    Autoregressive.name: _no_flags,
    Speculative.name: _synchronous,
    SSD.name: _asynchronous,
}
"""The flags that make the engine run a strategy."""


def check_models(options: Mapping[str, Any]) -> None:
    """Raise :class:`InputError` where the engine does not have both models, or does not pair them."""
    cards = [find_transformer(options.get(role) or DEFAULTS[role]) for role in ("target", "draft")]
    (family, _), (draft_family, _) = map(_model, cards)
    if draft_family != family:
        raise InputError(f"the SSD engine pairs models of one family, not {family} with a {draft_family} draft")


def _model(card: Transformer) -> tuple[str, str]:
    """Family and size as ``bench.py`` names them."""
    match = _MODEL.fullmatch(card.name)
    family = ("llama" if match["llama"] else "qwen") if match else ""
    size = match[family] if match else ""
    if size not in MODELS.get(family, ()):
        known = "; ".join(f"{name} {', '.join(sizes)}" for name, sizes in MODELS.items())
        raise InputError(f"the SSD engine does not know {card.name}; it has (billions of parameters): {known}")
    return family, size


DIALECT = Dialect(name="ssd", runtime="ssd-engine", write=commands, check=check_models, one=command)
