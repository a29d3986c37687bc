"""What five rows of a user's own add to a bundled card: docs/fidelity_own_rows.md.

    python docs/fidelity_own_rows.py ../shared/measurements/end_to_end ../shared/reference/configs

Every series in turn is the user's: a card is fitted to all others, and to five of its rows besides, which
``ssdsim fit runtime`` would do. The rest of its rows is predicted. No row is written anywhere.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import fidelity_mixtures
import fidelity_widths
import numpy as np
import pandas as pd
from fidelity_outcomes import Outcome

from calibration.runtimes.fit import fit_runtime
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.runtime_card import KERNELS, Runtime
from ssdsim.readers.row import Row

ROWS = 5
_LEAST = 8  # rows of a series of which some are left to predict

_HEAD = """# Five rows of one's own

For people with a few rows of their own engine. This page says what five rows are worth: added to the bundled card they
take its error from {bundled:.1%} to {both:.1%}. `python docs/fidelity_own_rows.py` makes it, from the rows of [dense
models](fidelity.md) and of [mixtures](fidelity_mixtures.md).

Each series of at least eight rows is the user's, in turn. The rest of the series is predicted in three ways:

- *Bundled*: by the card that all other series give.
- *Alone*: by `fit runtime` on five of its rows (spread over batches and lengths). It starts from kernels alone, or from
  a card of such engines that nobody fitted.
- *Both*: by the same five rows, started from the bundled card.

Every number that the rows pay is fitted, each drawn to its start. Columns are the mean absolute error, and for *both*
the share inside the 95 % interval and its median half-width.

| card | models | series | rows | bundled | alone, from kernels | alone, from such engines | both | inside | width |
|---|---|---|---|---|---|---|---|---|---|
"""


def spread(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Five rows from the smallest batch to the largest, and the others."""
    ordered = sorted(rows, key=lambda row: (row.batch, row.input_tokens, row.output_tokens))
    taken = {round(at) for at in np.linspace(0, len(ordered) - 1, ROWS)}
    return [ordered[at] for at in sorted(taken)], [row for at, row in enumerate(ordered) if at not in taken]


def outcomes(engine: fidelity_widths.Engine) -> Iterator[tuple[str, dict[str, Outcome]]]:
    """Of each series that is long enough: dense or mixture, and how the rest of it is predicted."""
    for kind, rows in (("dense", engine.dense), ("mixtures", engine.mixtures)):
        for name in sorted({row.series_name for row in rows}):
            own = [row for row in rows if row.series_name == name]
            if len(own) < _LEAST:
                continue
            five, rest = spread(own)
            card = engine.without(lambda row, name=name: row.series_name == name, kind == "mixtures")
            assert card is not None
            there = card.on(find_hardware(own[0].hardware).device)

            def fitted(start: Runtime, five: Sequence[Row] = five) -> Runtime:
                return fit_runtime(five, start, "own", engine.group.engine).card

            cards = {"bundled": there, "kernels": fitted(KERNELS), "such": fitted(engine.group.base)}
            cards["both"] = fitted(there)
            yield kind, {how: Outcome.of(rest, each) for how, each in cards.items()}


def main(folder: Path, configs: Path) -> None:
    """Predict, and write the page."""
    found: dict[tuple[str, str], list[dict[str, Outcome]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as made:
        fidelity_mixtures.as_cards(pd.read_csv(folder / "moe_ar_decode.csv")["model"], configs, Path(made))
        for engine in fidelity_widths.engines(folder, Path(made)):
            for kind, each in outcomes(engine):
                found[engine.card, kind].append(each)
            print(engine.card, file=sys.stderr)
    lines = [_line(f"`{card}`", kind, parts) for (card, kind), parts in found.items()]
    every = [each for parts in found.values() for each in parts]
    text = _HEAD.format(**_errors(every)) + "\n".join([*lines, _line("all", "", every)]) + "\n"
    (Path(__file__).parent / "fidelity_own_rows.md").write_text(text, encoding="utf-8")


def _errors(parts: Sequence[dict[str, Outcome]]) -> dict[str, float]:
    """By how the rest is predicted."""
    return {how: float(np.mean([np.abs(part[how].errors).mean() for part in parts])) for how in parts[0]}


def _line(card: str, kind: str, parts: Sequence[dict[str, Outcome]]) -> str:
    """Each series weighs alike."""
    errors = _errors(parts)
    both = [part["both"] for part in parts]
    inside = np.mean([each.held.mean() for each in both])
    width = np.median(np.concatenate([each.half_widths for each in both]))
    counted = f"{len(parts)} | {sum(len(each.rows) for each in both)}"
    shown = " | ".join(f"{error:.1%}" for error in errors.values())
    return f"| {card} | {kind} | {counted} | {shown} | {inside:.0%} | ±{width:.0%} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
