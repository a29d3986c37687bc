"""``ssdsim why``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from ssdsim.answers import roofline as roofs
from ssdsim.answers import window as windows
from ssdsim.cli.console import print_warnings
from ssdsim.cli.options import Verb, chosen_options, common_options, explain_option, output_option
from ssdsim.cli.output import echo_json
from ssdsim.cli.progress import progress_bar
from ssdsim.cli.roofline import of_passes, print_roofs
from ssdsim.cli.screen import print_screen
from ssdsim.cli.window import print_windows
from ssdsim.strategies.protocols.cached import MOST_RUN

if TYPE_CHECKING:
    import pandas as pd

_TAKEN_BY = {
    "memory": "reading weights and caches",
    "compute": "arithmetic",
    "latency": "kernels too short to fill the GPU",
    "communication": "messages between the GPUs",
    "fixed": "the host",
}
_SO = {
    "memory": "more tokens in a pass cost little, so drafts are cheap to verify",
    "compute": "every drafted token costs time to verify, so a large K loses",
    "latency": "a faster GPU would help little, larger passes would",
    "communication": "fewer GPUs a copy, or faster links, would help most",
    "fixed": "a faster engine would help most",
}
_COLUMNS = {"memory": "memory", "compute": "compute", "latency": "latency", "communication": "links", "fixed": "host"}


def _others() -> Iterator[str]:
    """Options that either reads, without those that may be lists."""
    both = dict.fromkeys([*roofs.accepted_options(), *windows.accepted_options()])
    yield from (name for name in both if name not in windows.AXES)


@click.command("why", cls=Verb, example="ssdsim why --model qwen3-32b --tp 2 -b 16")
@chosen_options(lambda: windows.AXES, several=True)
@chosen_options(_others)
@output_option("--pass", "only", multiple=True, metavar="NAME", help="every operation of these, such as verify")
@explain_option
@common_options
def command(only: tuple[str, ...], explain: bool, as_json: bool, seed: int, quiet: bool, **options: Any) -> int:
    """Say what binds a pass (memory, arithmetic, links, the host), and how much drafting fits into a verification.

    Every option down to --k takes a list or a range: then there is a table of how much drafting fits at each.
    """
    given = {name: value for name, value in options.items() if value is not None}
    several = any(isinstance(given.get(name), list) and len(given[name]) > 1 for name in windows.AXES)
    one = {name: value[0] if name in windows.AXES and not several else value for name, value in given.items()}
    with progress_bar("why", "", quiet):
        fitting = windows.window(seed=seed, **_read_by(windows.accepted_options(), one))
        frame = None if several else of_passes(roofs.roofline(**_read_by(roofs.accepted_options(), one)), only)
    if as_json:
        told = {} if frame is None else roofs.as_json(frame)
        echo_json({**told, "schema": 1, "windows": windows.as_json(fitting)["rows"]})
        return int(frame is None and fitting["reason"].notna().all())
    warnings = {each for row in fitting["warnings"].dropna() for each in row}
    if frame is None:
        print_windows(fitting)
    else:
        warnings |= {*frame.attrs["warnings"]}
        if not only:
            _print(frame, {**fitting.to_dict("records")[0], "pp": one.get("pp", 1)})
        if only or explain:
            print_roofs(frame)
        if explain:
            print_windows(fitting)
    print_warnings(sorted(warnings), quiet)
    return int(frame is None and fitting["reason"].notna().all())


def _read_by(names: tuple[str, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in names}


def _print(frame: pd.DataFrame, window: Mapping[Any, Any]) -> None:
    passes = roofs.summarise(frame).to_dict("records")
    verify = next((each for each in passes if each["pass"] == "verify"), passes[0])
    bound = max(_COLUMNS, key=lambda name: float(verify[f"{name}_share"]))
    share = _percent(float(verify[f"{bound}_share"]))
    what = "Verifying" if verify["pass"] == "verify" else f"A pass ({verify['pass']})"
    table = [["pass", "ms", "a round", *_COLUMNS.values()]]
    for each in passes:
        shares = [_percent(float(each[f"{name}_share"])) for name in _COLUMNS]
        table.append([each["pass"], f"{1e3 * each['seconds']:.2f}", str(round(each["times"])), *shares])
    gpus = f"{window['tp'] * window['pp']} {window['hardware']}"
    print_screen(
        f"{what} takes {1e3 * verify['seconds']:.1f} ms, {share} of it {_TAKEN_BY[bound]}: {_SO[bound]}.",
        table,
        {**_fits(window), "Next": "--explain for every operation; --b 1,16,64 for what fits at each"},
        title=f"{window['target']} on {gpus}, {window['b']} in flight, K {window['k']}",
        words=("pass",),
    )


def _percent(share: float) -> str:
    return "-" if share < 0.005 else f"{100.0 * share:.0f} %"


def _fits(window: Mapping[Any, Any]) -> dict[str, str]:
    """How much drafting fits into a verification, and how many guesses of a cache."""
    if window["reason"] is not None:
        return {"Drafting": f"beside it is not possible: {window['reason']}"}
    k, low, high = window["k"], window["passes_low"], window["passes_high"]
    fits = f"{window['passes']} passes of {window['draft']} ({low}-{high}) fit into a verification; K {k} takes {k}"
    if window["budget"]:
        until = {"time": "then time is up", "memory": "then memory is full"}.get(window["limit"], "and more")
        cache = f"{window['budget']} outcomes, {window['fan_out']} guesses a position; {until}"
        cache += f". Nobody is known to have run more than {MOST_RUN}" if window["budget"] > MOST_RUN else ""
    else:
        drafting_ms, window_ms = 1e3 * window["prespeculate_s"], 1e3 * window["window_s"]
        cache = f"even one guess a position is late: {drafting_ms:.1f} ms of drafting in a window of {window_ms:.1f}"
    return {"Drafting": fits, "Cache": cache}
