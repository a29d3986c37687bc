"""``python -m tests.faults``: the table of faults."""

from __future__ import annotations

import sys
from collections import Counter
from random import Random

import click

from tests.faults.trial import FAULTS, Found, trial, whole
from tests.faults.writers import COMMANDS, RANKS

_COUNTED = ("lost", "doubled", "changed", "torn", "left_over", "processes")


@click.command()
@click.option("--trials", type=click.IntRange(1), default=1, show_default=True, help="of each verb and fault")
@click.option("--seed", type=int, default=0, show_default=True, help="of the moments")
@click.option("--verb", "verbs", multiple=True, type=click.Choice(list(COMMANDS)), help="[default: all]")
@click.option("--no-ranks", is_flag=True, help="leave out what starts ranks, which takes minutes")
def main(trials: int, seed: int, verbs: tuple[str, ...], no_ranks: bool) -> None:
    """Print a row for each verb and fault; exit with 1 where anything was lost, doubled, changed, torn, or runs on."""
    counted = " | ".join(name.replace("_", " ") for name in _COUNTED)
    click.echo(f"| verb | fault | trials | {counted} | ended otherwise |")
    click.echo("|---" * (4 + len(_COUNTED)) + "|")
    bad = 0
    for verb in verbs or [verb for verb in COMMANDS if not (no_ranks and verb in RANKS)]:
        expected = whole(verb)
        for fault in FAULTS:
            rng = Random(f"{seed}/{verb}/{fault}")
            listed = [trial(verb, fault, expected, rng) for _ in range(trials)]
            counts = Counter({name: sum(getattr(one, name) for one in listed) for name in _COUNTED})
            wrong = [said for one in listed for said in one.wrong]
            cells = " | ".join(str(counts[name]) for name in _COUNTED)
            click.echo(f"| {verb} | {fault} | {trials} | {cells} | {len(wrong)} |")
            for said in wrong:
                click.echo(said, err=True)
            bad += sum(map(is_bad, listed))
    sys.exit(int(bad > 0))


def is_bad(found: Found) -> bool:
    """Whether anything is not as it should; what is left over of a kill is said in the table alone."""
    return bool(found.lost or found.doubled or found.changed or found.torn or found.processes or found.wrong)


if __name__ == "__main__":
    main()
