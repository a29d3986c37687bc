"""``ssdsim fit runtime --hold``: what was put aside, predicted, and what to do on this engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ssdsim.cli.console import console, echo, print_labelled
from ssdsim.cli.tables import Table
from ssdsim.tokens.acceptance import rate_of, rates_of_survival

if TYPE_CHECKING:
    from calibration.validation.measured import Checked, HoldOut
    from ssdsim.readers.row import Row

_LOOKAHEADS = tuple(range(1, 9))


def error_of(checked: Sequence[Checked]) -> float:
    """Mean absolute error of the settings that were put aside."""
    return float(np.mean([abs(one.error) for one in checked]))


def held_json(held: HoldOut, checked: Sequence[Checked]) -> dict[str, Any]:
    """The settings that were put aside, and the numbers over all of them."""
    return {
        "held": [one.shown() for one in checked],
        "held_error": error_of(checked),
        "held_coverage": float(np.mean([one.holds for one in checked])),
        "noise": held.noise,
    }


def print_held(held: HoldOut, checked: Sequence[Checked]) -> None:
    """A row a setting, and the sentence that counts."""
    numbers = ("in", "measured", "predicted", "95 % from", "to", "error")
    table = Table(("put aside",), numbers, ("held",), joined=("to",), names=2, pad_edge=True)
    for one in checked:
        row = one.row
        name = f"{row.model} batch {row.batch}" + (f", {row.draft or row.drafter} K {row.k}" if row.k else "")
        values = (f"{value:.4g}" for value in (row.value, one.predicted, one.low, one.high))
        table.add_row(name, f"{row.input_tokens:.0f}", *values, f"{one.error:+.1%}", "yes" if one.holds else "no")
    console().print(table)
    inside = sum(one.holds for one in checked)
    echo(
        f"Your engine's noise is {held.noise:.1%}, this fit's error {error_of(checked):.1%} on {len(checked)} settings "
        f"that it did not see; {inside} of {len(checked)} are inside the 95 % interval."
    )


def refused(checked: Sequence[Checked], within: float, output: Path) -> str | None:
    """The reason why the card is not kept; None where it is."""
    error = error_of(checked)
    if error <= within:
        return None
    worst = max(checked, key=lambda one: abs(one.error)).row
    drafts = f" and K {worst.k}" if worst.k is not None else ""
    return (
        f"the error on what was put aside, {error:.1%}, is more than --within {within:.0%}: {output} is not written. "
        f"Measure more near batch {worst.batch}{drafts}, which is missed most, or fit other numbers (--fields)"
    )


def print_decision(rows: Sequence[Row], card: Path) -> None:
    """The best of AR and SD on this engine at each batch that was measured, with what these rows accepted."""
    from ssdsim.advise.candidates import candidates

    out, drafting = console(), [row for row in rows if row.k is not None and row.rounds]
    if not drafting:
        echo("No row counts rounds of speculation: AR is all that these rows can decide.")
        return
    row, alpha, share = _accepted(drafting)
    options: dict[str, Any] = {
        "strategies": ("ar", "sd"),
        "target": row.model,
        "hardware": row.hardware,
        "tp": row.tp,
        "runtime": str(card),
        "dtype": row.dtype,
        "kv_dtype": row.kv_dtype,
        "drafter": row.drafter or ("model" if row.draft else None),
        "draft": row.draft,
        "sd_draft": "colocated",
        "alpha": alpha,
        "found": share if share < 1.0 else None,
        "b": sorted({each.batch for each in rows}),
        "context": [row.context],
        "k": list(range(1, len(alpha) + 1)) if isinstance(alpha, list) else list(_LOOKAHEADS),
    }
    possible = candidates(**{name: value for name, value in options.items() if value is not None})
    for (batch, _), why in possible.impossible.items():
        echo(f"Nothing for batch {batch}: {why}", stderr=True)
    if possible.table.empty:
        return
    alone = possible.best(("ar",)).set_index("b")["tokens_per_second"]
    table = Table(pad_edge=True)
    for column in ("batch", "run", "K", "tok/s", "vs AR"):
        table.add_column(column, words=column == "run")
    for cell in possible.best().to_dict("records"):
        table.add_row(*_cells(cell, float(alone[cell["b"]])))
    what = f"{row.model} with {row.draft or row.drafter}, context {row.context}, TP {row.tp}"
    out.print(f"On this engine: {what}", style="bold")
    out.print(table)
    said = "by position" if isinstance(alpha, list) else f"{alpha:.2f}"
    print_labelled(out, "Tokens   ", f"acceptance {said}, as these rows had it (forced, where it was)", "dim")


def _cells(cell: Mapping[Any, Any], alone: float) -> tuple[str, ...]:
    drafts = cell["strategy"] == "sd"
    speed = float(cell["tokens_per_second"])
    return (
        str(cell["b"]),
        "SD" if drafts else "AR",
        str(int(cell["k"])) if drafts else "-",
        f"{speed:.0f}",
        f"{speed / alone:.2f}x",
    )


def _accepted(rows: Sequence[Row]) -> tuple[Row, float | list[float], float]:
    """Acceptance of the rows of the longest lookahead: one of them, rates by position (or one), how often it drafts."""
    longest = max(row.k or 0 for row in rows)
    own = [row for row in rows if row.k == longest]
    weights = np.array([row.rounds or 0.0 for row in own])
    share = float(np.average([row.found if row.found is not None else 1.0 for row in own], weights=weights))
    by_place = [row.accepted_by_position for row in own]
    if all(each is not None and len(each) == longest for each in by_place):
        reached = np.append(1.0, np.average(np.array(by_place, dtype=float), axis=0, weights=weights))
        return own[0], rates_of_survival(reached).tolist(), share
    length = float(np.average([row.acceptance_length or 1.0 for row in own], weights=weights))
    return own[0], rate_of(1.0 + (length - 1.0) / share, float(longest)), share
