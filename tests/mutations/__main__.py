"""``python -m tests.mutations``: run inputs by their numbers, show what failed, and sum it up by cause."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator

import click

from tests.mutations.reached import Reached
from tests.mutations.run import KINDS, Ended, every_end


@click.command()
@click.option("--count", type=click.IntRange(1), default=1000, show_default=True, help="inputs")
@click.option("--first", type=click.IntRange(0), default=0, show_default=True, help="number of the first one")
@click.option("--seed", type=int, default=0, show_default=True, help="other inputs for the same numbers; -1: a new one")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="processes")
@click.option(
    "--most", type=click.IntRange(0), default=3, show_default=True, help="failures of a cause to show in full"
)
@click.option("--kind", type=click.Choice(list(KINDS)), help="inputs of one kind alone [default: of all]")
def main(count: int, first: int, seed: int, jobs: int, most: int, kind: str | None) -> None:
    """Run inputs that are wrong in random ways; exit with 1 where one does not end as it should."""
    seed = seed if seed >= 0 else int(time.time())
    click.echo(f"seed {seed}")
    began, causes, made, answered = time.monotonic(), Counter[str](), Counter[str](), Counter[str]()
    reached = Reached()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background has ignored
    ends = every_end(range(first, first + count), seed, jobs, kind)
    for done, end in enumerate(_until_interrupted(ends), 1):
        made[end.kind] += 1
        answered[end.kind] += end.answered
        reached.add(end.reached, end.answered)
        if (failure := end.failure) is not None:
            causes[f"{failure.kind}: {failure.how}"] += 1
            if causes[f"{failure.kind}: {failure.how}"] <= most:
                click.echo(
                    f"\n{failure.number} (--seed {seed}), {failure.kind}: {failure.what[:2000]}\n{failure.detail}"
                )
        if done % 500 == 0:
            click.echo(f"{done} of {count}, {causes.total()} failed, {time.monotonic() - began:.0f} s", err=True)
    done = made.total()
    click.echo(f"\n{done} inputs ({first} to {first + done - 1}, seed {seed}): {causes.total()} failed")
    click.echo(f"{answered.total() / made.total():.0%} of them were answered, the others refused in a line:")
    click.echo(", ".join(f"{name} {answered[name] / number:.0%} of {number}" for name, number in made.most_common()))
    for cause, number in causes.most_common():
        click.echo(f"{number:6}  {cause}")
    for line in reached.lines():
        click.echo(line)
    sys.exit(int(causes.total() > 0))


def _until_interrupted(ends: Iterable[Ended]) -> Iterator[Ended]:
    """All of them, or those until Ctrl-C, which are summed up."""
    try:
        yield from ends
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)


if __name__ == "__main__":
    main()
