"""Requests: when they come, how long their prompts and answers are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array, whole, within
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.kinds import Kind, Whole
from ssdsim.base.record import Record, replace

MOST_TOKENS = 1_000_000
_SHAPES = {"lognormal": 2, "geometric": 1, "uniform": 2}


class Lengths(Record):
    """``shape`` with its numbers: ``constant`` (tokens), ``lognormal`` (mean, standard deviation), ``geometric``
    (mean), ``uniform`` (first, last). Every length is at least one token.
    """

    shape: str
    numbers: tuple[float, ...]

    @staticmethod
    def parse(text: str | int, option: str) -> Lengths:
        """``256``, ``4k``, ``lognormal:256,100``, ``geometric:256``, ``uniform:100,400``."""
        text = str(text)
        shape, colon, rest = text.partition(":")
        if not colon:
            shape, rest = "constant", text
        elif shape not in _SHAPES:
            raise InputError(
                f"{option} {text}: no such shape{nearest(shape, _SHAPES)} Allowed: N, {', '.join(_SHAPES)}"
            )
        try:
            numbers = tuple(map(_tokens, rest.split(",")))
        except ValueError:
            numbers = ()
        if len(numbers) != _SHAPES.get(shape, 1) or not all(0.0 <= number <= MOST_TOKENS for number in numbers):
            wanted = "two numbers of tokens" if _SHAPES.get(shape, 1) > 1 else "a number of tokens such as 1024 or 4k"
            raise InputError(f"{option} {text}: {wanted} wanted, at most {MOST_TOKENS:,}")
        if (
            numbers[0] < 1
            or (shape == "constant" and numbers[0] % 1)
            or (shape == "uniform" and numbers[1] < numbers[0])
        ):
            raise InputError(f"{option} {text}: at least one token is needed, whole and from low to high")
        return Lengths(shape, numbers)

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """``count`` lengths; as many random numbers are taken whatever the shape."""
        uniform = rng.random(count)
        return np.clip(np.rint(self._quantile(uniform)), 1, MOST_TOKENS).astype(np.int64)

    def _quantile(self, uniform: Array) -> Array:
        match self.shape, self.numbers:
            case "lognormal", (mean, sd):
                from scipy.special import ndtri

                variance = np.log1p((sd / mean) ** 2)
                return np.asarray(mean * np.exp(np.sqrt(variance) * ndtri(uniform) - variance / 2.0))
            case "geometric", (mean,) if mean > 1.0:
                return np.asarray(np.ceil(np.log1p(-uniform) / np.log1p(-1.0 / mean)))
            case "uniform", (first, last):
                return np.asarray(np.floor(first + uniform * (last - first + 1.0)))
        return np.full(uniform.shape, self.numbers[0])

    def __str__(self) -> str:
        numbers = ",".join(f"{number:g}" for number in self.numbers)
        return numbers if self.shape == "constant" else f"{self.shape}:{numbers}"


def _tokens(text: str) -> float:
    """``4k`` is 4096, as of contexts; a mean need not be whole."""
    return float(Whole().parse(text)) if text[-1:] in ("k", "K") else float(text)


def constant(tokens: int) -> Lengths:
    """Give each request as many tokens."""
    return Lengths("constant", (float(tokens),))


class OfLengths(Kind, Record):
    """:class:`Lengths`, a number of tokens, or the text of one."""

    metavar = "n|shape:n[,n]"
    requirement = f"be a number of tokens, or one of {', '.join(_SHAPES)} with its numbers"

    def checked(self, said: str, value: Any) -> Lengths:
        return value if isinstance(value, Lengths) else Lengths.parse(value, said)


Integers = NDArray[np.int64]

MOST_REQUESTS = 2_000_000
SLOWEST, FASTEST = 1e-6, 1e4
"""Requests a second beyond which a file's times are taken to be in another unit."""
_ARRIVALS_A_WINDOW = 10


class Workload(Record):
    """``arrival_s`` (sorted, from 0), ``input_tokens`` and ``output_tokens``, shape ``(requests,)`` each.

    ``kind`` is a uniform number of each request: which of several kinds it is, where requests differ in how well they
    are drafted for. With ``concurrency`` arrivals do not count: so many requests are there at any time. ``generate``
    draws more of the same, where requests are made up. ``pattern_only`` where the file has no arrivals: they are drawn,
    one a second. ``doubts`` are what may be wrong with them. ``repeats`` are how often a search for GPUs runs them, one
    time after the other, where they end before queues are as long as they will be.
    """

    arrival_s: Array
    input_tokens: Integers
    output_tokens: Integers
    kind: Array
    source: str
    concurrency: int | None = None
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    pattern_only: bool = False
    generate: Callable[[int], Workload] | None = None
    repeats: int = 1

    @property
    def requests(self) -> int:
        return int(self.arrival_s.size)

    @property
    def rate(self) -> float:
        """Requests a second; infinite where all come at once."""
        span = float(self.arrival_s[-1] - self.arrival_s[0]) if self.requests > 1 else 0.0
        return (self.requests - 1) / span if span > 0.0 else np.inf

    @property
    def offered(self) -> float | None:
        """:attr:`rate`; None where requests come when others go, or all at once."""
        return None if self.concurrency is not None or not np.isfinite(self.rate) else self.rate

    @property
    def dispersion(self) -> float | None:
        """Variance over mean of the arrivals in windows of ten on average: 1 of a Poisson process, more of bursts."""
        if not np.isfinite(self.rate) or self.requests < 5 * _ARRIVALS_A_WINDOW:
            return None
        windows = self.requests // _ARRIVALS_A_WINDOW
        counts, _ = np.histogram(self.arrival_s, windows)
        return float(counts.var() / counts.mean())

    @property
    def context(self) -> float:
        """Cached tokens of a running sequence, on average over the tokens that are made."""
        out = self.output_tokens.astype(float)
        return float((self.input_tokens * out + out * out / 2.0).sum() / out.sum())

    def at_rate(self, rate: float) -> Workload:
        """Copy it with so many requests a second in the same pattern (all at once where infinite)."""
        if not np.isfinite(rate):
            return replace(self, arrival_s=np.zeros(self.requests))
        return self.faster(rate / self.rate) if np.isfinite(self.rate) else self

    def of(self, requests: int) -> Workload:
        """Draw as many requests, of which those that are here are the first, at the same rate."""
        assert self.generate is not None
        return replace(self.generate(requests).at_rate(self.rate), generate=self.generate)

    def repeated(self) -> Workload:
        """As often as it is to run, at the same rate."""
        if self.repeats == 1:
            return self
        after_s = np.repeat(np.arange(self.repeats) * self.requests / self.rate, self.requests)
        every = self.only(np.tile(np.arange(self.requests), self.repeats))
        return replace(every, arrival_s=every.arrival_s + after_s, repeats=1)

    def first(self, requests: int) -> Workload:
        """The first so many."""
        return self.only(slice(requests))

    def only(self, which: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Workload:
        """Some of the requests, when they come."""
        columns = ("arrival_s", "input_tokens", "output_tokens", "kind")
        return replace(self, **{name: getattr(self, name)[which] for name in columns})

    def faster(self, factor: float) -> Workload:
        """Time compressed by a factor."""
        return replace(self, arrival_s=self.arrival_s / factor)

    def described(self) -> dict[str, Any]:
        """Record of it in the JSON."""

        def of(lengths: Integers) -> dict[str, float]:
            statistics = {"mean": float(lengths.mean()), "cv": float(lengths.std() / lengths.mean())}
            return statistics | {f"p{q}": float(np.percentile(lengths, q)) for q in (50, 90, 99)}

        return {
            "requests": self.requests,
            "rate": self.offered,
            "concurrency": self.concurrency,
            "input": of(self.input_tokens),
            "output": of(self.output_tokens),
            "dispersion": self.dispersion if self.concurrency is None else None,
            "source": self.source,
            "notes": [*self.doubts, *self.notes],
        }


class Arrivals(Record):
    """Requests that are made up: gaps of a gamma law of shape ``burstiness`` (1 is a Poisson process, less comes in
    bursts, infinite is a clock), as vLLM's benchmark has it.

    With ``ramp`` (``linear`` or ``exponential``) the rate goes from ``ramp_from`` to ``ramp_to`` times the mean one.
    """

    burstiness: float = 1.0
    ramp: str | None = None
    ramp_from: float = 0.5
    ramp_to: float = 1.5

    def unit_times(self, requests: int, rng: np.random.Generator) -> Array:
        """Arrivals at one request a second."""
        if np.isinf(self.burstiness):
            gaps = np.ones(requests)
        else:
            within("--burstiness", self.burstiness, 1e-3)
            gaps = rng.gamma(self.burstiness, 1.0 / self.burstiness, requests)
        if self.ramp is not None:
            gaps = gaps / self._speeds(requests)
            gaps *= requests / gaps.sum()
        return np.cumsum(gaps)

    def _speeds(self, requests: int) -> Array:
        start, end = (
            float(within(n, v, 1e-6)) for n, v in (("--ramp-from", self.ramp_from), ("--ramp-to", self.ramp_to))
        )
        done = np.linspace(0.0, 1.0, requests)
        return np.asarray(start + done * (end - start) if self.ramp == "linear" else start * (end / start) ** done)


def synthetic(
    requests: int,
    rate: float,
    input_len: Lengths,
    output_len: Lengths,
    *,
    arrivals: Arrivals | None = None,
    concurrency: int | None = None,
    seed: int = 0,
) -> Workload:
    """``requests`` of drawn lengths. Rates, lengths and kinds have random numbers of their own, so that two rates, or
    two lengths, share all the others.
    """
    whole("--requests", requests, 1, MOST_REQUESTS)
    times, inputs, outputs, kinds = (np.random.default_rng([seed, stream]) for stream in range(4))
    unit = (arrivals or Arrivals()).unit_times(requests, times)
    if not np.isinf(rate):
        within("--rate", rate, SLOWEST, FASTEST)
    arrival_s = np.zeros(requests) if np.isinf(rate) else unit / rate
    return Workload(
        arrival_s=arrival_s,
        input_tokens=input_len.draw(requests, inputs),
        output_tokens=output_len.draw(requests, outputs),
        kind=kinds.random(requests),
        source=f"input {input_len}, output {output_len}",
        concurrency=concurrency,
        generate=partial(
            synthetic,
            rate=rate,
            input_len=input_len,
            output_len=output_len,
            arrivals=arrivals,
            concurrency=concurrency,
            seed=seed,
        ),
    )


def of_columns(
    arrival_s: Array | None, input_tokens: Array, output_tokens: Array, source: str, *, seed: int = 0
) -> Workload:
    """Requests of a file: those without output are dropped and counted, the rest are sorted by their arrival.

    Where the file has none, or one instant for all, they come as a Poisson process, one a second.
    """
    notes, keep = [], (np.nan_to_num(output_tokens) >= 1) & (np.nan_to_num(input_tokens) >= 1)
    if dropped := int((~keep).sum()):
        notes.append(f"{dropped} of {keep.size} requests have no output or no input: dropped")
    if not keep.any():
        raise InputError(f"{source}: no request with input and output in it")
    times = None if arrival_s is None else arrival_s[keep]
    drawn = times is None or (times.size > 1 and np.ptp(times) == 0.0)
    if times is None or drawn:
        times = Arrivals().unit_times(int(keep.sum()), np.random.default_rng([seed, 0]))
    order = np.argsort(times, kind="stable")
    if np.any(order != np.arange(order.size)):
        notes.append("arrivals were not in order: sorted")
    workload = Workload(
        arrival_s=times[order] - times[order[0]],
        input_tokens=input_tokens[keep][order].astype(np.int64),
        output_tokens=output_tokens[keep][order].astype(np.int64),
        kind=np.random.default_rng([seed, 3]).random(order.size),
        source=source,
        notes=tuple(notes),
        pattern_only=drawn,
    )
    if arrival_s is not None and workload.requests > 1 and not SLOWEST <= workload.rate <= FASTEST:
        raise InputError(
            f"{source}: {workload.rate:.3g} requests/s on average: are its times in another unit? "
            "--time-unit s or ms says which"
        )
    return workload
