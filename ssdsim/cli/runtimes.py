"""``ssdsim runtimes``: the runtime cards."""

from __future__ import annotations

from collections.abc import Sequence

import click
from msgspec.structs import asdict

from ssdsim import strategies
from ssdsim.base.plain import picked
from ssdsim.cli.console import console, print_labelled
from ssdsim.cli.options import CommandGroup, json_option
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import completing
from ssdsim.cli.tables import TextTable
from ssdsim.hardware.engine_versions import Runs
from ssdsim.hardware.extrapolation import TrainingDomain
from ssdsim.hardware.runtime_card import Evidence, Runtime
from ssdsim.hardware.runtime_catalog import RUNTIMES, find_runtime, runtime_names
from ssdsim.hardware.runtime_numbers import ERRORS, NUMBERS
from ssdsim.question.engines import titles


@click.group("runtimes", cls=CommandGroup)
def command() -> None:
    """List and show runtimes: what an engine adds to a hardware profile."""


@command.command("list", example="ssdsim runtimes list")
@json_option
def list_runtimes(as_json: bool) -> None:
    """Every bundled runtime with its engine and what its numbers rest on."""
    cards = RUNTIMES.cards()
    if as_json:
        listed = [picked(card, "name", "engine", "versions", "about", "evidence") for card in cards]
        echo_json({"schema": 1, "runtimes": listed})
        return
    numbers = ("rows", "error in fit", "left out")
    table = TextTable(("name", "engine", "versions"), numbers, ("from",), pad_edge=True)
    for card in cards:
        known = card.evidence
        errors = [share(error) for error in (known.error, known.left_out_error)]
        table.add_row(card.name, card.engine, card.versions or "-", str(known.rows or "-"), *errors, known.source)
    console().print(table)


@command.command("show", example="ssdsim runtimes show vllm")
@click.argument("name", shell_complete=completing(runtime_names))
@json_option
def show_runtime(name: str, as_json: bool) -> None:
    """One runtime: what it adds to kernels, how wrong that may be, and what the numbers rest on."""
    card = find_runtime(name)
    if as_json:
        echo_json(card)
        return
    print_runtime(card)


def print_runtime(card: Runtime) -> None:
    """Print a runtime: its engine, every number with its unit, and its evidence."""
    out = console()
    out.print(f"{card.name}: {card.engine}{f' {card.versions}' if card.versions else ''}", style="bold")
    if card.about:
        print_labelled(out, "", card.about)
    table = TextTable(("",), ("value",), ("about",), pad_edge=True)
    held = {**card.numbers, **asdict(card.errors)}
    for name, number in (NUMBERS | ERRORS).items():
        table.add_row(name, shown(name, held[name]), number.about)
    out.print(table)
    out.print(f"A draft beside the target runs on {_DRAFTS[card.draft_tp]}; cache in {card.cache_dtype or _LIKE_MODEL}")
    out.print(f"While it verifies, of recurrent layers it keeps {_STATES[card.states]}")
    if card.pages_of_states:
        out.print("Its cache of a hybrid model has pages as large as a state")
    if (keeps := card.keeps) is not None:
        kept = f"for {keeps.tokens:,} tokens in a pass or, if that is more, {keeps.sequences} sequences' sampling"
        print_labelled(out, "Beside weights and caches it keeps memory ", kept)
    if card.four_bits is not None:
        there = [f"{name} {shown(name, value)}" for name, value in card.four_bits.numbers.items()]
        cache = f"; cache in {card.four_bits.cache_dtype or _LIKE_MODEL}"
        print_labelled(out, "On devices that multiply 4 bits (Blackwell): ", ", ".join(there) + cache)
    for heads, step_s in (("", card.head_step_s), (" with an LM head of its own", card.own_lm_head_step_s)):
        if step_s is not None:
            out.print(f"A step of a draft head{heads} takes {shown('head_step_s', step_s)} between its kernels")
    if card.launches is not None:
        times = f"{1e6 * card.launches.per_layer_s:.0f} µs a layer, {1e3 * card.launches.per_round_s:.1f} ms a round"
        out.print(f"The host launches a draft model's kernels one by one: {times}")
    if card.wander:
        out.print(f"What its rows leave open of these numbers moves them together, in {len(card.wander)} directions")
    if card.runs is not None:
        print_labelled(out, "It runs: ", _runs(card.runs))
    if card.covered:
        out.print(f"Its rows are on {_covered(card.covered)}; away from them intervals widen")
    print_labelled(out, "Evidence: ", _evidence(card.evidence), "dim")


def _runs(runs: Runs) -> str:
    """The strategies of an engine with their drafters, what else it can do, and since when."""
    drafted = ((strategies.ALL.named(name).title, given) for name, given in runs.strategies.items())
    parts = [f"{title} with {', '.join(given)}" if given else title for title, given in drafted]
    parts += ["K by batch size"] if runs.k_by_batch else []
    parts += [f"decode context parallel with {titles(runs.dcp)}"] if runs.dcp else []
    if (over := runs.over_stages) is not None:
        parts.append("pipeline stages " + (f"with {', '.join(over)}" if over else "without speculation"))
    since = [f"{what}: {version}" for what, version in runs.since.items()]
    since += [f"{n.strategy} with {', '.join(n.drafters)}: {n.version} ({n.source})" for n in runs.newer]
    return f"{'; '.join(parts)} ({runs.source}{''.join(f'; {each}' for each in since)})"


def _covered(settings: Sequence[TrainingDomain]) -> str:
    """The degrees covered on each device, and the batches of all."""
    degrees: dict[str, set[int]] = {}
    for each in settings:
        degrees.setdefault(each.device, set()).add(each.tp)
    places = (f"{device} (TP {', '.join(map(str, sorted(theirs)))})" for device, theirs in degrees.items())
    low, high = min(each.batches[0] for each in settings), max(each.batches[1] for each in settings)
    return f"{', '.join(places)} at batches {low} to {high}"


_LIKE_MODEL = "the model's dtype"
_STATES = {
    "each": "every token's state, where the accepted one is used next",
    "copied": "every token's state aside, and copies the accepted one back",
    "replayed": "one state and the tokens' inputs, and makes the accepted one again",
}
_DRAFTS = {
    "one": "one of its devices",
    "all": "all of its devices",
    "faster": "one or all of its devices, as is faster",
}


def _evidence(known: Evidence) -> str:
    parts = [known.source]
    if known.rows:
        parts.append(f"{known.rows} rows of {known.series} series")
    parts += [
        f"mean error {share(error)} {where}"
        for error, where in ((known.error, "in fit"), (known.left_out_error, "of series left out"))
        if error is not None
    ]
    return ", ".join([*parts, *([known.note] if known.note else [])])


def shown(field: str, value: float | bool) -> str:
    """A number of a card as a person reads it, with its unit."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.endswith("_s"):
        return f"{1e6 * value:.3g} us" if value < 1e-4 else f"{1e3 * value:.3g} ms"
    if field.endswith("_log_sd"):
        return f"{value:.1%}"
    return f"{value:.3g}" if field == "overlap" else f"x {value:.3g}"


def share(error: float | None) -> str:
    """An error, or a dash where there is none."""
    return "-" if error is None else f"{error:.1%}"
