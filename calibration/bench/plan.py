"""The fewest servers and points that tell the numbers of an engine's card apart.

Steps at a degree tell kernels and the host's time a step and a sequence: three batches, and two lengths of prompts,
which alone tell attention from what else grows with the batch. A second degree tells collectives, two K a round's own
time from a draft step's. Acceptance is forced where the engine can do so: it changes no round's time, and the rates of
some made-up prompts would say nothing of yours.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from calibration.bench.engines import ENGINES, Setting, start_of
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record, replace

_LONGER = 8  # times the prompts of the shorter length
STARTS_S = 1800.0
"""Seconds that a large model may take to load and compile."""
_DRAFTING = ("draft", "drafter", "k", "acceptance_length")


class Served(Record):
    """A server of the plan and its points: every concurrency with every length of prompts.

    ``given`` are columns of its rows, for what it does not say.
    """

    title: str
    setting: Setting
    concurrencies: tuple[int, ...]
    input_lengths: tuple[int, ...]
    given: Mapping[str, Any]


def planned(
    engine: str,
    target: Setting,
    degrees: Sequence[int],
    lookaheads: Sequence[int],
    concurrencies: Sequence[int],
    input_lengths: Sequence[int],
    given: Mapping[str, Any],
    notes: list[str],
) -> list[Served]:
    """The servers, in the order of what they tell; ``given`` are columns of all rows, ``notes`` what to know."""
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
        plans.append(Served(f"AR, TP {degree}", setting, loads, inputs, {**common, "tp": degree}))
    if target.draft or target.drafter:
        rate = target.rate if ENGINES[engine].forces else None
        if rate is None:
            notes.append(
                f"{engine} cannot be told what to accept: rows have the models' own acceptance on these prompts"
            )
        for k in lookaheads:
            setting = replace(target, tp=degrees[0], k=k, rate=rate, most=batches[-1])
            title = f"SD with {given.get('draft') or given.get('drafter')}, K {k}, TP {degrees[0]}"
            plans.append(Served(title, setting, ends, (shorter,), {**given, "tp": degrees[0], "k": k}))
    return plans


def script(engine: str, servers: Sequence[Served], port: int, options: Sequence[str]) -> str:
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
        lines += ["", f"echo '{number} of {len(servers)}: {served.title}' >&2"]
        for name, text in start.files.items():
            lines += [f"cat > {shlex.quote(name)} <<'END'", text.rstrip("\n"), "END"]
        variables = [f"{name}={shlex.quote(value)}" for name, value in start.environment.items()]
        command = " ".join([*variables, shlex.join(start.command)])
        lines += [f"{command} > server-{number}.log 2>&1 & server=$!"]
        lines += [shlex.join(["ssdsim", "bench", f"http://127.0.0.1:{port}", *options, *own_options(served)]), "end"]
    return "\n".join(lines) + "\n"


def own_options(served: Served) -> list[str]:
    """Options that tell ``ssdsim bench`` of one server."""
    columns = [(f"--{name.replace('_', '-')}", str(value)) for name, value in served.given.items()]
    points = [
        ("--concurrency", ",".join(map(str, served.concurrencies))),
        ("--input-len", ",".join(map(str, served.input_lengths))),
        ("--wait", f"{STARTS_S:g}"),
    ]
    return [word for option in (*columns, *points) for word in option]
