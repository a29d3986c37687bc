"""The fewest servers and points that tell the numbers of an engine's card apart.

Steps at one degree tell apart the kernels and the host's time for each step and sequence: they take three batches and
two lengths of prompts, because only the length tells attention from what else grows with the batch. A second degree
tells collectives, two K a round's own time from a draft step's. Acceptance is forced if the engine can do so: it
changes no round's time, and the rates of made-up prompts would say nothing of real ones.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from calibration.bench.engines import ENGINES, Setting, start_of
from ssdsim.advise.export.dialect import here_document, loaded_name
from ssdsim.base.errors import InputError
from ssdsim.base.plain import document, picked
from ssdsim.base.record import Record, replace
from ssdsim.hardware.catalog import find_transformer
from ssdsim.question.drafting import draft_by_options
from ssdsim.strategies.drafters.model import ModelDrafter

_LONGER = 8  # times the prompts of the shorter length
STARTS_S = 1800.0
"""Seconds that a large model may take to load and compile."""
_DRAFTING = ("draft", "drafter", "k", "acceptance_length")


class PlannedServer(Record):
    """A server of the plan and its points: every concurrency with every length of prompts.

    ``row_columns`` are columns of its rows that it does not state itself.
    """

    title: str
    setting: Setting
    concurrencies: tuple[int, ...]
    input_lengths: tuple[int, ...]
    row_columns: Mapping[str, Any]


def planned(
    engine: str,
    target: Setting,
    degrees: Sequence[int],
    lookaheads: Sequence[int],
    concurrencies: Sequence[int],
    input_lengths: Sequence[int],
    given: Mapping[str, Any],
    notes: list[str],
) -> list[PlannedServer]:
    """The servers, most informative first; ``given`` are columns of all rows, ``notes`` collects what to know."""
    if engine not in ENGINES:
        raise InputError(f"--plan knows no '{engine}'; allowed: {', '.join(ENGINES)}")
    batches = sorted(set(concurrencies))
    if len(batches) < 2:
        raise InputError("--plan needs two values of --concurrency or more")
    three = tuple(dict.fromkeys((batches[0], batches[len(batches) // 2], batches[-1])))
    ends = batches[0], batches[-1]
    shorter = min(input_lengths)
    lengths = (shorter, max(input_lengths) if len(input_lengths) > 1 else _LONGER * shorter)
    alone = replace(target, k=None, draft=None, drafter=None, rate=None, most=batches[-1])
    common = {name: value for name, value in given.items() if name not in _DRAFTING}
    plans = []
    for degree in degrees:
        first = degree == degrees[0]
        setting = replace(alone, tp=degree)
        loads, inputs = (three, lengths) if first else (ends, (shorter,))
        plans.append(PlannedServer(f"AR, TP {degree}", setting, loads, inputs, {**common, "tp": degree}))
    if target.draft or target.drafter:
        rate = target.rate if ENGINES[engine].forces else None
        if rate is None:
            notes.append(
                f"{engine} cannot be told what to accept: rows have the models' own acceptance on these prompts"
            )
        for k in lookaheads:
            setting = replace(target, tp=degrees[0], k=k, rate=rate, most=batches[-1])
            title = f"SD with {given.get('draft') or given.get('drafter')}, K {k}, TP {degrees[0]}"
            plans.append(PlannedServer(title, setting, ends, (shorter,), {**given, "tp": degrees[0], "k": k}))
    return plans


def script(engine: str, servers: Sequence[PlannedServer], port: int, options: Sequence[str]) -> str:
    """A shell script that starts each server, measures it with ``options`` of ``ssdsim bench``, and ends it."""
    lines = [
        "#!/bin/sh",
        f"# {len(servers)} servers, one after the other. What is measured is kept: run it again where it was stopped.",
        "set -eu",
        "server=",
        'end() { [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" || true; }; server=; }',
        "trap end EXIT",
        "trap 'exit 130' INT TERM",
    ]
    for number, served in enumerate(servers, 1):
        start = start_of(engine, served.setting, port)
        lines += ["", f"echo {shlex.quote(f'{number} of {len(servers)}: {served.title}')} >&2"]
        for name, text in start.files.items():
            lines.append(here_document(name, text.rstrip("\n") + "\n"))
        variables = [f"{name}={shlex.quote(value)}" for name, value in start.environment.items()]
        command = " ".join([*variables, shlex.join(start.command)])
        lines += [f"{command} > server-{number}.log 2>&1 & server=$!"]
        lines += [shlex.join(["ssdsim", "bench", f"http://127.0.0.1:{port}", *options, *own_options(served)]), "end"]
    return "\n".join(lines) + "\n"


def plan_json(engine: str, servers: Sequence[PlannedServer], port: int, options: Sequence[str]) -> dict[str, Any]:
    """The servers and their points, and :func:`script`."""
    listed = [
        {
            **picked(served, "title", "concurrencies", "input_lengths"),
            "start": shlex.join(start_of(engine, served.setting, port).command),
        }
        for served in servers
    ]
    return document({"schema": 1, "plan": engine, "servers": listed, "script": script(engine, servers, port, options)})


def own_options(served: PlannedServer) -> list[str]:
    """The options of ``ssdsim bench`` for one server."""
    columns = [(f"--{name.replace('_', '-')}", str(value)) for name, value in served.row_columns.items()]
    points = [
        ("--concurrency", ",".join(map(str, served.concurrencies))),
        ("--input-len", ",".join(map(str, served.input_lengths))),
        ("--wait", f"{STARTS_S:g}"),
    ]
    return [word for option in (*columns, *points) for word in option]


def setting_of(given: Mapping[str, Any], rate: float, notes: list[str]) -> Setting:
    """The setting of a plan, with the checkpoints of its cards or the given names."""
    for name in ("model", "hardware"):
        if name not in given:
            raise InputError(f"--plan needs --{name}: servers do not say it (--model: a card, a name, or a folder)")
    target, draft, drafter = (given.get(name) for name in ("model", "draft", "drafter"))
    loaded = None
    if draft is not None:
        loaded = _loaded(draft, notes)
    elif drafter not in (None, ModelDrafter.name):
        loaded = loaded_name("", draft_by_options({"target": target, "drafter": drafter}), notes)
    elif drafter is not None:
        raise InputError("--drafter model needs --draft")
    model = _loaded(str(target), notes)
    return Setting(model, 1, loaded, drafter, None, rate, given.get("kv_dtype"))


def _loaded(name: str, notes: list[str]) -> str:
    return loaded_name(name, find_transformer(name), notes)
