"""Points of a measurement, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ssdsim.base.record import Record


class Point(Record):
    """One repeat of one load: ``concurrency`` requests in flight, of ``input_tokens`` and ``output_tokens``.

    Each of the ``concurrency`` streams has ``requests`` measured answers, one after the other.
    """

    concurrency: int
    input_tokens: int
    output_tokens: int
    requests: int
    repeat: int

    def lengths(self, stream: int) -> Iterator[tuple[int, bool]]:
        """Tokens of the answers of a stream, and whether each is measured.

        The first one is shorter than the others, by another length in each stream: so answers end one after the other,
        as in a server under a steady load. The last one makes up for it: so all streams end together, and no measured
        answer sees fewer requests in flight than the point has.
        """
        alone = self.concurrency == 1
        first = 0 if alone else round(self.output_tokens * (stream + 0.5) / self.concurrency)
        last = 0 if alone else self.output_tokens - first
        around = [(length, False) for length in (first, last)]
        measured = [(self.output_tokens, True)] * self.requests
        yield from (each for each in (around[0], *measured, around[1]) if each[0] > 0)

    @property
    def answers(self) -> int:
        """Count the requests that it makes."""
        return sum(1 for stream in range(self.concurrency) for _ in self.lengths(stream))

    @property
    def asked_tokens(self) -> int:
        """Output tokens of all of them."""
        return sum(length for stream in range(self.concurrency) for length, _ in self.lengths(stream))


def shuffled(
    concurrencies: Sequence[int],
    inputs: Sequence[int],
    outputs: Sequence[int],
    requests: int,
    repeats: int,
    seed: int,
) -> list[Point]:
    """Every point once, in an order drawn by chance, then every point again: a machine that drifts moves all alike."""
    random = np.random.default_rng(seed)
    points = []
    for repeat in range(1, repeats + 1):
        own = [Point(c, i, o, requests, repeat) for c in concurrencies for i in inputs for o in outputs]
        points += [own[place] for place in random.permutation(len(own))]
    return points
