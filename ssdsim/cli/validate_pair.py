"""``ssdsim validate --pair``: the models of a pair's file run for real, beside what it predicts of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssdsim import strategies as known
from ssdsim.base.errors import InputError
from ssdsim.base.plain import document, picked
from ssdsim.cli.console import console, echo
from ssdsim.cli.options import echo_json
from ssdsim.cli.progress import shown
from ssdsim.cli.tables import Table
from ssdsim.pairs.file import load_pair
from ssdsim.runs.lock import locked

if TYPE_CHECKING:
    from ssdsim.measure.prompts import Prompt
    from ssdsim.pairs.file import Pair, Participant
    from ssdsim.validation.tokens.comparison import TokenComparison
    from ssdsim.validation.tokens.run import TokenBench

_CALIBRATION, _RESULT = "steps.json", "tokens.json"
_FOR_STEPS = 4  # prompts
_K, _F = 4, 3


def check_pair(
    path: Path, folder: Path, options: Mapping[str, Any], max_error: float | None, as_json: bool, quiet: bool
) -> bool:
    """Run, compare, print and keep; whether every answer is the target's and errors are within ``max_error``."""
    for name in ("torch", "transformers"):
        if find_spec(name) is None:
            raise InputError(f"validate --pair needs {name}: pip install 'ssdsim[measure]'")
    from ssdsim.machine.ranks import RankError
    from ssdsim.validation.tokens.run import run_tokens

    if options["prompts"] is None:
        raise InputError("--pair: give --prompts FILE, of prompts that the pair was not measured on")
    if folder.suffix in (".json", ".jsonl"):
        raise InputError(f"-o '{folder}' must be a folder, such as {folder.stem}")
    bench = _bench(path, options)
    timed, asked = _prompts(options["prompts"], options["requests"])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with (
            locked(folder / ".tokens.lock", folder, "validation"),
            shown("validate", "runs of every strategy", quiet) as progress,
        ):
            token_comparisons = run_tokens(bench, timed, asked, folder / _CALIBRATION, progress)
    except RankError as error:
        raise InputError(str(error)) from None
    answer = _document(bench, token_comparisons, len(asked))
    (folder / _RESULT).write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    if as_json:
        echo_json(answer)
    else:
        _print(bench, token_comparisons, len(asked))
    bugs = sum(each.greedy.bugs for each in token_comparisons)
    return bugs == 0 and (max_error is None or answer["worst_error"] <= max_error)


def _bench(path: Path, options: Mapping[str, Any]) -> TokenBench:
    from ssdsim.machine.devices import draft_devices, parse_devices
    from ssdsim.scenario.asked import effective
    from ssdsim.validation.tokens.calibration import Size
    from ssdsim.validation.tokens.run import RUNS, TokenBench

    pair = load_pair(path)
    names: tuple[str, ...] = effective({"strategies": options["strategies"]})["strategies"]
    for name in names:
        if name not in RUNS:
            raise InputError(f"--strategies: {name} has no steps of real tokens; allowed: {', '.join(RUNS)}")
    if "ar" not in names:
        raise InputError("--strategies: ar must be among them: its tokens are what the others' are compared with")
    target = parse_devices(options["target_device"])
    devices = [target, draft_devices(options["draft_device"], target)]
    for role, on in zip(("target", "draft"), devices, strict=True):
        if len(on) != 1:
            raise InputError(f"--{role}-device: one device for each model here, got {len(on) or 'none'}")
    size = Size(options["k"] or _K, options["f"] or _F, options["max_new_tokens"], options["visits"])
    if size.new_tokens < 2 * (size.k + 1):
        raise InputError(f"--max-new-tokens must be at least 2 (K + 1) = {2 * (size.k + 1)}, got {size.new_tokens}")
    return TokenBench(
        pair=path,
        models=(
            options["target"] or _model(pair.target, path, "target"),
            options["draft"] or _model(pair.draft, path, "draft"),
        ),
        devices=(devices[0][0], devices[1][0]),
        dtype=options["dtype"] or _dtype(pair),
        template=pair.settings.chat_template or "auto",
        strategies=tuple(name for name in RUNS if name in names),
        size=size,
        repeats=options["repeats"],
    )


def _model(named: Participant, path: Path, role: str) -> str:
    """The model that the file names: a folder beside it, or what transformers finds by that name.

    Raises
    ------
    InputError : the file names none.
    """
    if named.id is None:
        raise InputError(f"{path}: does not name its {role}: give --{role}")
    beside = path.parent / named.id
    return str(beside) if beside.exists() else named.id


def _dtype(pair: Pair) -> str:
    return pair.target.dtype or pair.settings.dtype or "float32"


def _prompts(path: Path, requests: int) -> tuple[list[Prompt], list[Prompt]]:
    """Those that steps are timed on, and those that are answered: never the same."""
    from ssdsim.measure.prompts import read_prompts

    prompts = read_prompts(path, None)
    if len(prompts) < 2:
        raise InputError(f"{path}: one prompt; some are needed to time steps on, others to answer")
    timed_prompts = min(_FOR_STEPS, len(prompts) // 2)
    return prompts[:timed_prompts], prompts[timed_prompts:][:requests]


def _document(bench: TokenBench, token_comparisons: Sequence[TokenComparison], requests: int) -> dict[str, Any]:
    parts = {
        "schema": 1,
        **picked(bench, "pair"),
        **dict(zip(("target", "draft"), bench.models, strict=True)),
        **picked(bench.size, "k", "new_tokens"),
        "f": bench.size.fan_out,
        "requests": requests,
        "comparisons": [each.shown() for each in token_comparisons],
        "worst_median_error": max(each.median_error for each in token_comparisons),
        "worst_error": max(each.worst_error for each in token_comparisons),
    }
    return document(parts)


def _print(bench: TokenBench, token_comparisons: Sequence[TokenComparison], requests: int) -> None:
    echo(
        f"{bench.models[0]} with {bench.models[1]}, greedy, {requests} requests one after the other, "
        f"{bench.size.new_tokens} tokens, K {bench.size.k}, F {bench.size.fan_out}, {bench.repeats} runs"
    )
    console().print(_table(token_comparisons))
    console().print(_rates(token_comparisons))
    greedy = [each.greedy for each in token_comparisons]
    same, of = sum(each.identical for each in greedy), sum(each.requests for each in greedy)
    ties, bugs = sum(each.near_ties for each in greedy), sum(each.bugs for each in greedy)
    echo(f"{same} of {of} answers are AR's own; {ties} part at a near tie, {bugs} by a bug")


def _table(token_comparisons: Sequence[TokenComparison]) -> Table:
    table = Table(names=1, pad_edge=True)
    for column in ("", "tok/s", "lowest", "highest", "predicted before", "beside", "median error", "worst"):
        table.add_column(column)
    for each in token_comparisons:
        table.add_row(
            _title(each),
            *(f"{value:.1f}" for value in (_middle(each.measured), min(each.measured), max(each.measured))),
            f"{each.predicted:.1f}",
            f"{_middle(each.beside):.1f}",
            f"{each.median_error:.1%}",
            f"{each.worst_error:.1%}",
        )
    return table


def _rates(token_comparisons: Sequence[TokenComparison]) -> Table:
    table = Table(names=1, pad_edge=True)
    for column in ("", "tokens/round", "by the pair", "acceptance", "by the pair", "hits", "by the pair"):
        table.add_column(column)
    for each in token_comparisons:
        pairs = (*each.tokens_per_round, *each.acceptance, *each.p_hit)
        table.add_row(_title(each), *("-" if value is None else f"{value:.3f}" for value in pairs))
    return table


def _title(each: TokenComparison) -> str:
    return str(known.ALL.named(each.strategy).title)


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
